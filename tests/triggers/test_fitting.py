"""One real request and its secret say how the sender signs: by name, or as a description that can be saved."""

import hashlib
import hmac
import re
from html import unescape
from typing import Any

import pytest

from project.people.models import User
from tests.signers import SECRET, SIGNERS
from triggers.models import Source
from triggers.sources.custom import custom_scheme
from triggers.sources.fitting import fitting
from triggers.sources.forged import Forged
from triggers.sources.places import headers_in
from triggers.sources.verify import verify

BODY = b'{"text": "hello"}'
ALIKE = {"jira": "bitbucket"}  # they sign in the same way: both are named
CONFIGURED = {"aws_sns"}  # it takes more than a secret to read them


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
    fits = fitting(headers, request.body, signer.secret, signer.config.get("url", ""))
    found = {one["provider"]: one["config"] for one in fits}
    assert fits[0]["provider"] == provider, "the one whose type is found"
    assert found[provider] == {name: value for name, value in signer.config.items() if name == "receiver"}
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
        (
            {"x-time": "1500000000123", "x-sum": mark(b"1500000000123." + BODY)},
            {"template": "{h:x-time}.{body}", "timestamp": "{h:x-time}"},
        ),
        ({"x-sum": f"t=1500000000123,v9={mark(b'1500000000123.' + BODY)}"}, {"template": "{sig.t}.{body}"}),
        ({"x-key": SECRET}, {"header": "x-key", "algorithm": "token"}),
    ],
)
def test_an_unknown_sender_gets_a_description_that_can_be_saved(headers: dict[str, str], said: dict[str, Any]) -> None:
    [found] = fitting({"content-type": "application/json", **headers}, BODY, SECRET)
    assert found["provider"] == "custom"
    assert found["config"].items() >= said.items()
    now = 1_500_000_000.5
    assert verify(custom_scheme(found["config"]), BODY, headers, [SECRET.encode()], now=now), "as it will be saved"
    if "timestamp" in found["config"]:
        with pytest.raises(Forged, match="old"):
            verify(custom_scheme(found["config"]), BODY, headers, [SECRET.encode()], now=now + 3600)


def test_a_time_in_a_unit_we_do_not_read_is_proposed_to_nobody() -> None:
    moment = "1500000000123456"
    assert fitting({"x-time": moment, "x-sum": mark(f"{moment}.".encode() + BODY)}, BODY, SECRET) == []


def test_the_api_says_it_to_an_admin(owner: User, sign_in: Any, with_token: Any) -> None:
    request = SIGNERS["slack"].sign(SECRET, 1_500_000_000)
    given = {"headers": request.headers, "body": request.body.decode(), "secret": SECRET}
    told = sign_in(owner).post("/api/v1/sources/fit", given, content_type="application/json")
    assert (told.status_code, told.json()) == (200, {"fits": [{"provider": "slack", "config": {}}]})
    read_only = with_token(owner, "read")
    assert read_only.post("/api/v1/sources/fit", given, content_type="application/json").status_code == 403


def test_nothing_fits_a_changed_body() -> None:
    assert fitting({"x-sum": hashlib.sha256(BODY).hexdigest()}, BODY, SECRET) == []


def asked(client: Any, headers: dict[str, str], body: str, secret: str = SECRET, **more: str) -> tuple[int, str]:
    """The page's answer to a request as it is pasted."""
    lines = "\n".join(f"{name}: {value}" if value else name for name, value in headers.items())
    answer = client.post("/sources/fit", {"headers": lines, "body": body, "secret": secret, **more})
    return answer.status_code, answer.content.decode()


@pytest.mark.parametrize("provider", ["github", "twilio", "slack", "azure_eventgrid"])
def test_the_page_leads_to_the_filled_in_form_of_a_known_sender(owner: User, sign_in: Any, provider: str) -> None:
    signer = SIGNERS[provider]
    request = signer.sign(signer.secret, 1_500_000_000)
    url = signer.config.get("url", "https://desk.example/hooks/it")
    query = "&".join(f"{name}={value}" for name, value in request.query.items())
    given = {"url": f"{url}?{query}" if query else url}
    status, page = asked(sign_in(owner), request.headers, request.body.decode(), signer.secret, **given)
    assert (status, "This fits" in page) == (200, True)
    assert signer.secret not in page or query, "what was typed into the secret is not shown again"
    [link] = [unescape(one) for one in re.findall(r'href="(/sources/new\?kind=[^"]+)"', page)]
    form = sign_in(owner).get(link).content.decode()
    assert (f'value="{provider}" selected' in form) is (provider != "slack")
    assert link.startswith(f"/sources/new?kind={'slack' if provider == 'slack' else 'webhook'}")


def test_a_description_that_was_found_is_saved_from_the_form(owner: User, sign_in: Any) -> None:
    body = b"{\r\n}\r\n"
    headers = {"POST /hooks/x HTTP/1.1\nX-Sum": f"t=1500000000,v9={mark(b'1500000000.' + body)}"}
    _, page = asked(sign_in(owner), headers, body.decode().strip())  # whoever copies loses the last end of a line
    [link] = [unescape(one) for one in re.findall(r'href="(/sources/new\?kind=[^"]+)"', page)]
    form = sign_in(owner).get(link).context["form"]
    saved = {field.html_name: field.value() or "" for field in form}
    sign_in(owner).post("/sources/new", {**saved, "kind": "webhook", "slug": "found"})
    row = Source.objects.get(slug="found")
    assert row.provider == "custom"
    assert row.config.items() >= {"header": "x-sum", "prefix": "v9=", "template": "{sig.t}.{body}"}.items()


def test_what_is_no_request_and_what_fits_nothing_is_said(owner: User, sign_in: Any) -> None:
    status, page = asked(sign_in(owner), {"just words": ""}, "{}")
    assert (status, "This line is no header, Name: value: just words" in page) == (422, True)
    status, page = asked(sign_in(owner), {"X-Sum": mark(b"other")}, "{}")
    assert (status, "Nothing fits" in page) == (200, True)
