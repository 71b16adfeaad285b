"""Whoever saw a signed delivery and knows no secret can send it again with all that nobody signs changed: its media
type, headers, the place where one part ends and the next begins. It is a repeat all the same."""

import base64
import gzip
import hashlib
import hmac
import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from django.test import Client

from project.people.models import User
from tests import builders
from tests.deliveries import Answered, deliver, github, signed
from tests.signers import SIGNERS, WHSEC, b64, mac, p256, p256_shown
from triggers.models import Event, Refusal, Seen

pytestmark = pytest.mark.django_db(transaction=True)
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
MEDIA_TYPES = ("text/html", FORM, "application/octet-stream", "application/json; charset=iso-8859-1")
ORDER = {"event_type": "sold", "event_id": "e-1", "data": {}}


def send(slug: str, body: bytes, headers: dict[str, str], kind: str = JSON, query: str = "") -> Answered:
    return deliver({"slug": slug, "body": body, "headers": headers | {"Content-Type": kind}, "query": query})[0]


def count() -> int:
    return Event.objects.count()


@pytest.mark.parametrize("kind", MEDIA_TYPES)
def test_no_provider_rings_again_under_another_media_type(kind: str) -> None:
    once, again = [], []
    for name, signer in SIGNERS.items():
        if not signer.covers or name == "aws_sns":  # a secret is shown; its certificate would be fetched
            continue
        slug = name.replace("_", "-")
        builders.source(slug, provider=name, secrets=(signer.secret,), config=dict(signer.config), types=["**"])
        one = signer.sign(signer.secret, time.time())
        request = {"slug": slug, "body": one.body, "query": urlencode(one.query)}
        once.append(request | {"headers": one.headers})
        again.append(request | {"headers": one.headers | {"Content-Type": kind}})
    assert {answer.status for answer in deliver(*once)} <= {200, 202, 204}
    rang = sorted(Event.objects.values_list("source_slug", flat=True))
    assert rang == sorted(request["slug"] for request in once)
    deliver(*again, *again)
    assert sorted(Event.objects.values_list("source_slug", flat=True)) == rang


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (urlencode({"payload": json.dumps(ORDER)}).encode(), FORM),
        (urlencode({"event_id": "e-1", "event_type": "sold"}).encode(), FORM),
        (b"\xef\xbb\xbf" + json.dumps(ORDER).encode(), JSON),
        (json.dumps(ORDER).encode("utf-16"), "application/json; charset=utf-16"),
    ],
)
@pytest.mark.parametrize("other", ["text/plain", "image/png"])
def test_an_id_is_not_hidden_by_another_media_type(body: bytes, kind: str, other: str) -> None:
    builders.source("shop", provider="generic")
    mark = {"X-Signature": signed(body).removeprefix("sha256=")}
    assert send("shop", body, mark, kind).status == 202
    assert [send("shop", body, mark, other).json["status"] for _ in range(2)] == ["duplicate"] * 2
    assert send("shop", body, mark, kind).json["status"] == "duplicate"
    assert count() == 1


@pytest.mark.parametrize("body", [b"tick", b'{"event_type": "tick"}'])
def test_what_comes_without_an_id_may_come_again(body: bytes) -> None:
    builders.source("shop", provider="generic")
    mark = {"X-Signature": signed(body).removeprefix("sha256=")}
    kind = "text/plain" if body == b"tick" else JSON
    assert [send("shop", body, mark, kind).status for _ in range(3)] == [202] * 3
    assert [one.status for one in deliver(*[{"slug": "shop", "body": body, "headers": mark}] * 3)] == [202] * 3


def test_who_trusts_a_header_is_told_so_and_only_that_header_counts(
    owner: User, sign_in: Callable[[User], Client]
) -> None:
    builders.source(idempotency_key="headers['x-order']")
    assert deliver(github({"a": 1}, X_Order="7"))[0].status == 202
    for again in (github({"a": 1}), github({"a": 1}, id="d-2"), github({"a": 2}, id="d-3", X_Order="7")):
        assert deliver(again)[0].json["status"] == "duplicate"
    assert deliver(github({"a": 2}, id="d-4"))[0].json["status"] == "duplicate", "signed anew, for one that is known"
    assert deliver(github({"a": 1}, X_Order="8"))[0].status == 202, "an order of its own"
    both = [github({"a": 3}, X_Order=order) for order in ("9", "10", "10")]
    assert sorted(answer.status for answer in deliver(*both)) == [200, 202, 202]
    told = sign_in(owner).get("/api/v1/sources/github").json()["warning"]
    assert "a header that nobody signs" in told
    builders.source("signed", provider="svix", idempotency_key="headers['svix-id'] + '1'", secrets=(WHSEC,))
    assert sign_in(owner).get("/api/v1/sources/signed").json()["warning"] == ""


def test_a_key_of_the_sources_own_is_not_lost_with_the_media_type() -> None:
    builders.source("shop", provider="generic", idempotency_key="event.data.order.id")
    body = json.dumps({"event_type": "sold", "order": {"id": "o-1"}}).encode()
    mark = {"X-Signature": signed(body).removeprefix("sha256=")}
    assert send("shop", body, mark).status == 202
    assert {send("shop", body, mark, kind).json["status"] for kind in MEDIA_TYPES} == {"duplicate"}
    assert count() == 1


