"""An event meets a wait: whichever was written first, the other one's writer looks for it after its commit."""

import time
from collections.abc import Iterable
from datetime import datetime

from django.db import connection, models, transaction
from django.db.models import Exists, OuterRef, Q

from project.lib import clock
from project.lib.apart import apart, each
from project.lib.failpoints import failpoint
from project.lib.live import all_changed, changed
from project.lib.states import IllegalMove
from triggers import bells
from triggers.models import Event, Run, Step, Wait

DEAF = ("accepted", "invalid", "stopped")  # events of these statuses wake nobody; the first are matched soon
BATCH = 1000  # waits looked at in one go
ASKED = 200  # of them in one statement: for many more PostgreSQL reads all runs instead
EXPIRED = 1000  # runs whose time has come in one transaction: the door waits for no longer than that
WAKE_FOR = 2.0  # seconds of one round spent on them
MANY = 10_000  # woken in one round: what PostgreSQL last counted of the queue is true no more
BREATH = 0.01  # seconds between two such transactions, in which whoever else writes gets SQLite's only lock


def wake_waits(event_ids: Iterable[int]) -> int:
    """End the pending waits that these committed events answer; returns how many runs were woken."""
    awaited = Exists(Wait.objects.filter(status="pending", type=OuterRef("type")))
    events = answers(pk__in=list(event_ids)).filter(awaited).order_by("pk")
    return sum(end_wait(wait, event) for event in events for wait in waits_for(event))


def waits_for(event: Event) -> list[Wait]:
    """Pending waits that `event` may end, oldest first."""
    return list(
        Wait.objects.filter(
            Q(subject=None) | Q(subject=event.subject),
            status="pending",
            type=event.type,
            source__in=[event.source_slug, "*"],
            since__lte=event.received_at,
        )
        .exclude(run__event=event)
        .order_by("pk")
    )


def look_for_event(run_id: int) -> bool:
    """After a run registered its wait: wake it at once if the event is here already."""
    return any(answer(wait) for wait in Wait.objects.filter(run_id=run_id, status="pending").exclude(type=""))


def answers(**where: object) -> "models.QuerySet[Event]":
    return Event.objects.without_payload().exclude(status__in=DEAF).filter(**where)


def answer_to(wait: Wait) -> Event | None:
    """The first event that answers `wait` and ended no other wait of its run."""
    events = answers(type=wait.type, received_at__gte=wait.since).exclude(pk=wait.run.event_id)
    if wait.source != "*":
        events = events.filter(source_slug=wait.source)
    if wait.subject is not None:
        events = events.filter(subject=wait.subject)
    events = events.exclude(ended_waits__run=wait.run_id).exclude(pk__in=spent_before(wait.run))
    return events.order_by("pk").first()


def spent_before(run: Run) -> set[int]:
    """The events that ended waits of the runs that `run` repeats, as far as it keeps what these remember."""
    if run.rerun_of_id is None:
        return set()
    kept = Step.objects.filter(run=run, kind="wait", fence=0, status="done").select_related("blob")
    return {step.result["event"] for step in kept}


def end_wait(wait: Wait, event: Event) -> bool:
    """Settle `wait` by `event` and put its run back into the queue; False when it had ended or the event is spent."""
    with transaction.atomic():
        run = Run.objects.select_for_update(no_key=True).get(pk=wait.run_id)
        now = clock.now()
        if Wait.objects.filter(run=run, event=event).exists() or event.pk in spent_before(run):
            return False
        changed("events", id=event.pk)
        return bool(Wait.objects.filter(pk=wait.pk).end("resolve", now, event=event)) and requeue(run, now)


def requeue(run: Run, now: datetime) -> bool:
    """Wake `run` and ring for it after the commit."""
    try:
        run.move("wake", due_at=now, wake_at=None, waiting_for="", rung_at=now)
    except IllegalMove:
        return False  # cancelled meanwhile: its end closed the wait's purpose
    bells.ring_on_commit([run.pk])
    changed("runs", id=run.pk)
    return True


def expire_due(now: datetime, *, seconds: float = WAKE_FOR) -> int:
    """Wake every run whose time has come, a batch a transaction; what is left after `seconds` is the next round's.

    Nobody rings for them one by one: the round rings for as many as workers can take, and these drain the rest."""
    until = time.monotonic() + seconds
    woken = 0
    while batch := apart(expire_batch, now):
        woken += batch
        if batch < EXPIRED or time.monotonic() > until:
            break
        if connection.vendor == "sqlite":
            time.sleep(BREATH)
    if woken >= MANY:
        have_counted()
    return woken


def have_counted() -> None:
    """PostgreSQL plans by what autovacuum counted up to a minute ago: of a queue it takes for empty it reads and sorts
    all, for each look at its head."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE (SKIP_LOCKED) {Run._meta.db_table}")


def expire_batch(now: datetime) -> int:
    """End the waits of the runs that were due first at `now`, and put these back into the queue."""
    due = Run.objects.select_for_update(skip_locked=True, no_key=True).filter(status="waiting", wake_at__lte=now)
    with transaction.atomic():
        leave_to_the_disk()
        run_ids = list(due.order_by("wake_at").values_list("pk", flat=True)[:EXPIRED])
        if not run_ids:
            return 0
        now = clock.now()
        Wait.objects.filter(run__in=run_ids, expires_at__lte=now).end("expire", now)
        woken = Run.move_all("wake", run_ids, due_at=now, wake_at=None, waiting_for="", rung_at=None)
        all_changed("runs", run_ids)
    failpoint("after_expiry")
    return woken


def leave_to_the_disk() -> None:
    """This transaction waits for no disk: nobody is told of it, one that a crash swallows is made again by the next
    round, and whoever goes on from what it wrote has it on the disk before his own."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit = off")


def repair(after: int, *, limit: int = BATCH) -> tuple[int, int]:
    """Ask `limit` pending waits beyond `after` whether their event is here: it repeats wake-ups that a crash swallowed.

    Returns how many were woken and where to go on (0: from the start)."""
    came = answers(type=OuterRef("type"), received_at__gte=OuterRef("since")).exclude(pk=OuterRef("run__event_id"))
    answered = Exists(came.filter(subject=OuterRef("subject"))) | Q(subject=None) & Exists(came)
    page = Wait.objects.filter(status="pending", pk__gt=after).exclude(type="").order_by("pk")
    ids = list(page.values_list("pk", flat=True)[:limit])
    woken = 0
    for start in range(0, len(ids), ASKED):
        woken += each(answer, Wait.objects.filter(answered, pk__in=ids[start : start + ASKED]).select_related("run"))
    return woken, ids[-1] if len(ids) == limit else 0


def answer(wait: Wait) -> bool:
    """End `wait` if its event is here."""
    event = answer_to(wait)
    return event is not None and end_wait(wait, event)
