"""A bar for long commands, on a terminal that a person watches; nothing anywhere else."""

from types import TracebackType
from typing import Protocol, Self

WIDTH = 30  # characters of the bar


class Terminal(Protocol):
    """Where it is drawn: a command's stderr."""

    def write(self, msg: str, *, ending: str) -> None: ...

    def isatty(self) -> bool: ...


class Progress:
    """`with Progress(total, "rows", self.stderr) as progress: progress.at(done)`."""

    def __init__(self, total: int, words: str, out: Terminal) -> None:
        self.total, self.words, self.out = total, words, out
        self.shown = ""

    def __enter__(self) -> Self:
        return self

    def at(self, done: int) -> None:
        """So many are done; more than `total` is fine, for rows may come meanwhile."""
        share = min(1.0, done / self.total) if self.total else 1.0
        text = f"\r[{'#' * round(WIDTH * share):<{WIDTH}}] {done:,} of {max(done, self.total):,} {self.words}"
        if self.out.isatty() and text != self.shown:
            self.out.write(text, ending="")
            self.shown = text

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.shown:
            self.out.write("", ending="\n")
