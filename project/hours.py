"""What is over and only counted, by the hour: an hour that has passed is counted once and then known to this process,
so that a figure of the last day costs the rows of an hour or two, however much a day brings."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from project.lib import by_time

HOUR = timedelta(hours=1)
LATE = timedelta(minutes=2)  # after its end no row is added to an hour any more: longer than any transaction lasts
FORGOTTEN = timedelta(days=3)
KNOWN: dict[tuple[str, datetime], Counter[str]] = {}


def counted(
    name: str, rows: QuerySet[Any], column: str, told: Mapping[str, Any], since: datetime, until: datetime
) -> list[Counter[str]]:
    """What `told` (a Count each) says of `rows` whose `column` lies in [since, until), one an hour, oldest first; the
    first and the last hour may be cut. `name` stands for rows, column and told: nothing of them may change later."""
    first, last = begun(since + HOUR), begun(until)
    hours = [first + HOUR * place for place in range(round((last - first) / HOUR))]
    unknown = next((hour for hour in hours if (name, hour) not in KNOWN), max(last, first))
    found = {hour: KNOWN[name, hour] for hour in hours if hour < unknown}
    found |= asked(rows, column, told, since, min(first, until)) | asked(rows, column, told, unknown, until)
    KNOWN.update({(name, hour): found.get(hour, Counter()) for hour in hours if hour + HOUR + LATE <= until})
    for old in [key for key in KNOWN if key[1] < until - FORGOTTEN]:
        del KNOWN[old]
    return [found[hour] for hour in sorted(found)]


def begun(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def asked(
    rows: QuerySet[Any], column: str, told: Mapping[str, Any], since: datetime, until: datetime
) -> dict[datetime, Counter[str]]:
    """Of each hour in which there is a row."""
    if since >= until:
        return {}
    span = rows.filter(**{f"{column}__gte": since, f"{column}__lt": until}).annotate(hour=by_time.hour(column))
    return {
        datetime.fromisoformat(f"{hour}:00").replace(tzinfo=UTC): Counter(dict(zip(told, counts, strict=True)))
        for hour, *counts in span.order_by().values_list("hour").annotate(**told)
    }
