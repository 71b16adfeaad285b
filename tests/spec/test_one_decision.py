"""One verdict ends the waiting; everybody after it is told who was first, and an old page decides nothing."""

import pytest

from approvals import decide
from approvals.act import how_it_failed
from approvals.errors import (
    AlreadyDecided,
    AlreadySaid,
    Changed,
    ExpiredAlready,
    NotReviewer,
    NotValid,
    ReasonRequired,
    TooLate,
)
from approvals.models import Action, Decision
from project.lib import canonical
from tests import builders
from tests.nodding import now_of, say
from triggers.models import Audit

pytestmark = pytest.mark.django_db


@pytest.fixture
def action(ann) -> Action:
    return builders.action(by=ann)


def test_the_loser_is_told_who_decided_and_when(action, ben, owner):
    say(action, ben, "reject")
    with pytest.raises(AlreadyDecided) as refusal:
        say(action, owner)
    facts = refusal.value.facts
    assert (facts["by"], facts["status"]) == ("ben", "rejected")
    assert facts["at"] is not None
    assert Decision.objects.count() == 1


def test_the_same_click_twice_is_one_decision(action, ben):
    first = say(action, ben)
    second = decide.decide(action, by=ben, verdict="approve", digest=action.digest, revision=1)
    assert (first.is_new, second.is_new, second.id, second.status) == (True, False, first.id, "approved")


def test_the_same_person_cannot_turn_a_verdict_that_ended_it(action, ben):
    say(action, ben)
    with pytest.raises(AlreadySaid):
        say(action, ben, "reject")


def test_a_no_needs_a_reason(action, ben):
    for reason in ("", "   "):
        with pytest.raises(ReasonRequired):
            say(action, ben, "reject", reason=reason)
    assert now_of(action).status == "awaiting"


@pytest.mark.parametrize(
    "given",
    [
        {"reason": "x" * 2001},
        {"reason": "nul \x00"},
        {"reason": "half \ud800"},
        {"verdict": "maybe"},
        {"verdict": "\x00"},
    ],
)
def test_what_makes_no_sense_is_refused(action, ben, given):
    with pytest.raises(NotValid):
        say(action, ben, **given)


def test_a_digest_that_no_database_holds_is_another_one(action, ben):
    with pytest.raises(Changed):
        say(action, ben, digest="sha256:\x00")


def test_after_its_time_a_verdict_changes_nothing(action, ben, later):
    later(days=1, seconds=1)
    with pytest.raises(ExpiredAlready) as refusal:
        say(action, ben)
    assert refusal.value.facts["expired_at"] == action.expires_at
    assert now_of(action).status == "awaiting", "tick expires it; a refused click does nothing"


def test_refusals_come_in_their_order(action, ben, eve, later):
    later(days=2)
    wrong = {"digest": "sha256:other", "revision": 9, "reason": ""}
    with pytest.raises(NotReviewer):
        say(action, eve, "reject", **wrong)
    with pytest.raises(ExpiredAlready):
        say(action, ben, "reject", **wrong)
    Action.objects.filter(pk=action.pk).update(expires_at=action.expires_at.replace(year=2100))
    with pytest.raises(Changed):
        say(action, ben, "reject", **wrong)
    with pytest.raises(ReasonRequired):
        say(action, ben, "reject", reason="")


class TestRevisions:
    """A vote belongs to the bytes and the revision that were on the screen."""

    def test_another_digest_is_refused_with_the_one_that_stands(self, action, ben):
        with pytest.raises(Changed) as refusal:
            say(action, ben, digest="sha256:old")
        assert refusal.value.facts == {"digest": action.digest, "revision": 1}

    def test_a_yes_from_before_a_take_back_does_not_count_again(self, action, ben, owner):
        """AP-07: a yes belongs to the revision it was said to."""
        say(action, ben)
        decide.take_back(action, by=ben)
        for person in (ben, owner):  # the proxy's retry, and another reviewer's old tab: same digest, old revision
            with pytest.raises(Changed):
                say(action, person, revision=1)
        assert (now_of(action).status, now_of(action).given) == ("awaiting", 0)
        assert say(action, ben).revision == 2

    def test_a_text_changed_behind_our_back_is_a_new_revision_for_people_to_read(self, action, ben):
        forged = action.canonical.replace("acme/shop", "evil/shop")
        Action.objects.filter(pk=action.pk).update(canonical=forged)
        with pytest.raises(Changed) as refusal:
            say(action, ben)
        assert refusal.value.facts == {"digest": canonical.digest_of_text(forged), "revision": 2}
        assert say(action, ben).status == "approved"


