"""The inbox is sorted by the address, says whose a decision was, and how requests like this one ended before."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from approvals import inbox, together_views
from approvals.models import Action, Decision
from project.lib import clock
from tests import builders
from tests.conftest import person


@pytest.fixture
def ben_reads(ben, sign_in):
    return sign_in(ben)


def order(browser: Client, query: str = "") -> list[int]:
    page = browser.get(f"/approvals{query}").content.decode()
    return [int(pk) for pk in re.findall(r'class="arow" data-row data-key="(\d+)"', page)]


def text_of(browser: Client, address: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", browser.get(address).content.decode()))


@pytest.fixture
def three(ann):
    """Three that wait: the first is the riskiest, the last ends first."""
    hours = {"high": (2,), "medium": (3, 1)}
    made = [
        builders.action(by=ann, run=builders.run(), tier=tier, expires_at=clock.now() + timedelta(hours=hour))
        for tier, some in hours.items()
        for hour in some
    ]
    return [row.pk for row in made]


def test_it_is_sorted_by_the_address(three, ben_reads):
    risky, late, soon = three
    assert order(ben_reads) == [soon, risky, late]
    assert order(ben_reads, "?sort=newest") == [soon, late, risky]
    assert order(ben_reads, "?sort=risk") == [risky, soon, late]


def test_it_lists_what_one_team_is_asked_for_and_keeps_that_with_the_order(three, ben_reads, ann):
    risky, late, soon = three
    Group.objects.create(name="payments oncall")
    for pk in (risky, soon):
        Action.objects.filter(pk=pk).update(groups=[{"reviewers": ["payments oncall", "reviewer"], "quorum": 1}])
    Action.objects.filter(pk=late).update(groups=[{"reviewers": ["reviewer"], "quorum": 1}])
    page = ben_reads.get("/approvals?sort=risk").content.decode()
    assert 'class="chip" href="?sort=risk&amp;team=payments+oncall"' in page
    assert order(ben_reads, "?team=payments+oncall") == [soon, risky]
    assert order(ben_reads, "?sort=risk&team=payments+oncall") == [risky, soon]
    chosen = ben_reads.get("/approvals?sort=risk&team=payments+oncall").content.decode()
    assert '<a class="chip on" href="?sort=risk" aria-label="Without the team payments oncall">' in chosen
    assert "Waiting 3" in chosen, "the tab counts what waits for anybody"
    assert f"/approvals?sort=risk&amp;team=payments+oncall&amp;sel={soon}" in chosen
    assert order(ben_reads, "?team=reviewer&tab=mine") == order(ben_reads, "?tab=mine")


def test_a_team_is_looked_for_behind_the_first_page_too(ann, ben_reads, monkeypatch):
    monkeypatch.setattr(inbox, "MOST_WAITING", 2)
    made = [builders.action(by=ann, run=builders.run()).pk for _ in range(4)]
    Group.objects.create(name="night")
    Action.objects.filter(pk=made[3]).update(groups=[{"reviewers": ["night"], "quorum": 1}])
    assert order(ben_reads, "?team=night") == [made[3]]


def test_without_a_choice_no_team_is_offered_and_one_there_is_not_is_said(three, ben_reads):
    assert "Without the team" not in ben_reads.get("/approvals").content.decode()
    page = ben_reads.get("/approvals?team=nobody").content.decode()
    assert "“nobody” is no team of this list; it was left out." in page
    assert order(ben_reads, "?team=nobody") == order(ben_reads)


def test_what_it_cannot_use_is_said_and_left_out(three, ben_reads):
    page = ben_reads.get("/approvals?sort=size&tab=nonsense")
    assert page.status_code == 200
    assert page.content.decode().count("it was left out") == 2
    assert order(ben_reads, "?sort=size") == order(ben_reads)


def test_after_a_decision_the_list_stays_as_it_was_sorted(three, ben_reads):
    _, late, soon = three
    first = Action.objects.get(pk=soon)
    form = {
        "digest": first.digest,
        "revision": 1,
        "verdict": "approve",
        "from": "inbox",
        "list": "tab=mine&sort=newest",
    }
    answer = ben_reads.post(f"/actions/{soon}/decisions", form)
    assert answer["location"] == f"/approvals?tab=mine&sort=newest&sel={late}&done={soon}"


def test_mine_are_those_that_i_may_decide(three, ann, ben, sign_in, ben_reads):
    own = builders.action(by=ben, run=builders.run())
    risky, late, soon = three
    assert order(ben_reads, "?tab=mine") == [soon, risky, late]
    assert own.pk in order(ben_reads)
    assert order(sign_in(person("vic", "viewer")), "?tab=mine") == []


def test_mine_are_found_behind_all_that_wait_for_others(ann, ben, ben_reads, monkeypatch):
    """What Ben asked for himself comes first, and fills more than one page, and one piece."""
    monkeypatch.setattr(inbox, "MOST_WAITING", 2)
    monkeypatch.setattr(inbox, "PIECE", 2)
    soon = clock.now() + timedelta(hours=1)
    for _ in range(5):
        builders.action(by=ben, expires_at=soon)
    theirs = [builders.action(by=ann, expires_at=soon + timedelta(hours=hour)).pk for hour in (1, 2, 3)]
    assert order(ben_reads, "?tab=mine") == theirs[:2]
    assert "Waiting 8" in text_of(ben_reads, "/approvals?tab=mine")


def test_so_much_for_others_that_not_all_is_looked_at_is_said(ann, ben, ben_reads, monkeypatch):
    monkeypatch.setattr(inbox, "MOST_JUDGED", 2)
    soon = clock.now() + timedelta(hours=1)
    for _ in range(2):
        builders.action(by=ben, expires_at=soon)
    assert "not all of it was looked at" not in text_of(ben_reads, "/approvals?tab=mine")
    builders.action(by=ann, expires_at=soon + timedelta(hours=1))
    assert "not all of it was looked at" in text_of(ben_reads, "/approvals?tab=mine")


def test_several_at_once_are_found_behind_those_of_others(ann, ben, ben_reads, monkeypatch):
    monkeypatch.setattr(inbox, "PIECE", 2)
    monkeypatch.setattr(together_views, "SHOWN", 1)
    soon = clock.now() + timedelta(hours=1)
    for _ in range(3):
        builders.action(by=ben, expires_at=soon)
    one, other = [builders.action(by=ann, expires_at=soon + timedelta(hours=hour)).pk for hour in (1, 2)]
    page = ben_reads.get("/approvals/together?kind=github.create_pr").content.decode()
    assert (f'value="{one}"' in page, f'value="{other}"' in page) == (True, False)


def for_team(ann, team: str, hours: int) -> Action:
    groups = [{"reviewers": [team], "quorum": 1, "four_eyes": False}]
    return builders.action(by=ann, groups=groups, expires_at=clock.now() + timedelta(hours=hours))


@pytest.mark.parametrize("tab", ["", "&tab=mine"])
def test_after_a_decision_the_next_of_the_same_team_opens(ann, ben, ben_reads, tab):
    for name in ("payments", "ops"):
        ben.groups.add(Group.objects.create(name=name))
    one, _, two = (for_team(ann, team, hours) for hours, team in enumerate(("payments", "ops", "payments"), 1))
    answer = decide(ben_reads, one, f"team=payments{tab}")
    assert f"team=payments&sel={two.pk}&done={one.pk}" in answer["location"]
    assert f"team=payments&sel={two.pk}&done={two.pk}" in decide(ben_reads, two, f"team=payments{tab}")["location"]


def test_after_a_decision_the_next_is_found_behind_all_that_wait_for_others(ann, ben, ben_reads):
    for _ in range(21):
        builders.action(by=ben, expires_at=clock.now() + timedelta(hours=2))
    one = builders.action(by=ann, expires_at=clock.now() + timedelta(hours=1))
    other = builders.action(by=ann, expires_at=clock.now() + timedelta(hours=3))
    assert f"sel={other.pk}&done={one.pk}" in decide(ben_reads, one, "")["location"]


def decide(browser: Client, action: Action, there: str):
    seen = {"digest": action.digest, "revision": 1, "from": "inbox", "list": there}
    return browser.post(f"/actions/{action.pk}/decisions", {"verdict": "approve", **seen})


def test_a_team_is_offered_although_none_of_its_requests_is_on_the_page(ann, ben_reads, monkeypatch):
    monkeypatch.setattr(inbox, "MOST_WAITING", 1)
    for hours, team in enumerate(("payments", "ops"), 1):
        Group.objects.create(name=team)
        for_team(ann, team, hours)
    page = ben_reads.get("/approvals").content.decode()
    assert 'href="?team=ops"' in page
    assert 'href="?team=payments"' in page


def test_mine_costs_few_queries_however_many_wait(one_look, ann, ben_reads, django_assert_max_num_queries):
    for _ in range(30):
        builders.action(by=ann, run=builders.run())
    ben_reads.get("/approvals?tab=mine")
    with django_assert_max_num_queries(34):
        ben_reads.get("/approvals?tab=mine")


def test_of_several_people_it_says_how_many_have_spoken(ann, ben_reads):
    builders.action(by=ann, run=builders.run(), needed=2, given=1)
    assert "1 of 2 people" in text_of(ben_reads, "/approvals")


def decided(ann, by, verdict: str, reason: str = "", **fields: object) -> Action:
    status = "delivered" if verdict == "approve" else "rejected"
    given = {"decided_at": clock.now(), "settled_at": clock.now(), **fields}
    row = builders.action(by=ann, run=builders.run(), status=status, **given)
    Decision.objects.create(
        action=row, by=by, verdict=verdict, digest=row.digest, revision=1, reason=reason, at=clock.now()
    )
    return row


def test_decided_ones_say_who_decided(ann, ben, owner, ben_reads):
    decided(ann, ben, "approve")
    decided(ann, owner, "reject", "not now")
    page = text_of(ben_reads, "/approvals?tab=decided")
    assert "by you" in page
    assert f"by {owner}" in page


def test_the_card_says_how_requests_like_it_ended(ann, ben, owner, ben_reads):
    way = builders.connection()
    for verdict, reason in (("approve", ""), ("approve", ""), ("reject", "already refunded by hand")):
        decided(ann, owner, verdict, reason, connection=way)
    decided(ann, ben, "approve", connection=way, kind="github.comment")  # of another kind
    old = clock.now() - timedelta(days=91)
    decided(ann, ben, "approve", connection=way, created_at=old)
    builders.action(by=ann, connection=way, status="expired", settled_at=clock.now())
    asked = builders.action(by=ann, run=builders.run(), connection=way)
    page = text_of(ben_reads, f"/actions/{asked.pk}")
    assert "4 like this: 2 approved, 1 rejected, 1 expired." in page
    assert "“already refunded by hand”" in page
    assert f"?kind=github.create_pr&amp;since={old + timedelta(days=1):%Y-%m-%d}" in (
        ben_reads.get(f"/actions/{asked.pk}").content.decode()
    )


def test_the_first_of_its_kind_is_called_so(ann, ben_reads):
    asked = builders.action(by=ann, run=builders.run())
    assert "This is the first of its kind here in 90 days." in text_of(ben_reads, f"/actions/{asked.pk}")


def test_an_empty_inbox_says_when_the_last_decision_was_and_offers_a_test(ann, owner, sign_in):
    reads = sign_in(owner)
    assert "Last decision" not in text_of(reads, "/approvals")
    decided(ann, owner, "approve")
    page = reads.get("/approvals").content.decode()
    assert "Last decision" in page
    assert 'action="/test-delivery"' in page
    assert "Send me a test request" in page
    assert "Send me a test request" not in sign_in(person("vic", "viewer")).get("/approvals").content.decode()
