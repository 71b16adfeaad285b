"""One verb for many rows: which ones is fixed at the press, then the desk's tick takes them one by one, each once.

A row is taken in one transaction with the deed itself, under the row of its job: whenever the desk is killed, no row
was taken twice and none is lost; a pause or a cancel holds from the next row on."""

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, models, transaction

from project.lib import canonical, clock
from project.lib.apart import apart
from project.lib.live import changed
from project.lib.problem import Problem
from project.lib.text import LONGEST_REASON, reason_of
from triggers import redrive
from triggers.errors import AlreadyAtWork, AlreadySettled, Ended, NotValid
from triggers.models import Audit, Bulk, BulkItem, DeadLetter, Event, Run, Trigger

if TYPE_CHECKING:
    from project.people.models import User

MOST = 20_000  # rows of one job
SHOWN = 10  # first rows that a look names
CANARY_FOR = timedelta(seconds=60)  # what went first is watched before the rest follows
LONGEST_STEP = timedelta(seconds=4)  # of its rate a job uses at most so much at once: rounds may be far apart
BUDGET = 0.5  # seconds a round spends on all jobs
MOST_CANARIES, FASTEST, MOST_FAILURES = 10, 100, 100
WENT_ON = "start by going on"  # the verb in the audit, at each row that somebody else's job took since he resumed it
BOUNDS = {"canary": (0, MOST_CANARIES), "rate": (1, FASTEST), "stop_after": (1, MOST_FAILURES)}

Deed = Callable[[Bulk, BulkItem], tuple[str, dict[str, Any]]]


def takes(verb: str, rows: "models.QuerySet[Any]", upto: int | None = None) -> "models.QuerySet[Any]":
    """What `verb` would take of `rows`, the oldest first; none with a larger number than `upto`: no later ones."""
    able = {"redrive": {"status": "open"}, "dismiss": {"status": "open"}, "run_again": {}}
    rows = rows.live() if verb == "cancel" else rows.filter(**able[verb])  # type: ignore[attr-defined]
    rows = rows.filter(pk__lte=upto) if upto else rows
    return rows.order_by("pk")


def look(verb: str, rows: "models.QuerySet[Any]", *, triggers: int = 1, upto: int | None = None) -> dict[str, Any]:
    """`{count, first, upto}` of what a press would take now; nothing is stored. Pass `upto` on to get no later ones."""
    taken = takes(verb, rows, upto)
    last = taken.order_by("-pk").values_list("pk", flat=True).first()
    count = taken[: MOST + 1].count() * triggers
    return {"count": count, "first": list(taken.values_list("pk", flat=True)[:SHOWN]), "upto": upto or last or 0}


def press(
    verb: str,
    rows: "models.QuerySet[Any]",
    *,
    by: "User | None",
    filter: dict[str, Any],
    triggers: Sequence[Trigger] = (),
    reason: str = "",
    canary: int = 1,
    rate: int = 10,
    stop_after: int = 5,
    upto: int | None = None,
) -> Bulk:
    """Write down every row that `verb` takes, and let the desk begin. `filter` is only told; `rows` is what counts.

    Raises NotValid when there is nothing to take or too much, a reason or trigger is missing or a number is out of
    BOUNDS, and AlreadyAtWork while a job with the same wish has not ended."""
    reason = reason_of(reason, NotValid)
    refuse_nonsense(verb, triggers, reason, canary=canary, rate=rate, stop_after=stop_after)
    ids = list(takes(verb, rows, upto).values_list("pk", flat=True)[: MOST + 1])
    total = len(ids) * max(1, len(triggers))
    if not ids:
        raise NotValid("Nothing matches, so there is nothing to do.", field="filter")
    if total > MOST:
        raise NotValid(f"That is over {MOST:,} at once; narrow it, for example by time.", field="filter")
    wish = {"verb": verb, "filter": filter, "triggers": sorted(trigger.slug for trigger in triggers)}
    mark = canonical.digest(wish).removeprefix("sha256:")
    with transaction.atomic():
        now = clock.now()
        job = begin(
            **wish,
            mark=mark,
            by=by,
            reason=reason,
            canary=canary if verb in ("redrive", "run_again") else 0,
            rate=rate,
            stop_after=stop_after,
            total=total,
            created_at=now,
            resumed_at=now,
            paced_at=now - timedelta(seconds=1),  # the first ones need not wait
        )
        pairs = [(ref, trigger) for ref in ids for trigger in (triggers or (None,))]
        items = (BulkItem(job=job, ref=ref, trigger=trigger) for ref, trigger in pairs)
        BulkItem.objects.bulk_create(items, batch_size=1000)
        Audit.write(f"bulk {verb}", job, by=by, filter=filter, total=total, reason=reason)
        show(job)
    return job


