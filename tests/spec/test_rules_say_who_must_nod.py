"""The policy is data: rules deny, require or allow; the strictest wins, and what cannot be asked is high."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction

from approvals import policy
from approvals.act import Rejected, act
from approvals.errors import AlreadyDecided, Changed, NotReviewer, SelfApproval
from approvals.models import Action, Asking, PolicyVersion
from approvals.tiers import Tier
from approvals.windows import DAYS
from project.lib import clock
from tests import builders
from tests.conftest import person
from tests.handlers import work
from tests.nodding import changed_kind, handling, now_of, say, serving, settle, the_action
from tests.ruled import gone, rule, team
from triggers import pausing

pytestmark = pytest.mark.django_db


@pytest.fixture
def shop():
    builders.connection("shop", practice=False)
    with serving() as shop:
        yield shop


def order(ann=None, *, cups=1, **more):
    """A run that wants one order; what became of it."""
    seen = []

    def story(run):
        try:
            act(run, "order", kind="shop.order", cups=cups, **more)
        except Rejected as no:
            seen.append(str(no))

    with handling(story):
        run = builders.run("story", event=builders.event(data={"cups": cups, "who": "ann"}, requester=ann))
        work()
        settle()
    action = Action.objects.filter(run=run).order_by("-pk").first()
    return action, run, seen


def another_day():
    """A window that is not open today, nor tomorrow."""
    return [{"days": [DAYS[(clock.now().weekday() + 3) % 7]], "from": "09:00", "to": "10:00"}]


def verdict(*, at=None, **more):
    """What the policy says of an order of three cups that nobody rang for."""
    asked = policy.Asked("shop.order", {"item": "tea", "cups": 3}, "practice-shop", "k", "Order 3 tea", None, None)
    known = replace(policy.InForce.read(), at=at or clock.now())
    return policy.ruling(asked, known=known, **more)


class TestWithoutRules:
    def test_the_tier_decides(self, shop):
        found = verdict()
        assert (found.tier, found.needed, found.reviewers, found.name) == (
            "medium",
            1,
            ("reviewer",),
            "default by tier",
        )

    def test_an_unknown_kind_is_high(self):
        asked = policy.Asked("nobody.knows", {}, "", "k", "", None, None)
        assert policy.ruling(asked).tier == Tier.HIGH


class TestTheStrictestWins:
    def test_a_rule_raises_what_it_means_and_nothing_else(self, shop):
        rule("many-cups", "action.arguments.cups > 2", tier="high")
        assert (verdict().tier, verdict().name) == ("high", "many-cups")
        asked = policy.Asked("shop.order", {"cups": 2}, "", "k", "", None, None)
        assert policy.ruling(asked).tier == Tier.MEDIUM

    def test_a_rule_never_lowers_what_is_required_by_another_whatever_their_order(self, shop):
        rule("first", "true", tier="medium", order=1)
        rule("second", "true", tier="high", order=2)
        rule("third", "true", effect="allow", order=0)
        assert (verdict().tier, verdict().name) == ("high", "second")

    def test_deny_beats_all_others(self, shop):
        rule("free", "true", effect="allow", order=0)
        rule("many", "true", tier="high", order=1)
        rule("never", "action.kind == 'shop.order'", effect="deny", order=9)
        assert (verdict().denied_by, verdict().name) == ("never", "never")

    def test_nothing_is_below_the_least_that_was_found_before(self, shop):
        rule("free", "true", effect="allow")
        assert (verdict().tier, verdict().allowed_by) == ("low", "free")
        found = verdict(at_least="medium")
        assert (found.tier, found.allowed_by) == ("medium", "")

    def test_the_shortest_time_wins(self, shop):
        rule("a-day", "true", expires=86400)
        rule("an-hour", "true", expires=3600)
        assert verdict().expires == 3600


class TestAnErrorIsHigh:
    @pytest.mark.parametrize(
        ("when", "said"),
        [
            ("action.arguments.amount > 500", "`action.arguments.amount` is missing"),
            ("action.arguments.item > 500", "the types do not fit"),
            ("action.arguments.cups / 0 == 1", "division by zero"),
            ("int(action.arguments.item) == 3", "a value does not fit"),
            ("action.arguments.item", "it is neither true nor false"),
            ("event.data.cups == 3", "`event.data` is missing"),
        ],
    )
    @pytest.mark.parametrize("effect", ["allow", "require", "deny"])
    def test_and_the_rule_is_named_without_any_value(self, shop, when, said, effect):
        rule("odd", when, effect=effect)
        found = verdict()
        assert (found.tier, found.name, found.denied_by) == ("high", "odd", "")
        assert said in found.reasons[0].error
        assert "tea" not in found.reasons[0].error

    def test_but_not_where_another_part_says_no_anyway(self, shop):
        rule("refunds", "action.kind == 'stripe.refund' && action.arguments.amount > 500", tier="high")
        assert verdict().tier == Tier.MEDIUM

    def test_and_a_rule_may_ask_whether_something_is_there(self, shop):
        rule("odd", "has(action.arguments.amount) && action.arguments.amount > 500", tier="high")
        assert verdict().tier == Tier.MEDIUM


class TestHighIsNeverLetThrough:
    def test_no_rule_lowers_it(self):
        rule("free", "true", effect="allow")
        with serving("high"):
            found = verdict()
        assert (found.tier, found.allowed_by) == ("high", "")

    def test_the_database_says_so_too(self):
        action = builders.action(tier="high")
        with pytest.raises(IntegrityError), transaction.atomic():
            Action.objects.filter(pk=action.pk).update(allowed_by="free")

    def test_a_question_is_not_answered_by_a_rule(self):
        rule("free", "true", effect="allow")
        asked = policy.Asked("human.question", {"question": "why?"}, "", "k", "", None, None)
        assert policy.ruling(asked).tier == Tier.MEDIUM


class TestWhatRulesRead:
    def test_event_run_and_who_asked(self, shop, ann):
        when = (
            "event.type == 'github.issues.opened' && event.data.who == 'ann' && run.handler == 'story'"
            " && run.attempt == 1 && !action.proposed_by_agent && action.connection == 'practice-shop'"
            " && action.tier == 'medium' && action.title == 'Order 3 tea'"
        )
        rule("all-of-it", when, effect="deny")
        action, _, _ = order(ann, cups=3)
        assert action.policy == "all-of-it"

    def test_nobody_rang_for_what_an_agent_proposed(self, shop):
        rule("agents", "action.proposed_by_agent", tier="high")
        assert order()[0].tier == "high"

    def test_the_hour_and_the_day_in_the_zone_of_the_rule(self, shop):
        rule("night", "time.hour == 1 && time.minute == 30 && time.weekday == 'sat'", tier="high", zone="Asia/Tokyo")
        friday = datetime(2026, 5, 1, 16, 30, tzinfo=UTC)
        assert verdict(at=friday).tier == Tier.HIGH
        assert verdict(at=friday.replace(hour=15)).tier == Tier.MEDIUM


class TestDenied:
    def test_it_ends_rejected_at_once_under_the_rules_name_and_nobody_is_asked(self, shop):
        rule("no-tea", "action.arguments.item == 'tea'", effect="deny")
        action, run, seen = order()
        assert (action.status, action.reason_code, action.policy) == ("rejected", "policy_denied", "no-tea")
        assert "`no-tea`" in seen[0]
        assert (now_of(run).status, shop.sent, action.decisions.count()) == ("succeeded", [], 0)

    def test_denials_are_no_rejections_of_people(self, shop):
        rule("no-tea", "true", effect="deny")
        for _ in range(4):
            order(key="tea")
        gone("no-tea")
        assert order(key="tea")[0].status == "awaiting"

    def test_what_waits_is_not_approved_once_a_rule_denies_it(self, shop, ann, ben):
        action, _, _ = order(ann)
        rule("no-tea", "true", effect="deny")
        with pytest.raises(AlreadyDecided):
            say(action, ben)
        assert (now_of(action).status, now_of(action).reason_code) == ("rejected", "policy_denied")

    def test_what_is_approved_and_not_started_does_not_start(self, shop, ann, ben):
        action, _, _ = order(ann)
        say(action, ben)
        rule("no-tea", "true", effect="deny")
        settle()
        assert (now_of(action).status, shop.sent) == ("rejected", [])


class TestAllowed:
    def test_it_is_done_at_once_and_says_by_which_rule(self, shop):
        rule("small", "action.arguments.cups < 3", effect="allow")
        action, run, _ = order(cups=2)
        assert (action.status, action.tier, action.allowed_by, action.policy) == ("delivered", "low", "small", "small")
        assert (now_of(run).status, len(shop.sent)) == ("succeeded", 1)

    def test_the_hourly_budget_holds_for_it_too(self, shop, monkeypatch):
        monkeypatch.setattr("approvals.budget.BUDGET", 1)
        rule("small", "true", effect="allow")
        assert [order()[0].status, order()[0].status] == ["delivered", "awaiting"]

    def test_once_the_rule_is_gone_what_has_not_started_asks(self, shop):
        rule("small", "true", effect="allow", windows=another_day())
        action, _, _ = order()
        assert action.status == "approved", "it waits for its window"
        gone("small")
        Action.objects.filter(pk=action.pk).update(not_before=clock.now())
        settle()
        assert (now_of(action).status, now_of(action).tier, shop.sent) == ("awaiting", "medium", [])


class TestGroups:
    """gitlab #444256: two rules of one person each are not satisfied by two people of one of them."""

    @pytest.fixture
    def money(self, shop, ann):
        self.fay, self.finn, self.lea = (person(name, "viewer") for name in ("fay", "finn", "lea"))
        team("finance", self.fay, self.finn)
        team("legal", self.lea)
        rule("money", "true", reviewers=["finance"])
        rule("law", "true", reviewers=["legal"])
        return order(ann)[0]

    def test_each_group_needs_its_own(self, money):
        assert (money.needed, money.groups) == (
            2,
            [{"reviewers": ["legal"], "quorum": 1}, {"reviewers": ["finance"], "quorum": 1}],
        )
        said = say(money, self.fay)
        assert (said.status, said.given, said.needed) == ("awaiting", 1, 2)
        said = say(money, self.finn)
        assert (said.status, said.given, said.needed) == ("awaiting", 1, 2)
        assert say(money, self.lea).status == "approved"

    def test_one_person_counts_for_one_group(self, money):
        team("legal", self.fay)
        assert say(money, self.fay).status == "awaiting"
        assert say(money, self.finn).status == "approved", "fay counts for legal then"

    def test_a_reviewer_who_is_in_no_named_group_is_none_here(self, money, ben):
        with pytest.raises(NotReviewer):
            say(money, ben)

    def test_one_no_ends_it(self, money):
        say(money, self.fay)
        assert say(money, self.lea, "reject").status == "rejected"

    def test_what_counts_is_what_was_held_at_the_decision(self, money):
        say(money, self.lea)
        self.lea.groups.clear()
        assert say(money, self.fay).status == "approved"
        settle()
        assert now_of(money).status == "delivered"

    def test_who_left_the_group_between_asking_and_the_click_decides_nothing(self, money):
        self.lea.groups.remove(*self.lea.groups.filter(name="legal"))
        with pytest.raises(NotReviewer):
            say(money, self.lea)

    def test_the_same_reviewers_of_two_rules_are_one_group_with_the_higher_number(self, shop, ann):
        rule("one", "true", reviewers=["reviewer"], quorum=1)
        rule("two", "true", reviewers=["reviewer"], quorum=2)
        assert order(ann)[0].groups == [{"reviewers": ["reviewer"], "quorum": 2}]

    def test_a_team_without_members_is_nobody_and_not_everybody(self, shop, ann, ben, owner):
        team("ghosts")
        rule("ghosts", "true", reviewers=["ghosts"])
        action, _, _ = order(ann)
        for each in (ben, owner):
            with pytest.raises(NotReviewer):
                say(action, each)


