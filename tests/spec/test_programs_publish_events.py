"""A program with a token publishes CloudEvents: one, a batch stored whole or not at all, or a body with headers."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from project.people.models import User
from tests import builders
from triggers.models import Event, Run, Source

pytestmark = pytest.mark.django_db
STRUCTURED, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"


@pytest.fixture(autouse=True)
def source() -> Source:
    return builders.source("api", kind="cloudevents", provider="", types=["**"])


@pytest.fixture
def program(ann: User, with_token: Callable[..., Client]) -> Client:
    return with_token(ann, "ingest")


def an_event(id: str = "1", **more: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": id, "source": "/shop", "type": "order.placed", "data": {"n": 1}, **more}


def publish(client: Client, body: Any, kind: str = STRUCTURED, *, query: str = "", **headers: str) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(f"/api/v1/events{query}", raw, content_type=kind, headers=headers)


def test_an_event_is_stored_under_the_desks_own_name_for_its_source(program: Client, ann: User) -> None:
    builders.trigger("triage-issue", source="api")
    answer = publish(program, an_event(subject="o-7", time="2026-01-02T03:04:05.678+01:00", severity="warning"))
    event = Event.objects.get()
    assert (answer.status_code, answer.json()) == (
        202,
        {"events": [{"id": "1", "source": "api", "seq": event.pk, "status": "accepted"}]},
    )
    assert (event.source_slug, event.ce_source, event.type, event.subject) == ("api", "/shop", "order.placed", "o-7")
    assert event.time is not None
    assert (event.severity, event.time.isoformat(), event.data) == (
        "warning",
        "2026-01-02T02:04:05.678000+00:00",
        {"n": 1},
    )
    assert (event.requester, Run.objects.get().requester) == (ann, ann)


def test_the_token_is_kept_nowhere(program: Client) -> None:
    publish(program, an_event())
    event = Event.objects.get()
    assert "authorization" not in event.headers
    assert event.credentials == ""


def test_the_same_source_and_id_again_is_a_duplicate(program: Client) -> None:
    first = publish(program, an_event())
    again = publish(program, an_event(data={"n": 2}))
    assert (again.status_code, again.json()["events"][0]) == (
        200,
        {**first.json()["events"][0], "status": "duplicate"},
    )
    assert publish(program, an_event(source="/other-shop")).status_code == 202
    assert Event.objects.count() == 2


def test_an_idempotency_key_counts_instead_of_the_id(program: Client) -> None:
    publish(program, an_event("1", idempotencykey="order-7"))
    assert publish(program, an_event("2", idempotencykey="order-7")).status_code == 200


def test_a_batch_answers_for_every_member_in_order(program: Client) -> None:
    publish(program, an_event("2"))
    answer = publish(program, [an_event("1"), an_event("2"), an_event("1")], BATCH)
    assert answer.status_code == 202
    assert [(told["id"], told["status"]) for told in answer.json()["events"]] == [
        ("1", "accepted"),
        ("2", "duplicate"),
        ("1", "duplicate"),
    ]
    assert Event.objects.count() == 2


def test_one_bad_member_and_nothing_of_the_batch_is_stored(program: Client) -> None:
    batch = [an_event("1"), an_event(""), {"id": "3"}, an_event("4", source="/approvals/x"), "text"]
    answer = publish(program, batch, BATCH)
    assert (answer.status_code, answer.headers["Content-Type"]) == (422, "application/problem+json")
    assert [(error["index"], error["code"]) for error in answer.json()["errors"]] == [
        (1, "not_valid"),
        (2, "not_valid"),
        (3, "reserved_source"),
        (4, "not_valid"),
    ]
    assert not Event.objects.exists()


WIDE = [chr(0x20000 + 7919 * place % 0xA000) for place in range(512)]  # four bytes each, and nothing to compress


def test_names_fit_the_indexes_of_every_database_or_are_refused(program: Client) -> None:
    longest = {"type": "".join(WIDE[:63]), "subject": "".join(WIDE), "source": "".join(WIDE), "id": "".join(WIDE)}
    assert publish(program, an_event(**longest)).status_code == 202
    answer = publish(program, an_event(**longest | {"type": "".join(WIDE[:64])}))
    assert (answer.status_code, answer.json()["errors"][0]["detail"]) == (422, "`type` is at most 255 bytes in UTF-8.")
    assert Event.objects.get().type == longest["type"]


def test_an_empty_batch_is_fine_and_stores_nothing(program: Client) -> None:
    answer = publish(program, [], BATCH)
    assert (answer.status_code, answer.json()) == (200, {"events": []})


def test_attributes_may_come_as_headers(program: Client) -> None:
    attributes = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t", "ce-subject": "%E2%82%AC"}
    answer = publish(program, b'{"a": 1.10}', "application/json", **attributes)
    event = Event.objects.get()
    assert answer.status_code == 202
    assert (event.subject, bytes(event.raw or b""), event.data) == ("€", b'{"a": 1.10}', {"a": 1.1})


def test_nobody_outside_speaks_in_the_desks_own_name(program: Client) -> None:
    for name in ("/approvals", "/nightdesk", "/nightdesk/runs/7"):
        answer = publish(program, an_event(source=name))
        assert (answer.status_code, answer.json()["code"]) == (422, "reserved_source")
    assert not Event.objects.exists()


def test_a_type_the_source_may_not_send_is_refused_by_its_place(program: Client, source: Source) -> None:
    source.change(by=None, types=["order.*"])
    answer = publish(program, [an_event("1"), an_event("2", type="user.made")], BATCH)
    assert (answer.status_code, answer.json()["errors"][0]["index"]) == (422, 1)
    assert answer.json()["errors"][0]["code"] == "type_not_allowed"
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    ("body", "kind", "status", "code"),
    [
        (b"{", STRUCTURED, 400, "not_parsable"),
        (b'{"a": NaN}', STRUCTURED, 400, "not_parsable"),
        (b"[" * 500 + b"]" * 500, BATCH, 400, "too_deep"),
        (b"{}", BATCH, 422, "not_valid"),
        (b"{}", "application/json", 415, "unsupported_media_type"),
        (b"x" * (1024 * 1024 + 1), STRUCTURED, 413, "too_large"),
    ],
)
def test_what_cannot_be_read_is_told_why(program: Client, body: bytes, kind: str, status: int, code: str) -> None:
    answer = publish(program, body, kind)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["type"] == f"/problems/{code}"


def test_only_an_open_cloudevents_source_takes_events(program: Client, source: Source) -> None:
    builders.source("github")
    builders.source("erp", kind="cloudevents", provider="", types=["**"])
    assert publish(program, an_event(), query="?source=erp").status_code == 202
    assert Event.objects.get().source_slug == "erp"
    source.disable(by=None)
    for slug in ("github", "nobody", "api"):
        assert publish(program, an_event("2"), query=f"?source={slug}").status_code == 404
    assert publish(program, an_event("2"), query="?source=%00").status_code == 400


def test_a_source_that_sends_too_fast_waits_and_repeats_are_free(program: Client, source: Source) -> None:
    source.change(by=None, rate_limit={"limit": 2, "period": 3600})
    answers = [publish(program, an_event(id)) for id in ("1", "1", "1", "2", "3")]
    assert [answer.status_code for answer in answers] == [202, 200, 200, 202, 429]
    assert int(answers[-1].headers["Retry-After"]) > 0


def test_a_token_needs_the_scope_and_its_person_the_role(
    ann: User, ben: User, with_token: Callable[..., Client]
) -> None:
    assert publish(Client(), an_event()).status_code == 401
    assert publish(with_token(ann, "read"), an_event()).status_code == 403
    assert publish(with_token(ben, "ingest"), an_event()).status_code == 403
    assert publish(with_token("the-shop", "ingest"), an_event()).status_code == 202
    assert Event.objects.get().requester is None


def test_numbers_of_any_size_survive(program: Client) -> None:
    number = 123456789012345678901234567890
    publish(program, an_event(data={"n": number, "m": 9007199254740993}))
    assert Event.objects.get().data == {"n": number, "m": 9007199254740993}
