"""Every provider of the catalogue at the door: what it signs is taken, and nothing near it is.

One set of questions for all: a delivery as its documentation says, then one byte changed, the signature missing, old,
from the future, not ASCII, doubled, and by another secret."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from urllib.parse import urlencode

import pytest
from django.test import Client

from project.lib import crypto
from project.people.models import User
from tests import builders
from tests.deliveries import deliver
from tests.serving import Served, served
from tests.signers import (
    CERTIFICATE_AT,
    SECRET,
    SIGNERS,
    WHSEC,
    WHSEC_OTHER,
    Request,
    Signer,
    b64,
    gitlab_signed,
    mac,
    rsa_pair,
)
from triggers.models import Event, Refusal, Source
from triggers.sources import certificates
from triggers.sources.verify import catalogue

pytestmark = pytest.mark.django_db(transaction=True)
UNSIGNED = {"none", "cloudevents"}  # nobody signs, and a bearer secret: tests/spec/test_every_delivery_gets_its_answer


@pytest.fixture(autouse=True)
def certificate() -> None:
    certificates.keep(CERTIFICATE_AT, rsa_pair()[1])


@pytest.fixture(scope="module")
def live() -> Iterator[Served]:
    with served() as one:
        yield one


@pytest.fixture(params=SIGNERS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def source(provider: str) -> Source:
    signer = SIGNERS[provider]
    return builders.source(
        "it", provider=provider, secrets=(signer.secret,), config=signer.config, types=["**"], rate_limit=None
    )


def sent(request: Request, doubled: str = "") -> dict[str, object]:
    """`doubled`: what stands in front under the name of the signature's header."""
    pairs = [(name, value) for name, value in request.headers.items()]
    if doubled:
        pairs.insert(0, (request.mark, doubled))
    return {"slug": "it", "body": request.body, "headers": pairs, "query": urlencode(request.query)}


def remarked(request: Request, text: str | None) -> Request:
    """With this signature, or with none."""
    if request.mark.startswith("?"):
        kept = {name: value for name, value in request.query.items() if name != request.mark[1:]}
        return replace(request, query=kept if text is None else kept | {request.mark[1:]: text})
    if request.mark.startswith("json:"):
        body = json.loads(request.body)
        holder = body.get("signature", body)
        name = "signature" if "signature" in body else "Signature"
        del holder[name]
        if text is not None:
            holder[name] = text
        return replace(request, body=json.dumps(body).encode())
    return request.with_header(request.mark, text)


def changed(signer: Signer, request: Request) -> Request:
    """One byte of what is signed is another: of the body, or, where that is not signed, of the proof itself."""
    if not signer.covers:
        if request.mark == "json:signature":
            return replace(request, body=request.body.replace(b"token-of-1", b"token-of-2"))
        return remarked(request, mark_of(request)[:-1] + "~")
    if b"hello" in request.body:
        return replace(request, body=request.body.replace(b"hello", b"hellp"))
    middle = len(request.body) // 2
    other = b"A" if request.body[middle : middle + 1] != b"A" else b"B"
    return replace(request, body=request.body[:middle] + other + request.body[middle + 1 :])


def mark_of(request: Request) -> str:
    return request.query[request.mark[1:]] if request.mark.startswith("?") else request.headers[request.mark]


def near_misses(signer: Signer, now: float) -> dict[str, dict[str, object]]:
    right = signer.sign(signer.secret, now)
    tries = {
        "one byte changed": sent(changed(signer, right)),
        "signature missing": sent(remarked(right, None)),
        "signature empty": sent(remarked(right, "")),
        "not ASCII": sent(remarked(right, "\xe9\xff")),
        "another secret": sent(signer.sign(signer.other, now)),
    }
    if signer.within is not None:
        tries["old"] = sent(signer.sign(signer.secret, now - signer.within - 100))
        tries["from the future"] = sent(signer.sign(signer.secret, now + 1000))
    if not right.mark.startswith(("?", "json:")):
        tries["doubled"] = sent(right, doubled="v1=00")
    return tries


