"""Who asked for an action: computed by the desk from its own rows, never taken from what a handler says."""

from triggers.models import Audit, Run


def chain(run: Run, *, four_eyes: bool) -> list[int]:
    """Ids of the people behind `run`: who rang, ran it again, edited or cancelled it (what is undone then was asked for
    by that); with `four_eyes` also who owns its trigger
    and who changed it since the trigger's last run. Nearest first."""
    people = [*(row.requester_id for row in ancestry(run)), run.event.requester_id, *who_ended(run)]
    if four_eyes and run.trigger is not None:
        people.append(run.trigger.owner_id)
        if changed_since_last_run(run):
            people.append(run.trigger.changed_by_id)
    return list(dict.fromkeys(person for person in people if person is not None))


def who_ended(run: Run) -> list[int]:
    """Whoever cancelled it, or asked a worker to."""
    deeds = Audit.objects.filter(kind="run", ref=str(run.pk), verb__in=["cancel", "ask to cancel"]).exclude(by=None)
    return list(deeds.order_by("pk").values_list("by_id", flat=True)) if run.has_ended else []


def ancestry(run: Run) -> list[Run]:
    """The run, the one it repeats, and so on."""
    rows = [run]
    while (before := rows[-1].rerun_of) is not None and len(rows) < 100:
        rows.append(before)
    return rows


def changed_since_last_run(run: Run) -> bool:
    trigger = run.trigger
    if trigger is None:
        return False
    before = Run.objects.filter(trigger=trigger, pk__lt=run.pk).order_by("-pk").values_list("queued_at", flat=True)
    last = before.first()
    return last is None or trigger.changed_at > last
