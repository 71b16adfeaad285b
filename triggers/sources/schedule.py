"""Schedules: when a source of kind `schedule` rings. Pure; the preview and the firing ask the same `next_after`."""

import calendar
import hashlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import islice, takewhile
from typing import Any, Literal, Self
from zoneinfo import ZoneInfo, available_timezones

from cron_descriptor import Options, get_description
from cronsim import CronSim, CronSimError
from django.utils.dates import MONTHS, WEEKDAYS
from django.utils.translation import get_language
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from project.lib.faults import first_fault
from project.lib.language import is_english, phrase, words
from triggers.errors import NotValid
from triggers.sources.cron import next_tick

CATCH_UP_CAP = 100  # slots of an outage that `catch_up: all` still fires
MOST_FILLED = 500  # slots of one back-fill
COUNTED = 50_000  # slots looked at in one go
FIRST_YEAR, LAST_YEAR = 1970, 2200  # of `at`
ON_TIME = timedelta(seconds=60)  # a slot fired later than this is a catch-up
WHOLE = {"minute": 60, "hour": 24}  # what a step must divide to be even
UNEVEN = {
    "minute": words("uneven: `{cron}` starts again at each hour, so its last gap is shorter"),
    "hour": words("uneven: `{cron}` starts again at each day, so its last gap is shorter"),
}
SPANS = (
    (86400, words("Every day"), words("Every {n} days")),
    (3600, words("Every hour"), words("Every {n} hours")),
    (60, words("Every minute"), words("Every {n} minutes")),
)
LOCALES = {"zh-hans": "zh_CN"}  # of the library that reads cron lines aloud


@dataclass(frozen=True, slots=True)
class Due:
    """`fire` now, in order; `passed` unfired (the newest of them); of `seen` slots; `following` is still to come."""

    fire: list[datetime]
    passed: list[datetime]
    seen: int
    following: datetime | None

    @property
    def missed(self) -> int:
        return self.seen - len(self.fire)


