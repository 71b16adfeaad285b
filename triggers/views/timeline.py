"""A run as bars on one axis. Waits are drawn short, so that twelve seconds of work show beside a night of waiting.

Pure: intervals in, percentages as text out (templates put them into SVG attributes, whatever the language)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from project.lib.language import phrase, words

LONG = 0.34  # of the width, for all long waits together
LONG_FROM = 1.0  # seconds; a shorter pause is not worth a word
HAIR = 0.04  # of the work, for a moment between two steps
LETTER = 0.02  # of the width, that a letter of the axis takes where it is narrowest: 320 px beside the details
WIDE = "\u2e80"  # the first of the letters that are as wide as two
SPANS = (  # seconds of the big and the small unit, both of them, and the big one alone
    (86400, 3600, words("{n} d {rest} h"), words("{n} d")),
    (3600, 60, words("{n} h {rest} min"), words("{n} h")),
    (60, 1, words("{n} min {rest} s"), words("{n} min")),
)
GAP = 0.012
NOTE = 24.0  # percent: room for a word beside a bar
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
    action_id: int | None = None  # the action a row stands for
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
    note_at: str  # where words about it stand
    anchor: str  # start, or end where they stand before it
    inside: bool  # no room on either side: they are written on the bar


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
    """Seconds of each stretch. Shortened, long waits share LONG of the width, the moments between steps a hair each."""
    lengths = [max(seconds(begin, finish), 0.001) for begin, finish, _ in stretches]
    waits = [wait for _, _, wait in stretches]
    work = sum(length for length, wait in zip(lengths, waits, strict=True) if not wait)
    if not shorten or not work:
        return lengths
    long = sum(1 for length, wait in zip(lengths, waits, strict=True) if wait and length > LONG_FROM)
    most = work * LONG / (1 - LONG) / long if long else 0.0
    return [
        length if not wait else min(length, most if length > LONG_FROM else work * HAIR)
        for length, wait in zip(lengths, waits, strict=True)
    ]


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
    at, anchor, inside = note_place(x, width)
    return Drawn(bar.tone, f"{x:.2f}%", f"{width:.2f}%", bar.title, f"{at:.2f}%", anchor, inside)


def note_place(x: float, width: float) -> tuple[float, str, bool]:
    """Right of the bar, else left of it, else on it."""
    if x + width < 100 - NOTE:
        return x + width + 1, "start", False
    if x > NOTE:
        return x - 1, "end", False
    return x + 1, "start", True


def marks_of(pieces: Sequence[Piece]) -> list[Mark]:
    """The words of the axis: how long each shortened wait really was, and the work so far where there is room."""
    taken: list[tuple[float, float]] = []
    marks = [mark for piece in pieces if is_long(piece) and (mark := wait_mark(piece, taken))]
    for x, worked in ticks(pieces):
        if text := free(x, span(worked), taken):
            marks.append(Mark(f"{x * 100:.2f}%", text))
    return marks


def ticks(pieces: Sequence[Piece]) -> list[tuple[float, float]]:
    """(place, seconds of work before it) at round numbers; shortened stretches count for nothing."""
    ruled = [piece for piece in pieces if not piece.shortened]
    total = sum(seconds(piece.start, piece.end) for piece in ruled)
    step = nice(total / 5)
    found: list[tuple[float, float]] = []
    before, at = 0.0, 0.0
    for piece in ruled:
        length = seconds(piece.start, piece.end)
        while step and at < min(before + length, total * 0.97):
            found.append((piece.offset + piece.share * (at - before) / length, at))
            at += step
        before += length
    return found


def is_long(piece: Piece) -> bool:
    return piece.shortened and seconds(piece.start, piece.end) > LONG_FROM


def wait_mark(piece: Piece, taken: list[tuple[float, float]]) -> Mark | None:
    """The words of a shortened wait, from its start, or up to the right end of the axis where they would not fit."""
    text = phrase("{time}, shortened", time=span(seconds(piece.start, piece.end)))
    width = letters(text) * LETTER
    if piece.offset + width <= 1:
        return Mark(f"{piece.offset * 100:.2f}%", text, line=True) if free(piece.offset, text, taken) else None
    return Mark("100%", text, "end") if free(1 - width, text, taken) else None


def free(x: float, text: str, taken: list[tuple[float, float]]) -> str:
    """`text` when it fits at `x` beside what is written already (and then it is), else nothing."""
    end = x + letters(text) * LETTER
    if end > 1.01 or any(x < right + GAP and end + GAP > left for left, right in taken):
        return ""
    taken.append((x, end))
    return text


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
    if length and length < 1:
        return phrase("{ms} ms", ms=f"{length * 1000:.0f}")
    if length < 60:
        return phrase("{s} s", s=f"{length:.1f}".removesuffix(".0"))
    whole = int(length)
    big, small, both, one = next(each for each in SPANS if whole >= each[0])
    rest = whole % big // small
    return phrase(both, n=whole // big, rest=rest) if rest else phrase(one, n=whole // big)


def letters(text: str) -> int:
    """How wide it is, in Latin letters; a Chinese one takes the room of two."""
    return sum(2 if letter >= WIDE else 1 for letter in text)
