"""Rows and stages of one round stand apart: what one of them cannot do must not stop the others, and is told."""

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from django.db import DatabaseError

from project.lib.crypto import Unreadable
from project.lib.problem import Problem

logger = logging.getLogger("nightdesk.round")
STAGE = 3.0  # seconds after which a stage begins no further row; the next round goes on
LONGEST = 200  # characters of a fault that are kept


@dataclass
class Round:
    """What one round of the desk did, by stage: counts, faults, and how many seconds each took."""

    done: dict[str, int] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)
    stopped: bool = False  # this process was told to end: what is left is another round's

    def run(self, stages: dict[str, Callable[[], int | None]]) -> None:
        """Each in its turn, also after one that broke by an error nobody foresaw; that is raised in the end."""
        with ExitStack() as rest:
            for name, work in reversed(stages.items()):
                rest.callback(self.stage, name, work)

    def stage(self, name: str, work: Callable[[], int | None]) -> None:
        if self.stopped:
            return
        began = time.monotonic()
        noted = current.set(Stage(until=began + STAGE))
        try:
            self.done[name] = apart(work)
        except BaseException as error:
            self.stopped = not isinstance(error, Exception)
            note(told(work, (), error))
            raise
        finally:
            stage = current.get()
            current.reset(noted)
            self.took[name] = round(time.monotonic() - began, 3)
            if stage and stage.faults:
                more = f" (and {len(stage.faults) - 1} more)" if len(stage.faults) > 1 else ""
                self.faults[name] = stage.faults[0] + more


@dataclass
class Stage:
    """The stage this process is in: when its time is over, and what could not be done in it."""

    until: float
    faults: list[str] = field(default_factory=list)


current: ContextVar[Stage | None] = ContextVar("stage", default=None)


def apart(work: Callable[..., int | None], *given: Any, **named: Any) -> int:
    """What `work` counted; 0, and a line in the log, when the database, a rule of the desk or a lost key refuses."""
    try:
        return int(work(*given, **named) or 0)
    except (DatabaseError, Problem, Unreadable) as fault:
        words = told(work, given, fault)
        logger.exception("%s; it is left to the next round", words)
        note(words)
        return 0


def each(work: Callable[..., int | None], rows: Iterable[Any], *given: Any, **named: Any) -> int:
    """What `work(row, …)` counted over `rows`, each apart; begins no further row when the time of its stage is over."""
    total = 0
    for row in rows:
        if is_over():
            break
        total += apart(work, row, *given, **named)
    return total


def is_over() -> bool:
    stage = current.get()
    return stage is not None and time.monotonic() > stage.until


def note(words: str) -> None:
    stage = current.get()
    if stage is not None:
        stage.faults.append(words)


def told(work: Callable[..., object], given: tuple[Any, ...], fault: BaseException) -> str:
    """`match_one(7) failed: DatabaseError: disk is full`, on one line."""
    function, subject = getattr(work, "func", work), ", ".join(map(str, given))
    name = getattr(function, "__name__", type(function).__name__)
    said = " ".join(str(fault).split())
    return f"{name}({subject}) failed: {type(fault).__name__}{': ' if said else ''}{said}"[:LONGEST]
