"""People, rules, clocks and the desk around actions that wait, in any order: what is safe about a nod holds after each
step (no grant, no effect; what was shown is what runs; one decision; silence never approves; authority at the click;
stop beats go; nothing unrecorded).

NIGHTDESK_EXAMPLES and NIGHTDESK_STEPS make it long; `make races` does."""

from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from approvals import clearing, decide, deliver, teams
from approvals.models import Action, Decision
from approvals.models.action import DONE_OR_UNDER_WAY, SETTLED
from project.lib import canonical, clock
from project.lib.problem import Problem
from project.people.models import User
from tests import builders, ruled
from tests.conftest import person
from tests.database import empty_the_database
from tests.model.walking import walks
from tests.nodding import serving
from triggers import pausing
from triggers.models import Audit

pytestmark = pytest.mark.django_db(transaction=True)
LONG = walks(examples=10, steps=40)
NAMES = ("ann", "ben", "cem", "dan")
PEOPLE = st.sampled_from(NAMES)
NUMBERS = st.integers(0, 5)
NEWEST, ANY = st.integers(0, 2), st.integers(0, 40)  # of the screens that are open somewhere
ALL = 'action.kind == "shop.order"'
RULES: dict[str, dict[str, Any]] = {
    "two": {"quorum": 2},
    "finance": {"reviewers": ["finance"]},
    "high": {"tier": "high"},
    "four-eyes": {"four_eyes": True},
    "two-noes": {"quorum": 2, "rejections": 2},
}


class Office(RuleBasedStateMachine):
    """A desk at which four people decide what the first of them, or nobody, has asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.ended: dict[int, str] = {}
        self.rules: set[str] = set()  # in force
        self.gone: set[str] = set()  # that were once
        self.screens: list[tuple[int, str, int]] = []  # what somebody has open, also long ago

    @initialize()
    def the_office_opens(self) -> None:
        self.stack.callback(empty_the_database)
        self.stack.callback(setattr, clock, "shift", timedelta(0))
        self.shop = self.stack.enter_context(serving(take_back=timedelta(seconds=10)))
        self.way = builders.connection("shop", practice=False)
        self.people = {name: person(name, "viewer", "operator", "reviewer") for name in NAMES}
        self.finance = ruled.team("finance", self.people["cem"])
        for high in (False, True):
            self.something_is_asked_for(True, high)

    def teardown(self) -> None:
        self.stack.close()

    @rule(by_ann=st.booleans(), high=st.booleans())
    def something_is_asked_for(self, by_ann: bool, high: bool) -> None:
        by = self.people["ann"] if by_ann else None
        order = {"cups": 1, "item": f"tea {Action.objects.count()}"}
        given = {"connection": self.way, "requester_chain": [by.pk] if by else []}
        given |= {"tier": "high", "four_eyes": True} if high else {}
        made = builders.action("shop.order", by=by, arguments=order, **given)
        envelope = {**made.envelope, "connection": self.way.slug, "connection_version": self.way.version}
        text = canonical.text(envelope)  # as `act()` would have frozen it
        frozen = {"canonical": text, "digest": canonical.digest_of_text(text), "connection_version": self.way.version}
        Action.objects.filter(pk=made.pk).update(**frozen)
        self.screens.append((made.pk, str(frozen["digest"]), 1))

    @rule(number=NUMBERS)
    def somebody_opens_the_page(self, number: int) -> None:
        action = self.action(number)
        self.screens.append((action.pk, action.digest, action.revision))

    @rule(name=PEOPLE, screen=NEWEST, proof=st.booleans())
    def somebody_says_yes(self, name: str, screen: int, proof: bool) -> None:
        self.decides(name, screen, "approve", proof)

    @rule(name=PEOPLE, other=PEOPLE, screen=NEWEST)
    def two_people_say_yes(self, name: str, other: str, screen: int) -> None:
        self.decides(name, screen, "approve", True)
        self.decides(other, screen, "approve", True)

    @rule(name=PEOPLE, screen=ANY, verdict=st.sampled_from(["approve", "reject"]), proof=st.booleans())
    def somebody_decides_on_an_old_screen(self, name: str, screen: int, verdict: str, proof: bool) -> None:
        self.decides(name, screen, verdict, proof)

    @rule(name=PEOPLE, screen=NEWEST, cups=st.integers(1, 3), proof=st.booleans())
    def somebody_edits(self, name: str, screen: int, cups: int, proof: bool) -> None:
        self.decides(name, screen, "approve", proof, arguments={"cups": cups, "item": "tea"})

    def decides(self, name: str, screen: int, verdict: str, proof: bool, **more: Any) -> None:
        pk, digest, revision = self.screens[-1 - screen % len(self.screens)]
        said = {"verdict": verdict, "digest": digest, "revision": revision, "reason": "so it is", **more}
        was, now = Action.objects.get(pk=pk), clock.now()
        try:
            told = decide.decide(Action(pk=pk), by=self.who(name), proof=lambda: proof, **said)
        except Problem:
            return
        if told.is_new:
            assert (digest, revision) == (was.digest, was.revision), "a word about what is on the screen no more"
            assert digest == canonical.digest_of_text(was.canonical), "a word about bytes that nobody saw"
            assert (was.status, was.expires_at > now) == ("awaiting", True)
            assert proof or was.tier != "high"

    @rule(number=NUMBERS, name=PEOPLE)
    def somebody_takes_a_yes_back(self, number: int, name: str) -> None:
        with suppress(Problem):
            decide.take_back(self.action(number), by=self.who(name))

    @rule(number=NUMBERS, name=PEOPLE)
    def somebody_withdraws_it(self, number: int, name: str) -> None:
        with suppress(Problem):
            decide.cancel(self.action(number), by=self.who(name))

    @rule(number=NUMBERS, name=PEOPLE)
    def somebody_settles_what_is_in_no_doubt(self, number: int, name: str) -> None:
        with suppress(Problem):
            clearing.settle_unknown(self.action(number), by=self.who(name), status="delivered", note="I think so")

    @rule(name=PEOPLE, joins=st.booleans())
    def the_team_changes(self, name: str, joins: bool) -> None:
        with suppress(Problem):
            (teams.join if joins else teams.leave)(self.finance, self.who(name), by=self.who("ann"))

    @rule(name=st.sampled_from(["ben", "dan"]), stays=st.booleans())
    def somebody_leaves_or_comes_back(self, name: str, stays: bool) -> None:
        User.objects.filter(username=name).update(is_active=stays)

    @rule(slug=st.sampled_from(sorted(RULES)))
    def the_policy_changes(self, slug: str) -> None:
        if slug in self.rules:
            ruled.gone(slug)
            self.rules.discard(slug)
        elif slug not in self.gone:
            ruled.rule(slug, ALL, **RULES[slug])
            self.rules.add(slug)
            self.gone.add(slug)

    @rule(number=NUMBERS)
    def somebody_writes_into_the_row(self, number: int) -> None:
        """Behind the desk's back: other arguments under the digest that people saw."""
        action = self.action(number)
        if action.status in ("awaiting", "approved"):
            text = canonical.text({**action.envelope, "arguments": {"cups": 99, "item": "gold"}})
            Action.objects.filter(pk=action.pk).update(canonical=text)

    @rule(seconds=st.sampled_from([1, 1, 15, 15, 4000, 90_000]))
    def time_passes(self, seconds: int) -> None:
        clock.shift += timedelta(seconds=seconds)

    @rule()
    def the_desk_makes_its_round(self) -> None:
        deliver.expire_overdue()
        deliver.deliver_due()

    @rule(number=NUMBERS)
    def a_late_bell_rings(self, number: int) -> None:
        deliver.deliver(self.action(number).pk)

    @rule(on=st.booleans())
    def the_switch_is_thrown(self, on: bool) -> None:
        (pausing.pause if on else pausing.resume)("all", by=self.who("ann"))

    def who(self, name: str) -> User:
        return User.objects.get(username=name)

    def action(self, number: int) -> Action:
        rows = list(Action.objects.order_by("-pk")[:6])
        return rows[number % len(rows)]

    # What holds

    @invariant()
    def the_promises_hold(self) -> None:
        for action in Action.objects.all():
            self.what_ended_stays_ended(action)
            if action.status in DONE_OR_UNDER_WAY:
                was_nodded_by_people_who_may(action)
            if action.status in ("approved", *SETTLED):
                is_told(action)
        what_happened_is_what_was_nodded(self.shop.done)
        assert len(self.shop.sent) == len(set(self.shop.sent)), self.shop.sent
        every_word_is_in_the_log()

    def what_ended_stays_ended(self, action: Action) -> None:
        if action.is_settled:
            assert self.ended.setdefault(action.pk, action.status) == action.status


