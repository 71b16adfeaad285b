"""What holds after every step of the desk, asked of its rows: I1 to I9, one function each.

`Memory` is what an observer remembers of earlier looks; `hold(memory)` asks everything that holds at any moment.
Broken ones raise AssertionError with the rows.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from approvals.models import Action, Attempt
from project.lib import clock
from triggers import dispatch, registry
from triggers.durable import Durable
from triggers.errors import Signal
from triggers.journal import Journal
from triggers.models import Event, Run, Slot, Step, Wait
from triggers.models.run import CLAIMABLE, ENDED

UNDONE = ("awaiting", "approved")  # of an action: nothing was sent, and something still may be
MAY_HAVE_HAPPENED = ("delivering", "unknown", "delivered", "failed")
KEPT = ("kind", "seq", "status", "result_json", "error", "started_at", "finished_at")  # of a finished step


@dataclass
class Memory:
    """What was seen before."""

    fences: dict[int, int] = field(default_factory=dict)
    steps: dict[tuple[int, str], tuple[Any, ...]] = field(default_factory=dict)


def hold(memory: Memory) -> None:
    """Ask whatever must hold at any moment, between two transactions."""
    only_a_running_run_holds_a_lease()
    a_remembered_step_is_never_written_again(memory)
    a_fence_never_falls(memory)
    a_waiting_run_has_something_that_wakes_it()
    nothing_of_an_ended_run_is_open()
    what_may_have_been_sent_is_never_called_unsent()
    every_matched_event_has_its_runs_or_says_why_not()


def none_of(rows: "QuerySet[Any]") -> None:
    found = list(rows.values()[:3])
    assert not found, found


def only_a_running_run_holds_a_lease() -> None:
    """I1: running, a lease and its owner come together and go together."""
    leased = Q(leased_until__isnull=False)
    running = Q(status="running")
    none_of(Run.objects.filter(running & (~leased | Q(lease_owner="")) | ~running & leased))


def a_remembered_step_is_never_written_again(memory: Memory) -> None:
    """I2: one row for a run and name, the same for ever once it is done; only its age may empty it."""
    for row in Step.objects.filter(status="done", run__pruned_at=None).values_list("run_id", "name", *KEPT):
        key, said = (row[0], row[1]), row[2:]
        assert memory.steps.setdefault(key, said) == said, (key, memory.steps[key], said)


def a_fence_never_falls(memory: Memory) -> None:
    """I3."""
    for run_id, fence in Run.objects.values_list("pk", "fence"):
        assert fence >= memory.fences.get(run_id, 0), (run_id, memory.fences[run_id], fence)
        memory.fences[run_id] = fence


def a_waiting_run_has_something_that_wakes_it() -> None:
    """I4: a pending wait, and the time of that wait if it has one; and nobody else has a pending wait."""
    pending = Wait.objects.filter(run=OuterRef("pk"), status="pending")
    waiting = Run.objects.filter(status="waiting")
    none_of(waiting.exclude(Exists(pending)))
    none_of(Run.objects.exclude(status="waiting").filter(Exists(pending)))
    none_of(Wait.objects.filter(status="pending", expires_at__isnull=False).exclude(run__wake_at=F("expires_at")))


def nothing_of_an_ended_run_is_open() -> None:
    """I5: no wait, no place, no action that could still be sent unless another run waits for it."""
    none_of(Wait.objects.filter(status="pending", run__status__in=ENDED))
    none_of(Slot.objects.filter(run__status__in=ENDED))
    live = Run.objects.exclude(status__in=ENDED).filter(acts__action=OuterRef("pk"))
    none_of(Action.objects.filter(status__in=UNDONE, acts__isnull=False).exclude(Exists(live)))


def a_key_is_applied_at_most_once(applied: Iterable[str]) -> None:
    """I6: asked of the far side's own book: which effect happened, each time it did."""
    twice = {key: count for key, count in Counter(applied).items() if count > 1}
    assert not twice, twice


def what_may_have_been_sent_is_never_called_unsent() -> None:
    """I6: a try that happened, or may have, leaves its action delivered, failed, under way or in doubt."""
    sent = Attempt.objects.filter(action=OuterRef("pk"), outcome__in=["sending", "unknown", "delivered"])
    none_of(Action.objects.exclude(status__in=MAY_HAVE_HAPPENED).filter(Exists(sent)))
    happened = Attempt.objects.filter(action=OuterRef("pk"), outcome="delivered")
    none_of(Action.objects.exclude(status="delivered").filter(Exists(happened)))


def every_matched_event_has_its_runs_or_says_why_not() -> None:
    """I7: `routed` has a run for each outcome that matched; any other end has none that did."""
    first = set(Run.objects.filter(rerun_of=None).values_list("event_id", "pk"))
    for event_id, status, outcomes in Event.objects.exclude(status="accepted").values_list("pk", "status", "outcomes"):
        matched = [told for told in outcomes if told["outcome"] == "matched"]
        assert all((event_id, told.get("run")) in first for told in matched), (event_id, status, outcomes)
        assert status == "routed" or not matched, (event_id, status, outcomes)


def nothing_due_is_left_alone() -> None:
    """I8: after a round of tick nobody holds a lease that is over, sleeps beyond his time, waits for what is here,
    or is due without a bell."""
    now = clock.now()
    none_of(Run.objects.lost(now))
    none_of(Run.objects.filter(status="waiting", wake_at__lte=now))
    none_of(Event.objects.unmatched())
    unheard = Q(rung_at=None) | Q(rung_at__lt=now - 2 * dispatch.RING_AGAIN)
    due = Run.objects.due(now).filter(unheard, handler__in=registry.HANDLERS)
    assert due.count() == 0 or Run.objects.filter(status__in=CLAIMABLE, rung_at__gte=now).count() >= dispatch.BELLS


class Replay(Journal):
    """A journal that only remembers: a new step is a broken promise."""

    asked = ""

    def take_name(self, name: str, **how: Any) -> str:
        self.asked = super().take_name(name, **how)
        return self.asked

    def look(self) -> None:
        """Asked before anything is computed."""
        raise AssertionError(f"R-{self.run.pk} asks for “{self.asked}”, which its journal does not hold")

    def hold(self, **how: Any) -> datetime:
        """Asked before anything is written."""
        raise AssertionError(f"R-{self.run.pk} writes “{self.asked}”, which its journal does not hold")


def a_finished_run_replays_without_a_new_step(run: Run) -> None:
    """I9: the handler, given the journal, asks for nothing else and says the same."""
    try:
        told = registry.HANDLERS[run.handler].function(Durable(run, Replay(run)))
    except Signal as signal:
        raise AssertionError(f"R-{run.pk} does not replay: {signal!r}") from signal
    assert told == run.result, (run.pk, told, run.result)
