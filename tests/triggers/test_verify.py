"""One verifier, every scheme of the catalogue: published signatures fit, and nothing near them does."""

import base64
import hashlib
import hmac
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import signers
from triggers.sources.places import QUERY, asked
from triggers.sources.scheme import Scheme
from triggers.sources.verify import MOST_GIVEN, Forged, catalogue, verify

SIGNATURES = Path(__file__).parents[1] / "data" / "signatures"
ALL: list[dict[str, Any]] = json.loads((SIGNATURES / "vectors.json").read_text())["vectors"]
VECTORS = [vector for vector in ALL if vector.get("fits", True)]
TIMES = ("webhook-timestamp", "svix-timestamp", "x-slack-request-timestamp", "x-zm-request-timestamp")
TIMES += ("x-twilio-email-event-webhook-timestamp", "x-signature-timestamp")
GITHUB = catalogue()["github"]
BODY, SECRET = b'{"a": 1}', b"secret"


def moment_of(headers: dict[str, str], body: str = "") -> float:
    """The time a vector was signed at."""
    for name in TIMES:
        if name in headers:
            return float(headers[name])
    if QUERY in headers:
        return float(asked(headers, "timestamp") or 0)
    if "linear-timestamp" in headers:
        return float(headers["linear-timestamp"]) / 1000
    if found := re.search(r'"[Tt]imestamp": "([^"]+)"', body):
        return float(found[1]) if found[1].isdigit() else datetime.fromisoformat(found[1]).timestamp()
    stripe = headers.get("stripe-signature", "t=0,")
    return float(stripe.split(",")[0].removeprefix("t="))


def parts(vector: dict[str, Any]) -> tuple[dict[str, Any], bytes, dict[str, str], float]:
    headers = {name.lower(): value for name, value in vector["headers"].items()}
    if "query" in vector:
        headers[QUERY] = vector["query"]
    scheme = catalogue()[vector["provider"]] | vector.get("config", {})
    return scheme, vector["body"].encode(), headers, moment_of(headers, vector["body"])


@pytest.fixture(params=VECTORS, ids=lambda vector: f"{vector['provider']}-{vector['name']}")
def vector(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def test_a_published_signature_fits(vector: dict[str, Any]) -> None:
    scheme, body, headers, now = parts(vector)
    proof = verify(scheme, body, headers, [b"another", vector["secret"].encode()], now=now)
    assert proof.secret == 1
    assert proof.body == vector.get("plaintext", vector["body"]).encode()


def test_another_body_secret_or_no_header_does_not(vector: dict[str, Any]) -> None:
    scheme, body, headers, now = parts(vector)
    secret = vector["secret"].encode()
    wrong = [(body, headers, secret + b"x")]
    if scheme["scheme"] not in ("sns", "wechat") and "json" not in scheme["signature"]:
        wrong.append((body, {}, secret))
    if (
        scheme["scheme"] in ("hmac", "ed25519", "ecdsa")
        and Scheme(scheme).covers_body
        and vector["provider"] != "twilio"
    ):
        wrong += [(body + b" ", headers, secret), (body.upper() if body.upper() != body else b"", headers, secret)]
    for told, given_headers, key in wrong:
        with pytest.raises(Forged):
            verify(scheme, told, given_headers, [key], now=now)


@pytest.mark.parametrize(
    "vector", [vector for vector in ALL if vector not in VECTORS], ids=lambda vector: vector["name"]
)
def test_a_body_that_lost_its_end_does_not(vector: dict[str, Any]) -> None:
    scheme, body, headers, now = parts(vector)
    with pytest.raises(Forged):
        verify(scheme, body, headers, [vector["secret"].encode()], now=now)


@pytest.mark.parametrize("ahead", [False, True])
def test_a_signed_time_that_is_too_far_away_is_stale(vector: dict[str, Any], ahead: bool) -> None:
    scheme, body, headers, now = parts(vector)
    rule = scheme.get("timestamp")
    if rule is None or (ahead and rule.get("any_future")):
        return
    away = -61 if ahead else rule["tolerance"] + 1
    with pytest.raises(Forged) as refused:
        verify(scheme, body, headers, [vector["secret"].encode()], now=now + away)
    assert refused.value.reason == "stale"


def test_a_public_key_is_no_key_of_an_hmac() -> None:
    """Everybody knows it: whoever signs with it by the other scheme has proved nothing."""
    [vector] = [vector for vector in VECTORS if vector["name"] == "v1a_ed25519_selfmade"]
    scheme, body, headers, now = parts(vector)
    public = vector["secret"].encode()
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    for key in (public, base64.b64decode(public.removeprefix(b"whpk_")), public.removeprefix(b"whpk_")):
        forged = "v1," + base64.b64encode(hmac.digest(key, text, "sha256")).decode()
        with pytest.raises(Forged):
            verify(scheme, body, headers | {"webhook-signature": forged}, [public], now=now)


@pytest.mark.parametrize("digits", [19, 400, 5000])
def test_a_signed_time_of_many_digits_is_stale(digits: int) -> None:
    stripe = catalogue()["stripe"]
    with pytest.raises(Forged) as refused:
        verify(stripe, BODY, {"stripe-signature": f"t={'9' * digits},v1=00"}, [SECRET], now=0)
    assert refused.value.reason == "stale"


def signature(body: bytes = BODY, secret: bytes = SECRET) -> str:
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    "text",
    ["", "sha256=", "sha256=00", signature()[7:], "sha1=" + signature()[7:], signature() + "00", "sha256=é", "\x00"],
)
def test_a_header_of_another_form_is_a_bad_signature(text: str) -> None:
    with pytest.raises(Forged) as refused:
        verify(GITHUB, BODY, {"x-hub-signature-256": text}, [SECRET], now=0)
    assert refused.value.reason == "bad_signature"


