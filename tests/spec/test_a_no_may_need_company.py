"""A rule may say how many people must say no; else one no ends it. A no stands, whatever its speaker says next."""

import pytest

from approvals.errors import AlreadySaid, NotValid
from approvals.models import Action
from project.people.models import User
from tests import builders
from tests.conftest import person
from tests.nodding import now_of, say
from tests.ruled import gone, rule

pytestmark = pytest.mark.django_db
PULLS = 'action.kind == "github.create_pr"'


@pytest.fixture
def asked(owner: User) -> Action:
    rule("two-noes", PULLS, quorum=2, rejections=2)
    return builders.action(by=owner, rejections_needed=2, needed=2)


def test_one_no_ends_it_where_no_rule_says_more(ann: User, ben: User) -> None:
    action = builders.action(by=ann)
    assert say(action, ben, "reject").status == "rejected"


def test_it_waits_on_until_as_many_have_said_no_as_the_rule_wants(asked: Action, ann: User, ben: User) -> None:
    assert say(asked, ann, "reject").status == "awaiting"
    assert say(asked, ann, "reject").is_new is False, "one person is one no"
    assert now_of(asked).status == "awaiting"
    assert say(asked, ben, "reject").status == "rejected"


def test_a_no_is_not_taken_back_by_a_yes(asked: Action, ann: User) -> None:
    say(asked, ann, "reject")
    with pytest.raises(AlreadySaid):
        say(asked, ann)


def test_a_yes_that_turned_into_a_no_counts_as_no_yes(asked: Action, ann: User, ben: User) -> None:
    say(asked, ann)
    assert say(asked, ann, "reject").given == 0
    assert say(asked, ben).status == "awaiting"
    assert say(asked, person("cem", "reviewer")).status == "approved"


def test_of_several_rules_the_smallest_number_ends_it(owner: User, ann: User) -> None:
    rule("two-noes", PULLS, rejections=2)
    rule("plain", PULLS)
    action = builders.action(by=owner, rejections_needed=2)
    assert say(action, ann, "reject").status == "rejected"


def test_a_looser_rule_changes_nothing_for_what_waits(owner: User, ann: User) -> None:
    action = builders.action(by=owner)
    rule("two-noes", PULLS, rejections=2)
    assert say(action, ann, "reject").status == "rejected"


def test_a_stricter_rule_counts_at_the_next_word(asked: Action, ann: User, ben: User) -> None:
    say(asked, ann, "reject")
    gone("two-noes")
    assert say(asked, ben).status == "rejected", "stop beats go: one no is enough now, and it was said"


def test_only_a_rule_that_asks_people_says_it() -> None:
    for effect in ("deny", "allow"):
        with pytest.raises(NotValid):
            rule("odd", PULLS, effect=effect, rejections=2)
    with pytest.raises(NotValid):
        rule("odd", PULLS, rejections=21)


def test_the_card_says_how_many_said_no(asked: Action, ann: User, ben: User, sign_in) -> None:  # type: ignore[no-untyped-def]
    say(asked, ann, "reject")
    assert "1 of 2 have said no" in sign_in(ben).get(f"/actions/{asked.pk}").content.decode()