class TestASignature:
    """The same questions for every provider, over a real server."""

    def test_as_documented_it_is_taken(self, provider: str, live: Served) -> None:
        signer = SIGNERS[provider]
        row = source(provider)
        answers = [
            live.deliver(sent(signer.sign(signer.secret, time.time() - ago)))[0]
            for ago in (20, 20 if provider == "mailgun" else 10)
        ]
        assert [answer.status for answer in answers] == [signer.status, 200]
        event = Event.objects.get()
        assert event.type == signer.type
        assert event.ce_id == signer.id or not signer.id
        assert "hello" in json.dumps(event.data)
        assert (event.duplicates, event.source_id) == (1, row.pk)

    def test_nothing_near_it_is(self, provider: str, live: Served) -> None:
        signer = SIGNERS[provider]
        source(provider)
        tries = near_misses(signer, time.time())
        answers = dict(zip(tries, live.deliver(*tries.values()), strict=True))
        assert {name for name, answer in answers.items() if answer.status != 401} == forgiven(provider)
        bodies = {answer.body for name, answer in answers.items() if name not in forgiven(provider)}
        assert len(bodies) == 1, "whatever is wrong, the sender hears the same"
        assert Event.objects.exists() is bool(forgiven(provider))
        assert all(refusal.detail for refusal in Refusal.objects.filter(answered=401)), "and people read why"


@pytest.mark.parametrize("provider", ["github", "slack", "stripe", "square", "pagerduty"])
def test_whoever_takes_the_id_away_is_known_by_the_body(provider: str) -> None:
    """No header but that of the signature is signed: what was seen once is sent again without its id, or as no JSON."""
    signer = SIGNERS[provider]
    source(provider)
    right = signer.sign(signer.secret, time.time())
    kept = {name: text for name, text in right.headers.items() if "ignature" in name or "Timestamp" in name}
    again = [replace(right, headers=kept | {"Content-Type": kind}) for kind in ("text/csv", "text/html")]
    deliver(sent(right))
    deliver(*map(sent, again))
    assert [(event.ce_id, event.duplicates) for event in Event.objects.all()] == [(signer.id, 2)]


def test_one_body_under_two_signed_ids_is_two_events() -> None:
    source("svix")
    right = SIGNERS["svix"].sign(SIGNERS["svix"].secret, time.time())
    other = {"svix-id": "msg_2", "svix-timestamp": right.headers["svix-timestamp"]}
    text = f"msg_2.{other['svix-timestamp']}.".encode() + right.body
    other["svix-signature"] = "v1," + b64(mac(SECRET, text))
    deliver(sent(right), sent(replace(right, headers=right.headers | other)))
    assert sorted(event.ce_id for event in Event.objects.all()) == ["msg_1", "msg_2"]


def test_every_item_of_a_batch_is_an_event_of_its_own() -> None:
    source("azure_eventgrid")
    right = SIGNERS["azure_eventgrid"].sign(SIGNERS["azure_eventgrid"].secret, time.time())
    [item] = json.loads(right.body)
    right = replace(right, body=json.dumps([item | {"id": id} for id in ("one", "two", "three")]).encode())
    assert {answer.status for answer in deliver(sent(right), sent(right))} == {202, 200}
    events = Event.objects.order_by("pk")
    assert [(event.ce_id, event.data["id"], event.duplicates) for event in events] == [
        ("one", "one", 1),
        ("two", "two", 1),
        ("three", "three", 1),
    ]
    assert all(len(event.raw) < len(right.body) / 2 for event in events), "each keeps itself, not the whole batch"


