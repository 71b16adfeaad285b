"""The table of moves, walked at random: people, ticks, faults and time in any order keep what was promised."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from approvals import clearing, decide, deliver, outcomes
from approvals.act import act
from approvals.errors import ApprovalProblem, NotSent, OutcomeUnknown, Refused
from approvals.models import Action, Attempt
from approvals.models.action import SETTLED
from project.lib import clock
from project.people import roles
from tests import builders
from tests.conftest import person
from tests.handlers import registered, work
from tests.nodding import say, serving, settle
from triggers.models import DeadLetter, Event, Run, Switch

FAULTS = st.sampled_from([None, NotSent("down"), Refused("422"), OutcomeUnknown("timeout"), ValueError("bug")])


class Lifecycle(RuleBasedStateMachine):
    """One action of one run; whatever happens to it, the promises below hold after every step."""

    safety: Any = "probe"

    @initialize(tier=st.sampled_from(["low", "medium", "high"]), needed=st.integers(1, 2))
    def ask(self, tier: str, needed: int) -> None:
        clock.shift = timedelta(0)
        self.block = transaction.atomic()  # each walk in a transaction of its own
        self.block._from_testcase = True  # no part of the story: `durable` overlooks it like the one around a test
        self.block.__enter__()
        self.ann = person("ann", *roles.ROLES)
        self.ben = person("ben", *roles.ROLES)
        builders.connection("shop", practice=False)
        self.world = serving(tier, self.safety, take_back=timedelta(seconds=10))
        self.shop = self.world.__enter__()
        self.code = registered("story", lambda run: act(run, "order", kind="shop.order", key="k"))
        self.code.__enter__()
        self.run = builders.run("story")
        work()
        Action.objects.filter(tier__in=["medium", "high"]).update(needed=needed)
        self.was_settled: str = ""
        self.flying: list[Attempt] = []

    def teardown(self) -> None:
        clock.shift = timedelta(0)
        if hasattr(self, "world"):
            self.code.__exit__(None, None, None)
            self.world.__exit__(None, None, None)
            transaction.set_rollback(True)
            self.block.__exit__(None, None, None)

    @property
    def action(self) -> Action:
        return Action.objects.get()

    @rule(who=st.sampled_from(["ann", "ben"]), verdict=st.sampled_from(["approve", "approve", "approve", "reject"]))
    def somebody_decides(self, who: str, verdict: str) -> None:
        with suppress(ApprovalProblem):
            say(self.action, getattr(self, who), verdict, reason="because", stepped_up=True)

    @rule(who=st.sampled_from(["ann", "ben"]), deed=st.sampled_from(["take_back", "cancel"]))
    def somebody_stops_it(self, who: str, deed: str) -> None:
        with suppress(ApprovalProblem):
            getattr(decide, deed)(self.action, by=getattr(self, who))

    @rule(status=st.sampled_from(["delivered", "not_sent", "failed"]))
    def somebody_settles_it(self, status: str) -> None:
        with suppress(ApprovalProblem):
            clearing.settle_unknown(self.action, by=self.ann, status=status, note="x", proof=lambda: True)

    @rule(seconds=st.sampled_from([1, 11, 46, 700, 4000, 90_000]))
    def time_passes(self, seconds: int) -> None:
        clock.shift += timedelta(seconds=seconds)

    @rule(fault=FAULTS, before=st.booleans())
    def the_far_side_will_misbehave(self, fault: Exception | None, before: bool) -> None:
        self.shop.faults, self.shop.before_fault = [fault], before

    @rule()
    def the_desk_works(self) -> None:
        settle(2)

    @rule()
    def a_worker_takes_it_and_is_slow(self) -> None:
        action = self.action
        attempt = deliver.start(action.pk, action.tries)
        if attempt is not None:
            self.flying.append(attempt)

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def a_slow_worker_reports(self, data: st.DataObject) -> None:
        attempt = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1)))
        outcomes.record(attempt, deliver.call(attempt))

    @precondition(lambda self: self.flying)
    @rule()
    def a_slow_worker_dies_after_the_call(self) -> None:
        deliver.call(self.flying.pop())

    @rule(paused=st.booleans())
    def somebody_throws_the_switch(self, paused: bool) -> None:
        Switch.objects.update_or_create(scope="all", name="", defaults={"paused": paused, "at": clock.now()})

    @rule()
    def somebody_changes_the_row(self) -> None:
        action = self.action
        if action.status in ("awaiting", "approved"):
            Action.objects.filter(pk=action.pk).update(canonical=action.canonical.replace('"cups":1', '"cups":9'))

    # What holds after every step

    @invariant()
    def no_yes_no_effect(self) -> None:
        if not hasattr(self, "shop") or not self.shop.sent:
            return
        action = self.action
        if action.tier == "low":
            return
        for attempt in action.attempts.all():
            yeses = action.decisions.filter(verdict="approve", revision=attempt.revision).values("by").distinct()
            assert yeses.count() >= action.needed

    @invariant()
    def at_most_one_effect(self) -> None:
        if hasattr(self, "shop"):
            assert len(self.shop.done) <= 1

    @invariant()
    def what_happened_is_what_was_shown(self) -> None:
        for order in getattr(self, "shop", None).done.values() if hasattr(self, "shop") else ():
            assert order.cups == self.action.arguments["cups"]

    @invariant()
    def settled_is_told_once_and_stays(self) -> None:
        if not hasattr(self, "shop"):
            return
        action = self.action
        told = Event.objects.filter(type="approvals.action.settled").count()
        assert told == (1 if action.status in SETTLED else 0)
        if self.was_settled:
            late_truth = self.was_settled == "failed" and action.status == "delivered"
            assert action.status == self.was_settled or late_truth
        self.was_settled = action.status if action.status in SETTLED else ""

    @invariant()
    def a_failure_has_a_letter(self) -> None:
        if hasattr(self, "shop") and self.action.status == "failed":
            assert DeadLetter.objects.filter(kind="action", action_id=self.action.pk).exists()

    @invariant()
    def delivered_means_it_happened_or_a_person_said_so(self) -> None:
        if hasattr(self, "shop") and self.action.status == "delivered":
            assert self.shop.done or self.action.ended_by_id


STEPS = settings(
    max_examples=12, stateful_step_count=18, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


@pytest.mark.django_db
@pytest.mark.parametrize("safety", ["probe", "keyed", "unsafe"])
def test_whatever_happens_in_whatever_order(safety: str) -> None:
    machine = type("Walk", (Lifecycle,), {"safety": safety})
    run_state_machine_as_test(machine, settings=STEPS)


@pytest.mark.django_db
def test_every_run_ends_when_its_action_is_settled(ann: Any, ben: Any) -> None:
    """Whatever the end is, the waiting run is woken by it."""
    builders.connection("shop", practice=False)
    with serving() as shop, registered("story", lambda run: act(run, "order", kind="shop.order")):
        shop.faults = [None, Refused("422")]
        for deed in ("deliver", "fail", "reject", "cancel"):
            run = builders.run("story")
            work()
            action = Action.objects.get(run=run)
            if deed == "cancel":
                decide.cancel(action, by=ann)
            else:
                say(action, ben, "reject" if deed == "reject" else "approve")
            settle()
            ended = Run.objects.get(pk=run.pk)
            assert ended.status == {"deliver": "succeeded", "fail": "dead"}.get(deed, "cancelled")
