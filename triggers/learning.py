"""Event types are learnt from what has arrived: by the round of the desk, in pieces, behind a cursor.

The door does nothing for it. Of every event its type is counted; the data of some of each piece is looked into. While a
type is young its schema follows; once it is settled, what differs is told as drift, and the schema stays until a person
says otherwise."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Max, Min

from project.lib import clock, json_schema
from project.lib.live import changed
from triggers import shapes
from triggers.fitting import faults_in, named, readable
from triggers.models import Event, EventType, Learnt

NAME = "event_types"  # of the row that says how far this has come
PIECE = 1000  # events a transaction
LOOKED_INTO = 50  # of them and of each type
LARGEST = 64 * 1024  # characters of data that are looked into
BUDGET = 0.3  # seconds a round
OLDEST = 20_000  # events: a desk that was there before begins with its newest
LATE = timedelta(seconds=60)  # an event with a smaller number may become visible so much later
SETTLED = 20  # values after which a schema is kept
MOST_TYPES = 2000  # a sender may invent types
STRAY = timedelta(days=1)  # a type that came once and not again for so long makes room for another
ROOM = 100  # of them at a time
MOST_DRIFT = 20  # differences listed of one type
MOST_SOURCES = 10

Head = tuple[int, str, str, datetime, bool]  # number, type, slug, when, whether it came from outside


@dataclass
class Found:
    """What a piece holds of one type."""

    heads: list[Head] = field(default_factory=list)
    values: list[tuple[int, datetime, Any]] = field(default_factory=list)  # number, when, data


def learn() -> int:
    """One round: take in the events that came since the last one; returns how many. Safe when two do it at once."""
    until, done = time.monotonic() + BUDGET, 0
    place, _ = Learnt.objects.get_or_create(name=NAME, defaults={"event": beginning()})
    while time.monotonic() < until and (heads := heads_after(place.event)):
        if not take_in(place, heads):
            break
        done += len(heads)
        place.event = heads[-1][0]
    return done


def beginning() -> int:
    """Before the first event, or the OLDEST of many."""
    known = Event.objects.aggregate(first=Min("pk"), last=Max("pk"))
    return max((known["first"] or 1) - 1, (known["last"] or 0) - OLDEST)


def heads_after(event: int) -> list[Head]:
    """The next events, up to a gap in their numbers that may still be filled: SQLite's writers come one by one."""
    rows = Event.objects.filter(pk__gt=event).order_by("pk")
    found = rows.values_list("pk", "type", "source_slug", "received_at", "source")[:PIECE]
    heads = [(pk, type, slug, at, source is not None) for pk, type, slug, at, source in found]
    return heads if connection.vendor == "sqlite" else list(before_a_gap(event, heads, clock.now() - LATE))


def before_a_gap(last: int, heads: Iterable[Head], long_ago: datetime) -> Iterator[Head]:
    """Up to a number that is missing and whose transaction may still be open."""
    for head in heads:
        if head[0] != last + 1 and head[3] > long_ago:
            return
        yield head
        last = head[0]


def take_in(place: Learnt, heads: Sequence[Head]) -> bool:
    """Write one piece; False when another round was faster."""
    found = by_type(heads)
    with transaction.atomic():
        if not Learnt.objects.filter(name=NAME, event=place.event).update(event=heads[-1][0]):
            return False
        for type in sorted(found):  # so that two never wait for each other in a ring
            note(type, found[type])
    changed("event_types")
    return True


def by_type(heads: Iterable[Head]) -> dict[str, Found]:
    found: dict[str, Found] = defaultdict(Found)
    for head in heads:
        if head[4]:  # the desk's own events are what its documents say
            found[head[1]].heads.append(head)
    wanted = {head[0]: each for each in found.values() for head in each.heads[:LOOKED_INTO]}
    rows = Event.objects.filter(pk__in=wanted, pruned_at=None).defer("headers", "credentials").order_by("pk")
    for event in rows.iterator(chunk_size=200):
        if event.status != "invalid" and (value := value_of(event)) is not None:
            wanted[event.pk].values.append((event.pk, event.received_at, value))
    return found


def value_of(event: Event) -> Any:
    """The data of an event as Python has it; None when there is none, or too much of it."""
    try:
        return event.data if 0 < len(event.data_text) <= LARGEST else None
    except (ValueError, RecursionError):
        return None


def note(type: str, found: Found) -> None:
    """Count what came of one type, and work its values in."""
    row = EventType.objects.select_for_update(no_key=True).filter(type=type).first() or begun(type, found)
    if row is None:
        return
    row.count += len(found.heads)
    row.sample, row.last_at = found.heads[-1][0], found.heads[-1][3]
    row.sources = [*row.sources, *sorted({head[2] for head in found.heads} - set(row.sources))][:MOST_SOURCES]
    look_into(row, found.values)
    row.save(update_fields=["count", "sample", "last_at", "sources", "shape", "schema", "is_settled", "drift"])
    if row.is_settled and not row.versions.exists():
        row.note_version(by=None)


def begun(type: str, found: Found) -> EventType | None:
    """A new type; None when there are too many already."""
    if EventType.objects.count() >= MOST_TYPES and not forget_strays(found.heads[0][3]):
        return None
    seq, _, _, at, _ = found.heads[0]
    return EventType.objects.create(type=type, first_at=at, last_at=at, sample=seq)


def forget_strays(now: datetime) -> int:
    """Make room: types that came once, longer than STRAY ago, and that nobody described, go, the oldest first."""
    strays = EventType.objects.filter(count__lte=1, mode="warn", description="", last_at__lt=now - STRAY, versions=None)
    ids = list(strays.order_by("last_at", "pk").values_list("pk", flat=True)[:ROOM])
    EventType.objects.filter(pk__in=ids).delete()
    return len(ids)


def look_into(row: EventType, values: Iterable[tuple[int, datetime, Any]]) -> None:
    """Grow the shape by these values; tell what differs from a schema that is kept."""
    check = readable(row.type, row.schema) if row.is_settled and row.schema else None
    for seq, at, value in values:
        differs = list(differences(row.schema, check, value)) if check else []
        for path, what in differs:
            note_drift(row.drift, path, what, seq, at)
        if row.mode == "refuse" and any(what != NEW for _, what in differs):
            continue  # it is refused, and teaches nothing
        shapes.grow(row.shape, value)
    row.shape = shapes.trimmed(row.shape)
    if not row.is_settled:
        row.schema = shapes.schema_of(row.shape)
        row.is_settled = row.shape.get("n", 0) >= SETTLED


NEW = "is new"


def differences(schema: dict[str, Any], check: json_schema.Validator, value: Any) -> Iterator[tuple[str, str]]:
    """Where `value` is not what `schema` says, as `(data.path, in words)`; values are not quoted."""
    yield from faults_in(check, value)
    for path, _ in shapes.unknown_members(schema, value):
        yield named("data", *path), NEW


def note_drift(drift: list[dict[str, Any]], path: str, what: str, seq: int, at: datetime) -> None:
    """Count it where it stands already; list it when there is room."""
    same = next((one for one in drift if (one["path"], one["what"]) == (path, what)), None)
    if same is not None:
        same |= {"count": same["count"] + 1, "last": seq}
    elif len(drift) < MOST_DRIFT:
        drift.append({"path": path, "what": what, "since": seq, "at": at.isoformat(), "last": seq, "count": 1})
