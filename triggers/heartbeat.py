"""A thread that keeps a run's lease alive, and ends the process when the run's time is up."""

import os
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
EXIT = 70  # the exit code of a child that ended itself


def leave() -> None:
    os._exit(EXIT)  # the handler may hang in C code: nothing gentler is certain


class Heartbeat:
    """Renews the lease of `run` while the handler works; at the deadline it calls `overdue` and ends the process."""

    def __init__(
        self, run: Run, *, timeout: float, overdue: Callable[[Run], object], exit: Callable[[], object] = leave
    ) -> None:
        self.run = run
        self.deadline = time.monotonic() + timeout
        self.overdue = overdue
        self.exit = exit
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.beat, name=f"heartbeat R-{run.pk}", daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped.set()
        self.thread.join(timeout=5)

    def beat(self) -> None:
        renewed = time.monotonic()
        try:
            while not self.stopped.wait(max(0.01, min(EVERY, self.deadline - time.monotonic()))):
                if time.monotonic() >= self.deadline:
                    self.end()
                    return
                held = self.renew()
                if held:
                    renewed = time.monotonic()
                elif held is False:
                    return  # another worker has the run: this one will be fenced at its next step
                elif time.monotonic() - renewed > LOST:
                    self.exit()
        finally:
            connection.close()  # the thread's own

    def renew(self) -> bool | None:
        """True: renewed, also when the lease was over but nobody took the run. False: fenced. None: no answer."""
        try:
            rows = Run.objects.filter(pk=self.run.pk, fence=self.run.fence, status=Status.RUNNING)
            return bool(rows.update(leased_until=clock.now() + LEASE))
        except DatabaseError:
            connection.close()
            return None

    def end(self) -> None:
        try:
            self.overdue(self.run)
        finally:
            self.exit()
