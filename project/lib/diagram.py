"""The diagram of a machine as SVG drawn on the server: states below one another, moves as arrows beside them.

It is narrow, so that a phone shows it whole. Arrows carry the numbers of their moves; the words stand in the table
beside it. No script, no style."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

WIDTH, ROW, TOP = 320, 68, 8  # units of the viewBox
BOX = (84, 236, 36)  # left and right edge and height of a state
MIDDLE = 160
ROUND = 8  # of corners
OUT, INTO = 10, 26  # where arrows leave the side of a box, and where they come in
LANES = 76  # units beside the boxes, shared by the arrows of one side
WIDEST_LANE = 19


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one row to another; `words` are the numbers of its moves, `tone` is `last` for the one made last."""

    start: int
    end: int
    words: str
    tone: str = ""

    @property
    def span(self) -> tuple[int, int]:
        return min(self.start, self.end), max(self.start, self.end)


def states(names: Sequence[str], arrows: Sequence[Arrow], *, current: str, label: str) -> SafeString:
    """The picture; `label` is the sentence a screen reader says for it."""
    height = TOP * 2 + ROW * (len(names) - 1) + BOX[2]
    straight = [arrow for arrow in arrows if arrow.end == arrow.start + 1]
    return format_html(
        '<svg class="machine" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}{}</svg>',
        WIDTH,
        height,
        label,
        format_html_join("", "{}", ((down(arrow),) for arrow in straight)),
        side([arrow for arrow in arrows if arrow.end > arrow.start + 1], to_the_right=True),
        side([arrow for arrow in arrows if arrow.end <= arrow.start], to_the_right=False),
        format_html_join("", "{}", ((state(name, row, is_now=name == current),) for row, name in enumerate(names))),
    )


def top_of(row: int) -> int:
    return TOP + row * ROW


def state(name: str, row: int, *, is_now: bool) -> SafeString:
    return format_html(
        '<g class="state{}"><rect x="{}" y="{}" width="{}" height="{}" rx="8"/>'
        '<text x="{}" y="{}" text-anchor="middle">{}</text></g>',
        " now" if is_now else "",
        BOX[0],
        top_of(row),
        BOX[1] - BOX[0],
        BOX[2],
        MIDDLE,
        top_of(row) + BOX[2] // 2 + 5,
        name if len(name) <= 18 else f"{name[:17]}…",
    )


def down(arrow: Arrow) -> SafeString:
    """To the next state below."""
    begin, end = top_of(arrow.start) + BOX[2], top_of(arrow.end)
    head = f"M{MIDDLE - 4} {end - 7}L{MIDDLE} {end}L{MIDDLE + 4} {end - 7}"
    return drawn(arrow, f"M{MIDDLE} {begin}V{end - 3}", head, MIDDLE, (begin + end) // 2 + 3)


def side(arrows: Sequence[Arrow], *, to_the_right: bool) -> SafeString:
    """Arrows along one side, each in a lane where it meets no other; the short ones next to the boxes."""
    ordered = sorted(arrows, key=lambda arrow: (arrow.span[1] - arrow.span[0], arrow.span[0]))
    lanes = lanes_of(ordered)
    width = min(WIDEST_LANE, LANES // max(1, len(set(lanes))))
    return format_html_join(
        "",
        "{}",
        (
            (around(arrow, (lane + 1) * width, to_the_right=to_the_right),)
            for arrow, lane in zip(ordered, lanes, strict=True)
        ),
    )


def lanes_of(arrows: Sequence[Arrow]) -> list[int]:
    """The first lane in which nothing overlaps, for each."""
    taken: list[list[tuple[int, int]]] = []
    found = []
    for arrow in arrows:
        low, high = arrow.span
        lane = next(
            (at for at, spans in enumerate(taken) if all(high < begin or end < low for begin, end in spans)),
            len(taken),
        )
        if lane == len(taken):
            taken.append([])
        taken[lane].append((low, high))
        found.append(lane)
    return found


def around(arrow: Arrow, far: int, *, to_the_right: bool) -> SafeString:
    """Out of the side of one box, along its lane, into the side of the other (or of the same)."""
    edge, sign = (BOX[1], 1) if to_the_right else (BOX[0], -1)
    out, into = (INTO, OUT) if arrow.start == arrow.end else (OUT, INTO)
    begin, end = top_of(arrow.start) + out, top_of(arrow.end) + into
    lane, turn, way = edge + sign * far, min(ROUND, far), 1 if end > begin else -1
    line = (
        f"M{edge} {begin}H{lane - sign * turn}Q{lane} {begin} {lane} {begin + way * turn}"
        f"V{end - way * turn}Q{lane} {end} {lane - sign * turn} {end}H{edge + sign * 3}"
    )
    tip = edge + sign * 7
    return drawn(arrow, line, f"M{tip} {end - 4}L{edge} {end}L{tip} {end + 4}", lane, (begin + end) // 2 + 4)


def drawn(arrow: Arrow, line: str, head: str, x: int, y: int) -> SafeString:
    return format_html(
        '<g class="arrow {}"><path d="{}"/><path d="{}"/><text x="{}" y="{}" text-anchor="middle">{}</text></g>',
        arrow.tone,
        line,
        head,
        x,
        y,
        arrow.words,
    )