class TestQuorum:
    def test_distinct_people_are_counted(self, shop, ann, ben, owner):
        rule("two", "true", quorum=2)
        action, _, _ = order(ann)
        assert say(action, ben).status == "awaiting"
        assert not say(action, ben).is_new
        assert say(action, owner).status == "approved"

    def test_what_is_needed_is_only_raised(self, shop, ann, ben, owner):
        rule("two", "true", quorum=2)
        action, _, _ = order(ann)
        gone("two")
        assert (say(action, ben).status, now_of(action).needed) == ("awaiting", 2)
        rule("three", "true", quorum=3)
        assert (say(action, owner).status, now_of(action).needed) == ("awaiting", 3)
        assert say(action, person("max", "viewer", "reviewer")).status == "approved"

    def test_a_group_that_was_asked_for_stays_asked_for(self, shop, ann, ben):
        team("legal", person("lea", "viewer"))
        rule("law", "true", reviewers=["legal"])
        action, _, _ = order(ann)
        gone("law")
        with pytest.raises(NotReviewer):
            say(action, ben)


class TestTheTimeToTakeItBack:
    """It follows what people are asked as, whenever they are asked anew."""

    @pytest.fixture
    def shop(self, shop):
        changed_kind(take_back=None)
        return shop

    def test_what_was_low_has_it_once_people_are_asked(self, shop, ben):
        changed_kind(tier=Tier.LOW)
        pausing.pause("kind", "shop.order", by=None)
        action, _, _ = order()
        assert action.take_back_for == 0
        rule("ask", "true", tier="medium")
        pausing.resume("kind", "shop.order", by=None)
        settle()
        assert (now_of(action).status, now_of(action).take_back_for) == ("awaiting", 10)
        say(action, ben)
        settle()
        assert (now_of(action).status, shop.sent) == ("approved", [])

    def test_what_became_riskier_while_it_waited_has_it(self, shop, ben):
        action, _, _ = order()
        Action.objects.update(take_back_for=0)
        rule("high", "true", tier="high", reviewers=["reviewer"])
        with pytest.raises(Changed):
            say(action, ben)
        assert now_of(action).take_back_for == 10

    def test_an_edit_has_it(self, shop, ben):
        action, _, _ = order()
        Action.objects.update(take_back_for=0)
        say(action, ben, arguments={"item": "rum", "cups": 1})
        settle()
        assert (now_of(action).take_back_for, now_of(action).status, shop.sent) == (10, "approved", [])

    def test_a_kind_may_say_another(self, shop, ben):
        changed_kind(take_back=timedelta(seconds=40))
        action, _, _ = order()
        assert action.take_back_for == 40


