"""A million runs whose time comes at once: how long until all are awake, and how the door answers meanwhile.

    python -m bench timers [--timers 1000000] [--database postgres]

A whole `manage.py up` whose worker stands still: what is measured is the tick, which stood still while the timers were
written. A delivery every 50 ms goes through the door all the while. Target: < 60 s, p99 of the door < 1 s."""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator

import httpx

from bench.door import ROOT, database
from bench.figures import spread
from tests.chaos.load import TRIGGER, sign
from tests.processes import Desk, desk

CLOCKS = ("desk", "beat", "listen")  # whoever ticks
PAUSE = 0.05  # seconds between two deliveries
FILL = """
    from django.core.management.color import no_style
    from django.db import connection
    from tests import builders
    from tests.plans import rows
    from triggers.models import Run, Wait
    past, event = rows.ago("60"), str(builders.event().pk)
    rows.fill(Run, {count}, event_id=event, handler="'take-order'",
              status="'waiting'", queued_at=past, due_at=past, wake_at=past)
    rows.fill(Wait, {count}, run_id=f"{{rows.FIRST}} + n", step="'nap'", since=past, registered_at=past,
              expires_at=past, status="'pending'")
    with connection.cursor() as cursor:  # on PostgreSQL, what is rung meanwhile has its numbers behind these
        for statement in connection.ops.sequence_reset_sql(no_style(), [Run, Wait]):
            cursor.execute(statement)
    rows.analyze()
"""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench timers")
    parser.add_argument("--timers", type=int, default=1_000_000)
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    wish = parser.parse_args(arguments)
    for name in ("sqlite", "postgres") if wish.database == "both" else (wish.database,):
        with database(name) as address, desk(address, quick=False) as shop:
            told = measure(shop, wish.timers)
            print(json.dumps({"figure": f"timers, {name}", "timers": wish.timers, **told}))


def measure(shop: Desk, timers: int) -> dict[str, object]:
    shop.start()
    secret = shop.python(TRIGGER).split()[-1]
    for name in ("worker", *CLOCKS):
        shop.kill(name, signal.SIGSTOP)
    fill(shop, timers)
    with ringing(shop, secret) as (took, refused):
        began = time.monotonic()
        for name in CLOCKS:
            shop.kill(name, signal.SIGCONT)
        shop.until(lambda: not asleep(shop), seconds=3600, every=0.5)
        seconds = time.monotonic() - began
    told = {"seconds": round(seconds, 1), "a second": round(timers / seconds), "door, ms": spread(took)}
    return told | ({"refused": dict(refused)} if refused else {})


def asleep(shop: Desk) -> bool:
    return bool(shop.rows("SELECT 1 FROM triggers_run WHERE status = 'waiting' LIMIT 1"))


def fill(shop: Desk, count: int) -> None:
    code = textwrap.dedent(FILL).format(count=count)
    command = [sys.executable, "manage.py", "shell", "--verbosity", "0", "-c", code]
    subprocess.run(command, cwd=ROOT, env=shop.env | {"PATH": os.environ["PATH"]}, check=True)


@contextlib.contextmanager
def ringing(shop: Desk, secret: str) -> Iterator[tuple[list[float], Counter[str]]]:
    """Somebody who rings all the while; seconds to each answer, and what was said instead of 202."""
    took: list[float] = []
    refused: Counter[str] = Counter()
    over = threading.Event()

    def ring() -> None:
        with httpx.Client(base_url=shop.url, timeout=60, trust_env=False) as http:
            number = 0
            while not over.wait(PAUSE):
                headers, body = sign(secret, number)
                began = time.monotonic()
                answer = http.post("/hooks/generic", content=body, headers=headers)
                took.append(time.monotonic() - began)
                if answer.status_code != 202:
                    refused[f"{answer.status_code} {answer.text[:100]}"] += 1
                number += 1

    thread = threading.Thread(target=ring, daemon=True)
    thread.start()
    try:
        yield took, refused
    finally:
        over.set()
        thread.join(60)
