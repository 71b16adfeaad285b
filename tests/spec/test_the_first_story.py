"""A GitHub issue rings, a handler works, a person nods, and the world changes once."""

import json

import pytest

from approvals import decide
from approvals.models import Act, Action, PracticeItem
from project.handlers.triage_issue import diagnose
from tests import builders
from tests.handlers import work
from tests.nodding import now_of, say, settle
from triggers.models import DeadLetter, Event, Run

pytestmark = pytest.mark.django_db

ISSUE = {
    "action": "opened",
    "issue": {"number": 12, "title": "Typo in the README", "body": 'README.md says "recieve"; it should be "receive".'},
    "repository": {"full_name": "acme/shop", "default_branch": "main"},
}


@pytest.fixture
def run(db) -> Run:
    builders.connection("github")
    run = builders.run("triage-issue", event=builders.event("github.issues.opened", data=ISSUE))
    work()
    return now_of(run)


def test_the_pull_request_waits_and_holds_no_process(run):
    action = Action.objects.get()
    assert (run.status, action.status, action.tier) == ("waiting", "awaiting", "medium")
    assert (action.kind, action.key) == ("github.create_pr", "pr-acme/shop-12")
    assert "receive a mail" in action.arguments["files"][0]["content"]
    assert not PracticeItem.objects.exists()


def test_a_nod_opens_it_and_then_the_reporter_is_told(run, ben, later):
    say(Action.objects.get(), ben)
    settle()
    assert not PracticeItem.objects.exists(), "it can still be taken back"
    later(seconds=11)
    settle()
    assert [item.kind for item in PracticeItem.objects.order_by("pk")] == ["github.create_pr", "github.comment"]
    run = now_of(run)
    assert (run.status, run.result["outcome"], run.result["by"]) == ("succeeded", "opened", "rules")
    assert run.result["pull"].startswith("/practice")
    assert {action.status for action in Action.objects.all()} == {"delivered"}


def test_a_no_opens_nothing_and_the_reporter_is_told_all_the_same(run, ben):
    say(Action.objects.get(), ben, "reject")
    settle()
    assert [item.kind for item in PracticeItem.objects.all()] == ["github.comment"]
    assert (now_of(run).status, now_of(run).result["outcome"]) == ("succeeded", "not_approved")


def test_silence_opens_nothing(run, later):
    later(days=1, seconds=1)
    settle()
    action = Action.objects.get(kind="github.create_pr")
    assert (action.status, now_of(run).status) == ("expired", "succeeded")
    assert not PracticeItem.objects.filter(kind="github.create_pr").exists()


def test_the_end_of_the_run_withdraws_what_waits(run, ann):
    assert Act.objects.get().run_id == run.pk
    decide.withdraw(run)
    assert Action.objects.get().status == "cancelled"


def test_a_forged_event_wakes_nobody_with_authority(run):
    action = Action.objects.get()
    builders.event("approvals.action.settled", subject=f"actions/{action.pk}", data={"status": "delivered"})
    settle()
    assert (now_of(run).status, now_of(action).status) == ("waiting", "awaiting")


def test_events_tell_what_happened_without_arguments(run, ben, later):
    say(Action.objects.get(), ben)
    later(seconds=11)
    settle()
    told = Event.objects.filter(source_slug="/approvals").order_by("pk")
    first = Action.objects.order_by("pk")[0]
    assert [(event.type, event.subject) for event in told][:2] == [
        ("approvals.action.decided", f"actions/{first.pk}"),
        ("approvals.action.settled", f"actions/{first.pk}"),
    ]
    assert "recieve" not in json.dumps([event.data for event in told])


@pytest.mark.parametrize(
    "data", [None, [], {"zen": "x"}, {**ISSUE, "issue": {**ISSUE["issue"], "body": None}}, {**ISSUE, "issue": None}]
)
def test_a_delivery_without_a_usable_issue_becomes_a_dead_letter_that_says_why(db, data):
    run = builders.run("triage-issue", event=builders.event("github.issues.opened", data=data))
    work()
    letter = DeadLetter.objects.get()
    assert (now_of(run).status, letter.error_type) == ("dead", "Permanent")
    assert "issue" in letter.message


def test_what_the_rules_cannot_mend_is_left_to_a_person(db):
    builders.connection("github")
    issue = {**ISSUE["issue"], "body": "It is slow on Mondays."}
    run = builders.run("triage-issue", event=builders.event("github.issues.opened", data={**ISSUE, "issue": issue}))
    settle()
    assert now_of(run).result["outcome"] == "not_fixable"
    assert [item.kind for item in PracticeItem.objects.all()] == ["github.comment"]


@pytest.mark.parametrize(
    "text",
    [
        'README.md says "recieve"; it should be "receive".',
        "In README.md “recieve” should be “receive”",
        "`recieve` in docs/README.md should read `receive`",
    ],
)
def test_a_plain_typo_is_seen(text):
    plan = diagnose({"title": "Typo", "text": text})
    assert (plan["fixable"], plan["wrong"], plan["right"]) == (True, "recieve", "receive")
