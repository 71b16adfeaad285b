"""Why a run that could start does not: the words for its page, from the limits of its trigger and the breaker."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from triggers.hearing import STATE_LEFT
from triggers.models import Breaker, Run, Slot, Switch
from triggers.views.now import Now

MOST_SHOWN = 50  # numbers of gathered events on a run's page


@dataclass(frozen=True, slots=True)
class Around:
    """What may hold runs back, asked once for all of them."""

    off: frozenset[tuple[str, str]]  # scope and name of the switches
    breakers: Mapping[str, Breaker]
    slots: Sequence[Slot]

    @classmethod
    def of(cls, runs: Iterable[Run]) -> "Around":
        counted = {run.trigger_id for run in runs if run.flow.concurrency}
        return cls(
            frozenset(Switch.objects.off().values_list("scope", "name")),
            {breaker.handler: breaker for breaker in Breaker.objects.open()},
            list(Slot.objects.filter(trigger__in=counted)) if counted else (),
        )

    def is_off(self, run: Run) -> bool:
        mine = {("handler", run.handler), ("source", run.event.source_slug)}
        return any(scope == "all" or (scope, name) in mine for scope, name in self.off)


def hold_of(run: Run, now: datetime, around: Around | None = None) -> Now | None:
    """What holds `run` back besides the switches; None: only that no worker was free yet."""
    around = around or Around.of([run])
    if run.cancel_requested_at:
        left = run.cancel_reason == STATE_LEFT
        said = "Its agent left the state that had started it." if left else "It had to give way before it could start."
        return Now("warn", "circle-slash", "Ends within seconds.", said, brief="ends within seconds")
    return held_by_breaker(run, around) or held_by_time(run, now) or held_by_slots(run, around)


def brief_of(run: Run, now: datetime, around: Around | None = None) -> str:
    """What holds it, in a few words; the switches too."""
    around = around or Around.of([run])
    if around.is_off(run):
        return "paused"
    if run.trigger and run.trigger.mode == "paused":
        return "its trigger is paused"
    hold = hold_of(run, now, around)
    return hold.brief if hold else "no worker has taken it yet"


def briefs_of(runs: Iterable[Run], now: datetime) -> dict[int, str]:
    """`brief_of` each of them that is queued, by its number."""
    queued = [run for run in runs if run.status == "queued"]
    around = Around.of(queued)
    return {run.pk: brief_of(run, now, around) for run in queued}


def held_by_breaker(run: Run, around: Around) -> Now | None:
    held = around.breakers.get(run.handler)
    if held is None or held.probe_id == run.pk:
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


def held_by_slots(run: Run, around: Around) -> Now | None:
    busy = run.flow.concurrency
    if busy is None:
        return None
    place = (run.trigger_id, run.slot_key or "")
    at_work = sum((slot.trigger_id, slot.key) == place and slot.run_id != run.pk for slot in around.slots)
    if at_work < busy.limit:
        return None
    which = f" for “{run.slot_key}”" if run.slot_key and busy.key else ""
    others = f"{at_work} runs of its trigger are" if at_work > 1 else "A run of its trigger is"
    said = f"{others} at work{which}, and no more may be. It starts when one is done."
    button = "Open the trigger"
    return Now("wait", "layers", "Waits for a slot.", said, link="trigger", button=button, brief="waits for a slot")
