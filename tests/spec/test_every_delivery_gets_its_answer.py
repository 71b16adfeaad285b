"""Recorded requests of senders and scanners: each gets its documented status and reason, and none breaks the door."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import builders
from tests.deliveries import Answered, deliver, signed
from tests.serving import Served, served
from triggers.models import Event, Refusal

pytestmark = pytest.mark.django_db(transaction=True)
DATA = Path(__file__).parents[1] / "data"
EDGES = {path.stem: json.loads(path.read_text()) for path in sorted((DATA / "http_edge").glob("*.json"))}
CLOUDEVENTS = {path.stem: json.loads(path.read_text()) for path in sorted((DATA / "cloudevents").glob("*.json"))}
# name -> (status, the event's data); None: nothing is stored
EXPECTED: dict[str, tuple[int, Any]] = {
    "big_integer": (202, {"id": 9007199254740993, "f": 1.1}),
    "chunked_no_length": (202, {"a": 1}),
    "deep_nesting": (400, None),
    "duplicate_keys": (202, {"type": "b"}),
    "empty_body_json_content_type": (202, None),
    "expect_100_continue": (202, {}),
    "get_probe": (405, None),
    "get_with_challenge_hub": (405, None),
    "gzip_body": (202, {"a": 1}),
    "gzip_header_but_plain": (202, {"a": 1}),
    "head_probe": (405, None),
    "header_case_mixed": (401, None),
    "latin1_charset_param": (202, {"n": "é"}),
    "lone_surrogate": (202, {"a": "\ufffd"}),
    "nan_literal": (400, None),
    "ndjson": (202, '{"e":1}\n{"e":2}\n'),
    "nul_escape": (202, {"a": "x\ufffdy"}),
    "path_with_trailing_slash": (202, {}),
    "signature_non_ascii": (401, None),
    "timestamp_ms_instead_of_s": (401, None),
    "timestamp_unicode_digits": (401, None),
    "top_level_array": (202, [{"e": 1}, {"e": 2}]),
    "underscore_header": (401, None),
    "uppercase_hex_signature": (401, None),
}
UNSIGNED = ("header_case_mixed", "signature_non_ascii", "underscore_header", "uppercase_hex_signature")


def body_of(record: dict[str, Any]) -> bytes:
    if "body_base64" in record:
        return base64.b64decode(record["body_base64"])
    return record["body_text"].encode() if "body_text" in record else json.dumps(record["body"]).encode()


def told(record: dict[str, Any], slug: str, **more: str) -> dict[str, Any]:
    request = record["request"]
    headers = {name: value for name, value in request["headers"].items() if value.isascii() or value == "sha256=é"}
    return {"body": body_of(record), "headers": headers | more, "method": request["method"], "slug": slug}


def send(record: dict[str, Any], slug: str, **more: str) -> Answered:
    [answer] = deliver(told(record, slug, **more) | {"chunks": 3})
    return answer


@pytest.fixture(scope="module")
def live() -> Iterator[Served]:
    with served() as one:
        yield one


def test_every_record_is_asked_for() -> None:
    assert set(EXPECTED) == set(EDGES)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_odd_request_gets_its_documented_answer(name: str, live: Served) -> None:
    """Over a real server: it reads the head, the chunks and the 100-continue before the door does."""
    record, (status, data) = EDGES[name], EXPECTED[name]
    standard = name.startswith("timestamp")
    source = builders.source("standard_webhooks" if standard else "github", provider="github")
    if standard:
        source.change(by=None, provider="standard_webhooks")
    proof = {} if standard or name in UNSIGNED else {"X-Hub-Signature-256": signed(body_of(record))}
    [answer] = live.deliver(told(record, source.slug + ("/" if "slash" in name else ""), **proof))
    assert answer.status == status
    assert Event.objects.exists() is (status == 202)
    if status == 202:
        assert Event.objects.get().data == data
    elif status != 405:
        assert Refusal.objects.get().answered == status, "whatever is refused is listed"


def test_milliseconds_for_seconds_are_named_as_what_they_are() -> None:
    builders.source("standard", provider="standard_webhooks")
    send(EDGES["timestamp_ms_instead_of_s"], "standard")
    assert "milliseconds" in Refusal.objects.get().detail


@pytest.mark.parametrize("name", CLOUDEVENTS)
def test_a_cloudevent_at_the_door(name: str) -> None:
    builders.source("shop", kind="cloudevents", provider="", types=["**"], rate_limit={"limit": 50, "period": 30})
    record = CLOUDEVENTS[name]
    expect = record["expect"]
    answer = send(record, "shop", Authorization=f"Bearer {builders.SECRET}")
    if name == "http_webhook_options_handshake":
        told = {name.lower(): value for name, value in expect["response_headers"].items()}
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers.items() >= told.items()
        assert not Event.objects.exists()
    elif expect.get("valid") is False:
        assert (answer.status, answer.json["code"]) == (422, "not_valid")
        assert not Event.objects.exists()
    elif name == "batch_empty":
        assert (answer.status, answer.json["events"]) == (200, [])
    else:
        assert answer.status == 202
        events = list(Event.objects.order_by("pk"))
        assert len(events) == expect.get("count", 1)
        told = {
            "specversion": "1.0",
            "type": events[0].type,
            "id": events[0].ce_id,
            "source": events[0].ce_source,
            "datacontenttype": events[0].datacontenttype,
            "subject": events[0].subject,
        }
        assert told.items() >= expect.get("attributes", {}).items()


def test_only_a_source_of_cloudevents_says_who_may_ring() -> None:
    builders.source("shop", kind="cloudevents", provider="", types=["**"])
    builders.source("github")
    asks = {"method": "OPTIONS", "headers": {"WebHook-Request-Origin": "far.example"}}
    odd = {"method": "OPTIONS", "headers": {"WebHook-Request-Origin": "a b"}}
    answers = deliver(
        {"slug": "shop", **asks}, {"slug": "github", **asks}, {"slug": "none", **asks}, {"slug": "shop", **odd}
    )
    assert [answer.status for answer in answers] == [200, 405, 404, 405]
    assert answers[0].headers["webhook-allowed-rate"] == "*"


def test_the_bytes_of_a_binary_event_come_back() -> None:
    builders.source("shop", kind="cloudevents", provider="", types=["**"])
    send(CLOUDEVENTS["structured_data_base64"], "shop", Authorization=f"Bearer {builders.SECRET}")
    assert bytes(Event.objects.get().raw or b"") == bytes(range(16))


def test_a_wrong_bearer_secret_opens_nothing() -> None:
    builders.source("shop", kind="cloudevents", provider="", types=["**"])
    for value in ("Bearer wrong", "Bearer ", "", builders.SECRET[:-1], f"Basic {builders.SECRET}"):
        assert send(CLOUDEVENTS["structured_plain"], "shop", Authorization=value).status == 401
    assert not Event.objects.exists()