class Schedule(BaseModel):
    """`cron` (5 fields), `every` (seconds of real time) or `at` (once), in an IANA zone.

    `jitter` (seconds) moves every fire later by the same amount, a different one for each source; `spread` (seconds)
    lies between two slots that are caught up.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    cron: str | None = None
    every: float | None = Field(default=None, ge=1, le=366 * 86400)
    at: datetime | None = None
    timezone: str = "UTC"
    catch_up: Literal["none", "last", "all"] = "last"
    jitter: float = Field(default=0, ge=0, le=86400)
    spread: float = Field(default=0, ge=0, le=86400)

    @field_validator("timezone")
    @classmethod
    def zone_exists(cls, value: str) -> str:
        if value not in zones():
            raise ValueError(f"`{value}` is no IANA time zone, such as Europe/Berlin")
        return value

    @field_validator("at")
    @classmethod
    def at_is_within_reach(cls, value: datetime | None) -> datetime | None:
        if value is not None and not FIRST_YEAR <= value.year <= LAST_YEAR:
            raise ValueError(f"the year must lie from {FIRST_YEAR} to {LAST_YEAR}")  # beyond, no zone can be reckoned
        return value

    @field_validator("cron")
    @classmethod
    def cron_can_fire(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if len(value.split()) != 5:
            raise ValueError("a cron line has five fields: minute, hour, day of month, month, day of week")
        try:
            next(CronSim(value, datetime(2026, 1, 1, tzinfo=UTC)))
        except CronSimError as error:
            raise ValueError(f"{str(error).lower()} in `{value}`") from error
        except StopIteration:
            raise ValueError(f"`{value}` never comes") from None
        return " ".join(value.split())

    @model_validator(mode="after")
    def one_of_three(self) -> Self:
        if sum(value is not None for value in (self.cron, self.every, self.at)) != 1:
            raise ValueError("a schedule has exactly one of `cron`, `every` and `at`")
        return self

    @cached_property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    @property
    def times(self) -> tuple[Any, ...]:
        """All that says which slots it has."""
        return self.cron, self.every, self.once, self.timezone

    @property
    def once(self) -> datetime | None:
        """When it rings by `at`, on the schedule's own clock."""
        return self.at and (self.at.astimezone(self.zone) if self.at.tzinfo else self.at.replace(tzinfo=self.zone))

    def next_after(self, moment: datetime, anchor: datetime | None = None) -> datetime | None:
        """The first slot strictly after `moment`, in UTC; None when there is none any more.

        The slots of `every` hang on `anchor`, one of them; where none is known yet, on `moment`."""
        if self.every is not None:
            step, hook = timedelta(seconds=self.every), anchor or moment
            return hook + step * ((moment - hook) // step + 1)
        if self.once is not None:
            return self.once.astimezone(UTC) if self.once > moment else None
        assert self.cron is not None
        return next_tick(self.cron, moment, self.zone)

    def slots(self, first: datetime) -> Iterator[datetime]:
        """`first` and what follows, each from the slot before."""
        slot: datetime | None = first
        while slot is not None:
            yield slot
            slot = self.next_after(slot)

    def due(self, first: datetime, now: datetime) -> Due:
        """What to do about the slots from `first` to `now`, by `catch_up`."""
        kept: deque[datetime] = deque(maxlen=CATCH_UP_CAP)
        seen = 0
        for slot in self.slots(first):
            if slot > now:
                return self.sorted_out(kept, now, seen, slot)
            if seen == COUNTED:  # a very long outage is counted off in parts
                return Due([], [], seen, slot)
            kept.append(slot)
            seen += 1
        return self.sorted_out(kept, now, seen, None)

    def sorted_out(self, kept: deque[datetime], now: datetime, seen: int, following: datetime | None) -> Due:
        slots = list(kept)
        catches_up = self.catch_up != "none" or (bool(slots) and now - slots[-1] <= ON_TIME)
        fired = len(slots) if self.catch_up == "all" else int(catches_up)
        split = len(slots) - fired
        return Due(slots[split:], slots[:split], seen, following)

    def offset(self, seed: str) -> timedelta:
        """How much later than its slots the source named `seed` fires: stable, below `jitter`."""
        part = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4]) / 2**32
        return timedelta(seconds=int(part * self.jitter))

    def between(self, since: datetime, until: datetime, anchor: datetime | None) -> list[datetime]:
        """The slots from `since` to `until`; one more than MOST_FILLED when there are more."""
        first = self.next_after(since - timedelta(microseconds=1), anchor)
        return list(islice(takewhile(lambda slot: slot <= until, self.slots(first)), MOST_FILLED + 1)) if first else []

    def words(self) -> str:
        """ "At 09:00, Monday through Friday (Europe/Berlin)"."""
        if self.every is not None:
            return every_words(self.every)
        if self.once is not None:
            return phrase("Once, on {at} ({zone})", at=f"{self.once:%Y-%m-%d %H:%M}", zone=self.timezone)
        return f"{with_names(get_description(self.cron, in_words()))} ({self.timezone})"

    def warnings(self) -> list[str]:
        """What people misread in this schedule."""
        if self.cron is None:
            return []
        fields = zip(WHOLE.items(), self.cron.split(), strict=False)
        return [
            phrase(UNEVEN[name], cron=text)
            for (name, whole), text in fields
            if text.startswith("*/") and text[2:].isdigit() and whole % int(text[2:])
        ]


def parse_schedule(config: Mapping[str, Any]) -> Schedule:
    """Raises NotValid, naming the field, when the schedule makes no sense or never fires."""
    try:
        return Schedule.model_validate(dict(config))
    except ValidationError as error:
        place, said = first_fault(error)
        field = place or "cron"
        raise NotValid(f"{field}: {said}", field=field) from error


