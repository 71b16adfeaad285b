"""A thread that keeps a run's lease alive, says what it is at, and ends the process when the run's time is up."""

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from django.db import DatabaseError, connection

from project.lib import clock
from triggers.models import Run
from triggers.models.run import LEASE, Status

EVERY = LEASE.total_seconds() / 3  # seconds between two renewals
LOST = LEASE.total_seconds() * 2 / 3  # seconds of failed renewals after which this worker must presume itself dead
LOOK = min(1.0, EVERY)  # seconds between two looks at what the run is at
HARD = LEASE.total_seconds()  # seconds past the deadline after which a process that lets no thread run is ended, too
EXIT = 70  # the exit code of a child that ended itself


def leave() -> None:
    os._exit(EXIT)  # the handler may hang in C code: nothing gentler is certain


def memory() -> int | None:
    """MiB this process holds in memory; None where the system does not tell."""
    try:
        with open("/proc/self/statm") as told:
            return int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20
    except OSError:
        return None


class Heartbeat:
    """Renews the lease of `run` while the handler works; at the deadline it calls `overdue` and ends the process.

    `note(memory)` is called every second. C code that lets no thread run stops also this one: then the lease is
    soon over, and past the deadline a clock below Python ends the process and prints where it was."""

    def __init__(
        self,
        run: Run,
        *,
        timeout: float,
        overdue: Callable[[Run], object],
        note: Callable[[int | None], object],
        exit: Callable[[], object] = leave,
    ) -> None:
        self.run = run
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout
        self.overdue = overdue
        self.note = note
        self.exit = exit
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.beat, name=f"heartbeat R-{run.pk}", daemon=True)

    def __enter__(self) -> Self:
        if sys.__stderr__ is not None:
            faulthandler.dump_traceback_later(self.timeout + HARD, exit=True, file=sys.__stderr__)
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped.set()
        self.thread.join(timeout=5)
        faulthandler.cancel_dump_traceback_later()

    def beat(self) -> None:
        renewed = asked = time.monotonic()
        try:
            while not self.stopped.wait(max(0.01, min(LOOK, self.deadline - time.monotonic()))):
                moment = time.monotonic()
                if moment >= self.deadline:
                    self.end()
                    return
                self.tell()
                if moment - asked < EVERY:
                    continue
                asked = moment
                held = self.renew()
                if held:
                    renewed = time.monotonic()
                elif held is False:
                    return  # another worker has the run: this one will be fenced at its next step
                elif time.monotonic() - renewed > LOST:
                    self.exit()
        finally:
            connection.close()  # the thread's own

    def tell(self) -> None:
        try:
            self.note(memory())
        except DatabaseError:
            connection.close()  # it is told a second later

    def renew(self) -> bool | None:
        """True: renewed, also when the lease was over but nobody took the run. False: fenced. None: no answer."""
        try:
            rows = Run.objects.filter(pk=self.run.pk, fence=self.run.fence, status=Status.RUNNING)
            return bool(rows.update(leased_until=clock.now() + LEASE, memory_mib=memory()))
        except DatabaseError:
            connection.close()
            return None

    def end(self) -> None:
        try:
            self.overdue(self.run)
        finally:
            self.exit()
