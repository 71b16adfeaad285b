"""The door: what proves itself is stored once and answered after the commit; what does not is told so, and kept."""

import gzip
import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test import Client

from project.lib import crypto
from project.people.models import User
from tests import builders
from tests.deliveries import deliver, github, signed
from triggers import refusals as refused
from triggers import retention, routing
from triggers.door import Door
from triggers.errors import NotValid, QueueFull
from triggers.matching import compile_filter
from triggers.models import Event, Refusal, Run, Source
from triggers.vitals import vitals_of

pytestmark = pytest.mark.django_db(transaction=True)
ISSUE = {
    "action": "opened",
    "issue": {"number": 7},
    "repository": {"full_name": "acme/shop"},
    "sender": {"login": "mona"},
}


@pytest.fixture(autouse=True)
def source() -> Source:
    return builders.source(types=["github.**"])


def refusals() -> list[tuple[str, int]]:
    return list(Refusal.objects.order_by("pk").values_list("reason", "answered"))


def test_a_signed_delivery_becomes_an_event_and_a_run() -> None:
    builders.trigger("triage-issue", slug="triage", type_pattern="github.issues.*")
    builders.trigger("triage-issue", slug="pushes", type_pattern="github.push")
    [answer] = deliver(github(ISSUE))
    event = Event.objects.get()
    assert answer.status == 202
    assert answer.json == {"status": "accepted", "id": "d-1", "seq": event.pk, "event": f"/events/{event.pk}"}
    assert (event.type, event.subject, event.status) == ("github.issues.opened", "acme/shop", "routed")
    assert event.data == ISSUE
    run = Run.objects.get()
    assert (run.event_id, run.handler, run.status) == (event.pk, "triage-issue", "queued")
    assert event.outcomes == [{"trigger": "triage", "outcome": "matched", "run": run.pk}]


def test_an_event_nobody_wants_is_kept_with_the_clause_that_said_no() -> None:
    from_filter = builders.trigger("triage-issue", slug="urgent")
    plan = compile_filter('event.data.issue.state == "open"')
    from_filter.change(by=None, filter=plan["text"], filter_plan=plan)
    deliver(github(ISSUE))
    event = Event.objects.get()
    assert event.status == "ignored"
    assert event.outcomes[0]["detail"] == "`event.data.issue.state` is missing"


def test_the_same_delivery_again_answers_with_the_first_ones_numbers() -> None:
    builders.trigger("triage-issue")
    [first] = deliver(github(ISSUE))
    [again] = deliver(github(ISSUE))
    assert (again.status, again.json) == (200, {**first.json, "status": "duplicate"})
    assert Run.objects.count() == 1
    assert Event.objects.get().duplicates == 1
    assert list(Refusal.objects.values_list("reason", "event")) == [("duplicate", first.json["seq"])]


def test_the_same_body_under_another_unsigned_id_is_a_repeat() -> None:
    [first] = deliver(github(ISSUE))
    [again] = deliver(github(ISSUE, id="d-2"))
    assert (again.status, again.json["seq"]) == (200, first.json["seq"])
    assert refusals() == [("same_body", 200)]
    assert deliver(github({**ISSUE, "action": "closed"}, id="d-2"))[0].status == 202, "a repeat claims nothing"


def test_twenty_at_once_store_one_event() -> None:
    builders.trigger("triage-issue")
    answers = deliver(*[github(ISSUE)] * 20)
    assert sorted(answer.status for answer in answers) == [200] * 19 + [202]
    assert {answer.json["seq"] for answer in answers} == {Event.objects.get().pk}
    assert (Run.objects.count(), Event.objects.get().duplicates) == (1, 19)


def test_different_deliveries_at_once_each_become_an_event() -> None:
    answers = deliver(*[github({**ISSUE, "n": number}, id=f"d-{number}") for number in range(40)])
    assert {answer.status for answer in answers} == {202}
    assert {answer.json["seq"] for answer in answers} == set(Event.objects.values_list("pk", flat=True))


def test_a_wrong_or_missing_signature_is_told_nothing_more() -> None:
    bodies = [b"[" * 20000 + b"]" * 20000, b"\xff\xfe\x00", b"", b'{"a": 1}']
    wrong = [github(body, X_Hub_Signature_256="sha256=" + "0" * 64) for body in bodies]
    wrong.append(github(b"{}", X_Hub_Signature_256="sha256=\u00e9"))
    wrong.append({"body": b"{}", "headers": {"X_Hub_Signature_256": signed(b"{}")}})
    answers = deliver(*wrong)
    assert {(answer.status, answer.body) for answer in answers} == {(401, answers[0].body)}
    assert {reason for reason, _ in refusals()} == {"bad_signature", "no_signature"}
    assert not Event.objects.exists()


