"""Charts as SVG drawn on the server: percentages instead of a viewBox, so text never stretches; no script, no style."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

HEIGHT = 150  # px of the plot; the labels below take the rest of the 176
STEPS = (1, 2, 5)
HATCH = SafeString(  # over what waits and what failed, so that they are told from the rest without colour
    '<defs><pattern id="waits" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="gap" width="3" height="6"/></pattern>'
    '<pattern id="fails" width="4" height="4" patternUnits="userSpaceOnUse"><rect class="gap" width="4" height="1"/>'
    "</pattern></defs>"
)
OVER = {"wait": "url(#waits)", "fail": "url(#fails)"}
BEATS = {"none": (17, 3), "fail": (0, 22), "wait": (9, 11)}  # place and height of a slot; every other one is as "ok"
OK = (4, 16)


@dataclass(frozen=True, slots=True)
class Bar:
    """One column: what it counts from bottom to top, and the words of its tooltip."""

    parts: Mapping[str, int]
    title: str
    tick: str = ""
    url: str = ""  # where what it counts is listed

    @property
    def total(self) -> int:
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that began with the column `at`: a line over the chart, with words that lead to it."""

    at: int
    words: str
    url: str


def spark(values: Sequence[float], label: str) -> SafeString:
    """A small line of `values`, oldest first; nothing when there are fewer than two."""
    if len(values) < 2:
        return format_html('<svg class="{}" aria-hidden="true"></svg>', "spark")
    top = max(values) or 1
    step = 100 / (len(values) - 1)
    points = " ".join(f"{at * step:.2f},{24 - 20 * value / top:.2f}" for at, value in enumerate(values))
    return format_html(
        '<svg class="spark" viewBox="0 0 100 26" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<polygon class="area" points="0,26 {} 100,26"/><polyline class="line" points="{}"/></svg>',
        label,
        points,
        points,
    )


def ceiling(value: int) -> int:
    """The next round number at or above `value`: 1, 2, 5, 10, 20, 50 …"""
    scale = 1
    while True:
        for step in STEPS:
            if step * scale >= value:
                return step * scale
        scale *= 10


def columns(bars: Sequence[Bar], label: str, marks: Sequence[Mark] = ()) -> SafeString:
    """Stacked columns with a grid; `label` is the sentence a screen reader says for them. Links of columns are for a
    pointer: a page that has them lists the same ones below."""
    top = ceiling(max((bar.total for bar in bars), default=0) or 4)
    return format_html(
        '<svg class="chart" role="{}" aria-label="{}">{}{}{}{}{}</svg>',
        "group" if marks or any(bar.url for bar in bars) else "img",
        label,
        HATCH,
        format_html_join("", "{}", ((gridline(top, quarter),) for quarter in (0, 0.5, 1))),
        format_html_join("", "{}", ((column(bar, at, len(bars), top),) for at, bar in enumerate(bars) if bar.total)),
        format_html_join("", "{}", ((tick(bar, at, len(bars)),) for at, bar in enumerate(bars) if bar.tick)),
        format_html_join("", "{}", ((line_of(mark, row, len(bars)),) for row, mark in enumerate(marks))),
    )


def gridline(top: int, share: float) -> SafeString:
    y = 8 + HEIGHT - (HEIGHT - 8) * share - 8
    return format_html(
        '<line class="grid" x1="4%" x2="100%" y1="{y}" y2="{y}"/><text class="txt" x="0" y="{text}">{value}</text>',
        y=f"{y:.0f}",
        text=f"{y + 4:.0f}",
        value=f"{top * share:,.0f}" if float(top * share).is_integer() else "",
    )


def column(bar: Bar, at: int, count: int, top: int) -> SafeString:
    width = 96 / count
    floor, pieces = float(HEIGHT), []
    for name, number in bar.parts.items():
        height = (HEIGHT - 8) * number / top
        floor -= height
        pieces.append((name, f"{4 + at * width:.2f}%", f"{width * 0.82:.2f}%", f"{floor:.1f}", f"{height:.1f}"))
    drawn = [piece for piece in pieces if piece[4] != "0.0"]
    rects = format_html_join("", '<rect class="{}" x="{}" width="{}" y="{}" height="{}"/>', drawn)
    rects += format_html_join(
        "",
        '<rect fill="{}" x="{}" width="{}" y="{}" height="{}"/>',
        ((OVER[name], *place) for name, *place in drawn if name in OVER),
    )
    if not bar.url:
        return format_html("<g><title>{}</title>{}</g>", bar.title, rects)
    place = format_html(
        '<rect class="place" x="{}%" width="{}%" y="0" height="{}"/>', f"{4 + at * width:.2f}", f"{width:.2f}", HEIGHT
    )
    return format_html(
        '<a href="{}" tabindex="-1" aria-label="{}"><title>{}</title>{}{}</a>',
        bar.url,
        bar.title,
        bar.title,
        place,
        rects,
    )


def line_of(mark: Mark, row: int, count: int) -> SafeString:
    """Words of several marks stand below each other, on the side where there is room."""
    x = 4 + mark.at * 96 / count
    to_the_left = mark.at > count * 0.6
    return format_html(
        '<a class="incident" href="{}"><line x1="{x}%" x2="{x}%" y1="0" y2="{}"/>'
        '<text x="{x}%" dx="{}" y="{}" text-anchor="{}">{}</text></a>',
        mark.url,
        HEIGHT,
        -6 if to_the_left else 6,
        10 + row * 14,
        "end" if to_the_left else "start",
        mark.words,
        x=f"{x:.2f}",
    )


def tick(bar: Bar, at: int, count: int) -> SafeString:
    end = at > count - 3
    x = 100.0 if end else 4 + at * 96 / count
    anchor, minor = ("end" if end else "start"), ("" if at in (0,) or end else " minor")
    return format_html(
        '<text class="txt{}" x="{}%" y="170" text-anchor="{}">{}</text>', minor, f"{x:.2f}", anchor, bar.tick
    )


def beat(slots: Sequence[str], label: str) -> SafeString:
    """A row of small slots, oldest first: `ok`, `fail`, `wait` or `none`, each of another height."""
    width = 100 / max(len(slots), 1)
    rects = format_html_join(
        "",
        '<rect class="{}" x="{}%" width="{}%" y="{}" height="{}"/>',
        ((slot, f"{at * width:.2f}", f"{width * 0.64:.2f}", *BEATS.get(slot, OK)) for at, slot in enumerate(slots)),
    )
    return format_html('<svg class="beat" role="img" aria-label="{}">{}</svg>', label, rects)