class TestQuorum:
    """Where two must say yes."""

    @pytest.fixture
    def both(self, ann) -> Action:
        return builders.action(by=ann, needed=2)

    def test_one_yes_is_not_enough_and_the_same_person_twice_is_one(self, both, ben, owner):
        assert (say(both, ben).status, say(both, ben).given) == ("awaiting", 1)
        assert (say(both, owner).status, now_of(both).given) == ("approved", 2)

    def test_a_yes_may_be_followed_by_a_no_of_the_same_person(self, both, ben):
        say(both, ben)
        assert say(both, ben, "reject").status == "rejected"

    def test_needed_is_only_ever_raised(self, both, ben):
        say(both, ben)  # the policy in force asks for one; the row asked for two
        assert now_of(both).needed == 2


class TestTakeBack:
    def test_is_for_who_said_yes_or_an_admin(self, action, ben, ann, owner):
        say(action, ben)
        with pytest.raises(NotReviewer):
            decide.take_back(action, by=ann)
        assert decide.take_back(action, by=owner).status == "awaiting"

    def test_leaves_people_at_least_a_quarter_of_an_hour(self, action, ben, later):
        later(hours=23, minutes=59)
        say(action, ben)
        taken = decide.take_back(action, by=ben)
        assert (taken.expires_at - action.expires_at).total_seconds() > 800

    def test_is_too_late_once_it_started(self, action, ben):
        say(action, ben)
        Action.objects.filter(pk=action.pk).update(status="delivering", leased_until=action.expires_at)
        with pytest.raises(TooLate):
            decide.take_back(action, by=ben)

    def test_of_what_nobody_approved_is_refused(self, action, owner):
        with pytest.raises(TooLate):
            decide.take_back(action, by=owner)


class TestCancel:
    def test_is_for_requester_operator_and_reviewer(self, ann, ben, eve):
        with pytest.raises(NotReviewer):
            decide.cancel(builders.action(by=ann), by=eve)
        assert decide.cancel(builders.action(by=eve), by=eve).status == "cancelled"
        assert decide.cancel(builders.action(by=eve), by=ann).status == "cancelled"
        assert decide.cancel(builders.action(by=eve), by=ben).status == "cancelled"

    def test_keeps_the_whole_reason_where_people_and_the_handler_read_it(self, action, ann, sign_in):
        why = f"The customer wrote again: {'it is settled, ' * 20}no refund is wanted any more."
        gone = decide.cancel(action, by=ann, reason=f"  {why} ")
        assert (gone.cancel_reason, gone.reason_code) == (why, "cancelled")
        assert how_it_failed(gone)["message"].endswith(why)
        assert why in sign_in(ann).get(f"/actions/{action.pk}").content.decode()
        assert sign_in(ann).get(f"/api/v1/actions/{action.pk}").json()["cancel_reason"] == why
        assert Audit.objects.get(kind="action", verb="cancel", ref=str(action.pk)).detail["reason"] == why

    def test_comes_with_a_reason_from_the_page(self, action, ann, sign_in):
        sign_in(ann).post(f"/actions/{action.pk}/cancel", {"reason": "Asked for by mistake."})
        assert (now_of(action).status, now_of(action).cancel_reason) == ("cancelled", "Asked for by mistake.")

    @pytest.mark.parametrize("why", ["x" * 2001, "\x00"])
    def test_for_a_reason_that_cannot_be_kept_is_refused(self, action, ann, why):
        with pytest.raises(NotValid):
            decide.cancel(action, by=ann, reason=why)
        assert now_of(action).status == "awaiting"

    def test_is_said_to_whoever_clicks_later(self, action, ann, ben):
        decide.cancel(action, by=ann)
        with pytest.raises(AlreadyDecided) as refusal:
            say(action, ben)
        assert (refusal.value.facts["by"], refusal.value.facts["status"]) == ("ann", "cancelled")

    def test_stops_what_was_approved_but_not_what_has_begun(self, action, ann, ben):
        say(action, ben)
        assert decide.cancel(action, by=ann).status == "cancelled"
        begun = builders.action(by=ann, status="delivering", leased_until=action.expires_at)
        with pytest.raises(TooLate):
            decide.cancel(begun, by=ann)
