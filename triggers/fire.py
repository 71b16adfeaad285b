"""A schedule's slot becomes an event, once: taken in the row first, rung after, rung again if that was cut short."""

import uuid
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

import orjson
from django.db import transaction
from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber

from project.lib import clock, live
from project.lib.apart import each
from project.lib.failpoints import failpoint
from triggers.envelope import Arrival
from triggers.errors import NotValid, TriggerFull
from triggers.ingest import Outcome, ingest
from triggers.models import Audit, Event, ScheduleFire, Source
from triggers.silence import switched
from triggers.sources.schedule import CATCH_UP_CAP, MOST_FILLED, ON_TIME, Due, Schedule, iso, parse_schedule

if TYPE_CHECKING:
    from project.people.models import User

BATCH = 200  # schedules looked at in one tick
CUT_SHORT = timedelta(seconds=10)  # a slot taken this long ago without an event is rung again


class TurnedOff(Exception):
    """The schedule was turned off between the taking of its slot and the ringing."""


def fire_due() -> int:
    """Ring every slot that is due; returns how many events that made. Called by tick; two at once are harmless."""
    now = clock.now()
    unplanned = Source.objects.open().filter(kind="schedule", next_fire_at=None)
    each(plan, unplanned.order_by("pk")[:BATCH], now)
    full: set[int] = set()  # sources whose trigger has no room: their other slots wait
    rung = each(ring_again, cut_short(now), full)
    return rung + each(take_and_ring, Source.objects.due_schedules(now).order_by("next_fire_at")[:BATCH], now)


def fire(source: Source, *, by: "User | None" = None) -> int:
    """Ring once, now, whatever the schedule says; returns the number of the event. `by` has asked for what follows."""
    now = clock.now()
    event = ring(source, now, key=f"schedule:{source.pk}:hand:{uuid.uuid4()}", late=False, missed=0, by=by)
    Audit.write("ring", source, by=by, event=event)
    return event


def plan(source: Source, now: datetime) -> None:
    """Set the first slot from now on: a new, changed or resumed schedule has nothing to catch up."""
    schedule = schedule_of(source)
    if schedule is None:
        return
    unplanned = Source.objects.open().filter(pk=source.pk, version=source.version, next_fire_at=None)
    following = schedule.next_after(now.replace(microsecond=0))
    if following is not None:
        unplanned.update(next_fire_at=following + schedule.offset(source.slug))
        return
    with transaction.atomic():
        held = unplanned.select_for_update(no_key=True).first()
        if held is not None and not held.slots.filter(outcome="fired", event=None).exists():
            rang = schedule.once and held.slots.filter(outcome="fired", fire_at=schedule.once).exists()
            held.disable(by=None, reason="It has rung, and does so once." if rang else "Its time has passed.")


def schedule_of(source: Source) -> Schedule | None:
    """Its schedule; None, and the source is closed with the reason, when that is not valid any more."""
    try:
        return parse_schedule(source.config)
    except NotValid as refused:
        with transaction.atomic():
            source.disable(by=None, reason=refused.detail)
            switched(source, by=None, reason=refused.detail)
        return None


def next_slot(source: Source, schedule: Schedule) -> datetime | None:
    """The slot it rings for next; None while it is not planned."""
    return source.next_fire_at and source.next_fire_at - schedule.offset(source.slug)


def take_and_ring(source: Source, now: datetime) -> int:
    """Take the due slots of `source` and ring them in order; 0 when another tick was first."""
    schedule = schedule_of(source)
    if schedule is None:
        return 0
    offset = schedule.offset(source.slug)
    first = next_slot(source, schedule)
    assert first is not None
    due = schedule.due(first, now - offset)
    if not take(source, due, offset, now, spread=timedelta(seconds=schedule.spread)):
        return 0
    missed, rung = due.missed, 0
    at_once = due.fire[:1] if schedule.spread else due.fire  # the others wait as if they had been cut short
    for slot in at_once:
        try:
            event = ring_open(source, slot, late=now - offset - slot > ON_TIME, missed=missed)
        except (TriggerFull, TurnedOff):
            break  # it is taken, and waits like one that was cut short
        failpoint("after_fire")
        ScheduleFire.objects.filter(source=source, fire_at=slot).update(event=event)
        missed, rung = 0, rung + 1
    live.changed("sources")
    return rung