class TestWhenThePolicyChangesMeanwhile:
    """openai-agents-python #4896: the policy changed after the approval, and there was no way to ask again."""

    def test_a_stricter_one_asks_again_before_anything_starts(self, shop, ann, ben, owner):
        action, _, _ = order(ann)
        say(action, ben)
        rule("two", "true", quorum=2)
        settle()
        now = now_of(action)
        assert (now.status, now.revision, now.reason_code, now.needed) == ("awaiting", 2, "policy_stricter", 2)
        assert shop.sent == []
        assert Asking.objects.filter(action=action, revision=2).exists(), "people are told"
        say(action, ben)
        say(action, owner)
        settle()
        assert (now_of(action).status, len(shop.sent)) == ("delivered", 1)

    def test_a_looser_one_lets_what_is_approved_go(self, shop, ann, ben):
        rule("two", "true", quorum=1)
        action, _, _ = order(ann)
        say(action, ben)
        gone("two")
        settle()
        assert now_of(action).status == "delivered"

    def test_what_became_high_while_it_waited_is_read_again_before_a_yes(self, shop, ann, ben):
        action, _, _ = order(ann)
        seen = now_of(action)
        rule("high", "true", tier="high", reviewers=["reviewer"])
        with pytest.raises(Changed):
            say(action, ben, digest=seen.digest, revision=seen.revision)
        now = now_of(action)
        assert (now.tier, now.revision, now.status) == ("high", 2, "awaiting")

    def test_the_same_arguments_sent_along_with_a_yes_are_no_way_around_that(self, shop, ann, ben):
        action, _, _ = order(ann)
        seen = now_of(action)
        rule("high", "true", tier="high", reviewers=["reviewer"])
        with pytest.raises(Changed):
            say(action, ben, arguments=seen.arguments)
        now = now_of(action)
        assert (now.tier, now.revision, now.status, now.decisions.count()) == ("high", 2, "awaiting", 0)

    def test_a_no_that_needs_company_lets_no_yes_from_before_count_on_high(self, shop, ann, ben, owner):
        rule("two", "true", quorum=2, rejections=2)
        action, _, _ = order(ann)
        say(action, ben)
        rule("high", "true", tier="high", rejections=2, reviewers=["reviewer"])
        assert say(action, owner, "reject").status == "awaiting"
        with pytest.raises(Changed):
            say(action, person("cem", "reviewer"), reason="read it", stepped_up=True)
        now = now_of(action)
        assert (now.tier, now.revision, now.given) == ("high", 2, 0)

    def test_low_that_became_medium_before_its_start_asks(self, ann):
        builders.connection("shop", practice=False)
        with serving("low") as shop:
            rule("later", "true", effect="allow", windows=another_day())
            action, _, _ = order(ann)
            rule("ask", "true", tier="medium")
            Action.objects.filter(pk=action.pk).update(not_before=clock.now())
            settle()
        assert (now_of(action).status, shop.sent) == ("awaiting", [])


