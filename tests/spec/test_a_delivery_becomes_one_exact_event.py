"""What a sender signed is what is stored, once, on both databases; what cannot be stored is replaced and counted."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection, connections
from django.test import Client

from project.people import roles
from project.people.models import User
from tests import builders
from tests.conftest import person
from tests.deliveries import deliver, github, signed
from triggers import reading
from triggers.ingest import ingest
from triggers.matching import compile_filter
from triggers.models import Event, Refusal, Run, Seen, Source
from triggers.sources import proof, webhook
from triggers.sources.details import scheme_of

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "test-secret"


@pytest.fixture(autouse=True)
def source() -> Source:
    return builders.source(secrets=(SECRET,))


def proven(body: bytes, digest: str = "", *, id: str = "d-1", **headers: str) -> dict[str, Any]:
    return github(body, id=id, X_Hub_Signature_256=f"sha256={digest}" if digest else signed(body, SECRET), **headers)


def stored(body: bytes, **headers: str) -> Event:
    """The event this body becomes."""
    [answer] = deliver(proven(body, id=f"d-{Event.objects.count() + 1}", **headers))
    assert answer.status == 202, answer.body
    return Event.objects.get(pk=answer.json["seq"])


def test_the_signature_is_checked_over_the_received_bytes() -> None:
    """WH-01."""
    body = b'{"text":"esc \\u001B[0m"}'
    digest = "8c7b61fbafc8558893a39569e4f44f8411632a52754267fde22629899e194779"
    redumped = "cc2f18a98e16a2e0369ac3019c75069678b4f021629db6560f1a8f16460b56da"
    assert deliver(proven(body, redumped))[0].status == 401
    assert deliver(proven(body, digest))[0].status == 202
    text = Event.objects.get().data["text"]
    assert (len(text), text[:5]) == (8, "esc \x1b")


@pytest.mark.parametrize("provider", ["generic", "bitbucket", "shopify"])
def test_every_kind_of_hmac_source_checks_the_received_bytes(provider: str) -> None:
    """WH-01, through the other sources."""
    source = builders.source(provider, provider=provider, secrets=(SECRET,))
    body = b'{"text":"esc \\u001B[0m"}'
    where = scheme_of(source)["signature"]
    for text, status in ((json.dumps(json.loads(body)).encode(), 401), (body, 202)):
        mac = hmac.new(SECRET.encode(), text, hashlib.sha256)
        encoded = base64_of(mac.digest()) if where["encoding"] == "base64" else mac.hexdigest()
        headers = {where["header"]: where.get("prefix", "") + encoded, "Content-Type": "application/json"}
        assert deliver({"body": body, "headers": headers, "slug": provider})[0].status == status


FIELDS = {"MessageSid": "SM1", "SmsStatus": "received", "From": "+1", "Body": "pay 5"}
ADDRESS = "https://desk.example/hooks/seen"
AS_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SEEN = {  # provider, its config, and one delivery as it came and as whoever saw it may send it again
    "fields in another order": (
        ("twilio", {"url": ADDRESS}),
        lambda mark: [
            (urlencode(fields), AS_FORM | {"X-Twilio-Signature": mark, "I-Twilio-Idempotency-Token": f"t-{number}"})
            for number, fields in enumerate(
                [list(FIELDS.items()), list(reversed(FIELDS.items())), [*FIELDS.items(), ("From", "+1")]]
            )
        ],
    ),
    "without the header of its id": (
        ("custom", {"header": "X-Sig", "delivery_id": "{h:X-Id}"}),
        lambda mark: [
            ('{"a":1}', {"X-Sig": mark, "Content-Type": "application/json"} | more) for more in ({"X-Id": "1"}, {}, {})
        ],
    ),
    "as another type": (
        ("generic", {}),
        lambda mark: [
            ('{"event_id":"1"}', {"X-Signature": mark, "Content-Type": kind})
            for kind in (
                "application/json",
                "text/plain",
                "application/x-www-form-urlencoded",
                "application/octet-stream",
            )
        ],
    ),
}


@pytest.mark.parametrize("way", SEEN)
def test_who_saw_one_delivery_cannot_have_it_count_again(way: str) -> None:
    (provider, config), made = SEEN[way]
    builders.source("seen", provider=provider, secrets=(SECRET,), config=config)
    body = made("")[0][0]
    if provider == "twilio":
        text = ADDRESS + "".join(name + value for name, value in sorted(FIELDS.items()))
        mark = base64_of(hmac.digest(SECRET.encode(), text.encode(), "sha1"))
    else:
        mark = hmac.digest(SECRET.encode(), body.encode(), "sha256").hex()
    told = [
        deliver({"slug": "seen", "body": text.encode(), "headers": headers})[0].status for text, headers in made(mark)
    ]
    assert set(told) <= {200, 202}
    assert Event.objects.count() == 1


def test_two_topics_of_what_a_merchant_did_once_are_two_events() -> None:
    """Shopify gives both one event id (SOURCES trap 11)."""
    builders.source("shopify", provider="shopify", secrets=(SECRET,))
    told = []
    for topic, order in (("orders/create", {"id": 1}), ("orders/paid", {"id": 1, "paid": True}), ("orders/paid", {})):
        body = json.dumps(order).encode()
        mark = base64_of(hmac.new(SECRET.encode(), body, hashlib.sha256).digest())
        headers = {"X-Shopify-Topic": topic, "X-Shopify-Event-Id": "e-1", "X-Shopify-Hmac-Sha256": mark}
        told += deliver({"body": body, "headers": headers | {"Content-Type": "application/json"}, "slug": "shopify"})
    assert [answer.status for answer in told] == [202, 202, 200]
    assert list(Event.objects.order_by("pk").values_list("ce_id", flat=True)) == ["e-1", "e-1"]


def base64_of(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def test_an_emoji_arrives_code_point_for_code_point(ann: User, with_token: Callable[..., Client]) -> None:
    """WH-02."""
    body = '{"text":"party 🎉 café"}'.encode()
    deliver(proven(body, "55074f4991ff440af34b66de784da2d78f94c6a4d5bb37b61f6f1dba79c0634e"))
    event = Event.objects.get()
    assert event.data == {"text": "party 🎉 café"}
    shown = with_token(ann, "read", "operate").get(f"/api/v1/events/{event.pk}").json()
    assert shown["data"] == {"text": "party 🎉 café"}


def test_a_form_is_signed_as_it_was_sent() -> None:
    """WH-04."""
    body = b"payload=%7B%22ref%22%3A%22refs%2Fheads%2Fmain%22%7D"
    digest = "6779095cbccf96050fde1e8f1fc1c23f3987c9f883fea7ae2e2ee22e3efb770d"
    deliver(proven(body, digest, Content_Type="application/x-www-form-urlencoded"))
    assert Event.objects.get().data == {"ref": "refs/heads/main"}


def test_nothing_is_parsed_before_the_signature_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """WH-05."""
    parsed: list[object] = []
    readers = [
        (webhook, "read_body"),
        (proof, "unzip"),
        (reading, "read_json"),
        (reading, "read_form"),
        (reading, "clean"),
    ]
    for module, name in readers:
        monkeypatch.setattr(module, name, lambda *given, **named: parsed.append(given))
    bodies = [b"[" * 20000 + b"]" * 20000, b"\xff\xfe\x00", b""]
    wrong = [proven(body, "0" * 64) for body in bodies] + [{"body": body, "headers": {}} for body in bodies]
    answers = deliver(*wrong)
    assert {(answer.status, answer.body) for answer in answers} == {(401, answers[0].body)}
    assert (parsed, Event.objects.count(), Refusal.objects.count()) == ([], 0, 6)


def test_odd_spacing_and_a_last_newline_are_part_of_what_was_signed() -> None:
    """WH-13."""
    body = b'{"a": 1.0, "b":1e2,"a2":"\\u2028"}\n'
    digest = "7a56d444476f29c4b297c5b9c7f6cca604c3e05d8ad2337f1c7b167ced3539c3"
    answers = [
        deliver({**proven(body, digest, Content_Encoding="identity"), "chunks": chunks})[0] for chunks in (1, 34)
    ]
    assert [answer.status for answer in answers] == [202, 200]
    assert bytes(Event.objects.get().raw or b"") == body
    assert Event.objects.get().data == {"a": 1.0, "b": 100.0, "a2": "\u2028"}


def test_the_same_event_three_times_and_twenty_at_once_is_one() -> None:
    """DD-01, DD-02: the losers are told the winner's number; nobody sees an error."""
    builders.trigger("triage-issue")
    builders.trigger("triage-issue")
    body = b'{"action": "opened"}'
    one_by_one = [deliver(proven(body, id="abc"))[0] for _ in range(3)]
    at_once = together(20, lambda: deliver(proven(body, id="abc"))[0])
    answers = one_by_one + at_once
    assert {answer.json["seq"] for answer in answers} == {Event.objects.get().pk}
    assert [answer.status for answer in answers] == [202] + [200] * 22
    assert {answer.json["status"] for answer in answers[1:]} == {"duplicate"}
    assert (Run.objects.count(), Event.objects.get().duplicates) == (2, 22)