def test_what_was_signed_packed_is_known_again_unpacked_or_not() -> None:
    builders.source()
    packed = github(gzip.compress(b'{"a": 1}'), Content_Encoding="gzip")
    assert deliver(packed)[0].status == 202
    as_bytes = packed | {"headers": packed["headers"] | {"Content-Encoding": "identity", "Content-Type": "image/png"}}
    assert deliver(as_bytes | {"headers": as_bytes["headers"] | {"X-GitHub-Delivery": "d-2"}})[0].status == 200
    assert count() == 1


def test_the_fields_of_a_form_do_not_move_into_the_address() -> None:
    address, query = "https://desk.example.org/hooks/twilio", "src=desk"
    builders.source("twilio", provider="twilio", config={"url": address})
    form = {"AccountSid": "AC1", "Body": "pay", "From": "+1555", "MessageSid": "SM1"}
    text = f"{address}?{query}" + "".join(key + form[key] for key in sorted(form))
    mark = {"X-Twilio-Signature": b64(mac(builders.SECRET, text.encode(), "sha1"))}
    send("twilio", urlencode(form).encode(), mark, FORM, query)
    del form["AccountSid"]
    more = {"I-Twilio-Idempotency-Token": "another"}
    send("twilio", urlencode(form).encode(), mark | more, FORM, query + "AccountSidAC1")
    assert count() == 1


def test_what_divides_an_id_from_a_body_does_not_move() -> None:
    builders.source("hooks", provider="svix", secrets=(WHSEC,))
    when = str(int(time.time()))
    body = json.dumps({"type": "note.made", "text": f"see v1.{when}.zip"}).encode()
    mark = {"svix-timestamp": when, "svix-signature": signature(f"msg_1.{when}.".encode() + body)}
    assert send("hooks", body, mark | {"svix-id": "msg_1"}).status == 202
    head, tail = body.split(f".{when}.".encode())
    moved = {"svix-id": f"msg_1.{when}." + head.decode()}
    assert send("hooks", tail, mark | moved, "text/html").status == 401
    assert "full stop" in Refusal.objects.get().detail


def signature(text: bytes) -> str:
    return "v1," + b64(mac(base64.b64decode(WHSEC.removeprefix("whsec_")), text))


def test_an_id_that_nothing_divides_from_the_body_takes_nothing_of_it() -> None:
    scheme = {"header": "X-Sig", "template": "{h:X-Id}{body}", "delivery_id": "{h:X-Id}"}
    builders.source("own", provider="custom", config=scheme)
    body = b'{"amount": 1}'
    mark = {"X-Sig": hmac.new(builders.SECRET.encode(), b"d-1" + body, hashlib.sha256).hexdigest()}
    assert send("own", body, mark | {"X-Id": "d-1"}).status == 202
    moved = send("own", body[3:], mark | {"X-Id": "d-1" + body[:3].decode()}, "text/html")
    assert (moved.json["status"], count()) == ("duplicate", 1)


@pytest.fixture
def batch() -> Callable[..., dict[str, Any]]:
    """A signed list of SendGrid's, of these ids, as of so many seconds ago."""
    builders.source("mails", provider="sendgrid", secrets=(p256_shown("a secret that everybody knows"),))

    def made(*ids: int, ago: int = 0, kind: str = JSON) -> dict[str, Any]:
        items = [{"email": "a@example.org", "event": "dropped", "sg_event_id": f"e-{id}"} for id in ids]
        body, when = json.dumps(items).encode(), str(int(time.time()) - ago)
        mark = b64(p256("a secret that everybody knows").sign(when.encode() + body, ec.ECDSA(SHA256())))
        before = "X-Twilio-Email-Event-Webhook"
        headers = {f"{before}-Timestamp": when, f"{before}-Signature": mark, "Content-Type": kind}
        return {"slug": "mails", "body": body, "headers": headers}

    return made


def as_text(one: dict[str, Any]) -> dict[str, Any]:
    return one | {"headers": one["headers"] | {"Content-Type": "text/html"}}


def statuses(answer: Answered) -> list[str]:
    return [one["status"] for one in answer.json.get("events", [answer.json])]


def test_a_list_is_told_apart_item_by_item_and_known_again_as_a_whole(batch: Callable[..., dict[str, Any]]) -> None:
    first = batch(1, 2, ago=20)
    assert statuses(deliver(first)[0]) == ["accepted"] * 2
    assert statuses(deliver(first)[0]) == ["duplicate"] * 2
    assert set(Refusal.objects.values_list("reason", flat=True)) == {"duplicate"}
    later = batch(2, 3, 4, ago=10)
    assert statuses(deliver(later)[0]) == ["duplicate", "accepted", "accepted"], "signed anew: by what each one is"
    assert statuses(deliver(as_text(later))[0]) == ["duplicate"]
    third = Event.objects.get(ce_id="e-3")
    assert Seen.objects.filter(key__startswith="body:", event=third.pk).exists(), "and it leads to one that is there"
    retry = batch(1, 2)
    assert statuses(deliver(retry)[0]) == ["duplicate"] * 2
    assert statuses(deliver(as_text(retry))[0]) == ["duplicate"], "a retry is no new chance"
    assert count() == 4


def test_of_a_list_and_its_copy_at_the_same_moment_one_counts(batch: Callable[..., dict[str, Any]]) -> None:
    one = batch(*range(1, 6))
    answers = deliver(one, as_text(one), one, as_text(one))
    told = Counter(status for answer in answers for status in statuses(answer))
    assert count() == told["accepted"] in (5, 1), "whichever was first"
    assert sum(told.values()) == 12
