"""What may go, in small pieces with rests between them: payloads past the keeping time, and claims whose time is over.

Facts stay: which event came when, what it woke, how each run and step ended, what people decided. What still waits, is
unresolved or pinned keeps everything, whatever its age."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Coalesce

from project.lib import clock
from triggers import blobs, registry
from triggers.endings import ALARM
from triggers.models import (
    AgentEvent,
    Bulk,
    BulkItem,
    Counted,
    DeadLetter,
    Event,
    EventWords,
    Gathered,
    Pin,
    Refusal,
    Run,
    ScheduleFire,
    Seen,
    Source,
    Step,
    Wait,
)
from triggers.models.run import ENDED
from triggers.models.tally import BEGINNING

PIECE = 500  # rows a transaction
RUNS = 50  # runs a transaction: each has steps
REST = 0.02  # seconds between two transactions, in which others get the database
ALL_AGAIN = timedelta(days=1)  # so often also what was held back before is asked again
REFUSALS_FOR = timedelta(days=7)
REFUSALS_A_SOURCE = 200  # the newest of each reason that are kept: noise of one kind pushes no other out
CREDENTIALS_FOR = timedelta(hours=24)  # sealed headers, kept for a re-check

Tell = Callable[[str, int], None]
Rows = Iterator["models.QuerySet[Any]"]
Found = Callable[[datetime], Rows]
Work = Callable[[datetime], int]


def prune(tell: Tell = lambda name, count: None) -> dict[str, int]:
    """One round; returns how many rows of each kind were removed or emptied. `tell` hears it as it goes.

    Killed at any moment it has done whole pieces; the next round goes on."""
    now = clock.now()
    done: dict[str, int] = {}
    for name, (_, work) in stages().items():
        done[name] = work(now)
        tell(name, done[name])
    return done


def due() -> dict[str, int]:
    """What a round would remove or empty now, each kind counted by itself; nothing is touched."""
    now = clock.now()
    return {name: sum(rows.count() for rows in found(now)) for name, (found, _) in stages().items()}


def cutoff(now: datetime) -> datetime:
    return now - timedelta(days=settings.RETENTION_DAYS)


def remove(rows: "models.QuerySet[Any]") -> int:
    removed = 0
    rows = rows if rows.ordered else rows.order_by("pk")
    while ids := list(rows.values_list("pk", flat=True)[:PIECE]):
        rows.model._default_manager.filter(pk__in=ids).delete()
        removed += len(ids)
        time.sleep(REST)
    return removed


def remove_all(found: Found) -> Work:
    return lambda now: sum(map(remove, found(now)))


def used_up_keys(now: datetime) -> Rows:
    """But for those of tables that are read: their listeners free them, once the rows are read no more."""
    tables = Source.objects.kept().filter(kind="database").values("pk")
    yield Seen.objects.filter(until__lt=now).exclude(source_id__in=tables).order_by("until")


def fired_slots(now: datetime) -> Rows:
    """Slots of schedules whose events are past the keeping time; what was cut short is still rung."""
    cut_short = Q(outcome="fired", event=None)
    yield ScheduleFire.objects.filter(fired_at__lt=cutoff(now)).exclude(cut_short)


def spare_refusals(now: datetime) -> Rows:
    """The old ones, and of the young those that are too many of one source and reason."""
    yield Refusal.objects.filter(at__lt=now - REFUSALS_FOR)
    for source, reason in Refusal.objects.filter(event=None).order_by().values_list("source", "reason").distinct():
        yield surplus_of(source, reason).filter(at__gte=now - REFUSALS_FOR)


def prune_refusals_of(source: int | None, reason: str) -> int:
    """Keep only the newest refusals of a source for this reason; None: of addresses nobody has."""
    return remove(surplus_of(source, reason))


def surplus_of(source: int | None, reason: str) -> "models.QuerySet[Refusal]":
    own = Refusal.objects.filter(source=source, reason=reason, event=None)
    newest = own.order_by("-pk").values_list("pk", flat=True)
    oldest = newest[REFUSALS_A_SOURCE : REFUSALS_A_SOURCE + 1].first()
    return own.filter(pk__lte=oldest) if oldest else own.none()


def sealed_headers(now: datetime) -> Rows:
    before = now - CREDENTIALS_FOR
    yield Event.objects.filter(received_at__lt=before).exclude(credentials="")
    yield Refusal.objects.filter(at__lt=before).exclude(credentials="")


def empty_credentials(now: datetime) -> int:
    """Sealed headers go after a day, of events by a walk along the times they came."""
    events = walk(
        "credentials", Event.objects.all(), "received_at", now - CREDENTIALS_FOR, PIECE, unseal_none, again=False
    )
    return events + Refusal.objects.filter(at__lt=now - CREDENTIALS_FOR).exclude(credentials="").update(credentials="")


def unseal_none(ids: list[int], now: datetime) -> int:
    return Event.objects.filter(pk__in=ids).exclude(credentials="").update(credentials="")


# --- payloads ---


def old_events(now: datetime) -> Rows:
    yield free_events(Event.objects.filter(pruned_at=None, received_at__lt=cutoff(now)))


def old_runs(now: datetime) -> Rows:
    yield free_runs(Run.objects.filter(pruned_at=None, finished_at__lt=cutoff(now)))


def free_events(rows: "models.QuerySet[Event]") -> "models.QuerySet[Event]":
    """Those nobody needs any more: matched, not pinned, no run or letter of theirs is open, no job will take them."""
    held = (
        *(runs.filter(event=OuterRef("pk")) for runs in at_work()),
        *(read_by(runs, model) for runs in at_work() for model in (Wait, Gathered)),
        DeadLetter.objects.open().filter(event=OuterRef("pk")),
        BulkItem.objects.to_come().filter(ref=OuterRef("pk"), job__verb="run_again"),
        AgentEvent.objects.to_come().filter(event=OuterRef("pk")),
        Pin.objects.filter(event=OuterRef("pk")),
    )
    return rows.exclude(status="accepted").filter(*(~Exists(holders) for holders in held))


def at_work() -> "list[models.QuerySet[Run]]":
    """Runs that go on, or may: not ended, under an open letter, or needed for what they asked for."""
    mourned = Run.objects.filter(Exists(DeadLetter.objects.open().filter(run=OuterRef("pk"))))
    return [Run.objects.live(), mourned, *(needed() for needed in registry.needed_runs)]


def read_by(runs: "models.QuerySet[Run]", by: "type[Wait] | type[Gathered]") -> "models.QuerySet[Any]":
    """By which of `runs` the event of an outer query is read beside their own: it ended a wait, or was gathered.

    A run that repeats another reads what that one had; all of a chain are of one event, and so found by it."""
    first = one_of(OuterRef("run__origin"), OuterRef("run"))
    chain = runs.alias(first=one_of("origin", "pk")).filter(first=first, event=OuterRef("run__event"))
    return by._default_manager.filter(Exists(chain), event=OuterRef("pk"))


def one_of(origin: Any, run: Any) -> Coalesce:
    """The number of the first run of a chain: that of `origin`, which the first one itself does not name."""
    return Coalesce(origin, run, output_field=models.BigIntegerField())


def free_runs(rows: "models.QuerySet[Run]") -> "models.QuerySet[Run]":
    """Ended ones without an open letter that nobody needs any more, none of whose events anybody pinned."""
    held = (
        *(needed().filter(pk=OuterRef("pk")) for needed in registry.needed_runs),
        DeadLetter.objects.open().filter(run=OuterRef("pk")),
        Pin.objects.filter(event=OuterRef("event")),
        Pin.objects.filter(event__gathered__run=one_of(OuterRef("origin"), OuterRef("pk"))),
    )
    return rows.filter(*(~Exists(holders) for holders in held), status__in=ENDED)


def empty_events(now: datetime) -> int:
    """Facts stay, payloads go."""
    rows = Event.objects.filter(pruned_at=None)
    return walk("events", rows, "received_at", cutoff(now), PIECE, empty_some_events)


def empty_some_events(ids: list[int], now: datetime) -> int:
    """Locked first, judged in the next statement: a run that is being started holds its event, or comes too late."""
    held = held_rows(Event.objects.filter(pk__in=ids, pruned_at=None))
    free = list(free_events(Event.objects.filter(pk__in=held)).only("pk", "outcomes"))
    for event in free:  # what a clause found quotes the payload
        event.outcomes = [{name: told[name] for name in told if name != "detail"} for told in event.outcomes]
        event.raw, event.data_json, event.headers, event.credentials, event.pruned_at = None, "", {}, "", now
    fields = ["outcomes", "raw", "data_json", "headers", "credentials", "pruned_at"]
    Event.objects.bulk_update(free, fields, batch_size=100)
    gone = {event.pk for event in free}
    EventWords.objects.filter(event__in=gone).update(whole=F("facts"))
    left = Event.objects.filter(pk__in=set(ids) - gone, pruned_at=None, source__kind="email")
    blobs.keep_longer(left.only("raw", "data_json", "pruned_at").iterator(chunk_size=50), now)
    return len(free)


def empty_runs(now: datetime) -> int:
    """How a run and its steps ended stays; what they returned, and what their errors quote, goes."""
    rows = Run.objects.filter(pruned_at=None, finished_at__isnull=False)
    return walk("runs", rows, "finished_at", cutoff(now), RUNS, empty_some_runs)


def empty_some_runs(ids: list[int], now: datetime) -> int:
    held = held_rows(Run.objects.filter(pk__in=ids, pruned_at=None))
    free = list(free_runs(Run.objects.filter(pk__in=held)).only("pk", "error"))
    for run in free:
        run.error = fact_of(run.error)
    Run.objects.bulk_update(free, ["error"])
    mine = Run.objects.filter(pk__in=[run.pk for run in free])
    mine.exclude(data_json=None).update(data_json="")
    mine.update(result_json=None, pruned_at=now)
    steps = Step.objects.filter(run__in=[run.pk for run in free])
    failed = list(steps.filter(Q(error__isnull=False) | Q(tries__isnull=False)).only("pk", "error", "tries"))
    for step in failed:
        step.error = fact_of(step.error)
        step.tries = step.tries and [{**one, "error": fact_of(one["error"])} for one in step.tries]
    Step.objects.bulk_update(failed, ["error", "tries"], batch_size=PIECE)
    steps.update(result_json=None, blob=None, input_text="")
    return len(free)


def fact_of(error: dict[str, Any] | None) -> dict[str, Any] | None:
    """The class of an error; its message and its traceback quote what the run worked on."""
    return error and {"type": error.get("type", ""), "message": "", "traceback": ""}


def held_rows(rows: "models.QuerySet[Any]") -> list[int]:
    """The numbers of those rows that nobody else holds; held from here to the commit."""
    return list(rows.select_for_update(of=("self",), skip_locked=True).values_list("pk", flat=True))


def walk(
    name: str,
    rows: "models.QuerySet[Any]",
    field: str,
    until: datetime,
    size: int,
    empty: Callable[[list[int], datetime], int],
    *,
    again: bool = True,
) -> int:
    """Hand `rows` older than `until` to `empty`, piece by piece, each in a transaction of its own.

    How far it came is noted, so that years of emptied rows are not read every hour; with `again` it begins anew once
    a day, for what was held back may be free by now."""
    began, place, last, done = clock.now(), begin_at(name, again=again), 0, 0
    from_the_first = place == BEGINNING
    while True:
        beyond = Q(**{f"{field}__gt": place}) | Q(**{field: place}, pk__gt=last)
        ahead = rows.filter(beyond, **{f"{field}__gte": place, f"{field}__lt": until}).order_by(field, "pk")
        piece = list(ahead.values_list("pk", field)[:size])
        if not piece:
            break
        with transaction.atomic():
            done += empty([pk for pk, _ in piece], clock.now())
        last, place = piece[-1]
        time.sleep(REST)
    Counted.objects.update_or_create(name=f"pruned {name}", defaults={"until": place})
    if from_the_first:
        Counted.objects.update_or_create(name=f"pruned {name} whole", defaults={"until": began})
    return done


def begin_at(name: str, *, again: bool) -> datetime:
    """Where the last round came to; the very beginning once a day."""
    now, whole = clock.now(), f"pruned {name} anew"
    known = dict(Counted.objects.filter(name__in=[f"pruned {name}", whole]).values_list("name", "until"))
    if not again or known.get(whole, BEGINNING) > now - ALL_AGAIN:
        return known.get(f"pruned {name}", BEGINNING)
    Counted.objects.update_or_create(name=whole, defaults={"until": now})
    return BEGINNING


# --- letters and bulk jobs ---


def old_letters(now: datetime) -> Rows:
    """Settled long ago, and their message, which quotes a payload, is still there."""
    yield DeadLetter.objects.exclude(status="open").filter(settled_at__lt=cutoff(now)).exclude(message="")


def empty_letters(now: datetime) -> int:
    emptied = 0
    (letters,) = old_letters(now)
    while ids := list(letters.order_by("pk").values_list("pk", flat=True)[:PIECE]):
        emptied += DeadLetter.objects.exclude(status="open").filter(pk__in=ids).update(message="")
        time.sleep(REST)
    return emptied


def old_alarms(now: datetime) -> Rows:
    """When a cause last rang the alarm: of no use once it was quiet for so long."""
    yield Counted.objects.filter(name__startswith=ALARM, until__lt=cutoff(now))


def old_items(now: datetime) -> Rows:
    yield BulkItem.objects.filter(job__ended_at__lt=cutoff(now))


def remove_bulk_items(now: datetime) -> int:
    """The numbers of a job stay, its single rows go."""
    removed = 0
    for job in Bulk.objects.filter(ended_at__lt=cutoff(now), counts__isnull=True).order_by("pk")[:PIECE]:
        Bulk.objects.filter(pk=job.pk, counts__isnull=True).update(counts=job.tally)
    for job in Bulk.objects.filter(ended_at__lt=cutoff(now), items__isnull=False).distinct().order_by("pk")[:PIECE]:
        removed += remove(job.items.all())
    return removed


def unused_blobs(now: datetime) -> Rows:
    yield blobs.unused(now, walked_at())


def remove_unused_blobs(now: datetime) -> int:
    return blobs.remove_unused(now, walked_at())


def walked_at() -> datetime | None:
    """When the last walk over all old events began that came to its end."""
    return Counted.objects.filter(name="pruned events whole").values_list("until", flat=True).first()


STAGES: dict[str, tuple[Found, Work]] = {  # what is due, and what is done to it
    "seen": (used_up_keys, remove_all(used_up_keys)),
    "refusals": (spare_refusals, remove_all(spare_refusals)),
    "slots": (fired_slots, remove_all(fired_slots)),
    "credentials": (sealed_headers, empty_credentials),
    "events": (old_events, empty_events),
    "runs": (old_runs, empty_runs),
    "letters": (old_letters, empty_letters),
    "bulk_items": (old_items, remove_bulk_items),
    "alarms": (old_alarms, remove_all(old_alarms)),
    "blobs": (unused_blobs, remove_unused_blobs),
}


def stages() -> dict[str, tuple[Found, Work]]:
    """Ours, and those of who keeps rows of his own."""
    return STAGES | {name: (found, remove_all(found)) for name, found in registry.spare_rows.items()}