def test_two_who_claim_one_key_at_the_same_moment_agree(source: Source) -> None:
    """DD-02, past the group commit: twelve threads with their own connections."""

    def claim() -> tuple[str, int]:
        [arrival] = webhook.arrivals_of(source, b'{"n": 1}', {"x-github-event": "push", "x-github-delivery": "d-1"})
        [outcome] = ingest([arrival])
        return outcome.status, outcome.seq

    told = together(12, claim)
    assert sorted(status for status, _ in told) == ["accepted"] + ["duplicate"] * 11
    assert {seq for _, seq in told} == {Event.objects.get().pk}


def together(count: int, work: Callable[[], Any]) -> list[Any]:
    """`work` in as many threads, started at once."""
    start, results = threading.Barrier(count), []

    def run() -> None:
        start.wait(30)
        try:
            results.append(work())
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == count
    return results


def test_the_window_counts_from_the_first_and_survives_pruning(source: Source, later: Callable[..., None]) -> None:
    """DD-04."""
    source.change(by=None, dedupe_window=86400)
    body = b'{"n": 1}'
    first = deliver(proven(body, id="x"))[0]
    later(hours=1)
    Event.objects.filter(pk=first.json["seq"]).update(raw=None, data_json="")  # what retention leaves
    later(hours=22, minutes=59, seconds=50)
    assert deliver(proven(body, id="x"))[0].json == {**first.json, "status": "duplicate"}
    later(seconds=30)
    again = deliver(proven(body, id="x"))[0]
    assert (again.status, again.json["seq"] != first.json["seq"]) == (202, True)


