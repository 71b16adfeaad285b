"""Change windows: hours of the week in which what a rule means may be carried out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from approvals.errors import NotValid

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
MOST = 20  # windows of one rule
AHEAD = 15  # days that are looked through for the next opening


@dataclass(frozen=True, slots=True)
class Window:
    """From one time of day to another on these days; when `until` is not later it ends on the next day."""

    days: tuple[str, ...]
    since: time
    until: time

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Window:
        """From `{days, from, to}` as it was checked."""
        return cls(tuple(stored["days"]), time.fromisoformat(stored["from"]), time.fromisoformat(stored["to"]))

    def opening(self, day: datetime) -> tuple[datetime, datetime] | None:
        """When it opens and closes on the local `day`, in UTC; None on other days."""
        if DAYS[day.weekday()] not in self.days:
            return None
        ends = day if self.until > self.since else day + timedelta(days=1)
        opens = day.replace(hour=self.since.hour, minute=self.since.minute)
        closes = ends.replace(hour=self.until.hour, minute=self.until.minute)
        return opens.astimezone(UTC), closes.astimezone(UTC)


def waits_longer(before: int, after: int) -> bool:
    """Have people more time than before? In seconds; 0 is as long as whoever asks wants."""
    return before > 0 and (after == 0 or after > before)


def checked_windows(given: Any) -> list[dict[str, Any]]:
    """`[{days?, from?, to?}]` as it is stored: all days, and midnight, where nothing is said. Raises NotValid."""
    if not isinstance(given, list) or len(given) > MOST:
        raise NotValid(f"Windows are a list of at most {MOST}.", field="windows")
    return [checked_window(each) for each in given]


def checked_window(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict) or set(given) - {"days", "from", "to"}:
        raise NotValid("A window has `days`, `from` and `to`.", field="windows")
    days, since, until = given.get("days") or list(DAYS), given.get("from") or "00:00", given.get("to") or "00:00"
    if not isinstance(days, list) or not all(day in DAYS for day in days):
        raise NotValid(f"Days are among {', '.join(DAYS)}.", field="windows")
    if not all(isinstance(each, str) and CLOCK.fullmatch(each) for each in (since, until)):
        raise NotValid("A time of day is written as 09:30.", field="windows")
    return {"days": [day for day in DAYS if day in days], "from": since, "to": until}


def next_opening(sets: Iterable[tuple[str, Sequence[Window]]], at: datetime) -> datetime | None:
    """The first moment from `at` on at which a window of every set is open; None when there is none within two weeks.

    `sets` are `(zone, windows)` of each rule; without any it is `at` itself."""
    sets = [(zone, windows) for zone, windows in sets if windows]
    moment, latest = at, at + timedelta(days=AHEAD)
    while moment < latest:
        opened = [soonest(zone, windows, moment) for zone, windows in sets]
        if None in opened:
            return None
        last = max([moment, *(each for each in opened if each is not None)])
        if last == moment:
            return moment
        moment = last
    return None


def soonest(zone: str, windows: Sequence[Window], at: datetime) -> datetime | None:
    """When one of them is open, `at` or later."""
    midnight = at.astimezone(ZoneInfo(zone)).replace(hour=0, minute=0, second=0, microsecond=0)
    days = (midnight + timedelta(days=number) for number in range(-1, 9))
    spans = [span for day in days for window in windows if (span := window.opening(day))]
    return min((max(at, opens) for opens, closes in spans if closes > at), default=None)
