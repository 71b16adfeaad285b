"""A scheme somebody describes proves what the far side publishes, and one that proves nothing is refused when saved."""

import hashlib
import json
from typing import Any

import pytest

from tests import builders
from tests.deliveries import deliver
from tests.triggers.test_verify import SIGNATURES, moment_of
from triggers.errors import NotValid
from triggers.models import Event, Refusal
from triggers.sources.custom import custom_scheme, parse_custom
from triggers.sources.verify import Forged, verify

VECTORS: list[dict[str, Any]] = json.loads((SIGNATURES / "custom.json").read_text())["vectors"]
TIMES = ("x-slack-request-timestamp", "x-zm-request-timestamp")
SIGNED = {"header": "X-Signature"}


@pytest.fixture(params=VECTORS, ids=lambda vector: f"{vector['provider']}-{vector['name']}")
def vector(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def asked(vector: dict[str, Any], *, body: bytes | None = None, away: float = 0) -> Any:
    headers = {name.lower(): value for name, value in vector["headers"].items()}
    now = next((float(headers[name]) for name in TIMES if name in headers), None) or moment_of(headers)
    told = vector["body"].encode() if body is None else body
    return verify(custom_scheme(vector["config"]), told, headers, [b"old", vector["secret"].encode()], now=now + away)


def test_a_described_scheme_proves_published_signatures(vector: dict[str, Any]) -> None:
    assert asked(vector).secret == 1


def test_it_refuses_another_body_and_an_old_one(vector: dict[str, Any]) -> None:
    if vector["config"].get("algorithm") != "token":
        with pytest.raises(Forged):
            asked(vector, body=b"another")
    if vector["config"].get("tolerance"):
        with pytest.raises(Forged) as refused:
            asked(vector, away=301)
        assert refused.value.reason == "stale"


def test_a_plain_hash_holds_the_secret_in_its_template() -> None:
    scheme = custom_scheme({"header": "X-Sum", "algorithm": "sha256", "template": "{secret}.{body}"})
    digest = hashlib.sha256(b"secret.body").hexdigest()
    assert verify(scheme, b"body", {"x-sum": digest}, [b"secret"], now=0).secret == 0
    with pytest.raises(Forged):
        verify(scheme, b"body", {"x-sum": digest}, [b"another"], now=0)


@pytest.mark.parametrize(
    ("config", "field", "said"),
    [
        ({}, "header", "required"),
        ({"header": "X Signature"}, "header", "name of a header"),
        ({"header": "X-Sign\u00e4ture"}, "header", "name of a header"),
        (SIGNED | {"algorithm": "md5"}, "algorithm", "hmac-sha256"),
        (SIGNED | {"encoding": "base32"}, "encoding", "hex"),
        (SIGNED | {"prefix": "é="}, "prefix", "plain ASCII"),
        (SIGNED | {"template": "{h:X-Time}"}, "template", "{body}"),
        (SIGNED | {"template": "{body}{nothing}"}, "template", "`{nothing}` is unknown"),
        (SIGNED | {"template": "{body}{h:}"}, "template", "unknown"),
        (SIGNED | {"template": "{body}}"}, "template", "brace"),
        (SIGNED | {"template": "{secret}{body}"}, "template", "HMAC"),
        (SIGNED | {"algorithm": "sha256"}, "template", "{secret}"),
        (SIGNED | {"tolerance": 300}, "timestamp", "goes with the tolerance"),
        (SIGNED | {"timestamp": "{h:X-Time}"}, "timestamp", "goes with the tolerance"),
        (SIGNED | {"timestamp": "{h:X-Time}", "tolerance": 300}, "timestamp", "proves nothing"),
        (SIGNED | {"timestamp": "X-Time", "tolerance": 300}, "timestamp", "one place"),
        (SIGNED | {"tolerance": 0}, "tolerance", "greater"),
        (SIGNED | {"template": "{sig.t}.{body}"}, "prefix", "v1="),
        (SIGNED | {"delivery_id": "{sig.t}"}, "delivery_id", "header or in the body"),
        (SIGNED | {"event_type": "type"}, "event_type", "one place"),
        (SIGNED | {"algorithm": "token", "timestamp": "{h:X-Time}", "tolerance": 5}, "tolerance", "signs nothing"),
        (SIGNED | {"colour": "red"}, "colour", "not permitted"),
    ],
)
def test_a_scheme_that_makes_no_sense_is_refused_at_its_field(config: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(NotValid) as refused:
        parse_custom(config)
    assert refused.value.facts["field"] == field
    assert said in refused.value.detail


def test_a_scheme_says_the_same_after_it_was_saved() -> None:
    for vector in VECTORS:
        saved = parse_custom(vector["config"]).model_dump(exclude_defaults=True)
        assert custom_scheme(saved) == custom_scheme(vector["config"])


@pytest.mark.django_db(transaction=True)
def test_a_token_is_kept_sealed_whatever_its_header_is_called() -> None:
    config = {"header": "X-Shop-Key", "algorithm": "token", "delivery_id": "{h:X-Id}"}
    builders.source("shop", provider="custom", secrets=("the secret word",), config=config, types=["**"])
    for id, word in (("1", "the secret word"), ("2", "the former word")):
        deliver({"slug": "shop", "body": b"{}", "headers": {"X-Shop-Key": word, "X-Id": id}})
    event, refusal = Event.objects.get(), Refusal.objects.get()
    assert ("x-shop-key" in event.headers, "x-shop-key" in refusal.headers) == (False, False)
    assert event.headers["x-id"] == "1"