def was_nodded_by_people_who_may(action: Action) -> None:
    """As many people as are needed said yes to these bytes, none of them a requester, each in a team that was asked."""
    yes = list(Decision.objects.filter(action=action, revision=action.revision, verdict="approve").select_related("by"))
    no = set(
        Decision.objects.filter(action=action, revision=action.revision, verdict="reject").values_list("by", flat=True)
    )
    assert {row.digest for row in yes} == {action.digest}
    assert all(row.stepped_up for row in yes) or action.tier != "high"
    asked = {name for group in action.groups for name in group["reviewers"]} or {"reviewer"}
    counted = [row for row in yes if row.by_id not in no and set(row.held or ()) & asked]
    counted = [row for row in counted if not action.asked_by(row.by)]
    assert len({row.by_id for row in counted}) >= action.needed >= 1, (action.needed, yes)
    for group in action.groups:
        assert sum(bool(set(row.held or ()) & set(group["reviewers"])) for row in counted) >= group["quorum"]


def what_happened_is_what_was_nodded(done: dict[str, Any]) -> None:
    for key, order in done.items():
        action = Action.objects.get(key=key.split(".r")[0])
        assert action.status == "delivered"
        assert {"cups": order.cups, "item": order.item} == action.arguments
        assert action.digest == canonical.digest_of_text(action.canonical)
        assert order.item != "gold" or action.decisions.filter(digest=action.digest, verdict="approve").exists()


def is_told(action: Action) -> None:
    verb = {
        "approved": "approve",
        "delivered": "deliver",
        "rejected": "reject",
        "expired": "expire",
        "cancelled": "cancel",
    }
    rows = Audit.objects.filter(kind="action", ref=str(action.pk))
    assert rows.filter(verb=verb.get(action.status, action.status)).exists(), action.status


def every_word_is_in_the_log() -> None:
    """One row for every decision, with the digest that was on the screen."""
    said = Decision.objects.values_list("action_id", "by_id", "verdict", "revision")
    verdicts = ("approve", "edit", "reject")
    logged = Audit.objects.filter(kind="action", by__isnull=False, verb__in=verdicts, detail__has_key="reason")
    told = {(int(row.ref), row.by_id, row.verb) for row in logged}
    assert {(pk, by, verdict) for pk, by, verdict, _ in said} == told


def test_whatever_happens_in_an_office_a_nod_stays_a_nod() -> None:
    run_state_machine_as_test(Office, settings=LONG)  # type: ignore[no-untyped-call]
