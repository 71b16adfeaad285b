"""A run as bars on one axis. Waits are drawn short, so that twelve seconds of work show beside a night of waiting.

Pure: intervals in, percentages as text out (templates put them into SVG attributes, whatever the language)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

SHORT_WAIT = 0.18  # of the width, for all long waits together at least
LEAST = 0.5  # percent: nothing that happened is invisible
QUIET = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Bar:
    """One interval of a row; `tone` is ok, fail, run, wait, retry or queue."""

    tone: str
    start: datetime
    end: datetime
    title: str = ""

    @property
    def is_wait(self) -> bool:
        return self.tone in ("wait", "retry", "queue")


@dataclass(slots=True)
class Row:
    """One line of the timeline: a step, or what the run does outside of steps."""

    name: str
    status: str
    bars: list[Bar]
    kind: str = ""
    note: str = ""
    link: str = ""  # a step's name in the address
    took: timedelta | None = None
    is_problem: bool = False
    drawn: list["Drawn"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A bar as SVG attributes in percent."""

    tone: str
    x: str
    width: str
    title: str
    after: str  # where a note beside it starts
    before_end: bool  # whether the note has no room to its right


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the axis: `share` of the width for the time from `start` to `end`."""

    start: datetime
    end: datetime
    share: float
    offset: float
    shortened: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """A word on the axis."""

    x: str
    text: str
    anchor: str = "start"
    line: bool = False


@dataclass(frozen=True)
class Timeline:
    rows: list[Row]
    marks: list[Mark]
    has_waits: bool


def timeline(rows: list[Row], *, shorten: bool) -> Timeline:
    """Place every bar; `shorten` gives waiting a small share of the width, however long it was."""
    bars = [bar for row in rows for bar in row.bars]
    if not bars:
        return Timeline(rows, [], False)
    pieces = axis(bars, shorten=shorten)
    for row in rows:
        row.drawn = [draw(bar, pieces) for bar in row.bars]
    return Timeline(
        rows, marks_of(pieces), any(bar.is_wait and bar.end - bar.start > timedelta(seconds=1) for bar in bars)
    )


def axis(bars: Sequence[Bar], *, shorten: bool) -> list[Piece]:
    """The stretches of the run, in order; a stretch in which only waits lie may be shortened."""
    start, end = min(bar.start for bar in bars), max(bar.end for bar in bars)
    work = merged((bar.start, bar.end) for bar in bars if not bar.is_wait)
    stretches: list[tuple[datetime, datetime, bool]] = []
    at = start
    for begin, finish in work:
        if begin > at:
            stretches.append((at, begin, True))
        stretches.append((begin, finish, False))
        at = max(at, finish)
    if end > at or not stretches:
        stretches.append((at, end, True))
    weights = weigh(stretches, shorten=shorten)
    total = sum(weights) or 1.0
    pieces, offset = [], 0.0
    for (begin, finish, waits), weight in zip(stretches, weights, strict=True):
        share = weight / total
        cut = shorten and waits and weight < seconds(begin, finish)
        pieces.append(Piece(begin, finish, share, offset, cut))
        offset += share
    return pieces


def merged(spans: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    """Spans in order, those that touch joined."""
    joined: list[tuple[datetime, datetime]] = []
    for begin, finish in sorted(spans):
        if joined and begin <= joined[-1][1] + QUIET:
            joined[-1] = (joined[-1][0], max(finish, joined[-1][1]))
        else:
            joined.append((begin, finish))
    return joined


def weigh(stretches: Sequence[tuple[datetime, datetime, bool]], *, shorten: bool) -> list[float]:
    """Seconds of each stretch; a wait weighs at most a share of the work, and work never less than a hair."""
    lengths = [max(seconds(begin, finish), 0.001) for begin, finish, _ in stretches]
    work = sum(length for length, (_, _, waits) in zip(lengths, stretches, strict=True) if not waits)
    if not shorten or not work:
        return lengths
    most = max(work * SHORT_WAIT * 1.5, 0.001)
    return [min(length, most) if waits else length for length, (_, _, waits) in zip(lengths, stretches, strict=True)]


def seconds(begin: datetime, finish: datetime) -> float:
    return (finish - begin).total_seconds()


def place(moment: datetime, pieces: Sequence[Piece]) -> float:
    """Where a moment lies, from 0 to 1."""
    for piece in pieces:
        if moment <= piece.end:
            length = seconds(piece.start, piece.end)
            inside = seconds(piece.start, moment) / length if length else 0.0
            return piece.offset + piece.share * min(max(inside, 0.0), 1.0)
    return 1.0


def draw(bar: Bar, pieces: Sequence[Piece]) -> Drawn:
    x, end = place(bar.start, pieces) * 100, place(bar.end, pieces) * 100
    width = max(end - x, LEAST)
    x = min(x, 100 - width)
    full = x + width > 76
    after = x - 1 if full else x + width + 1
    return Drawn(bar.tone, f"{x:.2f}%", f"{width:.2f}%", bar.title, f"{after:.2f}%", full)


def marks_of(pieces: Sequence[Piece]) -> list[Mark]:
    """The words of the axis: seconds of work so far, and how long each shortened wait really was."""
    marks = [Mark("0%", "0 s")]
    worked, last = 0.0, 0.0
    for piece in pieces:
        if piece.shortened:
            marks.append(
                Mark(f"{piece.offset * 100:.2f}%", f"{span(seconds(piece.start, piece.end))}, shortened", line=True)
            )
            last = piece.offset + 0.2
            continue
        length = seconds(piece.start, piece.end)
        step = nice(length / 4) if piece.share > 0.3 else 0.0
        at = step
        while step and at < length * 0.95:
            x = piece.offset + piece.share * at / length
            if x > last + 0.1 and x < 0.9:
                marks.append(Mark(f"{x * 100:.2f}%", span(at + worked)))
                last = x
            at += step
        worked += length
    return marks


def nice(length: float) -> float:
    """1, 2 or 5 times a power of ten seconds, at least `length`."""
    if length <= 0:
        return 0.0
    scale = 10.0**-3
    while True:
        for step in (1, 2, 5):
            if step * scale >= length:
                return step * scale
        scale *= 10


def span(length: float) -> str:
    """`0.4 s`, `12 s`, `7 min 32 s`, `3 h 5 min`, `2 d 4 h`."""
    if length < 1:
        return f"{length * 1000:.0f} ms"
    if length < 60:
        return f"{length:.1f}".removesuffix(".0") + " s"
    whole = int(length)
    for big, small, words in ((86400, 3600, ("d", "h")), (3600, 60, ("h", "min")), (60, 1, ("min", "s"))):
        if whole >= big:
            rest = whole % big // small
            return f"{whole // big} {words[0]}" + (f" {rest} {words[1]}" if rest else "")
    return f"{whole} s"
