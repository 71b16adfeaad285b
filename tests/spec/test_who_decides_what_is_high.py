"""CONTRACT 8: "No reviewers named: any reviewer for medium, nobody for high"; and a fresh desk has a rule for it."""

import importlib
import json

import pytest
from django.apps import apps

from approvals import amending, first_rule, policy
from approvals.decide import cancel
from approvals.errors import NotReviewer, NotValid
from approvals.models import Action, PolicyRule, PolicyVersion
from approvals.rules import CONDITION, read_rules
from project import tour
from project.lib import clock
from project.people import roles
from tests import builders, ruled
from tests.conftest import person
from tests.nodding import say, serving
from triggers.filters import compile_filter
from triggers.models import Audit

pytestmark = pytest.mark.django_db
migration = importlib.import_module("approvals.migrations.0015_who_decides_what_is_high")


@pytest.fixture
def ben():
    return person("ben", roles.VIEWER, roles.REVIEWER)


def high(by=None):
    """An action that is high, on a desk where no rule says who decides it."""
    action = builders.action("github.merge", tier="high", by=by, arguments={"repo": "acme/shop", "number": 7})
    ruled.gone(first_rule.NAMED)
    return action


class TestWithoutARule:
    def test_any_reviewer_decides_what_is_medium(self, ann, ben):
        action = builders.action(by=ann)
        assert say(action, ben).status == "approved"

    def test_nobody_approves_what_is_high(self, ann, ben, owner):
        action = high(ann)
        for who in (ann, ben, owner):
            with pytest.raises(NotReviewer, match="No rule of the policy names who decides what is high"):
                say(action, who, reason="fine", stepped_up=True)
        assert Action.objects.get().status == "awaiting"
        assert not policy.able(action, policy.ruling_of(action)).exists()

    def test_a_rule_that_makes_it_high_and_names_nobody_is_not_enough(self, ann, ben):
        ruled.rule("careful", 'action.kind == "github.create_pr"', tier="high", quorum=2)
        with pytest.raises(NotReviewer):
            say(builders.action(by=ann), ben, reason="fine", stepped_up=True)

    def test_the_card_says_which_rule_is_missing_and_an_admin_may_write_it(self, ann, ben, owner, sign_in):
        action, link = high(ann), "/policies/new?example=high-any-reviewer"
        for who, may_write in ((ben, False), (owner, True)):
            page = sign_in(who).get(f"/actions/{action.pk}").content.decode()
            assert "No rule of the policy names who decides what is high, so nobody may." in page
            assert (link in page) is may_write
        form = sign_in(owner).get(link).content.decode()
        assert 'value="high-any-reviewer-2"' in form, "the name of the one that was taken away stays taken"
        assert "\nreviewer</textarea>" in form
        PolicyRule.objects.all().delete()
        assert 'value="high-any-reviewer"' in sign_in(owner).get(link).content.decode()

    def test_the_rule_that_the_card_leads_to_can_be_saved_after_it_was_taken_away(self, ann, ben, owner, sign_in):
        action = high(ann)
        form = sign_in(owner).get("/policies/new?example=high-any-reviewer").context["form"]
        saved = amending.save("create", form.initial["slug"], None, by=owner, **first_rule.RULE)
        assert isinstance(saved, PolicyRule)
        assert say(action, ben, reason="fine", stepped_up=True).status == "approved"

    def test_whoever_asked_and_an_operator_may_still_withdraw_it(self, ann):
        assert cancel(high(ann), by=ann).status == "cancelled"


