"""What every page says the same way: icons, status words, risk, times with their zone, JSON, odd characters."""

import json
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import lucide
from django import template
from django.template import Context
from django.template.defaultfilters import stringfilter
from django.utils import timezone
from django.utils.html import format_html, format_html_join, strip_tags
from django.utils.safestring import SafeString, mark_safe

from project.lib import clock, jsontree
from project.lib.language import phrase, spoken, words
from project.lib.visible import plain as visible_text
from project.lib.visible import visible as shown

register = template.Library()


class Look(NamedTuple):
    tone: str
    icon: str
    word: str


LOOKS = {
    # runs
    "queued": Look("skip", "clock", "Queued"),
    "running": Look("run", "loader-circle", "Running"),
    "waiting": Look("wait", "hourglass", "Waiting"),
    "retrying": Look("retry", "rotate-ccw", "Will try again"),
    "blocked": Look("fail", "octagon-x", "Blocked"),
    "succeeded": Look("ok", "circle-check", "Done"),
    "dead": Look("dead", "skull", "Gave up"),
    "cancelled": Look("skip", "circle-slash", "Cancelled"),
    # actions
    "awaiting": Look("wait", "hand", "Waits for a person"),
    "approved": Look("run", "check", "Approved, not sent yet"),
    "delivering": Look("run", "loader-circle", "Sending"),
    "delivered": Look("ok", "circle-check", "Done"),
    "rejected": Look("fail", "circle-x", "Rejected"),
    "expired": Look("skip", "circle-slash", "Expired, not sent"),
    "superseded": Look("skip", "circle-slash", "Replaced"),
    "failed": Look("fail", "circle-x", "Failed"),
    "unknown": Look("retry", "triangle-alert", "Outcome unknown"),
    # events and deliveries
    "accepted": Look("run", "loader-circle", "Accepted"),
    "routed": Look("ok", "circle-check", "Routed"),
    "ignored": Look("skip", "circle-slash", "Ignored"),
    "suppressed": Look("skip", "circle-slash", "Suppressed"),
    "stopped": Look("skip", "ban", "Stopped"),
    "invalid": Look("fail", "circle-x", "Invalid"),
    "duplicate": Look("skip", "copy", "Duplicate"),
    "refused": Look("fail", "shield", "Refused"),
    "matched": Look("ok", "circle-check", "Matched"),
    "not_matched": Look("skip", "circle-slash", "Not matched"),
    "could_not_evaluate": Look("retry", "triangle-alert", "Could not evaluate"),
    "skipped": Look("skip", "circle-slash", "Skipped"),
    "dropped": Look("skip", "circle-slash", "Dropped"),
    "gathered": Look("ok", "combine", "Gathered"),
    # dead letters
    "open": Look("dead", "skull", "Open"),
    "redriven": Look("ok", "rotate-ccw", "Was run again"),
    "dismissed": Look("skip", "circle-slash", "Dismissed"),
    # steps, sources, triggers
    "started": Look("run", "loader-circle", "Started"),
    "done": Look("ok", "circle-check", "Done"),
    "live": Look("ok", "circle-check", "On"),
    "enabled": Look("ok", "circle-check", "On"),
    "disabled": Look("skip", "circle-pause", "Off"),
    "paused": Look("skip", "circle-pause", "Paused"),
    "silent": Look("retry", "triangle-alert", "Silent"),
    "never": Look("skip", "clock", "Never rang"),
}
TIERS = {"read": 1, "low": 2, "medium": 3, "high": 4}
AGO = (  # seconds
    (86400, words("{n} d ago")),
    (3600, words("{n} h ago")),
    (60, words("{n} min ago")),
)


@register.simple_tag
def icon(name: str, size: int = 16, label: str = "", spin: bool = False) -> SafeString:
    """A Lucide icon; silent for a screen reader unless it has a `label`."""
    return drawn_icon(str(name), size, str(label), spin)


@lru_cache(maxsize=1024)
def drawn_icon(name: str, size: int, label: str, spin: bool) -> SafeString:
    """Lucide parses an icon's XML each time; a page draws fifty."""
    extra = {"role": "img", "aria-label": label} if label else {"aria-hidden": "true"}
    if spin:
        extra["class"] = "spin"
    return mark_safe(lucide._render_icon(name, size, **extra))


