"""What a desk costs while nothing happens: processor time and memory of all processes of `manage.py up`.

    python -m bench idle [--seconds 60]

Time is utime + stime of /proc over a minute, memory is PSS (shared pages counted once). Target: <= 3 % of one core,
<= 700 MB."""

import argparse
import contextlib
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from tests.processes import Desk, desk, living, of

SETTLE = 20.0  # seconds after the start
TICKS = os.sysconf("SC_CLK_TCK")  # of processor time in a second


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench idle")
    parser.add_argument("--seconds", type=float, default=60)
    wish = parser.parse_args(arguments)
    with desk(quick=False) as shop:
        shop.start()
        time.sleep(SETTLE)
        before, began = times(shop), time.monotonic()
        time.sleep(wish.seconds)
        after, took = times(shop), time.monotonic() - began
        memory = sizes(shop)
    busy = {name: 100 * (after[name] - before.get(name, 0)) / took for name in after}
    print(json.dumps({"figure": "idle, % of one core", "all": round(sum(busy.values()), 2), **rounded(busy, 2)}))
    print(json.dumps({"figure": "idle, MB PSS", "all": round(sum(memory.values())), **rounded(memory, 0)}))


def rounded(values: dict[str, float], digits: int) -> dict[str, float]:
    return {name: round(value, digits) for name, value in sorted(values.items())}


def times(shop: Desk) -> dict[str, float]:
    """Seconds of processor time so far, by process of the desk."""
    return gathered(shop, spent)


def spent(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def sizes(shop: Desk) -> dict[str, float]:
    """Proportional set size in MB, by process of the desk."""
    return gathered(shop, size)


def size(pid: int) -> float:
    found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    return int(found.group(1)) / 1024 if found else 0.0


def gathered(shop: Desk, ask: Callable[[int], float]) -> dict[str, float]:
    """The sum over each process and its children; `up` is the supervisor."""
    found: dict[str, float] = {}
    for pid, told in living().items():
        if told.get("DATA_DIR") == str(shop.folder):
            name = of(pid, told) or "up"
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found[name] = found.get(name, 0) + ask(pid)
    return found