def test_numbers_and_signs_of_an_item_are_those_that_came() -> None:
    source("azure_eventgrid")
    right = SIGNERS["azure_eventgrid"].sign(SIGNERS["azure_eventgrid"].secret, time.time())
    big = b'{"id":"1","eventType":"t","data":{"n":123456789012345678901234567890,"s":"a\\u0000b"}}'
    assert [answer.status for answer in deliver(sent(replace(right, body=b"[" + big + b"]")))] == [202]
    event = Event.objects.get()
    assert (event.data["data"]["n"], event.data["data"]["s"]) == (123456789012345678901234567890, "a\ufffdb")
    assert event.sanitized == 1


def test_a_token_without_a_key_is_said_to_prove_the_sender_only(ann: User, with_token: Callable[..., Client]) -> None:
    for slug, secrets in (("both", ("token1:key1",)), ("bare", ("token2:",)), ("one", ("token1:key1", "token2:"))):
        builders.source(slug, kind="feishu", provider="feishu", secrets=secrets)
    rows = with_token(ann, "read").get("/api/v1/sources").json()["items"]
    assert {row["slug"]: "not what is sent" in row["warning"] for row in rows if row["kind"] == "feishu"} == {
        "both": False,
        "bare": True,
        "one": True,
    }


def test_what_a_proof_leaves_open_is_said_for_as_long_as_it_stands(
    provider: str, ann: User, owner: User, sign_in: Callable[[User], Client], with_token: Callable[..., Client]
) -> None:
    source(provider)
    told = with_token(ann, "read").get("/api/v1/sources/it").json()["warning"]
    is_open = not SIGNERS[provider].covers or provider == "dingtalk"  # its robots sign a time, and no body
    assert ("proves who sends, not what is sent" in told) is is_open
    if provider in ("gitlab", "github"):
        assert ("It does not prove everything." in sign_in(owner).get("/sources/it").content.decode()) is is_open


def test_gitlab_by_its_signing_token_proves_what_is_sent(ann: User, with_token: Callable[..., Client]) -> None:
    """Whoever has seen a delivery sends no other one, and none under another id."""
    row = builders.source("it", provider="gitlab", secrets=(WHSEC,), rate_limit=None)
    told = with_token(ann, "read").get("/api/v1/sources/it").json()["warning"]
    now = time.time()
    one = gitlab_signed(WHSEC, now)
    shown = one.with_header("webhook-signature", None).with_header("X-Gitlab-Token", WHSEC)
    for wrong in (
        replace(one, body=one.body.replace(b"hello", b"hellp")),
        one.with_header("webhook-signature", None),
        one.with_header("webhook-id", "d-2"),
        gitlab_signed(WHSEC, now - 400),
        gitlab_signed(WHSEC_OTHER, now),
        shown,
    ):
        assert deliver(sent(wrong))[0].status == 401, wrong
    assert [answer.status for answer in deliver(sent(one)) + deliver(sent(one))] == [202, 200]
    again = one.with_header("Idempotency-Key", "d-9")
    assert deliver(sent(again))[0].status == 200
    event = Event.objects.get()
    assert (told, event.type, event.ce_id, event.duplicates) == ("", "gitlab.Push_Hook.push", "d-1", 2)
    Source.objects.filter(pk=row.pk).update(sealed_secrets=crypto.seal([{"value": WHSEC}, {"value": SECRET}]))
    assert "not what is sent" in with_token(ann, "read").get("/api/v1/sources/it").json()["warning"]


def forgiven(provider: str) -> set[str]:
    """Where a list of signatures is what is documented, one beside the right one is no fault; Stripe's own library
    takes a time ahead of ours."""
    scheme = catalogue()[provider]
    where = scheme.get("signature", {})
    listed = where.get("split") == "," or "pair" in where
    return ({"doubled"} if listed else set()) | ({"from the future"} if provider == "stripe" else set())


def test_a_provider_that_joins_the_catalogue_brings_its_signer() -> None:
    assert catalogue().keys() - UNSIGNED == SIGNERS.keys()