def test_upper_case_hex_is_the_same_signature() -> None:
    raw = b'{"a": 1}'
    assert deliver(github(raw, X_Hub_Signature_256="sha256=" + signed(raw)[7:].upper()))[0].status == 202


def test_github_says_hello_and_nothing_is_stored(source: Source) -> None:
    [answer] = deliver(github({"zen": "Keep it simple."}, event="ping"))
    source.refresh_from_db()
    assert (answer.status, answer.json) == (200, {"status": "handshake"})
    assert source.connected_at is not None
    assert not Event.objects.exists()


def test_an_unknown_and_a_disabled_source_get_the_same_answer(source: Source) -> None:
    [unknown] = deliver({**github(ISSUE), "slug": "nobody"})
    source.disable(by=None)
    [disabled] = deliver(github(ISSUE))
    assert (unknown.status, unknown.body) == (404, disabled.body)
    assert disabled.status == 404


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_only_post_delivers(method: str) -> None:
    [answer] = deliver({**github(ISSUE), "method": method})
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert not Event.objects.exists()


def test_a_body_over_the_cap_is_refused_with_the_number(source: Source) -> None:
    source.change(by=None, max_body=100)
    big = github(b'{"a": "' + b"x" * 200 + b'"}')
    [answer] = deliver({**big, "chunks": 5})
    assert (answer.status, answer.json["limit"]) == (413, 100)
    assert refusals() == [("too_large", 413)]


def test_chunks_and_gzip_give_the_same_event() -> None:
    raw = json.dumps(ISSUE).encode()
    packed = gzip.compress(raw)
    [first] = deliver({**github(raw), "chunks": 7})
    signed_packed = github(packed, id="d-2", Content_Encoding="gzip")
    signed_before = github(packed, id="d-3", Content_Encoding="gzip", X_Hub_Signature_256=signed(raw))
    plain = github(json.dumps({**ISSUE, "n": 1}).encode(), id="d-4", Content_Encoding="gzip")
    answers = [first, *deliver(signed_packed, signed_before, plain)]
    assert [(answer.status, answer.json["status"]) for answer in answers] == [
        (202, "accepted"),
        (200, "duplicate"),
        (200, "duplicate"),
        (202, "accepted"),
    ]
    assert [answer.json["seq"] for answer in answers[:3]] == [first.json["seq"]] * 3
    assert list(Event.objects.order_by("pk").values_list("duplicates", flat=True)) == [2, 0]
    assert all(event.data["issue"] == {"number": 7} for event in Event.objects.all())


def test_a_packed_body_may_expand_to_what_its_provider_may_send() -> None:
    raw = json.dumps({**ISSUE, "text": "x" * 6_000_000}).encode()
    packed = github(gzip.compress(raw), Content_Encoding="gzip", X_Hub_Signature_256=signed(raw))
    [answer] = deliver(packed)
    assert answer.status == 202


def test_a_bomb_is_refused() -> None:
    packed = gzip.compress(b" " * 30_000_000)
    [answer] = deliver(github(packed, Content_Encoding="gzip"))
    assert answer.status == 413


def test_two_secrets_are_valid_at_once_and_an_old_one_ends(source: Source) -> None:
    secrets = [{"value": "the new password"}, {"value": builders.SECRET, "ends_at": "2001-01-01T00:00:00+00:00"}]
    source.change(by=None, secrets=secrets)
    raw = json.dumps(ISSUE).encode()
    assert deliver(github(raw))[0].status == 401
    assert deliver(github(raw, X_Hub_Signature_256=signed(raw, "the new password")))[0].status == 202
    source.refresh_from_db()
    assert [(item["hint"], bool(item["used"])) for item in source.secret_hints] == [("…word", True), ("…cret", False)]


def test_a_use_that_was_written_before_deliveries_were_counted_is_still_shown() -> None:
    source = builders.source("other", secrets=("the secret word",), secret_usage={"…word": "2026-11-29T08:00:00+00:00"})
    [told] = source.secret_hints
    assert (told["used"], told["count"]) == ("2026-11-29T08:00:00+00:00", 0)


