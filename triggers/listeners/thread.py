"""What every listener is: a thread that takes turns until it is stopped, and says how it goes.

What fails is noted on the source's page and tried again, each time a little later; nothing a far side says ends it."""

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from django.db import DatabaseError, DataError, close_old_connections, connection

from project.lib import clock, live
from project.lib.egress import EgressError
from project.lib.problem import Problem
from project.lib.text import made_storable
from triggers import refusals
from triggers.envelope import Arrival
from triggers.errors import TriggerFull
from triggers.ingest import ingest
from triggers.models import Position, Pulse, Source, Watch

logger = logging.getLogger("nightdesk.listen")
SIGN = 10.0  # seconds between two signs of life
PAUSES = (1, 2, 5, 10, 30)  # seconds after a turn that failed; the last one repeats
UNFORESEEN = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError, DataError)  # what nothing read may end
HOLD = 2  # as so many failures: what found no room is tried again after this place of PAUSES
LONGEST_DETAIL = 2000  # characters
REPLACED = "the source was changed; it is read anew"


class Trouble(Exception):
    """The source cannot be listened to right now; the message is for people."""

    status: ClassVar[str] = Watch.FAILED


FAULTS: tuple[type[Exception], ...] = (Trouble, Problem, EgressError, OSError)  # of any far side


class Listener(threading.Thread):
    """Listens to `source` until `stop()`.

    A kind says what it does in `turn`, and in `faults` what its far side raises."""

    faults: ClassVar[tuple[type[Exception], ...]] = ()
    rest = 0.2  # seconds between two turns

    def __init__(self, source: Source) -> None:
        super().__init__(name=f"listen {source.slug}", daemon=True)
        self.source = source
        self.stopped = threading.Event()
        self.failures = 0
        self.noted: tuple[Any, ...] = ()  # status, mode and detail as last written
        self.next_sign = 0.0
        self.counted: dict[str, Any] = {}  # what the page shows of it, by the word people read

    # What a kind says

    def turn(self, now: float) -> None:
        """Read what is new and tell it. Raises Trouble, or one of `faults`."""
        raise NotImplementedError

    def let_go(self) -> None:
        """Close what was opened; the next turn begins anew."""

    def hold(self) -> None:
        """What was read found no room: see that it is read again, best without a new connection."""
        self.let_go()

    @property
    def mode(self) -> str:
        """How it listens, in a word of at most 16 letters."""
        return ""

    @property
    def where(self) -> str:
        """Whose places it reads, without credentials: at another address each of them begins as the source says."""
        return ""

    def figures(self) -> dict[str, Any]:
        """More columns of its row."""
        return {"facts": self.counted}

    # What they share

    def run(self) -> None:
        try:
            while not self.stopped.wait(self.pause()):
                self.safely_at(time.monotonic())
        finally:
            self.let_go()
            connection.close()

    def stop(self) -> None:
        self.stopped.set()

    def pause(self) -> float:
        return PAUSES[min(self.failures, len(PAUSES)) - 1] if self.failures else self.rest

    def safely_at(self, now: float) -> None:
        """One turn; what the database or the far side refuses is noted, and begun anew."""
        try:
            try:
                self.turn(now)
                self.failures = 0
            except TriggerFull as full:
                self.hold()
                self.failures = HOLD
                self.note(Watch.HELD, f"{full.detail} Nothing more is read until there is room.")
            except Trouble as trouble:
                missing = trouble.status == Watch.MISSING
                self.fail(trouble.status, str(trouble), tries=1 if missing else 0)  # looked for every second
            except FAULTS + self.faults as fault:
                self.fail(Watch.FAILED, getattr(fault, "detail", "") or words_of(fault))
            except UNFORESEEN as fault:
                logger.exception("Source %s: a turn failed", self.source.slug)
                said = f"{type(fault).__name__}: {fault}".strip()
                self.fail(Watch.FAILED, f"Listening failed ({said}); it is tried again, the log has more.")
        except DatabaseError as error:
            self.let_go()
            self.failures += 1
            logger.error("Source %s: the database does not answer: %s", self.source.slug, str(error).strip())
            close_old_connections()

    def store(self, arrivals: Sequence[Arrival]) -> None:
        """Ingest what was read; a repeat is listed on its first event, as one that comes to the door is.

        Raises TriggerFull, QueueFull."""
        for arrival, outcome in zip(arrivals, ingest(arrivals), strict=True):
            if outcome.status == "duplicate" and outcome.seq:
                refusals.keep_duplicate(
                    self.source, outcome, headers=arrival.headers, body=arrival.raw or b"", remote="", answered=0
                )

    def known(self, place: str) -> dict[str, Any]:
        """How far this place was read; empty: it begins."""
        return Position.of(self.source, place, self.where)

    def begin(self, place: str, **value: Any) -> None:
        """Raises Trouble when the source was changed meanwhile: another listener reads it now."""
        if not Position.begin(self.source, place, self.where, **value):
            raise Trouble(REPLACED)

    def move(self, place: str, **value: Any) -> None:
        """Note how far it was read, after what was read is stored. Raises Trouble as `begin` does."""
        if not Position.move(self.source, place, self.where, **value):
            raise Trouble(REPLACED)

    def fail(self, status: str, detail: str, *, tries: int = 0) -> None:
        """Let go, and say why; `tries` counts as so many failures however many there were."""
        self.let_go()
        self.failures = tries or self.failures + 1
        self.note(status, detail)

    def note(self, status: str, detail: str) -> None:
        """Write how it goes when that changed, and a sign of life now and then."""
        detail = made_storable(os.fsencode(detail).decode("utf-8", "backslashreplace"))[:LONGEST_DETAIL]
        now, noted = time.monotonic(), (status, self.mode, detail)
        if self.stopped.is_set() or (noted == self.noted and now < self.next_sign):
            return
        at, is_news = clock.now(), noted != self.noted
        fields = {"status": status, "mode": self.mode, "detail": detail, "looked_at": at, **self.figures()}
        if is_news:
            fields["since"] = at
            logger.info("Source %s: %s", self.source.slug, " ".join(filter(None, [status, self.mode, detail])))
        Watch.objects.update_or_create(source=self.source, defaults=fields)
        Pulse.beat(pulse_of(self.source), at, status=status, detail=detail)
        self.noted, self.next_sign = noted, now + SIGN
        live.changed("sources", id=self.source.slug)


def pulse_of(source: Source) -> str:
    """The name of the pulse of its listener."""
    return f"listen.{source.slug}"


def words_of(fault: Exception) -> str:
    """What went wrong, in one line."""
    return " ".join(str(fault).split()) or type(fault).__name__