@pytest.mark.parametrize(
    ("body", "data", "replaced"),
    [
        (b'{"a":"x\\u0000y"}', {"a": "x\ufffdy"}, 1),
        (b'{"a\\u0000":1}', {"a\ufffd": 1}, 1),
        (b'{"a":"\\ud800"}', {"a": "\ufffd"}, 1),
        (b'{"a":"\\udc00x"}', {"a": "\ufffdx"}, 1),
        (b'{"\\udfff":1}', {"\ufffd": 1}, 1),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "\U0001f600"}, 0),
        (b'{"a":"\\\\u0000"}', {"a": "\\u0000"}, 0),
    ],
)
def test_what_no_database_stores_is_replaced_and_counted(body: bytes, data: Any, replaced: int) -> None:
    """JS-01, JS-02."""
    event = stored(body)
    assert (event.data, event.sanitized, bytes(event.raw or b"")) == (data, replaced, body)
    assert Seen.objects.count() == 2


def test_half_a_surrogate_hurts_no_list_afterwards(ann: User, sign_in: Callable[[User], Client]) -> None:
    """JS-02: the pages and the API go on."""
    event = stored(b'{"repository": {"full_name": "\\ud800"}, "\\udfff": "\\u0000"}')
    browser = sign_in(ann)
    for address in ("/events", f"/events/{event.pk}", "/api/v1/events", f"/api/v1/events/{event.pk}"):
        assert browser.get(address).status_code == 200


def test_a_nul_in_a_delivery_id_is_refused() -> None:
    """JS-01: keys are compared byte by byte, so nothing is replaced in them."""
    builders.source("generic", provider="generic", secrets=(SECRET,))
    body = b'{"event_id": "d\\u00001", "event_type": "t"}'
    in_body = {"body": body, "headers": {"X-Signature": signed(body, SECRET)[7:]}, "slug": "generic"}
    answers = deliver(proven(b"{}", id="d\x001"), in_body)
    assert [answer.status for answer in answers] == [400, 400]
    assert not Seen.objects.exists()


def test_large_integers_stay_what_they_are() -> None:
    """JS-04."""
    event = stored(b'{"id":3544790567247868102,"n":9007199254740993,"x":123456789012345678901234567890}')
    assert event.data == {"id": 3544790567247868102, "n": 9007199254740993, "x": 123456789012345678901234567890}
    assert "9007199254740993" in event.data_text


def test_deep_nesting_is_refused_before_anything_is_stored() -> None:
    """JS-05."""
    deep = [b"[" * 20000 + b"]" * 20000, b'{"a":' * 1000 + b"1" + b"}" * 1000]
    for body in deep:
        answer = deliver(proven(body))[0]
        assert (answer.status, answer.json["code"]) == (400, "too_deep")
    assert not Event.objects.exists()
    assert stored(b'{"a":' * 100 + b"1" + b"}" * 100).status == "ignored"


@pytest.mark.parametrize(
    ("body", "value"),
    [(b"null", None), (b"true", True), (b"0", 0), (b'"text"', "text"), (b"[]", []), (b"[{}]", [{}]), (b"{}", {})],
)
def test_any_json_value_is_a_whole_body(body: bytes, value: Any, ann: User, sign_in: Callable[[User], Client]) -> None:
    """JS-09."""
    builders.trigger("triage-issue", slug="asks", filter_plan=plan_of("event.data.a == 1"))
    event = stored(body)
    assert (event.data, event.has_data, event.status) == (value, True, "ignored")
    assert event.outcomes[0]["outcome"] == "not_matched"
    assert sign_in(ann).get(f"/events/{event.pk}").status_code == 200


