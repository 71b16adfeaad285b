"""What happens at the failpoints of a desk that runs with `tests.chaos.settings`: a plan that tests write and change.

The plan is the file NIGHTDESK_FAILPOINTS names. One line a fault: the place (`*` for all others), what happens there,
and when: a probability, or `#3` for the third time that any process of the desk comes there under this plan.

    after_call       kill  0.2      the process dies by SIGKILL, and is counted
    after_step_call  stop  #1       it stands still by SIGSTOP, until the test lets it go on
    before_call      sleep:2  0.1   it is slow
    before_journal_commit  fail:locked  0.05      the database refuses: locked, serialization, deadlock, away
    before_journal_commit  commit:away  #2        the commit goes through, and its answer is lost

What happened is written to the plan's `.done`, one line each, before it happens.
"""

import fcntl
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from django.db import OperationalError, transaction

from project.lib import failpoints


@dataclass(frozen=True)
class Fault:
    place: str
    action: str  # kill, stop, sleep, fail, commit
    what: str
    when: str

    @classmethod
    def read(cls, line: str) -> "Fault":
        place, action, when = line.split()
        action, _, what = action.partition(":")
        assert place == "*" or place in failpoints.POINTS, place
        return cls(place, action, what, when)


@dataclass
class Faults:
    """Called at each failpoint with its name. Dice are seeded by NIGHTDESK_SEED and the process's number."""

    plan: Path
    seed: str
    dice: dict[int, random.Random] = field(default_factory=dict)  # by process: a child must not repeat its parent's

    def __call__(self, name: str) -> None:
        try:
            faults = [Fault.read(line) for line in self.plan.read_text().splitlines() if line.strip()]
        except FileNotFoundError:
            return
        own = [fault for fault in faults if fault.place == name]
        for fault in own or [fault for fault in faults if fault.place == "*"]:
            if self.is_due(fault, name):
                self.strike(fault, name)

    def is_due(self, fault: Fault, name: str) -> bool:
        if fault.when.startswith("#"):
            return self.count(f"{name}.{fault.action}") == int(fault.when[1:])
        dice = self.dice.setdefault(os.getpid(), random.Random(f"{self.seed}:{os.getpid()}"))
        return dice.random() < float(fault.when)

    def count(self, name: str) -> int:
        """How often any process of the desk came here."""
        with open(self.plan.with_suffix(f".{name}.count"), "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(b".")
            file.flush()
            return file.tell()

    def strike(self, fault: Fault, name: str) -> None:
        with open(self.plan.with_suffix(".done"), "a") as file:
            file.write(f"{fault.action} {name} {os.getpid()}\n")
        STRIKES[fault.action](fault.what)


def kill(what: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stop(what: str) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def sleep(what: str) -> None:
    time.sleep(float(what))


def fail(what: str) -> None:
    raise OperationalError(what) from CAUSES[what]()


def commit(what: str) -> None:
    """Inside a transaction: it is committed, and then the line is cut."""
    error = OperationalError(what)
    error.__cause__ = CAUSES[what]()

    def cut() -> None:
        raise error

    transaction.on_commit(cut)


STRIKES: dict[str, Callable[[str], None]] = {"kill": kill, "stop": stop, "sleep": sleep, "fail": fail, "commit": commit}


def locked() -> sqlite3.Error:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


CAUSES: dict[str, Callable[[], Exception]] = {
    "locked": locked,
    "serialization": psycopg.errors.SerializationFailure,
    "deadlock": psycopg.errors.DeadlockDetected,
    "away": psycopg.errors.AdminShutdown,
}


def arm() -> None:
    """From now on this process strikes where the plan says so."""
    if place := os.environ.get("NIGHTDESK_FAILPOINTS"):
        failpoints.reached = Faults(Path(place), os.environ.get("NIGHTDESK_SEED", "0"))