class TestTheRuleOfAFreshDesk:
    @pytest.mark.parametrize("bare", [False, True])
    def test_a_first_start_makes_it_and_it_is_a_rule_like_any_other(self, settings, sign_in, bare):
        settings.OWNER_PASSWORD = "a long enough password"
        tour.first_start(bare=bare)
        owner = person("a second admin", roles.ADMIN)
        number, text = PolicyVersion.in_force()
        assert number == 1
        assert [rule.slug for rule in read_rules(text)] == ["high-any-reviewer"]
        client = sign_in(owner)
        assert "high-any-reviewer" in client.get("/policies").content.decode()
        assert client.get("/policies/high-any-reviewer").status_code == 200

    def test_a_reviewer_who_did_not_ask_decides_then(self, ann, ben):
        ruled.first()
        action = builders.action("github.merge", tier="high", by=ann, arguments={"repo": "acme/shop", "number": 7})
        assert say(action, ben, reason="fine", stepped_up=True).status == "approved"

    def test_it_speaks_of_all_that_comes_out_as_high(self, ann, ben):
        ruled.first()
        ruled.rule("broken", "action.arguments.nothing > 3")
        with serving("medium"):
            found = policy.ruling_of(builders.action("shop.order", by=ann))
        assert (found.tier, found.reviewers, found.needed) == ("high", ("reviewer",), 1)

    def test_where_another_rule_names_people_it_is_silent(self, ann, ben):
        ruled.first()
        ruled.team("finance", ben)
        ruled.rule("money", 'action.kind == "github.merge"', reviewers=["finance"])
        found = policy.ruling_of(builders.action("github.merge", tier="high", by=ann))
        assert (found.reviewers, found.needed) == (("finance",), 1)
        assert [said.rule for said in found.reasons] == ["money"]

    def test_it_raises_nothing(self, ann):
        ruled.first()
        found = policy.ruling_of(builders.action(by=ann))
        assert (found.tier, found.reasons, found.reviewers) == ("medium", (), ("reviewer",))

    def test_taking_it_away_needs_a_second_admin(self, owner):
        ruled.first()
        draft = amending.amended("archive", first_rule.NAMED, PolicyRule.objects.get())
        assert any("names people for what is high" in said for said in draft.loosens)


class TestDesksThatHavePeople:
    def test_the_migration_makes_the_same_rule(self, ann):
        ruled.rule("careful", 'action.kind == "github.create_pr"')
        migration.name_them(apps, None)
        number, text = PolicyVersion.in_force()
        made = PolicyRule.objects.get(slug=first_rule.NAMED)
        assert (number, [rule.slug for rule in read_rules(text)]) == (2, ["careful", "high-any-reviewer"])
        assert json.loads(text)[1] == made.stored
        assert made.plan == compile_filter("true", CONDITION)
        assert {name: getattr(made, name) for name in first_rule.RULE} == first_rule.RULE

    def test_an_empty_one_gets_it_at_its_first_start_instead(self, db):
        migration.name_them(apps, None)
        assert not PolicyRule.objects.exists()

    def test_one_that_has_it_keeps_it(self, ann):
        ruled.first()
        migration.name_them(apps, None)
        assert PolicyVersion.newest() == 1

    def test_it_is_told_in_the_audit_log(self, ann):
        migration.name_them(apps, None)
        told = Audit.objects.get(kind="policyrule", ref=first_rule.NAMED)
        assert (told.verb, told.by, told.detail["policy"]) == ("create", None, 1)
        assert {name: told.detail[name] for name in first_rule.RULE} == first_rule.RULE

    @pytest.mark.parametrize("taken", [{}, {"archived_at": clock.now}])
    def test_one_whose_admin_called_another_rule_so_gets_it_by_another_name(self, ann, taken):
        row = ruled.rule(first_rule.NAMED, "false")
        PolicyRule.objects.filter(pk=row.pk).update(**{name: now() for name, now in taken.items()})
        PolicyVersion.write(by=None)
        migration.name_them(apps, None)
        assert PolicyRule.objects.get(otherwise=True).slug == "high-any-reviewer-2"
        assert "high-any-reviewer-2" in [rule.slug for rule in read_rules(PolicyVersion.in_force()[1])]

    def test_one_with_as_many_rules_as_there_may_be_can_still_change_and_archive_them(self, ann, owner, monkeypatch):
        monkeypatch.setattr(amending, "MOST_RULES", 2)
        rows = [ruled.rule(f"r{n}", 'action.kind == "github.comment"') for n in range(2)]
        migration.name_them(apps, None)
        with pytest.raises(NotValid, match="at most 2 rules"):
            amending.amended("create", "r3", None, when="true", effect="deny")
        amending.save("change", "r0", rows[0], by=owner, version=1, quorum=2)
        amending.save("archive", "r1", rows[1], by=owner, version=1)
        assert PolicyRule.objects.kept().count() == 2
