"""When a cron line rings on the clock of a zone. Pure.

The arithmetic is cronsim's, by the rule of Debian's cron: a job at a fixed time runs once on the day of a clock change,
right after a gap or at the first of two equal hours; one whose minute or hour begins with `*` follows real time."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)


def next_tick(cron: str, moment: datetime, zone: ZoneInfo) -> datetime | None:
    """The first time strictly after `moment`, in UTC; None when there is none within fifty years."""
    if any(field.startswith("*") for field in cron.split()[:2]):
        return by_real_time(cron, moment.astimezone(UTC), zone)
    ticks = CronSim(cron, moment.astimezone(zone))
    # asked inside a repeated hour, cronsim answers with the first of the two, which is over
    return next((slot for slot in (tick.astimezone(UTC) for tick in ticks) if slot > moment), None)


def by_real_time(cron: str, moment: datetime, zone: ZoneInfo) -> datetime | None:
    """From one clock change to the next, since between them a clock goes like any other.

    Across one cronsim reckons from full hours, which a clock need not show: in Chatham 02:45 is followed by 03:45."""
    since, ahead = moment.replace(microsecond=0), offset(moment, zone)
    while wall := next(CronSim(cron, (moment + ahead).replace(tzinfo=None)), None):
        slot = wall.replace(tzinfo=UTC) - ahead
        change = first_change(since, slot, zone)
        if change is None:
            return slot
        since, moment, ahead = change, change - SECOND, offset(change, zone)
    return None


def offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    """By how much the clock of `zone` is ahead of UTC."""
    return moment.astimezone(zone).utcoffset() or timedelta(0)


def first_change(since: datetime, until: datetime, zone: ZoneInfo) -> datetime | None:
    """The first second after `since`, up to `until`, at which the clock is set; None when it is not."""
    before = offset(since, zone)
    while since < until:
        later = min(since + DAY, until)
        if offset(later, zone) != before:
            return bisected(since, later, zone)
        since = later
    return None


def bisected(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """The second between them, both whole, at which the clock is set."""
    told = offset(before, zone)
    while after - before > SECOND:
        middle = before + timedelta(seconds=(after - before) // SECOND // 2)
        before, after = (middle, after) if offset(middle, zone) == told else (before, middle)
    return after
