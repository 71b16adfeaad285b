"""Stop beats go: whatever keeps people from saying yes to an action, a reviewer can say no to it."""

from typing import Any

import pytest

from approvals import first_rule
from approvals.errors import ApprovalProblem, NotReviewer
from approvals.models import Action
from approvals.models.action import EVERYBODY
from project.people import roles
from project.people.models import Proof, User
from tests import builders, ruled
from tests.conftest import person
from tests.nodding import say

pytestmark = pytest.mark.django_db


@pytest.fixture
def ben(db: None) -> User:
    return person("ben", roles.VIEWER, roles.REVIEWER)


def unnamed(ann: User) -> Action:
    """High, and no rule says who decides it."""
    action = builders.action("github.merge", tier="high", by=ann, arguments={"repo": "acme/shop", "number": 7})
    ruled.gone(first_rule.NAMED)
    return action


def failing(ann: User) -> Action:
    """High since a rule could not be asked, and so is the rule that names people."""
    ruled.rule("o", "action.arguments.amount > 5", tier="high", reviewers=["reviewer"], otherwise=True)
    return builders.action(by=ann)


def untold(ann: User) -> Action:
    """Nobody can tell who asked for it."""
    ruled.first()
    return builders.action("github.merge", tier="high", by=ann, requester_chain=[ann.pk, EVERYBODY])


def unreadable(ann: User) -> Action:
    """Somebody wrote into its row what is no action."""
    ruled.first()
    action = builders.action(by=ann)
    Action.objects.update(canonical="nonsense")
    return action


STUCK = [unnamed, failing, untold, unreadable]


@pytest.mark.parametrize("make", STUCK)
def test_nobody_says_yes_and_a_reviewer_says_no(ann: User, ben: User, make: Any) -> None:
    action = make(ann)
    with pytest.raises(ApprovalProblem):
        say(action, ben, reason="fine", stepped_up=True)
    assert say(action, ben, "reject", stepped_up=True).status == "rejected"
    assert Action.objects.get().status == "rejected"


@pytest.mark.parametrize("make", STUCK)
def test_on_the_page_too(ann: User, ben: User, sign_in: Any, make: Any) -> None:
    action = make(ann)
    client = sign_in(ben)
    page = client.get(f"/actions/{action.pk}")
    assert page.status_code == 200
    assert "Yes, reject it" in page.text
    row = Action.objects.get()
    seen = {"digest": row.digest, "revision": row.revision, "verdict": "reject", "drawn": page.context["card"].drawn}
    Proof.objects.all().give(ben, str(client.session.session_key))
    client.post(f"/actions/{action.pk}/decisions", {**seen, "reason": "no"})
    assert Action.objects.get().status == "rejected"


@pytest.mark.parametrize("make", STUCK)
@pytest.mark.parametrize(
    "path", ["/", "/approvals", "/actions", "/api/v1/actions", "/api/v1/actions/{}", "/actions/{}/edit"]
)
def test_no_page_and_no_list_stumbles_over_it(ann: User, ben: User, sign_in: Any, make: Any, path: str) -> None:
    assert sign_in(ben).get(path.format(make(ann).pk)).status_code in (200, 302)


@pytest.mark.parametrize("make", STUCK)
def test_whoever_is_no_reviewer_does_not(ann: User, make: Any) -> None:
    action = make(ann)
    with pytest.raises(NotReviewer):
        say(action, person("vic", roles.VIEWER, roles.OPERATOR, roles.ADMIN), "reject", stepped_up=True)


def test_a_changed_text_that_can_be_read_is_read_again_first(ann: User, ben: User) -> None:
    action = builders.action(by=ann)
    Action.objects.update(canonical=action.canonical.replace("acme", "evil"))
    with pytest.raises(ApprovalProblem, match="Read it again"):
        say(action, ben, "reject")
    assert say(action, ben, "reject").status == "rejected"