def test_without_a_secret_nobody_proves_anything() -> None:
    with pytest.raises(Forged) as refused:
        verify(GITHUB, BODY, {"x-hub-signature-256": signature()}, [], now=0)
    assert refused.value.reason == "no_secret"


@given(st.sampled_from(sorted(catalogue())), st.binary(max_size=50), st.text(max_size=80), st.text(max_size=20))
def test_whatever_the_headers_hold_the_answer_is_a_refusal(provider: str, body: bytes, text: str, other: str) -> None:
    scheme = catalogue()[provider]
    if scheme["scheme"] == "none":
        return
    names = ["x-lark-signature", "x-lark-request-timestamp", QUERY]
    where, rule = scheme.get("signature", {}), scheme.get("timestamp", {})
    names += [place["header"].lower() for place in (where, rule) if "header" in place]
    latin = [value.encode("latin-1", "replace").decode("latin-1") for value in (text, other)]
    with pytest.raises(Forged):
        verify(scheme, body, {name: latin[at % 2] for at, name in enumerate(names)}, [SECRET], now=1.6e9)


@pytest.mark.parametrize("provider", sorted(catalogue()))
def test_whatever_shape_the_body_has_the_answer_is_a_refusal(provider: str) -> None:
    """It is looked into before anything is believed: for an address, a topic, a token."""
    scheme = catalogue()[provider]
    odd: list[Any] = [None, 7, "", [], [[]], {"Type": []}, {"Type": {}}, {"encrypt": []}, {"signature": "x"}]
    for value in [] if scheme["scheme"] == "none" else odd:
        with pytest.raises(Forged):
            verify(scheme, json.dumps(value).encode(), {QUERY: "msg_signature=a"}, [SECRET], now=0)


def test_of_many_signatures_the_first_few_are_looked_at() -> None:
    """Each costs whoever sends it a few bytes, and the door a digest over the whole body."""
    right = "v1=" + signature()[7:]
    for wrong, fitting in ((MOST_GIVEN - 1, True), (MOST_GIVEN, False)):
        headers = {"x-pagerduty-signature": ",".join(["v1=00"] * wrong + [right])}
        if fitting:
            assert verify(catalogue()["pagerduty"], BODY, headers, [SECRET], now=0).secret == 0
        else:
            with pytest.raises(Forged):
                verify(catalogue()["pagerduty"], BODY, headers, [SECRET], now=0)


def test_a_signed_time_cannot_hide_in_the_nonce() -> None:
    """Feishu joins time and nonce without a sign between them: moved over, the time is signed still."""
    request = signers.feishu("right:the key", 1_500_000_000)
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers["x-lark-request-nonce"] = headers.pop("x-lark-request-timestamp") + headers["x-lark-request-nonce"]
    with pytest.raises(Forged) as refused:
        verify(catalogue()["feishu"], request.body, headers, [b"right:the key"], now=0)
    assert refused.value.reason == "stale"


PRESS = {"open_message_id": "om_1", "open_id": "ou_1", "token": "c-1", "action": {"tag": "button", "value": {}}}


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        (PRESS, True),
        (signers.feishu_message(), False),
        (PRESS | {"header": {"event_type": "im.message.receive_v1"}}, False),
        ({"type": "event_callback", "uuid": "1", "token": "right", "event": {"type": "message"}}, False),
    ],
)
@pytest.mark.parametrize("secret", [b"right:the key", b"right"])
def test_a_token_proves_the_press_of_a_card_and_no_event(body: dict[str, Any], fits: bool, secret: bytes) -> None:
    """Whoever has read one event knows it; the encrypt key stands in none."""
    raw = json.dumps(body).encode()
    mark = hashlib.sha1(b"1" + b"n" + b"right" + raw).hexdigest()
    headers = {"x-lark-request-timestamp": "1", "x-lark-request-nonce": "n", "x-lark-signature": mark}
    if fits:
        assert verify(catalogue()["feishu"], raw, headers, [secret], now=1).secret == 0
        return
    with pytest.raises(Forged) as refused:
        verify(catalogue()["feishu"], raw, headers, [secret], now=1)
    assert refused.value.reason == "bad_signature"


# These have no published vector; tests/signers.py writes them from their documentation.
UNPUBLISHED = {"generic", "none", "cloudevents", "sentry", "grafana", "square", "azure_eventgrid", "dingtalk", "feishu"}


def test_a_provider_that_joins_the_catalogue_brings_its_vectors() -> None:
    assert catalogue().keys() - {vector["provider"] for vector in VECTORS} == UNPUBLISHED


def test_two_who_join_a_meeting_in_one_millisecond_are_two() -> None:
    def number(who: str) -> str:
        joined = {"uuid": "u-1", "id": "1", "participant": {"user_id": who}}
        told = {"event": "meeting.participant_joined", "event_ts": 1, "payload": {"object": joined}}
        return catalogue()["zoom"].number({}, told)

    assert number("16778240") == number("16778240") != number("16778241")