@register.simple_tag
def status(value: Any, word: str = "") -> SafeString:
    """The badge of a status: icon, word, and colour last."""
    look = LOOKS.get(str(value)) or Look("skip", "circle-dot", str(value).replace("_", " ").capitalize())
    return badge(look.tone, look.icon, word or look.word)


@register.simple_tag
def badge(tone: str, name: str, word: Any) -> SafeString:
    drawn = icon(name, 13, spin=name == "loader-circle")
    return format_html('<span class="st {}">{}{}</span>', tone, drawn, spoken(word))


@register.simple_tag
def status_icon(value: Any, size: int = 16) -> SafeString:
    """Only the icon of a status, with its word for a screen reader."""
    look = LOOKS.get(str(value)) or Look("dim", "circle-dot", str(value))
    return format_html('<span class="is-{}">{}</span>', look.tone, icon(look.icon, size, label=spoken(look.word)))


@register.simple_tag
def tier(name: str, noun: str = "risk") -> SafeString:
    """Risk as a word and a meter of four steps; readable without colour."""
    steps = TIERS.get(str(name), 4)
    bars = format_html_join(
        "",
        '<rect class="{}" x="{}" y="{}" width="4" height="{}" rx="1"/>',
        (("on" if at < steps else "off", at * 5, 9 - at * 3, 3 + at * 3) for at in range(4)),
    )
    meter = format_html('<svg width="19" height="12" viewBox="0 0 19 12" aria-hidden="true">{}</svg>', bars)
    return format_html('<span class="tier {}">{}{}</span>', name, meter, spoken(f"{str(name).capitalize()} {noun}"))


def zone_name(at: datetime) -> str:
    """`UTC`, `UTC+8`, `UTC-3:30`: said after every clock time."""
    minutes = int((at.utcoffset() or timedelta()).total_seconds() // 60)
    if not minutes:
        return "UTC"
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'+' if minutes > 0 else '-'}{hours}{f':{rest:02d}' if rest else ''}"


def exact(at: datetime) -> str:
    local = timezone.localtime(at)
    return f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1000:03d} {zone_name(local)}"


