"""What keeps a run's lease alive, says what it is at, and ends the process when the run's time is up."""

import faulthandler
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from django.db import DatabaseError, InterfaceError, connection

from project.lib import clock
from triggers.models import Run
from triggers.models.run import LEASE, Status

EVERY = LEASE.total_seconds() / 3  # seconds between two renewals
LOST = LEASE.total_seconds() * 2 / 3  # seconds of failed renewals after which this worker must presume itself dead
LOOK = min(1.0, EVERY)  # seconds between two looks at what the run is at
SOON = 3  # looks without a run after which the thread sleeps until there is one
HARD = LEASE.total_seconds()  # seconds past the deadline after which a process that lets no thread run is ended, too
LATER = 5.0  # seconds the watchdog may end it late: arming it for each run anew would take as long as a short run
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
    soon over, and past the deadline a watchdog below Python ends the process and prints where it was."""

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
        self.renewed = self.asked = time.monotonic()
        self.beating = threading.Lock()  # held through a beat: none goes on when the run is left
        self.is_over = False

    def __enter__(self) -> Self:
        Heart.of_process().add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        Heart.of_process().remove(self)
        held = self.beating.acquire(timeout=5)
        self.is_over = True
        if held:
            self.beating.release()

    def beat(self) -> None:
        """What is due by now; called by the heart at least every LOOK seconds."""
        with self.beating:
            if self.is_over:
                return
            self.is_over = True  # whoever raises here beats no more
            moment = time.monotonic()
            if moment >= self.deadline:
                self.end()
                return
            self.tell()
            if moment - self.asked < EVERY:
                self.is_over = False
            else:
                self.asked = moment
                self.is_over = not self.keep()

    def keep(self) -> bool:
        """Renew the lease; False when another worker has the run: this one will be fenced at its next step."""
        held = self.renew()
        if held:
            self.renewed = time.monotonic()
        elif held is None and time.monotonic() - self.renewed > LOST:
            self.exit()
        return held is not False

    def tell(self) -> None:
        try:
            self.note(memory())
        except (DatabaseError, InterfaceError):
            connection.close()  # it is told a second later

    def renew(self) -> bool | None:
        """True: renewed, also when the lease was over but nobody took the run. False: fenced. None: no answer."""
        try:
            rows = Run.objects.filter(pk=self.run.pk, fence=self.run.fence, status=Status.RUNNING)
            return bool(rows.update(leased_until=clock.now() + LEASE, memory_mib=memory()))
        except (DatabaseError, InterfaceError):
            connection.close()
            return None

    def end(self) -> None:
        try:
            self.overdue(self.run)
        finally:
            self.exit()


class Heart:
    """The thread of this process that beats for all its runs: to start one for each costs as much as a short run."""

    own: "Heart | None" = None

    def __init__(self, beats: "dict[Heartbeat, None] | None" = None) -> None:
        self.process = os.getpid()
        self.beats = beats or {}
        self.changed = threading.Condition()
        self.wakes_at = math.inf
        self.watchdog_at = 0.0  # when the watchdog below Python ends the process; 0: it is not armed
        self.thread = threading.Thread(target=self.live, name="heartbeat", daemon=True)
        self.thread.start()

    @classmethod
    def of_process(cls) -> "Heart":
        """A forked child has no thread of its parent."""
        if cls.own is None or cls.own.process != os.getpid():
            cls.own = cls()
        elif not cls.own.thread.is_alive():  # one of its runs stopped it: the others beat on
            cls.own = cls(cls.own.beats)
        return cls.own

    def add(self, beat: Heartbeat) -> None:
        with self.changed:
            self.beats[beat] = None
            self.arm_watchdog()
            if beat.deadline < self.wakes_at:
                self.changed.notify()

    def arm_watchdog(self) -> None:
        """Let the process be ended below Python once the runs of now take too long, give or take LATER."""
        ends_at = max(beat.deadline for beat in self.beats) + HARD
        if not ends_at <= self.watchdog_at <= ends_at + LATER and sys.__stderr__ is not None:
            self.watchdog_at = ends_at + LATER
            faulthandler.dump_traceback_later(self.watchdog_at - time.monotonic(), exit=True, file=sys.__stderr__)

    def disarm_watchdog(self) -> None:
        self.watchdog_at = 0.0
        faulthandler.cancel_dump_traceback_later()

    def remove(self, beat: Heartbeat) -> None:
        with self.changed:
            self.beats.pop(beat, None)

    def live(self) -> None:
        try:
            self.beat_on()
        finally:  # the next run gets a new thread
            self.disarm_watchdog()

    def beat_on(self) -> None:
        idle = 0
        while True:
            with self.changed:
                idle = 0 if self.beats else idle + 1
                if idle and self.watchdog_at:  # at whichever look: a run may have come and gone between two
                    self.disarm_watchdog()
                self.rest(None if idle > SOON else LOOK)
                beats = list(self.beats)
            with ExitStack() as all_of_them:
                all_of_them.callback(connection.close)  # the thread's own
                for beat in beats:
                    all_of_them.callback(beat.beat)

    def rest(self, longest: float | None) -> None:
        """Until the next look or a deadline before it, or until a run comes."""
        now = time.monotonic()
        until = min((beat.deadline for beat in self.beats if not beat.is_over), default=math.inf)
        pause = None if longest is None else max(0.01, min(longest, until - now))
        self.wakes_at = math.inf if pause is None else now + pause
        self.changed.wait(pause)