def refuse_nonsense(verb: str, triggers: Sequence[Trigger], reason: str, **numbers: int) -> None:
    if verb not in Bulk.VERBS:
        raise NotValid(f"`verb` is one of {', '.join(Bulk.VERBS)}", field="verb")
    if verb == "dismiss" and not reason:
        raise NotValid("Say why they may be dismissed.", field="reason")
    if (verb == "run_again") != bool(triggers):
        raise NotValid("Name the triggers whose handlers shall run; only `run_again` takes some.", field="triggers")
    for name, number in numbers.items():
        least, most = BOUNDS[name]
        if not least <= number <= most:
            raise NotValid(f"`{name}` is {least} to {most}, not {number}.", field=name)


def begin(**fields: Any) -> Bulk:
    """The job's row; its constraint lets one wish be at work once."""
    try:
        with transaction.atomic():
            return Bulk.objects.create(**fields)
    except IntegrityError:
        other = Bulk.objects.at_work().filter(mark=fields["mark"]).first()
        if other is None:
            raise
        raise AlreadyAtWork(f"B-{other.pk} does exactly this already.", bulk=other.pk) from None


# --- what people do with a job ---


def pause(job: Bulk, *, by: "User | None") -> Bulk:
    """Take no further row until somebody resumes it. Raises IllegalMove."""
    return turn(job, "pause", by=by)


def resume(job: Bulk, *, by: "User | None") -> Bulk:
    """Go on, also after the stop rule: what failed before no longer counts. Raises IllegalMove."""
    now = clock.now()
    went_on = {"judged_at": now} if job.status == "stopped" else {}
    return turn(job, "resume", by=by, resumed_at=now, said="", **went_on)


def cancel(job: Bulk, *, by: "User | None") -> Bulk:
    """Leave what was not taken as it is, for good. Raises IllegalMove."""
    return turn(job, "cancel", by=by, ended_at=clock.now())


def turn(job: Bulk, verb: str, *, by: "User | None", **fields: Any) -> Bulk:
    with transaction.atomic():
        held = Bulk.objects.select_for_update(of=("self",), no_key=True).get(pk=job.pk)
        held.move(verb, **fields)
        Audit.write(verb, held, by=by)
        show(held)
    return held


def show(job: Bulk) -> None:
    changed("bulk", id=job.pk)


# --- what the desk does ---


def go_on() -> int:
    """One round over all running jobs; returns how many rows were taken. Safe when two do it at once.

    Each has its share of the time, and what those before it left of theirs."""
    end, taken = time.monotonic() + BUDGET, 0
    jobs = list(Bulk.objects.running().order_by("pk").values_list("pk", flat=True))
    for place, job_id in enumerate(jobs):
        now = time.monotonic()
        taken += apart(go_on_with, job_id, until=now + (end - now) / (len(jobs) - place))
    return taken


def go_on_with(job_id: int, *, until: float) -> int:
    """Judge what it did so far, then take as many rows as its rate allows until `until` (monotonic); at least one."""
    job = Bulk.objects.get(pk=job_id)
    if not may_go_on(job):
        return 0
    taken = 0
    for item_id in next_items(job):
        taken += apart(take, item_id)
        if time.monotonic() > until:
            break
    note_progress(job)
    return taken


def may_go_on(job: Bulk) -> bool:
    """Look at the runs it started: a canary that died stops it, so do too many failures in a row."""
    if job.judged_at is None and job.starts_runs and job.canary:
        return judge_canary(job)
    wrong = job.items.newest_told(job.resumed_at, job.stop_after) if job.starts_runs else []
    if len(wrong) == job.stop_after and all(wrong):
        return stop(job, f"The last {job.stop_after} all failed." if job.stop_after > 1 else "The last one failed.")
    return True


def judge_canary(job: Bulk) -> bool:
    if any(job.items.newest_told(job.created_at, job.canary)):
        return stop(job, "What went first failed: the cause is still there.")
    if job.canary_at is None:
        return True
    now = clock.now()
    until = watched_until(job)
    if until is None or now < until:
        return False
    Bulk.objects.filter(pk=job.pk, judged_at=None).update(judged_at=now)
    job.refresh_from_db()
    return True


def watched_until(job: Bulk) -> datetime | None:
    """When what went first has had its time, which begins with its first try; None while that is still to come."""
    assert job.canary_at is not None
    if job.items.to_begin().exists():
        return None
    began = job.items.aggregate(at=models.Max("run__started_at"))["at"] or job.canary_at
    return max(began, job.canary_at) + CANARY_FOR


def stop(job: Bulk, why: str) -> bool:
    """False: it takes no further row."""
    with transaction.atomic():
        held = Bulk.objects.select_for_update(of=("self",), no_key=True).get(pk=job.pk)
        if held.status == "running":
            held.move("stop", said=why)
            Audit.write("stop", held, why=why)
            show(held)
    return False


def next_items(job: Bulk) -> list[int]:
    """The rows whose turn it is. Its rate is used up by compare-and-set, so that two rounds never take twice of it."""
    now = clock.now()
    most = int(min(now - job.paced_at, LONGEST_STEP).total_seconds() * job.rate)
    if job.judged_at is None and job.starts_runs and job.canary:
        most = min(most, job.canary - job.items.exclude(status__in=["waiting", "skipped"]).count())
    if most < 1 or not Bulk.objects.filter(pk=job.pk, paced_at=job.paced_at).update(paced_at=now):
        return []
    return list(job.items.waiting().order_by("pk").values_list("pk", flat=True)[:most])


