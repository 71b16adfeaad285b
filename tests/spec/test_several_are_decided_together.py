"""Several of one kind by one press: each a decision of its own on what was shown; one that changed stops no other."""

import re
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from approvals import together
from approvals.errors import AlreadyDecided, Changed, NotValid, SelfApproval
from approvals.models import Action, Decision
from approvals.together import Seen, decide_together
from project.lib import clock
from project.people.models import User
from tests import builders
from tests.approvals.test_argument_forms import PULL
from tests.nodding import now_of, say
from tests.ruled import rule

pytestmark = pytest.mark.django_db
PAGE = "/approvals/together"


def pulls(count: int, **fields: Any) -> list[Action]:
    way = builders.connection()
    titles = [f"Mend typo number {number}" for number in range(count)]
    given = {"connection": way, **fields}
    return [builders.action(title=title, arguments={**PULL, "title": title}, **given) for title in titles]


def seen(action: Action, **other: Any) -> Seen:
    return Seen(action, **{"digest": action.digest, "revision": action.revision, **other})


def form_of(page: str) -> dict[str, Any]:
    """What a browser would send back of the page that was read."""
    fields: dict[str, Any] = {"pick": re.findall(r'name="pick" value="(\d+)"', page)}
    return fields | dict(re.findall(r'name="((?:digest|revision|drawn)-\d+)" value="([^"]+)"', page))


def read(client: Client, actions: list[Action]) -> str:
    return client.get(PAGE, {"kind": actions[0].kind, "pick": [action.pk for action in actions]}).content.decode()


def test_each_gets_a_decision_of_its_own_on_its_own_digest(ann: User, ben: User) -> None:
    actions = pulls(3, by=ann)
    outcomes = decide_together([seen(action) for action in actions], by=ben, verdict="approve")
    assert [one.refused for one in outcomes] == [None] * 3
    rows = Decision.objects.order_by("pk")
    assert [(row.action, row.digest, row.by, row.channel) for row in rows] == [
        (action, action.digest, ben, "batch") for action in actions
    ]
    assert {now_of(action).status for action in actions} == {"approved"}


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_what_somebody_asked_for_himself_he_looks_at_alone_also_where_he_may_decide_it(
    owner: User, sign_in: Any, verdict: str
) -> None:
    mine, other = pulls(2, by=owner)
    Action.objects.filter(pk=other.pk).update(requester_chain=[], requested_by=None)
    lines = [seen(now_of(one)) for one in (mine, other)]
    outcomes = decide_together(lines, by=owner, verdict=verdict, reason="both")
    assert [type(one.refused) for one in outcomes] == [SelfApproval, type(None)]
    assert now_of(mine).status == "awaiting"
    assert f'name="pick" value="{mine.pk}"' not in read(sign_in(owner), [mine]), "the page says the same as the door"
    say(mine, owner, verdict)
    assert now_of(mine).status != "awaiting"


def test_one_that_changed_meanwhile_is_told_and_the_others_go_through(ann: User, ben: User, owner: User) -> None:
    stale, taken, mine, fine = [*pulls(3, by=ann), builders.action(by=ben, title="Ben asked for this")]
    say(taken, owner)
    lines = [seen(stale, digest="sha256:old"), seen(taken), seen(mine), seen(fine)]
    found = decide_together(lines, by=ben, verdict="approve")
    assert [type(one.refused) for one in found] == [Changed, AlreadyDecided, type(None), SelfApproval]
    assert [now_of(one).status for one in (stale, mine, fine)] == ["awaiting", "approved", "awaiting"]


def test_what_is_high_and_what_is_asked_is_read_alone(ann: User, ben: User) -> None:
    high = builders.action(by=ann, tier="high")
    question = builders.action("human.question", by=ann, arguments={"question": "Ship it?"})
    for one in (high, question):
        [outcome] = decide_together([seen(one)], by=ben, verdict="approve")
        assert isinstance(outcome.refused, NotValid)
        assert now_of(one).status == "awaiting"
    assert together.kinds_for(ben, [high, high, question, question], clock.now()) == []


def test_no_batch_and_no_chat_ever_decides_what_is_high(ann: User, ben: User) -> None:
    high = builders.action(by=ann, tier="high")
    given = {"action": high, "by": ben, "digest": high.digest, "revision": 1, "at": high.created_at}
    for channel in ("batch", "api", "slack", ""):
        with pytest.raises(IntegrityError), transaction.atomic():
            Decision.objects.create(verdict="approve", on_high=True, stepped_up=True, channel=channel, **given)


