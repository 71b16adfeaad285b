"""A watched folder and somebody who listens to it, turn by turn: by looking (no waiting), or by hints as they come."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import builders
from tests.conftest import until
from triggers.listeners.file import FileListener
from triggers.models import Event, Source


def file_source(slug: str, path: Path, **config: Any) -> Source:
    """An open file source; settled within a tenth of a second unless told otherwise."""
    given = {"path": str(path), "settle_seconds": 0.1, **config}
    return builders.source(slug, kind="file", provider="", secrets=(), config=given)


def told(slug: str) -> list[tuple[str, str]]:
    """What was told of a source so far, in order: `[("created", "a.txt"), …]`."""
    rows = Event.objects.filter(source_slug=slug).order_by("pk")
    return [(event.type.removeprefix(f"{slug}."), event.subject) for event in rows]


@dataclass
class Listening:
    """One listener without its thread; `look()` is a minute of its life."""

    source: Source
    listener: FileListener = field(init=False)
    now: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.listener = FileListener(self.source)

    def look(self) -> list[tuple[str, str]]:
        """Look at everything and wait until it has settled; returns all that was told so far."""
        for _ in range(2):
            self.now += 100
            self.listener.safely_at(self.now)
        return told(self.source.slug)

    def hear(self, condition: Callable[[], object], *, quiet: float = 0.7) -> list[tuple[str, str]]:
        """Turn as the thread does until the condition holds, and a little on: what is told twice must not be missed."""
        until(lambda: self.turn() or condition(), every=0.02)
        end = time.monotonic() + quiet
        while time.monotonic() < end:
            self.turn()
            time.sleep(0.02)
        return told(self.source.slug)

    def turn(self) -> None:
        self.listener.safely_at(time.monotonic())

    def leave(self) -> None:
        """The process is gone, and remembers nothing but its rows."""
        self.listener.let_go()


@contextmanager
def listening(source: Source) -> Iterator[Listening]:
    source.refresh_from_db()
    one = Listening(source)
    try:
        yield one
    finally:
        one.leave()