def take(item_id: int) -> bool:
    """Do the deed for one row, once; False when its job stands still or somebody took the row."""
    with transaction.atomic():
        job = Bulk.objects.select_for_update(of=("self",), no_key=True).get(items=item_id)
        item = BulkItem.objects.select_related("trigger").get(pk=item_id)
        if job.status != "running" or item.status != "waiting":
            return False
        status, facts = outcome(job, item)
        item.say(status, at=clock.now(), **facts)
        if status in ("started", "done"):
            name_who_went_on(job, item, facts.get("run"))
        show(job)
    return True


def name_who_went_on(job: Bulk, item: BulkItem, run: Run | None) -> None:
    """Whoever resumed it has asked for what it does from then on, beside the one who pressed.

    Written at the row itself, since those of the job go by retention before a run that waits."""
    if job.resumed_at == job.created_at or job.verb == "dismiss":
        return
    row: Run | Event | None = run
    if row is None:
        kept = Run.objects.filter(pk=item.ref) if job.verb == "cancel" else Event.objects.filter(letters=item.ref)
        row = kept.get()
    resumed = Audit.objects.filter(kind="bulk", ref=str(job.pk), verb="resume").exclude(by=None)
    people = {one.by_id: one.by for one in resumed.select_related("by") if one.by_id != job.by_id}
    for person in people.values():
        Audit.write(WENT_ON, row, by=person, bulk=job.pk)


def outcome(job: Bulk, item: BulkItem) -> tuple[str, dict[str, Any]]:
    """What became of the row: the deed's own words, or why it was left."""
    try:
        return DEEDS[job.verb](job, item)
    except (AlreadySettled, Ended) as late:
        return "skipped", {"detail": f"Somebody was first: it is {late.facts.get('status', 'settled')}."}
    except Problem as refused:
        return "failed", {"detail": refused.detail[:300]}
    except (DeadLetter.DoesNotExist, Run.DoesNotExist, Event.DoesNotExist):
        return "skipped", {"detail": "It is gone."}


def redrive_one(job: Bulk, item: BulkItem) -> tuple[str, dict[str, Any]]:
    run = redrive.redrive(DeadLetter.objects.get(pk=item.ref), by=job.by, reason=why(job))
    return ("started", {"run": run}) if run else ("done", {"detail": "Its event is matched again."})


def dismiss_one(job: Bulk, item: BulkItem) -> tuple[str, dict[str, Any]]:
    redrive.dismiss(DeadLetter.objects.get(pk=item.ref), by=job.by, reason=job.reason)
    return "done", {}


def cancel_one(job: Bulk, item: BulkItem) -> tuple[str, dict[str, Any]]:
    at_once = redrive.cancel(Run.objects.get(pk=item.ref), by=job.by, reason=f"bulk job {job.pk}")
    return "done", {"detail": "" if at_once else "A worker is on it; it ends at its next step."}


def run_again_one(job: Bulk, item: BulkItem) -> tuple[str, dict[str, Any]]:
    assert item.trigger is not None
    if (with_it := brought_along_by(job, item)) is not None:
        return "skipped", {"detail": f"One run gathered it and E-{with_it}, which brings it along."}
    return "started", {"run": redrive.run_event_again(Event.objects.get(pk=item.ref), item.trigger, by=job.by)}


def brought_along_by(job: Bulk, item: BulkItem) -> int | None:
    """The event of the run that gathered this one, if that is a row of the job too: run again it has them all."""
    gathering = Run.objects.filter(gathered__event=item.ref, trigger=item.trigger).exclude(event=item.ref)
    events = gathering.values_list("event", flat=True)
    return job.items.filter(ref__in=list(events), trigger=item.trigger).values_list("ref", flat=True).first()


DEEDS: dict[str, Deed] = {
    "redrive": redrive_one,
    "dismiss": dismiss_one,
    "cancel": cancel_one,
    "run_again": run_again_one,
}


def why(job: Bulk) -> str:
    """The job and its reason; the page of the job has all of a long one."""
    said = f"B-{job.pk}: {job.reason}" if job.reason else f"B-{job.pk}"
    return said if len(said) <= LONGEST_REASON else f"{said[: LONGEST_REASON - 1]}…"


def note_progress(job: Bulk) -> None:
    """The canary is out, or every row was taken."""
    now = clock.now()
    if not job.items.waiting().exists():
        with transaction.atomic():
            held = Bulk.objects.select_for_update(of=("self",), no_key=True).get(pk=job.pk)
            if held.status == "running":
                held.move("finish", ended_at=now)
                show(held)
        return
    out = job.items.exclude(status__in=["waiting", "skipped"]).count() if job.canary_at is None else 0
    if job.starts_runs and job.canary and out >= job.canary:
        Bulk.objects.filter(pk=job.pk, canary_at=None).update(canary_at=now)