def test_a_type_the_source_may_not_send_is_refused_by_name(source: Source) -> None:
    source.change(by=None, types=["github.push"])
    [answer] = deliver(github(ISSUE))
    assert (answer.status, answer.json["code"]) == (422, "type_not_allowed")
    assert refusals() == [("type_not_allowed", 422)]


def test_a_rate_limit_refuses_before_storing_and_duplicates_are_free(source: Source) -> None:
    source.change(by=None, rate_limit={"limit": 2, "period": 3600})
    door_requests = [github({**ISSUE, "n": number}, id=f"d-{number}") for number in (1, 1, 1, 2, 3)]
    door = Door()
    statuses = []
    for request in door_requests:
        statuses += [answer.status for answer in deliver(request, door=door)]
    assert statuses == [202, 200, 200, 202, 429]
    assert Event.objects.count() == 2


def test_what_the_desk_did_itself_over_there_wakes_nobody(source: Source) -> None:
    builders.trigger("triage-issue")
    source.change(by=None, actor="mona")
    deliver(github(ISSUE))
    assert Event.objects.get().status == "suppressed"
    assert not Run.objects.exists()


def test_a_trigger_made_a_moment_ago_is_asked(source: Source) -> None:
    deliver(github(ISSUE))
    builders.trigger("triage-issue")
    deliver(github({**ISSUE, "n": 2}, id="d-2"))
    assert Run.objects.count() == 1


def test_a_refused_delivery_is_taken_in_once_its_secret_is_mended(source: Source, ann: Any) -> None:
    raw = json.dumps(ISSUE).encode()
    deliver(github(raw, X_Hub_Signature_256=signed(raw, "the secret GitHub knows")))
    source.change(by=None, secrets=[{"value": "the secret GitHub knows"}])
    assert vitals_of(source).refused == {"bad_signature": 1}
    [outcome] = refused.admit(Refusal.objects.get(), by=ann)
    assert outcome.seq == Event.objects.get().pk
    assert Refusal.objects.get().event == outcome.seq
    assert vitals_of(source).refused == {}, "somebody saw to it"


def test_what_was_admitted_is_refused_no_more_and_no_repeat(
    source: Source, owner: User, sign_in: Callable[[User], Client]
) -> None:
    raw = json.dumps(ISSUE).encode()
    deliver(github(raw, X_Hub_Signature_256=signed(raw, "the secret GitHub knows")))
    source.change(by=None, secrets=[{"value": "the secret GitHub knows"}])
    browser = sign_in(owner)
    assert browser.get("/sources").context["sources"][0].refused == 1
    [outcome] = refused.admit(Refusal.objects.get(), by=owner)
    assert browser.get("/sources").context["sources"][0].refused == 0
    assert list(browser.get(f"/events/{outcome.seq}").context["duplicates"]) == []
    assert [one.event for one in browser.get("/sources/github").context["refusals"]] == [outcome.seq], "it stays listed"


def test_a_secret_sealed_with_another_key_is_the_desks_fault(source: Source) -> None:
    Source.objects.update(sealed_secrets="sealed with a key that is gone")
    [answer] = deliver(github(ISSUE))
    assert (answer.status, "retry-after" in answer.headers) == (503, True)


def test_a_secret_that_has_ended_admits_nothing_any_more(source: Source, ann: Any) -> None:
    deliver(github(ISSUE, X_Hub_Signature_256=signed(json.dumps(ISSUE).encode(), "a secret that leaked")))
    ended = {"value": "a secret that leaked", "ends_at": "2020-01-01T00:00:00+00:00"}
    source.change(by=None, secrets=[{"value": builders.SECRET}, ended])
    with pytest.raises(NotValid):
        refused.admit(Refusal.objects.get(), by=ann)
    assert not Event.objects.exists()


def test_a_packed_delivery_that_was_refused_can_be_taken_in(source: Source, ann: Any) -> None:
    raw = json.dumps(ISSUE).encode()
    packed = gzip.compress(raw)
    signature = signed(raw, "the secret GitHub knows")
    deliver(github(packed, Content_Encoding="gzip", X_Hub_Signature_256=signature))
    source.change(by=None, secrets=[{"value": "the secret GitHub knows"}])
    refused.admit(Refusal.objects.get(), by=ann)
    assert Event.objects.get().data == ISSUE


