"""Issue 5.3: "loosening `high` needs a second admin", whichever rule it is and whatever the last 30 days show."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from approvals import amending, first_rule, policy
from approvals.backtest import asks_for_all, weight
from approvals.guarding import loosens
from approvals.models import PolicyChange, PolicyRule
from approvals.rules import CONDITION, Rule, rule_of
from approvals.tiers import Tier
from project.people.models import User
from tests.conftest import person
from tests.ruled import rule, team
from triggers.errors import NotValid, SlugTaken
from triggers.filters import compile_filter

MERGES = "action.kind == 'github.merge'"
PULLS = "action.kind == 'github.create_pr'"
NINE_TO_FIVE = [{"days": ["mon"], "from": "09:00", "to": "17:00"}]
LAST: dict[str, Any] = {**first_rule.RULE, "reviewers": ["board"], "quorum": 2}


@pytest.fixture
def board(db: None) -> None:
    team("board", person("b1", "viewer"), person("b2", "viewer"))
    team("mine", person("puppet", "viewer"))


@pytest.fixture
def last(board: None) -> PolicyRule:
    """Two of the board decide what is high, where no other rule names people; nothing was asked for yet."""
    return rule("last", **LAST)


def saved(by: User, when: str = MERGES, effect: str = "require", **fields: Any) -> PolicyRule | PolicyChange:
    return amending.save("create", "fresh", None, by=by, when=when, effect=effect, **fields)


class TestANewRuleBesideTheLastOne:
    @pytest.mark.parametrize("when", [MERGES, "true", "action.tier == 'high'", "action.kind.startsWith('github.')"])
    @pytest.mark.parametrize(
        "asks", [{"reviewers": ["mine"]}, {"reviewers": ["board"]}, {"reviewers": ["board", "mine"]}]
    )
    def test_that_names_others_or_fewer_waits_for_a_second_admin(
        self, owner: User, last: PolicyRule, when: str, asks: dict[str, Any]
    ) -> None:
        change = saved(owner, when, **asks)
        assert isinstance(change, PolicyChange)
        assert change.reasons == ["The rule fresh would name people for what may be high in place of last."]
        assert PolicyRule.objects.kept().get() == last

    def test_so_it_does_for_a_kind_that_is_less_and_that_another_rule_makes_high_or_fails_on(
        self, owner: User, last: PolicyRule
    ) -> None:
        assert isinstance(saved(owner, PULLS, reviewers=["mine"]), PolicyRule)
        PolicyRule.objects.exclude(pk=last.pk).delete()
        for guard in ({"tier": "high"}, {"when": "action.arguments.amount > 5"}):
            row = rule("guard", **{"when": "true", **guard})
            assert isinstance(saved(owner, PULLS, reviewers=["mine"]), PolicyChange), guard
            row.delete()

    @pytest.mark.parametrize("more", [{}, {"quorum": 3}, {"expires": 600}, {"windows": NINE_TO_FIVE}, {"tier": "high"}])
    def test_that_asks_for_all_of_that_and_more_needs_nobody_else(
        self, owner: User, last: PolicyRule, more: dict[str, Any]
    ) -> None:
        assert isinstance(saved(owner, **{"reviewers": ["board"], "quorum": 2, **more}), PolicyRule)

    @pytest.mark.parametrize("loses", [{"expires": 600}, {"windows": NINE_TO_FIVE}])
    def test_that_loses_its_times_waits_for_a_second_admin(
        self, owner: User, board: None, loses: dict[str, Any]
    ) -> None:
        rule("last", **{**LAST, **loses})
        same = {"reviewers": ["board"], "quorum": 2}
        assert isinstance(saved(owner, **same, **loses), PolicyRule)
        PolicyRule.objects.filter(slug="fresh").delete()
        assert isinstance(saved(owner, **same), PolicyChange)

    def test_by_which_more_noes_are_needed_waits_too(self, owner: User, last: PolicyRule) -> None:
        change = saved(owner, rejections=2)
        assert isinstance(change, PolicyChange)
        assert change.reasons == ["The rule fresh would have 2 people say no before what may be high ends."]
        assert isinstance(saved(owner, PULLS, rejections=2), PolicyRule)


class TestARuleThatStands:
    @pytest.mark.parametrize("asks", [{}, {"expires": 600}])
    def test_and_comes_to_name_weaker_people_waits(self, owner: User, last: PolicyRule, asks: dict[str, Any]) -> None:
        row = rule("plain", MERGES, **asks)
        change = amending.save("change", "plain", row, by=owner, version=1, reviewers=["mine"])
        assert isinstance(change, PolicyChange)

    def test_and_comes_to_mean_what_is_high_waits(self, owner: User, last: PolicyRule) -> None:
        row = rule("pulls", PULLS, reviewers=["mine"])
        assert isinstance(amending.save("change", "pulls", row, by=owner, version=1, when=MERGES), PolicyChange)

    def test_and_names_them_already_asks_for_more_at_once(self, owner: User, last: PolicyRule) -> None:
        row = rule("finance", MERGES, reviewers=["mine"])
        assert isinstance(amending.save("change", "finance", row, by=owner, version=1, quorum=2), PolicyRule)

    def test_and_alone_lets_one_no_end_it_is_not_taken_away_by_one(self, owner: User, last: PolicyRule) -> None:
        row = rule("one-no", "true")
        assert isinstance(amending.save("archive", "one-no", row, by=owner, version=1), PolicyRule)
        row = rule("one-no-again", "true")
        rule("two-noes", MERGES, rejections=2)
        change = amending.save("archive", "one-no-again", row, by=owner, version=1)
        assert isinstance(change, PolicyChange)
        assert "says how few noes end what may be high" in change.reasons[0]

    def test_and_means_hours_of_another_zone_waits(self, owner: User, board: None) -> None:
        row = rule("nights", "time.hour < 6", reviewers=["board"])
        assert isinstance(amending.save("change", "nights", row, by=owner, version=1, zone="Asia/Tokyo"), PolicyChange)

    @pytest.mark.parametrize(
        ("when", "waits"),
        [
            ("action.arguments.amount > 500", True),
            (f"{PULLS} && event.data.n == 1", True),
            (f"{PULLS} && event.subject == 'x' && time.hour > 8 && run.attempt == 0", False),
        ],
    )
    def test_and_makes_high_what_it_fails_on_waits(self, owner: User, board: None, when: str, waits: bool) -> None:
        row = rule("odd", when)
        for verb, change in (("archive", {}), ("change", {"when": "false"})):
            draft = amending.amended(verb, "odd", row, **change)
            assert any("makes high what it cannot be asked about" in said for said in draft.loosens) is waits
        assert not amending.amended("change", "odd", row, quorum=2).loosens


def test_a_name_that_is_taken_is_told_before_a_second_admin_is_asked(owner: User, last: PolicyRule) -> None:
    for name, problem in (("last", SlugTaken), ("new", NotValid)):
        with pytest.raises(problem):
            amending.save("create", name, None, by=owner, when=MERGES, effect="require", reviewers=["mine"])
    assert not PolicyChange.objects.exists()


# Whatever the rules are: what no second admin was asked for loosens nothing that is high

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)  # a Monday
PLANS = {
    when: compile_filter(when, CONDITION)
    for when in (
        "true",
        MERGES,
        PULLS,
        "action.arguments.amount > 5",
        f"{PULLS} && action.arguments.amount > 5",
        "time.hour < 12",
    )
}
ASKED = [
    policy.Asked(kind, arguments, "", "key", "title", None, 1)
    for kind in ("github.merge", "github.create_pr")
    for arguments in ({}, {"amount": 3}, {"amount": 7})
]
MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "when": st.sampled_from([*PLANS]),
    "effect": st.sampled_from(["require", "require", "require", "require", "deny", "allow"]),
    "tier": st.sampled_from(["", "medium", "high"]),
    "reviewers": st.sampled_from([[], ["board"], ["mine"], ["board", "mine"]]),
    "quorum": st.integers(0, 2),
    "rejections": st.integers(0, 2),
    "expires": st.sampled_from([0, 0, 60, 600]),
    "windows": st.sampled_from([[], [], NINE_TO_FIVE, [{"days": ["tue"], "from": "09:00", "to": "17:00"}]]),
    "zone": st.sampled_from(["UTC", "UTC", "Asia/Tokyo"]),
    "otherwise": st.booleans(),
}
ANY = st.fixed_dictionaries(MEMBERS)
SOME = st.fixed_dictionaries({}, optional=MEMBERS)
NAMING = ANY.map(lambda fields: {**fields, "effect": "require", "reviewers": fields["reviewers"] or ["board"]})
A_LAST_ONE = NAMING.map(lambda fields: {**fields, "tier": "high", "otherwise": True})
RULES = st.lists(A_LAST_ONE | ANY, max_size=2)


def built(fields: dict[str, Any], slug: str) -> Rule:
    """As the editor would have taken it: what does not fit its effect is left out."""
    if fields["effect"] != "require":
        fields = {**fields, "tier": "", "reviewers": [], "quorum": 0, "rejections": 0, "expires": 0}
    if fields["effect"] == "deny":
        fields = {**fields, "windows": []}
    fields = {**fields, "otherwise": fields["otherwise"] and bool(fields["reviewers"])}
    return rule_of({"slug": slug, "version": 1, "plan": PLANS[fields["when"]], **fields})


@settings(max_examples=600, deadline=None)
@given(others=RULES, before=st.none() | ANY, change=NAMING | SOME | ANY | st.none())
def test_what_one_admin_may_save_loosens_nothing_that_is_high(
    others: list[dict[str, Any]], before: dict[str, Any] | None, change: dict[str, Any] | None
) -> None:
    kept = [built(each, f"r{number}") for number, each in enumerate(others)]
    one = built(before, "this") if before else None
    wanted = {**(before or {}), **change} if change is not None else None
    assume(wanted is None or len(wanted) == len(MEMBERS))
    other = built(wanted, "this") if wanted else None
    assume((one or other) and not loosens(one, other, kept))
    for asked in ASKED:
        was, would = (policy.ruled((*kept, *([each] if each else [])), asked, at=NOW) for each in (one, other))
        if weight(was) >= Tier.HIGH.rank and not would.denied_by:
            assert weight(would) >= weight(was)
            assert asks_for_all(would, was), (asked, was, would)


class TestWhoWouldBeLeft:
    """Told before a change is saved, and to the second admin who confirms it; a desk may do without such rules."""

    NOBODY = "No rule would name who decides what is high: nobody could approve it."
    SOME = "Only what other rules mean would have people named: nobody could approve what else is high."

    def test_without_the_last_rule_that_names_people_nobody(self, owner: User, last: PolicyRule, sign_in: Any) -> None:
        assert self.NOBODY in amending.amended("archive", "last", last).warns
        rule("pulls", PULLS, reviewers=["mine"])
        assert self.NOBODY in amending.amended("archive", "last", last).warns
        assert self.NOBODY in amending.amended("change", "last", last, tier="medium").warns
        change = amending.save("archive", "last", last, by=owner, version=1)
        assert self.NOBODY in sign_in(person("otto", "viewer", "admin")).get(f"/policies/changes/{change.pk}").text

    def test_where_another_one_names_some_it_is_said_too(self, owner: User, last: PolicyRule) -> None:
        rule("merges", MERGES, reviewers=["mine"])
        assert self.SOME in amending.amended("archive", "last", last).warns
        assert self.SOME in amending.amended("change", "last", last, when=MERGES).warns

    def test_nothing_is_said_where_somebody_is_left(self, owner: User, last: PolicyRule) -> None:
        rule("another", **LAST)
        assert not {self.NOBODY, self.SOME} & set(amending.amended("archive", "last", last).warns)
        assert not {self.NOBODY, self.SOME} & set(amending.amended("change", "last", last, reviewers=["mine"]).warns)
