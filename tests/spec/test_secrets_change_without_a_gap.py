"""A secret is changed while deliveries come: old and new are valid at once, also several signatures in one header."""

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from project.lib import clock
from project.people.models import User
from tests import builders
from tests.deliveries import deliver, github, signed
from triggers import upkeep, uses
from triggers.models import Event, Refusal, Source
from triggers.sources.verify import Forged, catalogue, verify

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
AT = 1767225600
BY_ANOTHER = "v1,U2BHmAq1mgi99ROj3/BCJd59ujXNcpgMAFcTTh5O/0E="
FITS = "v1,H5+148rKeqL2IkT3W2tcipajyGQjEsYLhQfKqeWvpYk="
NEW, OLD = "whsec_" + KEY, "whsec_" + base64.b64encode(b"an older key of 24 bytes").decode()


def standard(body: bytes, *secrets: str, id: str = "msg_1", at: float | None = None, **headers: str) -> dict[str, Any]:
    """A Standard Webhooks delivery of now, signed with each of the secrets."""
    moment = str(int(time.time() if at is None else at))
    marks = [
        hmac.new(base64.b64decode(secret.removeprefix("whsec_")), f"{id}.{moment}.".encode() + body, hashlib.sha256)
        for secret in secrets
    ]
    given = {
        "webhook-id": id,
        "webhook-timestamp": moment,
        "webhook-signature": " ".join("v1," + base64.b64encode(mark.digest()).decode() for mark in marks),
        "content-type": "application/json",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return {"slug": "standard", "body": body, "headers": given}


@pytest.mark.parametrize("secret", [NEW, KEY], ids=["with its prefix", "without"])
@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (f"{BY_ANOTHER} {FITS}", True),
        (f"{FITS} {BY_ANOTHER}", True),
        (f"v2,zzz {FITS}", True),
        (BY_ANOTHER, False),
        (FITS.replace("v1,", "v2,"), False),
        (FITS.replace("v1,", "v0,"), False),
        (FITS.removeprefix("v1,"), False),
    ],
)
def test_any_v1_signature_of_the_header_counts(secret: str, text: str, fits: bool) -> None:
    """WH-07, with the published digests."""
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(AT), "webhook-signature": text}
    given: Any = (catalogue()["standard_webhooks"], b'{"type":"t"}', headers, [secret.encode()])
    if fits:
        assert verify(*given, now=AT).secret == 0
    else:
        with pytest.raises(Forged, match="signature"):
            verify(*given, now=AT)


def test_a_stripe_header_may_hold_two_as_well() -> None:
    """WH-07: Stripe signs with the secret as it is written."""
    right = "45b40331de0325606dc5400202ade162460fbe48daf9401adfdcd0d7b4f35470"
    for marks in (f"v1={'0' * 64},v1={right}", f"v1={right},v1={'0' * 64}"):
        headers = {"stripe-signature": f"t={AT},{marks}"}
        assert verify(catalogue()["stripe"], b'{"id":"evt_1"}', headers, [b"whsec_test"], now=AT).secret == 0
    with pytest.raises(Forged):
        verify(
            catalogue()["stripe"],
            b'{"id":"evt_1"}',
            {"stripe-signature": f"t={AT},v0={right}"},
            [b"whsec_test"],
            now=AT,
        )


def test_both_secrets_are_taken_until_the_old_one_ends() -> None:
    """WH-07 at the door."""
    source = builders.source("standard", provider="standard_webhooks", secrets=())
    ends = clock.now() + timedelta(hours=1)
    source.change(by=None, secrets=[{"value": NEW}, {"value": OLD, "ends_at": ends.isoformat()}])
    body = b'{"type":"contact.created","data":{"id":1}}'
    requests = [standard(body, NEW, id="m-1"), standard(body, OLD, id="m-2"), standard(body, OLD, NEW, id="m-3")]
    assert [answer.status for answer in deliver(*requests)] == [202, 202, 202]
    assert Event.objects.get(ce_id="m-1").type == "standard_webhooks.contact.created"

    over = clock.now() - timedelta(seconds=1)
    source.refresh_from_db()
    source.change(by=None, secrets=[{"value": NEW}, {"value": OLD, "ends_at": over.isoformat()}])
    answers = deliver(standard(body, OLD, id="m-4"), standard(body, NEW, id="m-5"), standard(body, OLD, NEW, id="m-6"))
    assert [answer.status for answer in answers] == [401, 202, 202]
    assert Refusal.objects.get(reason="bad_signature").answered == 401