def checked_schedule(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config as it is saved: what was given, in its usual form. Raises NotValid."""
    return parse_schedule(config).model_dump(mode="json", exclude_unset=True, exclude_none=True)


def same_schedule(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether both ring at the same times, however they are written; what makes no sense is like nothing else."""
    try:
        return parse_schedule(one) == parse_schedule(other)
    except NotValid:
        return False


def preview(config: Mapping[str, Any], count: int, after: datetime, anchor: datetime | None = None) -> dict[str, Any]:
    """`{words, warnings, fires: [{at, local, note?}], left_out: [{local, note}]}`: the next `count` slots, by the code
    that fires, and the times of its clock before the last of them that a clock change takes away."""
    schedule = parse_schedule(config)
    slot = schedule.next_after(after, anchor)
    slots = list(islice(schedule.slots(slot), count)) if slot else []
    rung = [one.astimezone(schedule.zone) for one in slots]
    return {
        "words": schedule.words(),
        "warnings": schedule.warnings(),
        "fires": [{"at": iso(local), "local": shown(local), **note_of(schedule, local)} for local in rung],
        "left_out": left_out(schedule, after, rung) if rung else [],
    }


def shown(local: datetime) -> str:
    return local.strftime("%a %Y-%m-%d %H:%M:%S %Z").rstrip()


def note_of(schedule: Schedule, local: datetime) -> dict[str, str]:
    """What a clock change does to this slot; nothing on every other day."""
    if schedule.every is not None or (schedule.at and schedule.at.tzinfo):
        return {}
    if is_moved(schedule, local):
        return {"note": phrase("moved by DST")}
    comes_twice = local.utcoffset() != local.replace(fold=1 - local.fold).utcoffset()
    return {"note": phrase("this hour comes twice")} if comes_twice else {}


def is_moved(schedule: Schedule, local: datetime) -> bool:
    """Whether it rings at another time of its clock than was asked for."""
    wall = local.replace(tzinfo=None)
    if schedule.cron is None:
        return wall != schedule.at
    return next(CronSim(schedule.cron, wall - timedelta(seconds=1))) != wall


def left_out(schedule: Schedule, after: datetime, fires: list[datetime]) -> list[dict[str, str]]:
    """The times its clock skips at which it would ring on any other day; of a job of every hour none is missed."""
    if schedule.cron is None or schedule.cron.split()[1] == "*":
        return []
    begin, end = (one.astimezone(schedule.zone).replace(tzinfo=None) for one in (after, fires[-1]))
    walls = [wall for wall in takewhile(lambda wall: wall <= end, CronSim(schedule.cron, begin)) if wall > begin]
    skipped = [wall for wall in walls if is_skipped(wall, schedule.zone)]
    for local in fires:  # one of the skipped times of a day rings right after the gap
        if is_moved(schedule, local) and (rang := next((w for w in skipped if w.date() == local.date()), None)):
            skipped.remove(rang)
    return [{"local": shown(wall), "note": phrase("left out: the clock skips this time")} for wall in skipped]


def is_skipped(wall: datetime, zone: ZoneInfo) -> bool:
    return wall.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall


def iso(moment: datetime) -> str:
    """`2026-03-29T01:00:00Z`: how a slot is written in keys and data."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def every_words(seconds: float) -> str:
    for length, one, many in SPANS:
        if seconds % length == 0:
            return phrase(many, n=int(seconds // length)) if seconds > length else phrase(one)
    return phrase("Every {n} seconds", n=f"{seconds:g}")


@lru_cache(maxsize=1)
def zones() -> frozenset[str]:
    return frozenset(available_timezones())


def with_names(told: str) -> str:
    """Days and months, which the library says in English, in the language of the page."""
    if is_english():
        return told
    for names, own in ((calendar.day_name, WEEKDAYS), (calendar.month_name, MONTHS)):
        for number, name in own.items():
            told = told.replace(names[number], str(name))
    return told


def in_words() -> Options:
    options = Options()
    options.use_24hour_time_format = True
    options.locale_code = "en_US" if is_english() else LOCALES.get(get_language() or "", "en_US")
    return options