@pytest.mark.parametrize("count", [0, 21])
def test_a_press_takes_at_most_twenty(count: int, ann: User, ben: User) -> None:
    with pytest.raises(NotValid):
        decide_together([seen(action) for action in pulls(count, by=ann)], by=ben, verdict="approve")
    assert not Decision.objects.exists()


def test_one_twice_and_two_kinds_are_refused_whole(ann: User, ben: User) -> None:
    [pull], mail = pulls(1, by=ann), builders.action("email.send", by=ann)
    for lines in ([seen(pull), seen(pull)], [seen(pull), seen(mail)]):
        with pytest.raises(NotValid):
            decide_together(lines, by=ben, verdict="approve")
    assert not Decision.objects.exists()


def test_the_page_shows_every_headline_before_the_press(ann: User, ben: User, sign_in: Any) -> None:
    actions = pulls(3, by=ann)
    client = sign_in(ben)
    assert "Several pull requests at once" in client.get("/approvals").content.decode()
    offered = client.get(PAGE, {"kind": "github.create_pr"}).content.decode()
    assert all(action.title in offered for action in actions)
    page = read(client, actions[:2])
    assert [action.title in page for action in actions] == [True, True, False]
    assert all(action.digest in page for action in actions[:2])
    answer = client.post(PAGE, {**form_of(page), "verdict": "approve"})
    assert "2 of 2 approved by you" in answer.content.decode()
    assert [now_of(action).status for action in actions] == ["approved", "approved", "awaiting"]


def test_the_list_offers_only_what_the_page_then_holds(ann: User, ben: User, owner: User, sign_in: Any) -> None:
    """By the policy in force, for who reads: what became high since, or what he asked for himself, is no batch."""
    pulls(2, by=ann)
    assert "at once" in sign_in(owner).get("/approvals").content.decode()
    assert "at once" not in sign_in(ann).get("/approvals").content.decode()
    rule("strict", 'action.kind == "github.create_pr"', "require", tier="high")
    browser = sign_in(ben)
    assert "at once" not in browser.get("/approvals").content.decode()
    assert "Nothing here" in browser.get(PAGE, {"kind": "github.create_pr"}).content.decode()


def test_the_list_to_pick_from_reads_no_whole_card(
    ann: User, ben: User, sign_in: Any, django_assert_max_num_queries: Any
) -> None:
    [first, *_] = pulls(20, by=ann)
    client = sign_in(ben)
    with django_assert_max_num_queries(20 * 3 + 15):
        page = client.get(PAGE, {"kind": first.kind}).content.decode()
    assert page.count('name="pick"') == 20


def test_the_page_tells_which_changed_while_it_was_read(ann: User, ben: User, owner: User, sign_in: Any) -> None:
    actions = pulls(2, by=ann)
    client = sign_in(ben)
    form = form_of(read(client, actions))
    say(actions[0], owner, arguments={**PULL, "title": "Mended by somebody else"})
    said = client.post(PAGE, {**form, "verdict": "approve"}).content.decode()
    assert "1 of 2 approved by you" in said
    assert "Your click changed nothing" in said
    assert now_of(actions[1]).status == "approved"


def test_a_batch_is_rejected_with_a_reason(ann: User, ben: User, sign_in: Any) -> None:
    actions = pulls(2, by=ann)
    client = sign_in(ben)
    form = form_of(read(client, actions))
    assert client.post(PAGE, {**form, "verdict": "reject"}).status_code == 422
    assert not Decision.objects.exists()
    client.post(PAGE, {**form, "verdict": "reject", "reason": "not today"})
    assert {now_of(action).status for action in actions} == {"rejected"}
    assert set(Decision.objects.values_list("reason", flat=True)) == {"not today"}


def test_the_page_offers_only_what_the_reader_may_decide(ann: User, ben: User, eve: User, sign_in: Any) -> None:
    pulls(2, by=ben)
    assert (
        "Nothing here that you may decide together"
        in sign_in(ben).get(PAGE, {"kind": "github.create_pr"}).content.decode()
    )
    assert sign_in(eve).get(PAGE, {"kind": "github.create_pr"}).status_code == 403


@pytest.mark.parametrize("query", [{}, {"kind": "\x00"}, {"kind": "x", "pick": ["a", "-1", "9" * 30]}])
def test_an_address_that_makes_no_sense_is_an_empty_page(query: dict[str, Any], ben: User, sign_in: Any) -> None:
    client = sign_in(ben)
    assert client.get(PAGE, query).status_code == 200
    assert client.post(PAGE, {"pick": ["a", "7"], "verdict": "approve"}).status_code == 422
