"""Three safety properties of approvals, walked by random schedules: people, thieves and far sides move in any order.

1. No grant, no effect: nothing of medium or high starts without a yes of somebody who did not ask for it.
2. What was shown is what runs: the bytes, the code, the credentials and the target are those that were decided on, or
   the yes is void; and a policy that became stricter voids it too.
7. Stop beats go: what was rejected, cancelled, taken back, expired or switched off before a start never starts, and
   what has ended stays ended.

NIGHTDESK_EXAMPLES and NIGHTDESK_STEPS make it long; `make races` does."""

import json
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, run_state_machine_as_test
from hypothesis.stateful import rule as step

from approvals import clearing, decide
from approvals.act import act
from approvals.errors import ApprovalProblem, NotSent, OutcomeUnknown
from approvals.kinds import KINDS, Far, Now
from approvals.models import Action, Connection, PolicyVersion
from approvals.models.action import SETTLED
from approvals.unlogged import unlogged
from project.lib import canonical, clock
from project.people import roles
from project.people.models import User
from tests import builders
from tests.conftest import person
from tests.database import empty_the_database
from tests.handlers import work
from tests.model.walking import walks
from tests.nodding import Order, changed_kind, handling, say, serving, settle
from tests.ruled import rule
from triggers import routing
from triggers.models import Run, Switch

pytestmark = pytest.mark.django_db(transaction=True)
LONG = walks(examples=12, steps=16)
PEOPLE = st.sampled_from(["ann", "ben", "cleo"])
MOODS = st.sampled_from(["ok", "ok", "ok", "busy", "silent", "lost"])
MOVES = st.sampled_from(
    [*["nothing"] * 5, "target", "credentials", "code", "stricter", "arguments", "both", "state", "stop", "take back"]
)
DONE_OR_UNDER_WAY = ("approved", "delivering", "unknown", "delivered")


@dataclass
class World:
    """What is true at this moment, as nobody tells the desk."""

    tea: str = "green"
    moods: list[str] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # promises, as they were broken
    wanted: int = 1  # people that the policy asks for

    def now(self, far: Far, order: Order) -> Now:
        return Now("the shelf", self.tea, {"tea": self.tea})

    def deliver(self, far: Far, order: Order, key: str) -> dict[str, Any]:
        self.look(order)
        mood = self.moods.pop(0) if self.moods else "ok"
        if mood == "busy":
            raise NotSent("busy")
        if mood != "lost" and key not in self.effects:
            self.effects.append(key)
        if mood != "ok":
            raise OutcomeUnknown(mood)
        return {"cups": order.cups}

    def probe(self, far: Far, order: Order, keys: list[str]) -> dict[str, Any] | None:
        return {"cups": order.cups} if any(key in self.effects for key in keys) else None

    def look(self, order: Order) -> None:
        """The call is being made: what must be true of the action behind it?"""
        action = Action.objects.latest("pk")
        yeses = action.decisions.filter(verdict="approve", revision=action.revision).exclude(by=action.requested_by)
        link, frozen = Connection.objects.get(), json.loads(action.canonical)
        truths = {
            "enough people said yes": yeses.values("by").distinct().count() >= self.wanted,
            "they said yes to these bytes": set(yeses.values_list("digest", flat=True)) == {action.digest},
            "the bytes are those": canonical.digest_of_text(action.canonical) == action.digest,
            "they are what is sent": order.model_dump() == frozen["arguments"],
            "the target is where they saw it": frozen["preconditions"]["version"] == self.tea or action.tries > 1,
            "the credentials are the same": frozen["connection_version"] == link.version,
            "the code is the same": frozen["kind_version"] == KINDS["shop.order"].version,
            "nothing stops it": action.status == "delivering" and not Switch.objects.filter(paused=True).exists(),
        }
        self.broken += [promise for promise, holds in truths.items() if not holds]


