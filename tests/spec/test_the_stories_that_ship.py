"""The handlers that ship: each reads what really comes, checks it by rules, says so, and acts under a business key."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from approvals.models import Action, PracticeItem
from project.handlers import diagnose_alert, order_created, review_push
from project.people.models import User
from project.sample_bodies import SAMPLES
from tests import builders
from tests.handlers import work
from tests.nodding import now_of, say, settle
from triggers.errors import Permanent
from triggers.models import DeadLetter, Run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def connections(db: None) -> None:
    for system in ("github", "http", "smtp", "slack"):
        builders.connection(system)
    builders.connection("notify", slug="default")


def ran(handler: str, data: Any, *, config: dict[str, Any] | None = None, ce_id: str = "") -> Run:
    """The run of this handler for an event with this data, as far as it gets."""
    trigger = builders.trigger(handler, config=config or {})
    event = builders.event(data=data, **({"ce_id": ce_id} if ce_id else {}))
    run = builders.run(handler, event=event, trigger=trigger)
    work()
    return now_of(run)


def body_of(sample: str, number: int = 1017) -> Any:
    return SAMPLES[sample].make(number)[1]


def shown() -> list[tuple[str, str]]:
    """What arrived at the practice page: `(kind, text)`."""
    return [(item.kind, str(item.arguments)) for item in PracticeItem.objects.order_by("pk")]


# new-upload


@pytest.fixture
def inbox(tmp_path: Path, settings: LazySettings) -> Path:
    settings.FILE_ROOTS = [str(tmp_path)]
    return tmp_path


def arrived(path: Path, content: bytes, **facts: Any) -> dict[str, Any]:
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    return {"kind": "created", "path": str(path), "name": path.name, "size": len(content), "sha256": digest, **facts}


def test_a_table_is_read_and_told(inbox: Path) -> None:
    run = ran("new-upload", arrived(inbox / "orders.csv", b"id,total\n1,10\n2,20\n"), ce_id="file:1:1:abc")
    assert (run.status, run.result["outcome"], run.result["rows"]) == ("succeeded", "fine", 2)
    action = Action.objects.get()
    assert (action.kind, action.tier, action.status, action.key) == (
        "notify.send",
        "low",
        "delivered",
        "upload-file:1:1:abc",
    )
    assert "2 rows of id, total" in action.arguments["text"]
    assert action.arguments["text"].endswith(f"/events/{run.event_id}"), "what came is one click away"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_the_lines_of_a_table_end_as_they_like(inbox: Path, end: bytes) -> None:
    run = ran("new-upload", arrived(inbox / "a.csv", b"id,note" + end + b'1,"two' + end + b'lines"' + end))
    assert (run.result["outcome"], run.result["columns"], run.result["rows"]) == ("fine", ["id", "note"], 1)


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("a.csv", b"", "it is empty"),
        ("a.csv", b"a,b\n1\n", "same number of columns"),
        ("a.csv", b"a,b\n1," + b"x" * 131_073, "cannot be read as a table: field larger than field limit"),
        ("a.csv", b"\x00\x01", "is text; this is not"),
        ("a.pdf", b"<html>", "no .pdf inside"),
        ("a.txt", b"#!/bin/sh\nrm -r /", "it is a program"),
        ("a", b"MZ\x90\x00", "it is a program"),
    ],
)
def test_what_is_not_what_its_name_says_is_told_louder(inbox: Path, name: str, content: bytes, fault: str) -> None:
    run = ran("new-upload", arrived(inbox / name, content))
    assert run.result["outcome"] == "doubtful"
    assert any(fault in said for said in run.result["faults"])
    assert Action.objects.get().arguments["severity"] == "warning"


def test_a_file_that_changed_again_or_went_is_said(inbox: Path) -> None:
    changed = arrived(inbox / "a.txt", b"one")
    (inbox / "a.txt").write_bytes(b"two")
    assert "it changed again" in ran("new-upload", changed).result["faults"][0]
    (inbox / "a.txt").unlink()
    assert ran("new-upload", changed).result["outcome"] == "gone"
    assert Action.objects.count() == 1


@pytest.mark.parametrize("data", [None, {}, {"path": 7}, {"path": "/x", "kind": "deleted"}])
def test_what_tells_of_no_file_goes_to_the_dead_letters_at_once(inbox: Path, data: Any) -> None:
    assert (ran("new-upload", data).status, DeadLetter.objects.count()) == ("dead", 1)


def test_nothing_outside_the_watched_roots_is_read(inbox: Path) -> None:
    """Whoever can send an event cannot have a file of the machine read to him."""
    (inbox / "link").symlink_to("/etc")
    for path in ("/etc/passwd", str(inbox / "link" / "passwd"), str(inbox / ".." / ".." / "etc" / "passwd")):
        run = ran("new-upload", {"kind": "created", "path": path, "name": "passwd"})
        assert (run.status, run.result) == ("dead", None)
    assert not Action.objects.exists()


# review-push


def test_a_push_is_reviewed_where_it_belongs() -> None:
    run = ran("review-push", body_of("github-push"))
    assert (run.status, run.result["by"], run.result["outcome"]) == ("succeeded", "rules", "commented")
    action = Action.objects.get()
    assert (action.kind, action.status) == ("github.comment", "delivered")
    assert action.key.startswith("review-acme/shop-")
    assert ".env" in action.arguments["body"]


def test_a_push_that_belongs_nowhere_is_told_to_our_people() -> None:
    push = body_of("github-push")
    for commit in push["commits"]:
        commit["message"] = "Change things"
    run = ran("review-push", push)
    assert run.result["outcome"] == "told"
    assert Action.objects.get().kind == "notify.send"


def test_a_harmless_push_says_nothing() -> None:
    push = body_of("github-push")
    for commit in push["commits"]:
        commit.update(message="Improve the docs", added=[], modified=["README.md"], removed=[])
    assert ran("review-push", push).result["outcome"] == "nothing_found"
    assert not Action.objects.exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"forced": True}, "forced push"),
        ({"files": ["config/id_rsa"]}, "`config/id_rsa`"),
        ({"files": [".env.example"]}, ""),
        ({"files": [".github/workflows/ci.yml"]}, "What the build does"),
        ({"files": ["shop/cart.py"]}, "no test with it"),
        ({"files": ["shop/cart.py", "tests/test_cart.py"]}, ""),
        ({"files": ["shop/cart.py"], "is_main": False}, ""),
        ({"removed": ["tests/test_cart.py"]}, "Tests were removed"),
        ({"subjects": ["WIP: cart"]}, "Unfinished"),
        ({"files": [f"docs/{number}.md" for number in range(51)]}, "51 files"),
        ({"forced": True, "is_branch": False}, ""),
    ],
)
def test_the_rules_of_a_review(changes: dict[str, Any], said: str) -> None:
    plain = {"is_branch": True, "is_main": True, "forced": False, "branch": "main", "files": [], "removed": []}
    found = review_push.review({**plain, "subjects": [], **changes})
    assert [said in finding for finding in found] == ([True] if said else [])


def test_a_deleted_branch_is_no_push_to_review() -> None:
    data = {
        "ref": "refs/heads/old",
        "deleted": True,
        "after": "0" * 40,
        "commits": [],
        "repository": {"full_name": "a/b"},
    }
    assert ran("review-push", data).result["outcome"] == "nothing_found"
    with pytest.raises(Permanent):
        review_push.read_push({"action": "opened"})


# order-created


def test_an_order_is_told_and_its_customer_written_to_after_a_nod(ben: User, later: Any) -> None:
    run = ran("order-created", body_of("shopify-order"))
    assert run.status == "waiting"
    told, mail = Action.objects.order_by("pk")
    assert (told.kind, told.status) == ("slack.post", "delivered")
    assert (mail.kind, mail.tier, mail.status) == ("email.send", "medium", "awaiting")
    assert mail.key == f"order-{body_of('shopify-order')['id']}-confirmation"
    say(mail, ben)
    settle()
    later(seconds=11)
    settle()
    assert now_of(run).result["outcome"] == "confirmed"
    assert [kind for kind, _ in shown()] == ["slack.post", "email.send"]


def test_a_no_writes_nothing_to_the_customer(ben: User) -> None:
    run = ran("order-created", body_of("shopify-order"))
    say(Action.objects.get(kind="email.send"), ben, "reject")
    settle()
    assert now_of(run).result["outcome"] == "not_confirmed"
    assert [kind for kind, _ in shown()] == ["slack.post"]


def test_the_same_order_twice_is_told_and_confirmed_once() -> None:
    ran("order-created", body_of("shopify-order"))
    ran("order-created", body_of("shopify-order"))
    assert sorted(Action.objects.values_list("kind", flat=True)) == ["email.send", "slack.post"]


def test_an_order_of_any_program_is_read_too() -> None:
    body = {
        "event_type": "order.created",
        "data": {"order": 5, "total": "900", "currency": "EUR", "customer": "a@b.de"},
    }
    run = ran("order-created", body)
    assert run.status == "waiting"
    assert "it is over 500" in Action.objects.get(kind="slack.post").arguments["text"]
    assert Action.objects.get(kind="email.send").evidence[0]["text"] == "it is over 500"


@pytest.mark.parametrize(
    ("change", "doubt"),
    [
        ({"test": True}, "it is a test order"),
        ({"email": "no address", "contact_email": None}, "it has no mail address"),
        ({"email": "Bob <b@example.org>", "contact_email": None}, "it has no mail address"),
    ],
)
def test_who_cannot_or_should_not_be_written_to_is_not(change: dict[str, Any], doubt: str) -> None:
    run = ran("order-created", body_of("shopify-order") | change)
    assert (run.status, run.result["outcome"]) == ("succeeded", "not_confirmed")
    assert doubt in run.result["doubts"]


@pytest.mark.parametrize(
    "data", [None, {}, {"id": 1}, {"id": 1, "total_price": "NaN"}, {"id": True, "total_price": "1"}]
)
def test_what_is_no_order_is_refused(data: Any) -> None:
    with pytest.raises(Permanent):
        order_created.read_order(data)


# diagnose-alert


RUNBOOKS = {"runbooks": {"disk_full": "https://runbooks.example.org/free-disk"}}


def test_an_alert_is_told_and_its_runbook_called_after_a_nod(ben: User, later: Any) -> None:
    run = ran("diagnose-alert", body_of("alertmanager"), config=RUNBOOKS)
    assert run.status == "waiting"
    told, call = Action.objects.order_by("pk")
    assert (told.kind, told.status, "Probably disk_full" in told.arguments["text"]) == ("slack.post", "delivered", True)
    assert (call.kind, call.tier, call.arguments["url"]) == (
        "http.request",
        "medium",
        "https://runbooks.example.org/free-disk",
    )
    say(call, ben)
    settle()
    later(seconds=11)
    settle()
    assert now_of(run).result["outcome"] == "runbook_called"


def test_a_reminder_of_the_same_alert_is_told_once_and_its_end_again() -> None:
    alert = body_of("grafana")
    for data in (alert, alert, alert | {"status": "resolved"}):
        assert ran("diagnose-alert", data).result["outcome"] == "told"
    texts = [action.arguments["text"] for action in Action.objects.order_by("pk")]
    assert len(texts) == 2
    assert texts[1].startswith("Resolved: ")


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("DiskSpaceLow", "disk_full"),
        ("HighMemoryConsumption", "memory"),
        ("HighCPUUsage", "cpu"),
        ("MessageQueueOver33", "queue"),
        ("HighErrorRate", "errors"),
        ("UploadsMissing", "unknown"),
    ],
)
def test_the_rules_of_a_diagnosis(name: str, cause: str) -> None:
    found = diagnose_alert.read_alert({"alerts": [{"labels": {"alertname": name}}]})
    assert diagnose_alert.diagnose(found)["cause"] == cause


@pytest.mark.parametrize(
    "config", [{"runbooks": {"disc": "https://x.example"}}, {"runbooks": {"cpu": "ftp://x"}}, {"a": 1}]
)
def test_a_runbook_for_no_cause_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"no cause|http or https|not permitted"):
        diagnose_alert.Config.model_validate(config)
    with pytest.raises(Permanent):
        diagnose_alert.read_alert({"alerts": []})


# notify


def test_our_people_read_what_rang_where_from_and_where_to_look() -> None:
    event = builders.event("github.push", subject="acme/shop", data={"link": ".evil.example/"})
    builders.run("notify", event=event, trigger=builders.trigger("notify"))
    work()
    said = PracticeItem.objects.get().arguments
    assert said["title"] == "Nightdesk: github.push"
    assert said["text"] == f"acme/shop\nfrom github\nhttp://127.0.0.1:8000/events/{event.pk}"
