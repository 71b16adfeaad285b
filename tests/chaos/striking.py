"""A desk whose processes die, hang and fail at named places, as the plan of tests/chaos/faults.py says."""

import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.processes import Desk

# Shorter waits, and none of the bounds that end what is struck again and again: here everything must succeed at last.
QUICK = """
import sys
from dataclasses import replace
from datetime import timedelta

from approvals import budget, kinds
from approvals.connectors import github

for name in ("github.comment", "github.create_pr", "http.request"):
    kinds.KINDS[name] = replace(kinds.KINDS[name], timeout=timedelta(seconds=2))
budget.BUDGET = 100_000
FEW = {"MAX_CRASHES": 100_000, "TRIES": 100_000, "LOOKS": (0.5,), "PAUSES": (0.5,)}
FEW |= {"SLACK": timedelta(seconds=2), "RING_AGAIN": timedelta(seconds=1)}
for module in [module for name, module in sys.modules.items() if name.startswith(("triggers", "approvals"))]:
    for name, value in FEW.items():
        if hasattr(module, name) and (name, module.__name__) != ("TRIES", "triggers.ingest"):
            setattr(module, name, value)
"""
GROWN_UP = 3.0  # seconds


def age(pid: int) -> float:
    """Seconds since this process began; 0 when it has gone."""
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


@dataclass
class Plan:
    """What strikes the processes of `shop`; nothing until `strike()`."""

    shop: Desk
    seed: int = 0
    pids: list[int] = field(default_factory=list)  # killed from outside

    def __post_init__(self) -> None:
        self.shop.handlers(QUICK, name="a_quick")
        self.shop.settings |= {
            "DJANGO_SETTINGS_MODULE": "tests.chaos.settings",
            "NIGHTDESK_FAILPOINTS": str(self.path),
            "NIGHTDESK_SEED": str(self.seed),
        }
        self.dice = random.Random(self.seed)

    @property
    def path(self) -> Path:
        return self.shop.folder / "faults"

    def strike(self, *lines: str) -> None:
        """From now on, until `rest()`; every count begins anew."""
        for count in self.shop.folder.glob("faults.*.count"):
            count.unlink()
        draft = self.path.with_suffix(".draft")
        draft.write_text("\n".join(lines))
        draft.replace(self.path)

    def rest(self) -> None:
        self.path.unlink(missing_ok=True)

    def struck(self, action: str, place: str = "") -> list[int]:
        """The processes this happened to, in order."""
        done = self.path.with_suffix(".done")
        told = [line.split() for line in done.read_text().splitlines()] if done.exists() else []
        return [int(pid) for what, where, pid in told if what == action and place in ("", where)]

    def kill_a_child(self) -> None:
        """SIGKILL to one child of a pool, whatever it does. Celery gives up when it loses one that is not up yet."""
        name = self.dice.choice(["worker", "worker", "worker", "desk"])
        parent = self.shop.main(name)
        children = [pid for pid in self.shop.pids(name) if pid != parent and age(pid) > GROWN_UP]
        if parent and children:
            self.kill(self.dice.choice(children))

    def kill(self, pid: int) -> None:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.pids.append(pid)

    @property
    def deaths(self) -> int:
        return len(self.struck("kill")) + len(self.pids)