class TestFourEyes:
    def test_the_owner_of_the_trigger_asked_for_it_too(self, shop, ann, ben, owner):
        rule("four-eyes", "true", four_eyes=True)
        trigger = builders.trigger("story", owner=ben, changed_at=clock.now(), changed_by=ben)

        def story(run):
            act(run, "order", kind="shop.order")

        with handling(story):
            builders.run("story", trigger=trigger)
            work()
        action = the_action(kind="shop.order")
        with pytest.raises(SelfApproval):
            say(action, ben)
        assert say(action, owner).status == "approved"

    def test_a_yes_that_was_given_before_counts_no_more_once_four_eyes_are_asked_for(self, shop, ben, owner):
        trigger = builders.trigger("story", owner=ben, changed_at=clock.now(), changed_by=ben)

        def story(run):
            act(run, "order", kind="shop.order")

        with handling(story):
            builders.run("story", trigger=trigger)
            work()
            action = the_action(kind="shop.order")
            say(action, ben)
            rule("four-eyes", "true", four_eyes=True)
            settle()
        assert (now_of(action).status, shop.sent) == ("awaiting", [])
        assert ben.pk in now_of(action).requester_chain

    def test_nobody_has_an_exception_then(self, shop, owner):
        rule("four-eyes", "true", four_eyes=True)
        action, _, _ = order(owner)
        with pytest.raises(SelfApproval):
            say(action, owner)


