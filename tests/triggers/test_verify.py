"""One verifier, every scheme of the catalogue: published signatures fit, and nothing near them does."""

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triggers.sources.verify import Forged, catalogue, verify

SIGNATURES = Path(__file__).parents[1] / "data" / "signatures"
VECTORS: list[dict[str, Any]] = json.loads((SIGNATURES / "vectors.json").read_text())["vectors"]
BEYOND: list[dict[str, Any]] = json.loads((SIGNATURES / "custom.json").read_text())["beyond"]
GITHUB = catalogue()["github"]
BODY, SECRET = b'{"a": 1}', b"secret"


def moment_of(headers: dict[str, str]) -> float:
    """The time a vector was signed at."""
    for name in ("webhook-timestamp", "svix-timestamp"):
        if name in headers:
            return float(headers[name])
    stripe = headers.get("stripe-signature", "t=0,")
    return float(stripe.split(",")[0].removeprefix("t="))


def parts(vector: dict[str, Any]) -> tuple[dict[str, Any], bytes, dict[str, str], float]:
    headers = {name.lower(): value for name, value in vector["headers"].items()}
    return catalogue()[vector["provider"]], vector["body"].encode(), headers, moment_of(headers)


@pytest.fixture(params=VECTORS, ids=lambda vector: f"{vector['provider']}-{vector['name']}")
def vector(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def test_a_published_signature_fits(vector: dict[str, Any]) -> None:
    scheme, body, headers, now = parts(vector)
    assert verify(scheme, body, headers, [b"another", vector["secret"].encode()], now=now).secret == 1


def test_another_body_secret_or_no_header_does_not(vector: dict[str, Any]) -> None:
    scheme, body, headers, now = parts(vector)
    secret = vector["secret"].encode()
    wrong = [(body, headers, secret + b"x"), (body, {}, secret)]
    if scheme["scheme"] == "hmac":
        wrong += [(body + b" ", headers, secret), (body.upper() if body.upper() != body else b"", headers, secret)]
    for told, given_headers, key in wrong:
        with pytest.raises(Forged):
            verify(scheme, told, given_headers, [key], now=now)


@pytest.mark.parametrize("away", [301, 10_000, -61, -10_000])
def test_a_signed_time_that_is_too_far_away_is_stale(away: int) -> None:
    dated = [vector for vector in VECTORS if "timestamp" in catalogue()[vector["provider"]]]
    assert dated
    for vector in dated:
        scheme, body, headers, now = parts(vector)
        with pytest.raises(Forged) as refused:
            verify(scheme, body, headers, [vector["secret"].encode()], now=now + away)
        assert refused.value.reason == "stale"


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
    names = [scheme["signature"]["header"], scheme.get("timestamp", {}).get("header", "x")]
    latin = [value.encode("latin-1", "replace").decode("latin-1") for value in (text, other)]
    with pytest.raises(Forged):
        verify(scheme, body, dict(zip((name.lower() for name in names), latin, strict=True)), [SECRET], now=1.6e9)


# Published vectors that the catalogue cannot say yet, by provider, with what is missing.
NOT_YET = {
    "slack": "a source of its own kind, with a handshake",
    "zoom": "a handshake that answers with an HMAC",
    "telegram": "an update has no type, but a first key",
    "linear": "a timestamp inside the body",
    "twilio": "the public address and sorted form fields are signed",
    "sendgrid": "ECDSA",
    "mailgun": "the signature stands in the body and does not cover it",
    "discord": "Ed25519, and a handshake",
    "feishu": "a source of its own kind: encrypted",
    "wecom": "a source of its own kind: encrypted",
    "aws_sns": "RSA under a certificate to be fetched",
}


def test_a_provider_that_joins_the_catalogue_brings_its_vectors() -> None:
    """It leaves the list above when it is added, and every vector of it then stands in vectors.json."""
    assert NOT_YET.keys() & catalogue().keys() == set()
    assert {vector["provider"] for vector in VECTORS} <= catalogue().keys()
    unproven = catalogue().keys() - {vector["provider"] for vector in VECTORS}
    assert unproven == {"generic", "none", "cloudevents", "sentry", "grafana"}, "these have no published vector"


@pytest.mark.parametrize("vector", BEYOND, ids=lambda vector: f"{vector['provider']}-{vector['name']}")
def test_what_no_scheme_can_say_yet_is_refused(vector: dict[str, Any]) -> None:
    """Standard Webhooks also knows Ed25519 (`v1a`); the day it passes, it belongs among the others."""
    scheme, body, headers, now = parts(vector)
    with pytest.raises(Forged):
        verify(scheme, body, headers, [vector["public_key"].encode()], now=now)