def test_a_second_press_takes_nothing_in_again(source: Source, ann: Any) -> None:
    deliver(github(ISSUE, id="", X_Hub_Signature_256="sha256=00"))
    raw = json.dumps(ISSUE).encode()
    Refusal.objects.update(headers=github(raw, id="")["headers"] | {"x-hub-signature-256": signed(raw)})
    pressed, pressed_again = Refusal.objects.get(), Refusal.objects.get()
    refused.admit(pressed, by=ann)
    with pytest.raises(NotValid):
        refused.admit(pressed_again, by=ann)
    assert Event.objects.count() == 1


def test_no_rule_is_asked_inside_the_commit_that_takes_it_in(
    source: Source, ann: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = json.dumps(ISSUE).encode()
    deliver(github(raw, X_Hub_Signature_256=signed(raw, "the secret GitHub knows")))
    source.change(by=None, secrets=[{"value": "the secret GitHub knows"}])
    asked, route = [], routing.route

    def noting(*given: Any, **named: Any) -> Any:
        asked.append(connection.in_atomic_block)
        return route(*given, **named)

    monkeypatch.setattr(routing, "route", noting)
    refused.admit(Refusal.objects.get(), by=ann)
    assert asked == [False]


def test_what_could_not_be_stored_can_be_taken_in_later(
    source: Source, ann: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = json.dumps(ISSUE).encode()
    deliver(github(raw, X_Hub_Signature_256=signed(raw, "the secret GitHub knows")))
    source.change(by=None, secrets=[{"value": "the secret GitHub knows"}])

    def full(arrivals: Any, **along: Any) -> None:
        raise QueueFull

    with monkeypatch.context() as busy:
        busy.setattr(refused, "ingest", full)
        with pytest.raises(QueueFull):
            refused.admit(Refusal.objects.get(), by=ann)
    assert Refusal.objects.get().admitted_at is None
    refused.admit(Refusal.objects.get(), by=ann)
    assert Event.objects.count() == 1


@pytest.mark.parametrize("slug", ["github", "nobody"])
def test_refusals_go_while_they_come_not_only_when_retention_looks(slug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "REFUSALS_A_SOURCE", 2)
    monkeypatch.setattr(refused, "PRUNE_AFTER", 5)
    refused.stored.clear()
    deliver(*({**github(ISSUE, X_Hub_Signature_256="sha256=00"), "slug": slug} for _ in range(6)))
    assert 2 <= Refusal.objects.count() < 6  # those stored while the fifth looks may be there or come after


def test_noise_of_one_kind_pushes_no_other_refusal_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret of ours is wrong, and a scanner knocks: what can be taken in once the secret is mended stays."""
    monkeypatch.setattr(retention, "REFUSALS_A_SOURCE", 2)
    monkeypatch.setattr(refused, "A_SECOND", 3)
    ours = github(ISSUE, X_Hub_Signature_256="sha256=00")
    noise = {**ours, "headers": {name: value for name, value in ours["headers"].items() if "Signature" not in name}}
    deliver(ours)
    deliver(*[noise] * 9)
    deliver(ours)
    retention.prune()
    kept = Counter(Refusal.objects.values_list("reason", flat=True))
    assert kept["bad_signature"] == 2
    assert kept["no_signature"] == 2


def test_of_addresses_nobody_has_only_the_newest_refusals_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "REFUSALS_A_SOURCE", 2)
    deliver(*({**github(ISSUE), "slug": "nobody"} for _ in range(3)))
    assert retention.prune()["refusals"] == 1
    assert Refusal.objects.filter(source=None).count() == 2


def test_credentials_are_sealed_and_never_among_the_headers() -> None:
    deliver(github(ISSUE, Authorization="Bearer SECRET-123"))
    event = Event.objects.get()
    assert "authorization" not in event.headers
    assert crypto.unseal(event.credentials) == {"authorization": "Bearer SECRET-123"}


def test_an_error_after_the_commit_writes_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    builders.trigger("triage-issue")

    def broken(*given: Any) -> None:
        raise sqlite3.OperationalError("database is locked") if is_sqlite() else DatabaseError("gone")

    with monkeypatch.context() as patched:
        patched.setattr("triggers.writers.read_back", broken)
        answers = deliver(github(ISSUE), github({**ISSUE, "n": 2}, id="d-2"))
    assert [answer.status for answer in answers] == [503, 503]
    assert Event.objects.count() == 2
    again = deliver(github(ISSUE), github({**ISSUE, "n": 2}, id="d-2"))
    assert [answer.status for answer in again] == [200, 200]
    assert (Event.objects.count(), Run.objects.count()) == (2, 2)


def is_sqlite() -> bool:
    return connection.vendor == "sqlite"