def take(source: Source, due: Due, offset: timedelta, now: datetime, *, spread: timedelta) -> bool:
    """Move the source on to its next slot and write the taken ones; False when it was changed, paused or taken.

    The update names the version and the slot this process read: whoever comes second finds neither.
    """
    following = due.following and due.following + offset
    with transaction.atomic():
        unmoved = Source.objects.open().filter(pk=source.pk, version=source.version, next_fire_at=source.next_fire_at)
        fired, missed = len(due.fire), due.missed
        if not unmoved.update(next_fire_at=following, fires=F("fires") + fired, misses=F("misses") + missed):
            return False
        slots = [
            ScheduleFire(source=source, fire_at=slot, fired_at=later(now, spread, place))
            for place, slot in enumerate(due.fire)
        ]
        slots += [ScheduleFire(source=source, fire_at=slot, fired_at=now, outcome="missed") for slot in due.passed]
        ScheduleFire.objects.bulk_create(slots, ignore_conflicts=True)
    failpoint("after_slots_commit")
    return True


def replan(source: Source, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Take the slots that a change of a schedule leaves behind; returns more fields for its row (the caller holds it).

    Where its times stay, its next slot stays. Else what is due by the old ones is taken first, to ring when it would
    have; of one that is turned off it is missed."""
    if source.kind != "schedule" or source.next_fire_at is None or not fields.keys() & {"config", "enabled"}:
        return {}
    try:
        old, new = (parse_schedule(config) for config in (source.config, fields.get("config", source.config)))
    except NotValid:
        return {}
    first, stays_on = source.next_fire_at - old.offset(source.slug), fields.get("enabled", True)
    if stays_on and new.times == old.times:
        return {"next_fire_at": first + new.offset(source.slug)}
    fired, missed = take_due(source, old, first, stays_on=stays_on)
    return {"fires": F("fires") + fired, "misses": F("misses") + missed}


def take_due(source: Source, schedule: Schedule, first: datetime, *, stays_on: bool) -> tuple[int, int]:
    """Take the slots of before a change; returns how many of them ring, and how many are missed."""
    now, offset = clock.now(), schedule.offset(source.slug)
    due = schedule.due(first, now - offset)
    missed = due.missed
    while due.following and due.following <= now - offset:  # a very long outage is counted off in parts
        due = schedule.due(due.following, now - offset)
        missed += due.missed
    rest = schedule.slots(due.following) if due.following else iter(())
    waiting = list(takewhile(lambda slot: slot <= now, islice(rest, CATCH_UP_CAP)))  # for their moment, by the jitter
    outcome = "fired" if stays_on else "missed"
    taken = [(slot, now) for slot in due.fire] + [(slot, slot + offset) for slot in waiting]
    rows = [ScheduleFire(source=source, fire_at=slot, fired_at=at - CUT_SHORT, outcome=outcome) for slot, at in taken]
    rows += [ScheduleFire(source=source, fire_at=slot, fired_at=now, outcome="missed") for slot in due.passed]
    ScheduleFire.objects.bulk_create(rows, ignore_conflicts=True)
    return (len(taken), missed) if stays_on else (0, missed + len(taken))


def later(now: datetime, spread: timedelta, place: int) -> datetime:
    """When a slot is taken for: the first now, each further one so that tick rings it `spread` after the one before."""
    return now + spread * place - CUT_SHORT if spread and place else now


def backfill(source: Source, since: datetime, until: datetime, *, by: "User | None") -> int:
    """Ring every slot of a past range that has not rung, in order, `spread` apart; returns how many that are.

    What rang before rings no more, however long ago: its event is a fact that stays. Raises NotValid for a range that
    cannot be filled."""
    now = clock.now()
    if not since <= until <= now:
        raise NotValid("A range begins before it ends, and ends before now.", field="until")
    if source.next_fire_at is None:
        plan(source, now)  # the slots of `every` hang on its next one
    told = moments_told(source, since, until)
    with transaction.atomic():
        held = Source.objects.select_for_update(no_key=True).get(pk=source.pk)
        if not held.enabled or held.archived_at:
            raise NotValid("It is off: turn it on first.", field="since")
        missing = not_rung(held, since, until, told)
        fill(source, missing, now, timedelta(seconds=parse_schedule(held.config).spread))
        Audit.write("back-fill", held, by=by, since=iso(since), until=iso(until), slots=len(missing))
        live.changed("sources", id=source.slug)
    return len(missing)


def moments_told(source: Source, since: datetime, until: datetime) -> list[datetime]:
    """The slots of a range, and as far around it as an interval reaches, of which there are events.

    Asked before BEGIN, since it may take its time: what rings meanwhile has its slot."""
    step = timedelta(seconds=parse_schedule(source.config).every or 0)
    told = Event.objects.filter(source_slug=source.slug, source=source, ce_id__startswith=f"schedule:{source.pk}:")
    by_hand = Q(ce_id__startswith=f"schedule:{source.pk}:hand:")
    times = told.exclude(by_hand).filter(time__range=(since - step, until + step)).values_list("time", flat=True)
    return [slot for slot in times if slot]


def not_rung(source: Source, since: datetime, until: datetime, told: Sequence[datetime]) -> list[datetime]:
    """Its slots of a range that have not rung, by the slots it took and by those `told`. Raises NotValid for too many.

    After an edit or a pause `every` hangs its slots on another moment; it never rings twice within its interval."""
    schedule = parse_schedule(source.config)
    slots = schedule.between(since, until, next_slot(source, schedule))
    if len(slots) > MOST_FILLED:
        raise NotValid(f"These are over {MOST_FILLED} slots; choose a shorter range.", field="until")
    step = timedelta(seconds=schedule.every or 0)
    fired = source.slots.filter(fire_at__range=(since - step, until + step), outcome="fired").order_by("fire_at")
    rung = sorted({*fired.values_list("fire_at", flat=True), *told})
    return [slot for slot in slots if not is_near(slot, rung, step)]


def is_near(slot: datetime, rung: Sequence[datetime], step: timedelta) -> bool:
    """Whether one of `rung`, which are in order, is this slot or lies less than `step` from it."""
    place = bisect_left(rung, slot)
    return any(one == slot or abs(one - slot) < step for one in rung[max(0, place - 1) : place + 1])


def fill(source: Source, slots: Sequence[datetime], now: datetime, spread: timedelta) -> None:
    """Take these slots as tick finds slots that were cut short; one that had been given up is taken anew, and counts as
    missed no more. The caller holds the source."""
    given_up, _ = source.slots.filter(fire_at__in=slots).delete()
    kept = max(0, source.misses - given_up)
    Source.objects.filter(pk=source.pk).update(fires=F("fires") + len(slots), misses=kept)
    ScheduleFire.objects.bulk_create(
        [
            ScheduleFire(source=source, fire_at=slot, fired_at=now + spread * place - CUT_SHORT)
            for place, slot in enumerate(slots)
        ]
    )


def ring_open(source: Source, slot: datetime, *, late: bool, missed: int) -> int:
    """Ring a slot that was taken. Raises TurnedOff when its schedule is off by the commit."""

    def refuse_closed(_: list[Outcome]) -> None:
        if not Source.objects.open().filter(pk=source.pk).exists():
            raise TurnedOff

    return ring(source, slot, key=key_of(source, slot), late=late, missed=missed, along=refuse_closed)


def ring(
    source: Source,
    slot: datetime,
    *,
    key: str,
    late: bool,
    missed: int,
    by: "User | None" = None,
    along: Callable[[list[Outcome]], None] | None = None,
) -> int:
    """Ingest the event of one slot; the key makes a second ring of the same slot a duplicate."""
    raw = orjson.dumps({"scheduled_for": iso(slot), "late": late, "missed": missed})
    arrival = Arrival(
        source_id=source.pk,
        source=source.slug,
        ce_id=key,
        ce_source=f"/sources/{source.slug}",
        type=f"{source.slug}.fired",
        time=slot,
        datacontenttype="application/json",
        raw=raw,
        keys=[(key, "duplicate")],
        window=source.dedupe_window,
        requester_id=by.pk if by else None,
    )
    [outcome] = ingest([arrival], along=along)
    return outcome.seq


def cut_short(now: datetime) -> list[ScheduleFire]:
    """Slots that were taken by a process which did not live to ring them, or wait for room in a trigger's queue.

    The oldest of each source come before the second of any: one that has thousands holds back no other."""
    silent = ScheduleFire.objects.filter(outcome="fired", event=None, fired_at__lt=now - CUT_SHORT)
    turn = Window(RowNumber(), partition_by=F("source"), order_by="fire_at")
    return list(silent.select_related("source").annotate(turn=turn).order_by("turn", "fire_at")[:BATCH])


def ring_again(slot: ScheduleFire, full: set[int]) -> int:
    """Ring a slot that was cut short, unless its source was closed meanwhile; 1 when it rang."""
    source = slot.source
    if source.pk in full:
        return 0
    if not source.enabled or source.archived_at:
        give_up(slot)
        return 0
    try:
        event = ring_open(source, slot.fire_at, late=True, missed=0)
    except TriggerFull:
        full.add(source.pk)
        return 0
    except TurnedOff:
        give_up(slot)
        return 0
    ScheduleFire.objects.filter(pk=slot.pk).update(event=event)
    return 1


def give_up(slot: ScheduleFire) -> None:
    """It was counted as one that rings when it was taken; turned off before that, its source has missed it."""
    with transaction.atomic():
        Source.objects.select_for_update(no_key=True).get(pk=slot.source_id)
        if ScheduleFire.objects.filter(pk=slot.pk, outcome="fired", event=None).update(outcome="cancelled"):
            counted = Source.objects.filter(pk=slot.source_id, fires__gt=0)
            counted.update(fires=F("fires") - 1, misses=F("misses") + 1)


def key_of(source: Source, slot: datetime) -> str:
    return f"schedule:{source.pk}:{iso(slot)}"
