"""One real request and its secret say how the sender signs: by name, or as a description that can be saved."""

import hashlib
import hmac
from typing import Any

import pytest

from project.people.models import User
from tests.signers import SECRET, SIGNERS
from triggers.sources.custom import parse_custom
from triggers.sources.fitting import fitting
from triggers.sources.places import headers_in

BODY = b'{"text": "hello"}'
ALIKE = {"jira": "bitbucket"}  # they sign in the same way: both are named
CONFIGURED = {"wecom", "dingtalk", "aws_sns"}  # it takes more than a secret to read them


def mark(text: bytes, digest: str = "sha256") -> str:
    return hmac.new(SECRET.encode(), text, digest).hexdigest()


@pytest.mark.parametrize("provider", sorted(SIGNERS.keys() - CONFIGURED))
def test_a_provider_is_known_by_one_of_its_deliveries_however_old(provider: str) -> None:
    signer = SIGNERS[provider]
    request = signer.sign(signer.secret, 1_500_000_000)
    pairs = [(name.lower().encode(), value.encode()) for name, value in request.headers.items()]
    headers = headers_in(
        pairs, "&".join(f"{name}={value}" for name, value in request.query.items()).replace(" ", "%20").encode()
    )
    found = [one["provider"] for one in fitting(headers, request.body, signer.secret, signer.config.get("url", ""))]
    assert provider in found
    assert len(found) <= 2
    assert fitting(headers, request.body, "quite another secret") == []


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"x-sum": mark(BODY)}, {"header": "x-sum"}),
        ({"x-sum": "sha1=" + mark(BODY, "sha1")}, {"algorithm": "hmac-sha1", "prefix": "sha1="}),
        (
            {"x-time": "1500000000", "x-sum": mark(b"1500000000." + BODY)},
            {"template": "{h:x-time}.{body}", "timestamp": "{h:x-time}"},
        ),
        ({"x-sum": f"t=1500000000,v9={mark(b'1500000000.' + BODY)}"}, {"template": "{sig.t}.{body}", "prefix": "v9="}),
        ({"x-key": SECRET}, {"header": "x-key", "algorithm": "token"}),
    ],
)
def test_an_unknown_sender_gets_a_description_that_can_be_saved(headers: dict[str, str], said: dict[str, Any]) -> None:
    [found] = fitting({"content-type": "application/json", **headers}, BODY, SECRET)
    assert found["provider"] == "custom"
    assert found["config"].items() >= said.items()
    assert parse_custom(found["config"])


def test_the_api_says_it_to_an_admin(owner: User, sign_in: Any, with_token: Any) -> None:
    request = SIGNERS["slack"].sign(SECRET, 1_500_000_000)
    given = {"headers": request.headers, "body": request.body.decode(), "secret": SECRET}
    told = sign_in(owner).post("/api/v1/sources/fit", given, content_type="application/json")
    assert (told.status_code, told.json()) == (200, {"fits": [{"provider": "slack", "config": {}}]})
    read_only = with_token(owner, "read")
    assert read_only.post("/api/v1/sources/fit", given, content_type="application/json").status_code == 403


def test_nothing_fits_a_changed_body() -> None:
    assert fitting({"x-sum": hashlib.sha256(BODY).hexdigest()}, BODY, SECRET) == []