def test_a_retry_is_known_by_its_signed_id() -> None:
    """DD-07: a new time, signature or proxy's number makes no new event; a new id with the same body does."""
    builders.source("standard", provider="standard_webhooks", secrets=(NEW,))
    body = b'{"type":"t"}'
    first = standard(body, NEW, at=time.time() - 100, X_Request_ID="proxy-1")
    again = standard(body, NEW, X_Request_ID="proxy-2")
    answers = [deliver(request)[0] for request in (first, again, standard(body, NEW, id="msg_2"))]
    assert [answer.status for answer in answers] == [202, 200, 202]
    assert answers[1].json["seq"] == answers[0].json["seq"]
    assert Event.objects.filter(ce_id="msg_1").get().duplicates == 1


CONFIG = {
    "header": "X-Bank-Signature",
    "prefix": "v1=",
    "template": "{sig.t}.{h:X-Bank-Id}.{body}",
    "timestamp": "{sig.t}",
    "tolerance": 60,
    "delivery_id": "{h:X-Bank-Id}",
    "event_type": "{json:kind}",
}


def bank(body: bytes, id: str, *, ago: float = 0, secret: str = builders.SECRET) -> dict[str, Any]:
    moment = int(time.time() - ago)
    mark = hmac.new(secret.encode(), f"{moment}.{id}.".encode() + body, hashlib.sha256).hexdigest()
    headers = {"X-Bank-Id": id, "X-Bank-Signature": f"t={moment},v1={mark}", "Content-Type": "application/json"}
    return {"slug": "bank", "body": body, "headers": headers}


def test_a_described_scheme_works_at_the_door_and_changes_with_its_source(
    owner: User, sign_in: Callable[[User], Client]
) -> None:
    """`custom`, made and changed through the API."""
    body = {"slug": "bank", "kind": "webhook", "provider": "custom", "config": CONFIG}
    client = sign_in(owner)
    made = client.post("/api/v1/sources", body, content_type="application/json")
    assert made.status_code == 201, made.content
    source = Source.objects.get(slug="bank")
    source.change(by=None, secrets=[{"value": builders.SECRET}])

    answers = deliver(
        bank(b'{"kind":"paid"}', "b-1"),
        bank(b'{"kind":"paid"}', "b-2", ago=70),
        bank(b'{"kind":"paid"}', "b-3", secret="another secret"),
    )
    assert [answer.status for answer in answers] == [202, 401, 401]
    assert [answer.status for answer in deliver(bank(b'{"kind":"paid"}', "b-1"))] == [200]
    assert (Event.objects.get().type, Event.objects.get().ce_id) == ("paid", "b-1")
    assert deliver(bank(b'{"kind":"paid"}', "b-4"))[0].status == 202, "the id is signed: the same body is no repeat"

    changed = {"version": Source.objects.get(slug="bank").version, "config": CONFIG | {"header": "X-Other"}}
    assert client.patch("/api/v1/sources/bank", changed, content_type="application/json").status_code == 200
    assert deliver(bank(b"{}", "b-5"))[0].status == 401


def test_a_scheme_without_a_meaning_is_not_saved(owner: User, sign_in: Callable[[User], Client]) -> None:
    body = {"slug": "bank", "kind": "webhook", "provider": "custom", "config": CONFIG | {"template": "{h:X-Bank-Id}"}}
    refused = sign_in(owner).post("/api/v1/sources", body, content_type="application/json")
    assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (422, "not_valid", "template")
    assert "{body}" in refused.json()["detail"]
    assert not Source.objects.filter(slug="bank").exists()


def test_two_secrets_that_end_alike_are_counted_apart() -> None:
    source = builders.source(secrets=("first-secret-0000", "other-secret-0000"))
    raw = b"{}"
    deliver(github(raw, X_Hub_Signature_256=signed(raw, "other-secret-0000")))
    uses.flush()
    source.refresh_from_db()
    assert [(one["hint"], one["count"]) for one in source.secret_hints] == [("…0000", 0), ("…0000", 1)]
    assert "secret" not in str(source.secret_usage)


def test_what_was_counted_by_its_last_characters_still_counts() -> None:
    told = {"…word": {"at": "2026-11-29T08:00:00+00:00", "count": 7}}
    source = builders.source(secrets=("the secret word", "the secret that is new"), secret_usage=told)
    assert [one["count"] for one in source.secret_hints] == [7, 0]


def test_an_end_that_was_set_is_not_put_off_by_the_next_change() -> None:
    soon = clock.now() + timedelta(hours=1)
    source = builders.source()
    source.change(by=None, secrets=[{"value": builders.SECRET, "ends_at": soon.isoformat()}])
    upkeep.add_secret(source, "a brand new secret", by=None, keep_old=True, old_until=soon + timedelta(days=7))
    assert Source.objects.get().secrets[1]["ends_at"] == soon.isoformat()