def plan_of(text: str) -> Any:
    return compile_filter(text)


def test_no_body_is_no_data_and_a_byte_order_mark_is_no_part_of_it() -> None:
    """JS-09."""
    empty, marked = stored(b""), stored(b'\xef\xbb\xbf{"a":1}')
    assert (empty.has_data, empty.data) == (False, None)
    assert marked.data == {"a": 1}


@pytest.mark.parametrize(
    "member", [{"subject": "x" * 600}, {"type": "t" * 256}, {"id": "i" * 513}, {"source": "s" * 513}]
)
def test_what_is_too_long_is_refused_alike_on_both_databases(member: dict[str, str]) -> None:
    """DB-02."""
    builders.source("shop", kind="cloudevents", provider="", types=["**"])
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **member}
    headers = {"Content-Type": "application/cloudevents+json", "Authorization": f"Bearer {builders.SECRET}"}
    [answer] = deliver({"body": json.dumps(event).encode(), "headers": headers, "slug": "shop"})
    assert (answer.status, answer.json["code"]) == (422, "not_valid")


def test_both_databases_tell_the_same_apart(ann: User, sign_in: Callable[[User], Client]) -> None:
    """DB-02: upper and lower case, composed and decomposed letters, integers beyond 64 bits, null and missing."""
    for number, (type, id) in enumerate([("A", "caf\u00e9"), ("a", "cafe\u0301")]):
        builders.trigger("triage-issue", slug=f"t-{number}", type_pattern=f"github.{type}")
        deliver(proven(b'{"n": %d}' % (2**63 + number), id=id.encode().decode("latin-1"), X_GitHub_Event=type))
    events = list(Event.objects.order_by("pk"))
    assert [event.data["n"] for event in events] == [2**63, 2**63 + 1]
    assert [[told["trigger"] for told in event.outcomes] for event in events] == [["t-0"], ["t-1"]]
    found = sign_in(ann).get("/api/v1/events?type=github.A").json()["items"]
    assert [item["seq"] for item in found] == [events[0].pk]


def test_claiming_a_run_beside_deliveries_never_fails(source: Source) -> None:
    """DB-01, DB-03: read-then-write beside other writers; eight threads, no 'database is locked'."""
    builders.trigger("triage-issue")
    numbers = iter(range(1000))

    def ring_and_claim() -> int:
        claimed = 0
        for _ in range(10):
            headers = {"x-github-event": "push", "x-github-delivery": f"d-{next(numbers)}"}
            ingest(webhook.arrivals_of(source, b"{}", headers))
            for run in Run.objects.filter(status="queued").order_by("pk")[:3]:
                claimed += run.claim(run.queued_at, owner=threading.current_thread().name)
        return claimed

    source.change(by=None, idempotency_key='headers["x-github-delivery"]')
    assert sum(together(8, ring_and_claim)) <= Run.objects.count() == 80


def test_the_settings_that_keep_sqlite_patient() -> None:
    """DB-01, DB-03."""
    if connection.vendor != "sqlite":
        pytest.skip("about SQLite")
    assert connection.settings_dict["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    with connection.cursor() as cursor:
        found = {name: cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}
    assert found == {"journal_mode": "wal", "synchronous": 2}


def test_who_wants_equal_bodies_to_count_says_what_makes_a_delivery_the_same() -> None:
    """GitHub's workflow_dispatch holds no time: pressed twice it is the same bytes under another, unsigned number."""
    body = {"inputs": {"env": "prod"}, "ref": "refs/heads/main", "workflow": "deploy.yml"}
    presses = [github(body, id=number, event="workflow_dispatch") for number in ("1", "2", "2")]
    builders.source("careful")
    builders.source("trusting", idempotency_key='headers["x-github-delivery"]')
    told = {slug: [deliver({"slug": slug, **one})[0].status for one in presses] for slug in ("careful", "trusting")}
    assert told == {"careful": [202, 200, 200], "trusting": [202, 202, 200]}


def test_a_key_made_of_the_payload_is_shown_with_the_payload_only(sign_in: Callable[[User], Client]) -> None:
    builders.source("shop", idempotency_key="event.data.customer.email")
    deliver({"slug": "shop", **github({"customer": {"email": "ann.private@example.org"}})})
    number = Event.objects.get().pk
    shown = {
        role: "ann.private@example.org" in sign_in(person(role, role)).get(f"/events/{number}").content.decode()
        for role in (roles.VIEWER, roles.OPERATOR)
    }
    assert shown == {roles.VIEWER: False, roles.OPERATOR: True}
