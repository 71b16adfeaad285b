"""Why a run that could start does not: the words for its page, from the limits of its trigger and the breaker."""

from datetime import datetime

from triggers.models import Breaker, Run, Slot, Switch
from triggers.views.now import Now

MOST_SHOWN = 50  # numbers of gathered events on a run's page


def hold_of(run: Run, now: datetime) -> Now | None:
    """What holds `run` back besides the switches; None: only that no worker was free yet."""
    if run.cancel_requested_at:
        return Now("warn", "circle-slash", "Ends within seconds.", "It had to give way before it could start.")
    return held_by_breaker(run) or held_by_time(run, now) or held_by_slots(run)


def brief_of(run: Run, now: datetime) -> str:
    """What holds it, in a few words; the switches too."""
    if Switch.objects.holding(handler=run.handler, source=run.event.source_slug).exists():
        return "paused"
    if run.trigger and run.trigger.mode == "paused":
        return "its trigger is paused"
    hold = hold_of(run, now)
    return hold.brief if hold else "no worker has taken it yet"


def held_by_breaker(run: Run) -> Now | None:
    held = Breaker.objects.open().filter(handler=run.handler).exclude(probe=run.pk).first()
    if held is None:
        return None
    said = (
        f"{held.failures} runs of {run.handler} gave up in a row. Then one run tries; when it gets through, "
        "this one starts too. Nothing is lost meanwhile."
    )
    button = "See the handler"
    brief = f"held by the breaker of {run.handler}"
    lead = "Held by the breaker until"
    return Now("warn", "zap-off", lead, said, held.until, link="handler", button=button, brief=brief)


def held_by_time(run: Run, now: datetime) -> Now | None:
    if run.due_at <= now or run.status != "queued":
        return None
    if run.gather_key is not None and run.started_at is None:
        said = "It starts when no further event has come for a while, with all that came."
        return Now("wait", "combine", "Gathers events until", said, run.due_at, brief="gathers events")
    if run.not_before is not None and run.started_at is None:
        rate = run.flow.rate_limit
        said = f"Its trigger starts {rate.limit} runs in {rate.period:g} s." if rate else ""
        button, brief = "Open the trigger", "held by the rate of its trigger"
        return Now("wait", "gauge", "Its turn comes at", said, run.due_at, link="trigger", button=button, brief=brief)
    return None


def held_by_slots(run: Run) -> Now | None:
    busy = run.flow.concurrency
    if busy is None:
        return None
    at_work = Slot.objects.filter(trigger=run.trigger_id, key=run.slot_key or "").exclude(run=run).count()
    if at_work < busy.limit:
        return None
    which = f" for “{run.slot_key}”" if run.slot_key and busy.key else ""
    others = f"{at_work} runs of its trigger are" if at_work > 1 else "A run of its trigger is"
    said = f"{others} at work{which}, and no more may be. It starts when one is done."
    button = "Open the trigger"
    return Now("wait", "layers", "Waits for a slot.", said, link="trigger", button=button, brief="waits for a slot")
