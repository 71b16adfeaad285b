"""Run, wait, action, two workers, a desk and a tick, in any order a night may bring: I1 to I9 hold after every step.

NIGHTDESK_EXAMPLES and NIGHTDESK_STEPS make it long; `make races` does."""

from contextlib import ExitStack, suppress

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from approvals import clearing, decide
from approvals.models import Action
from project.lib.problem import Problem
from tests.model import invariants
from tests.model.walking import walks
from tests.model.world import MOODS, PARTS, RELEASES, World, opened
from tests.nodding import say
from triggers import pausing, redrive, retention
from triggers.models import DeadLetter, Run
from triggers.models.run import ENDED
from triggers.unblock import unblock

pytestmark = pytest.mark.django_db(transaction=True)
LONG = walks(examples=12, steps=30)
WORKERS = st.sampled_from(["one", "two"])
PLACES = st.integers(1, 8)  # a process passes before it stops
NUMBERS = st.integers(0, 7)
PLANS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=4)
SUBJECTS = st.sampled_from(["s-1", "s-2"])


class Night(RuleBasedStateMachine):
    """What may happen at a desk while everybody sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.memory = invariants.Memory()
        self.events = 0
        self.runs: set[str] = set()  # statuses that some run has now
        self.actions: set[str] = set()
        self.month_is_over = False

    @initialize(plans=st.lists(PLANS, min_size=2, max_size=2))
    def the_desk_opens(self, plans: list[list[str]]) -> None:
        self.world: World = self.stack.enter_context(opened())
        for plan in plans:
            self.an_order_comes(plan, "s-1", rush=False)

    def teardown(self) -> None:
        with self.stack:
            if hasattr(self, "world"):
                self.in_the_end_everything_is_done()

    # What comes in

    @precondition(lambda self: self.events < 6)
    @rule(plan=PLANS, subject=SUBJECTS, rush=st.booleans())
    def an_order_comes(self, plan: list[str], subject: str, rush: bool) -> None:
        self.events += 1
        self.world.ring("shop.rush" if rush else "shop.order", subject, f"order-{self.events}", plan=plan)

    @rule()
    def the_last_order_comes_again(self) -> None:
        self.world.ring("shop.order", "s-1", f"order-{self.events}", plan=["step"])

    @rule(subject=SUBJECTS)
    def a_payment_comes(self, subject: str) -> None:
        self.events += 1
        self.world.ring("shop.paid", subject, f"payment-{self.events}")

    # Workers

    @rule(who=WORKERS, places=PLACES)
    def a_worker_takes_up_a_run(self, who: str, places: int) -> None:
        if self.world.start(who):
            self.world.go(who, places)

    @precondition(lambda self: self.actions & {"approved", "unknown", "delivering"})
    @rule(places=PLACES)
    def the_desk_makes_its_round_of_deliveries(self, places: int) -> None:
        self.world.start_delivering()
        self.world.go("desk", places)

    @precondition(lambda self: self.world.busy())
    @rule(number=NUMBERS, places=PLACES)
    def a_process_goes_on(self, number: int, places: int) -> None:
        self.world.go(self.someone(number), places)

    @precondition(lambda self: self.world.busy())
    @rule(number=NUMBERS, inside=st.booleans())
    def a_process_is_killed(self, number: int, inside: bool) -> None:
        self.world.kill(self.someone(number), inside=inside)

    @precondition(lambda self: self.world.busy())
    @rule(number=NUMBERS)
    def a_machine_stands_still_until_its_leases_are_over(self, number: int) -> None:
        self.world.forsake(self.someone(number))
        self.world.lose_leases()

    @precondition(lambda self: self.world.zombies)
    @rule(number=NUMBERS, places=PLACES)
    def a_machine_that_stood_still_goes_on(self, number: int, places: int) -> None:
        self.world.zombies[number % len(self.world.zombies)].go(places)

    def someone(self, number: int) -> str:
        busy = self.world.busy()
        return busy[number % len(busy)]

    @rule()
    def the_workers_do_all_they_can(self) -> None:
        for who in ("one", "two"):
            while self.world.start(who) or not self.world.is_free(who):
                self.world.workers[who].finish()

    # Time

    @rule(seconds=st.sampled_from([1, 6, 46, 700, 4000, 90_000]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds=seconds)

    @rule()
    def the_clock_ticks(self) -> None:
        self.world.tick()
        invariants.nothing_due_is_left_alone()

    @precondition(lambda self: not self.month_is_over and self.events > 4)
    @rule()
    def a_month_passes_and_what_is_old_goes(self) -> None:
        self.month_is_over = True
        self.world.pass_time(days=31)
        retention.prune()

    # The world outside, and the code

    @rule(mood=st.sampled_from(MOODS))
    def the_far_side_will_misbehave(self, mood: str) -> None:
        self.world.far.moods.append(mood)

    @rule(release=st.sampled_from(RELEASES))
    def other_code_is_deployed(self, release: str) -> None:
        self.world.release = release

    # People

    @precondition(lambda self: "awaiting" in self.actions)
    @rule(
        number=NUMBERS, verdict=st.sampled_from(["approve", "approve", "reject"]), who=st.sampled_from(["ann", "ben"])
    )
    def somebody_decides(self, number: int, verdict: str, who: str) -> None:
        action = self.world.pick(Action.objects.awaiting(), number)
        if action is not None:
            with suppress(Problem):
                say(action, getattr(self.world, who), verdict)

    @precondition(lambda self: "approved" in self.actions)
    @rule(number=NUMBERS, who=st.sampled_from(["ann", "ben"]))
    def somebody_takes_a_yes_back(self, number: int, who: str) -> None:
        action = self.world.pick(Action.objects.filter(status="approved"), number)
        if action is not None:
            with suppress(Problem):
                decide.take_back(action, by=getattr(self.world, who))

    @precondition(lambda self: self.actions & {"awaiting", "approved"})
    @rule(number=NUMBERS)
    def somebody_withdraws_an_action(self, number: int) -> None:
        action = self.world.pick(Action.objects.all(), number)
        if action is not None:
            with suppress(Problem):
                decide.cancel(action, by=self.world.owner)

    @precondition(lambda self: "unknown" in self.actions)
    @rule(number=NUMBERS, status=st.sampled_from(["delivered", "not_sent", "failed"]))
    def somebody_says_what_became_of_it(self, number: int, status: str) -> None:
        action = self.world.pick(Action.objects.filter(status="unknown"), number)
        if action is not None:
            with suppress(Problem):
                clearing.settle_unknown(action, by=self.world.ann, status=status, note="looked")

    @precondition(lambda self: self.runs - {*ENDED})
    @rule(number=NUMBERS)
    def somebody_cancels_a_run(self, number: int) -> None:
        run = self.world.pick(Run.objects.live(), number)
        if run is not None:
            redrive.cancel(run, by=self.world.owner)

    @precondition(lambda self: self.runs & {*ENDED})
    @rule(number=NUMBERS, keep=st.booleans())
    def somebody_runs_it_again(self, number: int, keep: bool) -> None:
        run = self.world.pick(Run.objects.filter(status__in=ENDED), number)
        if run is not None:
            last = run.steps.order_by("-seq").values_list("name", flat=True).first() if keep else None
            with suppress(Problem):
                redrive.rerun(run, by=self.world.owner, from_step=last)

    @precondition(lambda self: "dead" in self.runs)
    @rule(number=NUMBERS, dismiss=st.booleans())
    def somebody_settles_a_dead_letter(self, number: int, dismiss: bool) -> None:
        letter = self.world.pick(DeadLetter.objects.open(), number)
        if letter is not None:
            with suppress(Problem):
                if dismiss:
                    redrive.dismiss(letter, by=self.world.owner, reason="known")
                else:
                    redrive.redrive(letter, by=self.world.owner)

    @precondition(lambda self: "blocked" in self.runs)
    @rule(number=NUMBERS, choice=st.sampled_from(["continue", "restart", "cancel"]))
    def somebody_chooses_for_a_blocked_run(self, number: int, choice: str) -> None:
        run = self.world.pick(Run.objects.filter(status="blocked"), number)
        if run is not None:
            with suppress(Problem):
                unblock(run, by=self.world.owner, choice=choice)

    @rule(on=st.booleans(), scope=st.sampled_from([("all", ""), ("handler", "story"), ("kind", "model.low")]))
    def somebody_throws_the_switch(self, on: bool, scope: tuple[str, str]) -> None:
        (pausing.resume if on else pausing.pause)(*scope, by=self.world.owner)

    # What holds after every step

    @invariant()
    def the_promises_hold(self) -> None:
        if hasattr(self, "world"):
            invariants.hold(self.memory)
            invariants.a_key_is_applied_at_most_once(self.world.far.book)
            self.nobody_was_told_two_things()
            self.runs = set(Run.objects.values_list("status", flat=True).distinct())
            self.actions = set(Action.objects.values_list("status", flat=True).distinct())

    def nobody_was_told_two_things(self) -> None:
        split = {place: said for place, said in self.world.told.items() if len(set(said)) > 1}
        assert not split, split

    def in_the_end_everything_is_done(self) -> None:
        """Liveness: once nothing breaks any more, every run ends, and those that succeeded replay."""
        world = self.world
        for scope in (("all", ""), ("handler", "story"), ("kind", "model.low")):
            pausing.resume(*scope, by=world.owner)
        world.come_to_rest()
        self.the_promises_hold()
        invariants.none_of(Run.objects.live())
        release = world.release
        for run in Run.objects.filter(status="succeeded", pruned_at=None):
            world.release = world.began_under[run.pk]
            invariants.a_finished_run_replays_without_a_new_step(run)
        world.release = release


def test_whatever_happens_in_a_night_the_promises_hold() -> None:
    run_state_machine_as_test(Night, settings=LONG)
