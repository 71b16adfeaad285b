"""What people do with runs and dead letters: cancel, run again, dismiss. Every re-run is a new, linked run."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Q

from project.lib import clock
from project.lib.live import changed
from project.lib.states import IllegalMove
from project.lib.text import reason_of
from triggers import bells, endings, registry
from triggers.errors import AlreadySettled, Ended, NotEnded, NotValid, PayloadGone
from triggers.ingest import match_stored
from triggers.models import Audit, DeadLetter, Event, Run, Step, Trigger
from triggers.models.run import ENDED, RunQuerySet, Status

if TYPE_CHECKING:
    from project.people.models import User

UNCHANGED: Any = object()  # the data stays what it was; None would be an edit to `null`
KEPT = ("name", "inside", "kind", "seq", "status", "result_json", "blob_id", "size", "error", "attempt", "tries")
TIMES, INPUT = ("started_at", "finished_at"), ("input_hash", "input_text")


def cancel(run: Run, *, by: "User | None", reason: str = "") -> bool:
    """End a run: at once when no worker holds it (True), else at its next step (False). Raises Ended."""
    reason = reason_of(reason, NotValid)
    with transaction.atomic():
        held = hold(run.pk)
        now = clock.now()
        if held.has_ended:
            raise Ended(status=held.status)
        if held.status == Status.RUNNING:
            Run.objects.filter(pk=held.pk).update(cancel_requested_at=now, ended_by=held.ended_by or by)
            Audit.write("ask to cancel", held, by=by, reason=reason)
            changed("runs", id=held.pk)
            return False
        endings.cancel_now(held, now, by=by, reason=reason or "cancelled")
    return True


def hold(run_id: int) -> Run:
    """The run, its row held until the transaction ends."""
    return Run.objects.select_for_update(of=("self",), no_key=True).select_related("event", "trigger").get(pk=run_id)


def rerun(
    run: Run,
    *,
    by: "User | None",
    from_step: str | None = None,
    reason: str = "",
    send_again: Sequence[str] = (),
    data: Any = UNCHANGED,
) -> Run:
    """Start a new run for the same event, linked to `run`; steps before `from_step` are kept (None: none).

    `send_again` names the steps whose effect may happen a second time; `data` takes the place of the event's.
    An open letter of `run` is settled with it: nobody runs the same failure a second time.
    Raises NotEnded, PayloadGone, or NotValid for an unknown step."""
    reason = reason_of(reason, NotValid)
    with transaction.atomic():
        old = hold(run.pk)
        if not old.has_ended:
            raise NotEnded(status=old.status)
        check_names(old, send_again)
        new = again(old, by=by, send_again=send_again, data=data)
        edited = data is not UNCHANGED
        if from_step is not None:
            keep_steps(old, new, from_step, compare_input=not edited)
        letters = DeadLetter.objects.select_for_update(of=("self",), no_key=True).filter(run=old, status="open")
        for letter in letters.order_by("pk"):
            settle(letter, "redrive", by=by, redriven_as=new, reason=reason)
        Audit.write("run again", old, by=by, reason=reason, as_run=new.pk, from_step=from_step, edited=edited)
    return new


def kin_of(run: Run) -> RunQuerySet:
    """The first run of its chain and all that repeat it: they work on the same event."""
    return Run.objects.filter(Q(pk=run.origin_id) | Q(origin=run.origin_id), event_id=run.event_id)


def check_names(run: Run, send_again: Sequence[str]) -> None:
    """Every name is one of a step or an act of this run, or of a run it repeats. Raises NotValid naming the others."""
    if not send_again:
        return
    kin = kin_of(run)
    known = {
        *Step.objects.filter(run__in=kin).values_list("name", flat=True),
        *(name for names in registry.act_names for name in names(kin)),
    }
    known.update(DeadLetter.objects.filter(run__in=kin).values_list("step", flat=True))  # one that failed has no row
    unknown = [name for name in send_again if name not in known]
    if unknown:
        raise NotValid(f"run {run.pk} has no step “{'”, “'.join(unknown)}”", field="send_again", steps=unknown)


def again(old: Run, *, by: "User | None", send_again: Sequence[str] = (), data: Any = UNCHANGED) -> Run:
    edited = old.data_json if data is UNCHANGED else json.dumps(data, ensure_ascii=False)
    return start(
        old.event,
        old.trigger,
        old.handler,
        by=by,
        rerun_of=old,
        origin=old.origin_id,
        send_again=list(send_again),
        data_json=edited,
    )


def start(event: Event, trigger: Trigger | None, handler: str, *, by: "User | None", **fields: Any) -> Run:
    """A new queued run; its bell rings after the commit. Raises PayloadGone when retention was faster."""
    now = clock.now()
    code = registry.HANDLERS.get(handler)
    run = Run.objects.create(
        event=event,
        trigger=trigger,
        handler=handler,
        handler_version=code.version if code else "",
        priority=trigger.priority if trigger else 5,
        queued_at=now,
        due_at=now,
        rung_at=now,
        requester=by,
        **fields,
    )
    if run.data_json == "":
        raise PayloadGone("What a person made of the event's data was removed by the rule of retention.")
    if run.data_json is None and (gone := emptied(run)) is not None:
        raise PayloadGone(f"The payload of E-{gone} was removed by the rule of retention: nothing to run with.")
    bells.ring_on_commit([run.pk])
    changed("runs", id=run.pk)
    changed("events", id=event.pk)
    return run


def emptied(run: Run) -> int | None:
    """The first of its events, or of those gathered into the run it repeats, whose payload is gone.

    Asked after the run holds them: from here on retention leaves them alone."""
    gathered = Event.objects.filter(gathered__run=run.origin_id).order_by("pk")
    held = gathered.select_for_update(of=("self",), no_key=True).values_list("pk", flat=True) if run.origin else ()
    events = {run.event_id, *held}
    gone = Event.objects.filter(pk__in=events, pruned_at__isnull=False)
    return gone.order_by("pk").values_list("pk", flat=True).first()


def keep_steps(old: Run, new: Run, from_step: str, *, compare_input: bool) -> None:
    """Copy what the old run remembers from before `from_step`, so that it is not computed again."""
    refuse_pruned(old)
    steps = list(old.steps.order_by("seq"))
    names = [step.name for step in steps]
    cut = names.index(from_step) if from_step in names else None
    if cut is None:
        raise NotValid(f"run {old.pk} has no step “{from_step}”", steps=names)
    copy(steps[:cut], new, compare_input=compare_input)


def refuse_pruned(run: Run) -> None:
    """No step is kept of a run whose memory is gone."""
    if run.pruned_at is not None:
        raise PayloadGone(f"What R-{run.pk} remembered was removed by the rule of retention: run it from the start.")


def copy(steps: Iterable[Step], run: Run, *, compare_input: bool) -> None:
    """Write the same memory for another run, without what is to be sent again; edited data changes what steps are
    asked with, so that is not compared."""
    fields = (*KEPT, *TIMES, *INPUT) if compare_input else (*KEPT, *TIMES)
    ended = [step for step in before_undone(steps) if step.status != "started"]
    kept = [step for step in ended if step.name not in run.send_again]
    Step.objects.bulk_create(Step(**{name: getattr(step, name) for name in fields}, run=run, fence=0) for step in kept)


def before_undone(steps: Iterable[Step]) -> Iterator[Step]:
    """Those before the first whose effect was undone: what came after it rests on something that is gone."""
    gone: set[str] | None = None
    for step in steps:
        if gone is None:
            gone = set().union(*(names(step.run) for names in registry.undone_steps))
        if step.name in gone:
            return
        yield step


def redrive(
    letter: DeadLetter,
    *,
    by: "User | None",
    data: Any = UNCHANGED,
    from_: str = "failed_step",
    send_again: Sequence[str] = (),
    reason: str = "",
) -> Run | None:
    """Run a dead letter again, once: from its failed step (what came before is kept) or from the start.

    `data` takes the place of the event's, which stays as it is; `send_again` names the steps whose effect may happen
    a second time. Returns the new run; None when it is an event's letter: that is matched anew. Raises AlreadySettled
    when it was run again or dismissed already, NotEnded while its run is still at work, PayloadGone, and NotValid in
    words when it cannot be run again at all."""
    reason = reason_of(reason, NotValid)
    if from_ not in ("failed_step", "start"):
        raise NotValid("`from` is failed_step or start")
    if letter.kind == "event":
        match_again(letter, by=by, data=data, reason=reason)
        return None
    if letter.run_id is None:
        raise NotValid("No run asked for this action, so there is none to start again; propose the action anew.")
    with transaction.atomic():
        old = hold(letter.run_id)
        letter = DeadLetter.objects.get(pk=letter.pk)
        if letter.run_id != old.pk:
            raise AlreadySettled(status="redriven")  # and failed again: this is another failure by now
        if letter.status != "open":
            raise AlreadySettled(status=letter.status)
        if not old.has_ended:
            raise NotEnded(status=old.status, run=old.pk)
        check_names(old, send_again)
        taken = taken_up(letter, send_again, by)  # holds an action, and that comes before its letter, as everywhere
        letter = DeadLetter.objects.select_for_update(of=("self",), no_key=True).get(pk=letter.pk)
        new = taken or again(old, by=by, send_again=send_again, data=data)
        edited = data is not UNCHANGED
        if taken is None and from_ == "failed_step":
            refuse_pruned(old)
            gone_by = Q(status="failed", kind="wait") & ~Q(name=letter.step)  # nobody waits for those once more
            copy(old.steps.filter(Q(status="done") | gone_by).order_by("seq"), new, compare_input=not edited)
        settle(letter, "redrive", by=by, redriven_as=new, reason=reason)
        Audit.write("redrive", letter, by=by, as_run=new.pk, from_=from_, edited=edited, reason=reason)
    return new


def match_again(letter: DeadLetter, *, by: "User | None", data: Any, reason: str) -> None:
    """An event that was refused by its schema or a middleware is asked again, by the rules of now.

    `data` takes the place of what was sent; the exact bytes stay. Whoever admits it counts as one who asked."""
    edits = {} if data is UNCHANGED else {"data_json": json.dumps(data, ensure_ascii=False)}
    assert letter.event is not None
    with transaction.atomic():
        event = Event.objects.select_for_update(of=("self",), no_key=True).get(pk=letter.event.pk)
        letter = DeadLetter.objects.select_for_update(of=("self",), no_key=True).get(pk=letter.pk)
        settle(letter, "redrive", by=by, reason=reason)
        if event.pruned_at is not None and not edits:
            raise PayloadGone(
                f"The payload of E-{event.pk} was removed by the rule of retention; it must be sent anew."
            )
        if not Event.objects.filter(pk=event.pk, status="invalid").update(status="accepted", outcomes=[], **edits):
            raise NotValid(f"E-{event.pk} is {event.status} by now: run it again from its own page.")
        Audit.write("redrive", letter, by=by, event=event.pk, reason=reason, edited=bool(edits))
        transaction.on_commit(lambda: match_stored([event.pk]), robust=True)
        changed("events", id=event.pk)


def taken_up(letter: DeadLetter, send_again: Sequence[str], by: "User | None") -> Run | None:
    """The run that goes on with what this letter is about in a way of its own, without a new run."""
    return next((run for take in registry.taken_up if (run := take(letter, send_again, by))), None)


def dismiss(letter: DeadLetter, *, by: "User | None", reason: str) -> None:
    """Close a dead letter without running it; the reason is kept. Raises AlreadySettled, NotValid."""
    reason = reason_of(reason, NotValid)
    if not reason:
        raise NotValid("say why it may be dismissed")
    with transaction.atomic():
        letter = DeadLetter.objects.select_for_update(of=("self",), no_key=True).get(pk=letter.pk)
        settle(letter, "dismiss", by=by, reason=reason)
        Audit.write("dismiss", letter, by=by, reason=reason)


def settle(letter: DeadLetter, verb: str, *, by: "User | None", **fields: Any) -> None:
    try:
        letter.move(verb, settled_by=by, settled_at=clock.now(), **fields)
    except IllegalMove as error:
        raise AlreadySettled(status=letter.status) from error
    changed("dead_letters", id=letter.pk)


def run_event_again(event: Event, trigger: Trigger, *, by: "User | None") -> Run:
    """Start `trigger`'s handler for a stored event, also for a duplicate; a re-run when it ran before.

    Raises NotEnded while that run is at work, NotValid for an event whose triggers were not asked yet."""
    with transaction.atomic():
        # The trigger before the event, as everywhere.
        trigger = Trigger.objects.select_for_update(of=("self",), no_key=True).get(pk=trigger.pk)
        event = Event.objects.select_for_update(of=("self",), no_key=True).get(pk=event.pk)
        if event.status == "accepted":
            raise NotValid("This event is about to be matched; try again in a few seconds.", status=event.status)
        before = Run.objects.filter(event=event, trigger=trigger).order_by("-pk").first()
        if before is None:
            run = start(event, trigger, trigger.handler, by=by)
        elif before.status not in ENDED:
            raise NotEnded(status=before.status, run=before.pk)
        else:
            run = again(before, by=by)
        Audit.write("run again", event, by=by, as_run=run.pk, trigger=trigger.slug)
    return run