@register.filter
def iso(at: datetime) -> str:
    """RFC 3339 UTC with milliseconds and Z."""
    return at.astimezone(timezone.get_fixed_timezone(0)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@register.simple_tag(takes_context=True)
def when(context: Context, at: datetime | None, empty: str = "never") -> SafeString:
    """`7 min ago`, kept fresh in the browser; the exact time with its zone is the title."""
    if at is None:
        return format_html('<span class="muted">{}</span>', spoken(empty))
    return format_html(
        '<time datetime="{}" title="{}" data-ago>{}</time>', iso(at), exact(at), ago(at, now_of(context))
    )


def now_of(context: Context) -> datetime:
    """The time of this page, asked once for all its words."""
    now: datetime | None = context.get("now")
    return now or clock.now()


def ago(at: datetime, now: datetime) -> str:
    seconds = (now - at).total_seconds()
    if seconds < -1:
        return clock_words(at, now)
    for size, told in AGO:
        if seconds >= size:
            return spoken(told).format(n=int(seconds // size))
    return phrase("{n} s ago", n=int(seconds)) if seconds >= 2 else phrase("just now")


def clock_words(at: datetime, now: datetime) -> str:
    local, today = timezone.localtime(at), timezone.localtime(now).date()
    return f"{local:%H:%M}" if local.date() == today else local.strftime(spoken(words("%d %b %H:%M")))


@register.simple_tag(takes_context=True)
def at(context: Context, value: datetime | None, empty: str = "", zone: bool = True) -> SafeString:
    """`03:26 UTC+8`, with the date when it is not today."""
    if value is None:
        return format_html("{}", empty)
    words = clock_words(value, now_of(context)) + (f" {zone_name(timezone.localtime(value))}" if zone else "")
    return format_html('<time datetime="{}" title="{}">{}</time>', iso(value), exact(value), words)


@register.simple_tag
def stamp(value: datetime | None) -> SafeString:
    """`03:11:43` for rows of a feed; the title has date, milliseconds and zone."""
    if value is None:
        return mark_safe("")
    words = f"{timezone.localtime(value):%H:%M:%S}"
    return format_html('<time datetime="{}" title="{}">{}</time>', iso(value), exact(value), words)


@register.simple_tag
def moment(value: datetime | None) -> SafeString:
    """The exact time in words: `2026-11-29 03:04:03.412 UTC+8`."""
    return format_html('<time datetime="{}">{}</time>', iso(value), exact(value)) if value else mark_safe("")


@register.simple_tag(takes_context=True)
def left(context: Context, until: datetime | None) -> SafeString:
    """`14 min left`, counted down in the browser; seconds only under ten minutes."""
    if until is None:
        return mark_safe("")
    seconds = max(0, int((until - now_of(context)).total_seconds()))
    soon = " soon" if seconds < 600 else ""
    counted = format_html('<span data-until="{}">{}</span>', iso(until), countdown(seconds))
    return format_html(
        '<span class="left{}" title="{}">{}<span>{}</span></span>',
        soon,
        phrase("Expires {at}", at=exact(until)),
        icon("hourglass", 13),
        format_html(spoken(words("{time} left")), time=counted),
    )


@register.simple_tag(takes_context=True)
def coming(context: Context, value: datetime | None) -> SafeString:
    """`in 23 h 48 min`, counted down in the browser; what should have come already by its clock time."""
    now = now_of(context)
    if value is None or value <= now:
        return at(context, value)
    counted = format_html('<span data-until="{}">{}</span>', iso(value), countdown(int((value - now).total_seconds())))
    told = format_html(spoken(words("in {time}")), time=counted)
    return format_html('<time datetime="{}" title="{}">{}</time>', iso(value), exact(value), told)


def countdown(seconds: int) -> str:
    if seconds >= 86400:
        return phrase("{d} d {h} h", d=seconds // 86400, h=seconds % 86400 // 3600)
    if seconds >= 3600:
        return phrase("{h} h {m} min", h=seconds // 3600, m=seconds % 3600 // 60)
    if seconds >= 600:
        return phrase("{m} min", m=seconds // 60)
    return f"{seconds // 60}:{seconds % 60:02d}"


@register.simple_tag(takes_context=True)
def seconds_left(context: Context, until: datetime | None) -> SafeString:
    """`8 s`, counted down: the take-back window; from ten minutes on in minutes, hours and days."""
    if until is None:
        return mark_safe("")
    seconds = max(0, round((until - now_of(context)).total_seconds()))
    if seconds >= 600:
        return format_html('<b class="num" data-until="{}">{}</b>', iso(until), countdown(seconds))
    said = phrase("{s} s", s=seconds)
    return format_html('<b class="num" data-unit="s" data-until="{}">{}</b>', iso(until), said)


@register.filter
def took(value: timedelta | float | None) -> str:
    """A duration in words: `21 ms`, `4.9 s`, `7 min 32 s`, `3 h 5 min`."""
    if value is None:
        return ""
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 1:
        return phrase("{ms} ms", ms=f"{seconds * 1000:.0f}")
    if seconds < 60:
        return phrase("{s} s", s=f"{seconds:.1f}")
    if seconds < 3600:
        minutes, rest = divmod(int(seconds), 60)
        return phrase("{m} min {s} s", m=minutes, s=rest) if rest else phrase("{m} min", m=minutes)
    return countdown(int(seconds))


@register.filter
def visible(text: Any) -> SafeString:
    """Foreign text, escaped, with hidden and direction-changing characters shown by code point."""
    return shown(text)


@register.filter(is_safe=True)
@stringfilter
def in_line(html: str) -> str:
    """The text of a little markup, such as Django's list of rules for a password, as one line."""
    return " ".join(strip_tags(html.replace("<", " <")).split())


@register.filter
def plain(text: Any) -> str:
    """The same for a tab's title, where no markup is possible."""
    return visible_text(text)


@register.simple_tag
def json_tree(value: Any) -> SafeString:
    """The members of a JSON text or value as nested <details>."""
    return jsontree.tree(value)


@register.filter
def short_digest(value: str) -> str:
    """`sha256 9f2c…41ab` of `sha256:9f2c…`."""
    name, _, digits = str(value).partition(":")
    return f"{name} {digits[:4]}…{digits[-4:]}" if digits else str(value)


@register.filter
def raw_json(value: Any) -> str:
    """The JSON text itself, as it was stored; a Python value is written with two spaces of indent."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