class TestWindows:
    def test_what_is_approved_outside_waits_for_the_opening_and_does_not_expire_before(self, shop, ann, ben):
        rule("office", "true", windows=another_day())
        action, _, _ = order(ann)
        say(action, ben)
        now = now_of(action)
        assert DAYS[now.not_before.weekday()] in another_day()[0]["days"]
        assert (now.not_before.hour, now.execute_by.hour) == (9, 10)

    def test_a_window_that_opens_later_holds_what_was_approved_before(self, shop, ann, ben):
        action, _, _ = order(ann)
        say(action, ben)
        rule("another-day", "true", windows=another_day())
        settle()
        now = now_of(action)
        assert (now.status, shop.sent) == ("approved", [])
        assert now.not_before > clock.now()
        assert now.execute_by > now.not_before
        gone("another-day")
        Action.objects.filter(pk=action.pk).update(not_before=clock.now())
        settle()
        assert now_of(action).status == "delivered"


class TestWhatIsKept:
    def test_the_action_says_which_rules_spoke_and_under_which_version(self, shop, ann):
        rule("many-cups", "action.arguments.cups > 2", tier="high")
        action, _, _ = order(ann, cups=3)
        assert action.ruled_by == [
            {"rule": "many-cups", "effect": "require", "when": "action.arguments.cups > 2", "error": "", "tier": "high"}
        ]
        assert action.policy_version == PolicyVersion.newest()

    def test_a_rule_may_shorten_the_time_people_have(self, shop, ann):
        rule("quick", "true", expires=600)
        action, _, _ = order(ann)
        assert (action.expires_at - action.created_at).total_seconds() == 600