class Nod(RuleBasedStateMachine):
    """One action, and everybody who may do something to it."""

    def __init__(self) -> None:
        super().__init__()
        self.stack, self.world, self.ended = ExitStack(), World(), ""

    @initialize(tier=st.sampled_from(["medium", "high"]))
    def somebody_asks(self, tier: str) -> None:
        empty_the_database()
        routing.forget()
        self.stack.callback(setattr, clock, "shift", timedelta(0))
        self.people = {name: person(name, *roles.ROLES) for name in ("ann", "ben", "cleo")}
        builders.connection("shop", practice=False)
        back = timedelta(seconds=5)
        self.stack.enter_context(serving(tier=tier, safety="probe", current=self.world.now, take_back=back))
        changed_kind(deliver=self.world.deliver, probe=self.world.probe)
        self.stack.enter_context(handling(lambda run: act(run, "order", kind="shop.order", expires=20_000)))
        self.asked = 0
        self.somebody_asks_anew()

    def teardown(self) -> None:
        self.stack.close()

    @property
    def action(self) -> Action:
        return Action.objects.latest("pk")

    def by(self, name: str) -> User:
        return User.objects.get(pk=self.people[name].pk)

    @precondition(lambda self: self.ended)
    @step()
    def somebody_asks_anew(self) -> None:
        self.asked, self.ended = self.asked + 1, ""
        Switch.objects.all().delete()
        ring = builders.event(requester=self.people["ann"], data={"number": self.asked})
        builders.run("story", event=ring)
        work()

    # What happens between a yes and its start, and anywhere else

    @step(move=MOVES, mood=MOODS)
    def people_nod_and_then(self, move: str, mood: str) -> None:
        for name in ("ben", "cleo"):
            self.somebody_decides(name, "approve")
        self.world.moods = [mood]
        self.something_moves(move)
        self.the_desk_goes_on(6)

    @step(move=MOVES)
    def something_moves(self, move: str) -> None:
        moves = {
            "target": self.the_target_moves,
            "credentials": lambda: Connection.objects.update(version=F("version") + 1),
            "code": lambda: changed_kind(version=KINDS["shop.order"].version + 1),
            "stricter": self.the_policy_gets_stricter,
            "arguments": self.somebody_writes_arguments,
            "both": lambda: self.somebody_writes_arguments(and_digest=True),
            "state": lambda: Action.objects.update(state_json='{"tea": "stolen"}'),
            "stop": lambda: Switch.objects.get_or_create(scope="all", paused=True, defaults={"at": clock.now()}),
            "take back": lambda: self.somebody_takes_it_back("ben"),
        }
        moves.get(move, lambda: None)()

    def the_target_moves(self) -> None:
        self.world.tea += "!"

    def the_policy_gets_stricter(self) -> None:
        if self.world.wanted == 1:
            self.world.wanted = 2
            rule("two", 'action.kind == "shop.order"', quorum=2)
        elif PolicyVersion.newest() < 2:
            rule("high", 'action.kind == "shop.order"', tier="high")

    def somebody_writes_arguments(self, *, and_digest: bool = False) -> None:
        action = self.action
        if action.status not in SETTLED:
            text = canonical.text(json.loads(action.canonical) | {"arguments": {"item": "tea", "cups": 9}})
            digest = canonical.digest_of_text(text) if and_digest else action.digest
            Action.objects.filter(pk=action.pk).update(canonical=text, digest=digest)

    # People

    @step(name=PEOPLE, verdict=st.sampled_from(["approve", "approve", "reject"]))
    def somebody_decides(self, name: str, verdict: str) -> None:
        with suppress(ApprovalProblem):
            say(self.action, self.by(name), verdict, reason="seen", stepped_up=True)

    @step(name=PEOPLE, cups=st.integers(1, 3))
    def somebody_edits(self, name: str, cups: int) -> None:
        with suppress(ApprovalProblem):
            order = {"item": "tea", "cups": cups}
            say(self.action, self.by(name), arguments=order, reason="better so", stepped_up=True)

    def somebody_takes_it_back(self, name: str) -> None:
        with suppress(ApprovalProblem):
            decide.take_back(self.action, by=self.by(name))

    @step()
    def somebody_cancels(self) -> None:
        with suppress(ApprovalProblem):
            decide.cancel(self.action, by=self.by("ann"))

    @step(status=st.sampled_from(["delivered", "not_sent", "failed"]))
    def somebody_settles_a_doubt(self, status: str) -> None:
        with suppress(ApprovalProblem):
            clearing.settle_unknown(self.action, by=self.by("ben"), status=status, note="seen", proof=lambda: True)

    @step()
    def the_switch_is_opened(self) -> None:
        Switch.objects.all().delete()

    # Time, and the desk

    @step(seconds=st.sampled_from([1, 6, 40, 4000]))
    def the_desk_goes_on(self, seconds: int) -> None:
        clock.shift += timedelta(seconds=seconds)
        settle(2)

    # What must hold

    @invariant()
    def no_promise_is_broken(self) -> None:
        assert self.world.broken == []
        assert len({key.partition(".")[0] for key in self.world.effects}) == len(self.world.effects)

    @invariant()
    def nothing_is_under_way_without_a_yes(self) -> None:
        """The nightly question of the property: executions joined with grants, without a grant."""
        for action in Action.objects.filter(status__in=DONE_OR_UNDER_WAY):
            yes = action.decisions.filter(verdict="approve", revision=action.revision)
            assert yes.exclude(by=action.requested_by).exists()
            assert action.given >= action.needed >= 1

    @invariant()
    def the_log_has_all_that_became_of_it(self) -> None:
        """As `verify_audit` asks: the proposal, each word, each try, the end."""
        assert list(unlogged()) == []

    @invariant()
    def what_has_ended_stays_ended(self) -> None:
        status = Action.objects.order_by("-pk").values_list("status", flat=True).first()
        if self.ended and not (self.ended == "failed" and status == "delivered"):  # a late truth
            assert status == self.ended
        self.ended = status if status in SETTLED else ""

    @invariant()
    def a_run_waits_as_long_as_its_action(self) -> None:
        if self.action.status not in SETTLED:
            assert Run.objects.latest("pk").status in ("waiting", "queued", "retrying", "running")


def test_no_schedule_breaks_a_promise():
    run_state_machine_as_test(Nod, settings=LONG)
