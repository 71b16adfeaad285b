"""What would fail at night is refused when a connection is saved, not only when it is called."""

import pytest
from django.test import override_settings

from approvals.connectors.mail import server_of
from approvals.errors import NotValid
from approvals.kinds import Far
from approvals.reach import check_connection

MAIL = {"host": "smtp.invalid", "sender": "desk@example.org"}
HOOK = {"webhook_url": "https://hooks.invalid/x"}


def refused(system: str, config: dict, secrets: dict | None = None, *, practice: bool = False) -> NotValid:
    with pytest.raises(NotValid) as refusal:
        check_connection(system, config, secrets or {}, practice=practice)
    return refusal.value


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/", "http://[::ffff:7f00:1]/", "http://u:p@127.0.0.1/", "ftp://x/"]
)
def test_an_inner_address_is_refused_also_for_practice(url):
    for practice in (False, True):
        refusal = refused("github", {"api_url": url}, {"token": "x"}, practice=practice)
        assert refusal.facts == {"field": "api_url"}
        assert url not in refusal.detail
    assert refused("wecom", {}, {"webhook_url": url}).facts == {"field": "webhook_url"}


def test_what_the_operator_named_is_allowed():
    address = {"api_url": "http://127.0.0.1:9000"}
    refused("github", address, {"token": "x"})
    with override_settings(EGRESS_ALLOW=["127.0.0.1"]):
        check_connection("github", address, {"token": "x"}, practice=False)


@pytest.mark.parametrize(
    ("system", "config", "secrets", "field"),
    [
        ("smtp", {**MAIL, "host": "127.0.0.1", "port": 587}, {}, "host"),
        ("smtp", {**MAIL, "port": 22}, {}, "host"),
        *(("smtp", {**MAIL, "port": port}, {}, "port") for port in ("many", "587", [1], {}, 587.9, True, 0)),
        ("smtp", {"sender": MAIL["sender"]}, {}, "host"),
        ("smtp", {"host": MAIL["host"]}, {}, "sender"),
        ("smtp", {**MAIL, "sender": "Desk <desk@example.org>"}, {}, "sender"),
        ("smtp", {**MAIL, "security": "ssl"}, {}, "security"),
        ("smtp", {**MAIL, "security": ["tls"]}, {}, "security"),
        ("smtp", {**MAIL, "security": {}}, {}, "security"),
        ("smtp", {**MAIL, "host": ["smtp.invalid"]}, {}, "host"),
        ("smtp", {**MAIL, "username": 7}, {}, "username"),
        ("smtp", {**MAIL, "security": "none", "username": "desk"}, {"password": "x"}, "security"),
        ("http", {"hosts": ["ftp://x"]}, {}, "hosts"),
        ("http", {"hosts": ["u:p@x"]}, {}, "hosts"),
        ("http", {"hosts": [7]}, {}, "hosts"),
        ("http", {"hosts": 7}, {}, "hosts"),
        ("http", {"hosts": "abc"}, {}, "hosts"),
        ("http", {"hosts": {}}, {}, "hosts"),
        ("http", {}, {"X-Key": "abc"}, "hosts"),
        ("github", {}, {}, "token"),
        ("stripe", {}, {"token": "x"}, "key"),
        ("slack", {}, {}, "webhook_url"),
        ("slack", {}, {"token": "xoxb-1"}, "channel"),
        ("slack", {"channel": ["C1"]}, {"token": "xoxb-1"}, "channel"),
        ("feishu", {}, {"secret": "x"}, "webhook_url"),
        ("wecom", {}, {}, "webhook_url"),
    ],
)
def test_what_is_missing_or_wrong_is_named(system, config, secrets, field):
    assert refused(system, config, secrets).facts == {"field": field}


@pytest.mark.parametrize(
    ("system", "config", "secrets"),
    [
        ("github", {"api_url": ""}, {"token": "x"}),
        ("github", {"api_url": "https://ghe.invalid/api/v3"}, {"token": "x"}),
        ("http", {}, {}),
        ("http", {"hosts": ["crm.invalid"]}, {"X-Key": "abc"}),
        ("smtp", MAIL, {}),
        ("slack", {"channel": "C1"}, {"token": "xoxb-1"}),
        ("slack", {}, HOOK),
        ("notify", {"from": "NOTIFY_URLS"}, {}),
    ],
)
def test_what_is_whole_is_taken_and_so_is_a_name_that_nobody_knows_yet(system, config, secrets):
    check_connection(system, config, secrets, practice=False)


@pytest.mark.parametrize("system", ["github", "http", "smtp", "slack", "feishu", "wecom", "stripe"])
def test_practice_needs_nothing(system):
    check_connection(system, {}, {}, practice=True)


@pytest.mark.parametrize(("member", "value"), [("port", [1]), ("security", "xx"), ("host", 7), ("hosts", "abc")])
def test_practice_too_takes_no_other_shape(member, value):
    assert refused("smtp", {member: value}, practice=True).facts == {"field": member}


def test_secrets_that_cannot_be_read_are_still_there():
    check_connection("github", {}, None, practice=False)
    with pytest.raises(NotValid):
        check_connection("http", {}, None, practice=False)


@pytest.mark.parametrize(("security", "port"), [("starttls", 587), ("tls", 465), ("none", 25), ("", 587)])
def test_a_mail_server_is_asked_for_at_the_port_at_which_mail_will_be_handed_in(security, port):
    config = {**MAIL, "host": "127.0.0.1", "security": security}
    assert server_of(Far("post", config, {})).port == port
    with override_settings(EGRESS_ALLOW=[f"127.0.0.1:{port}"]):
        check_connection("smtp", config, {}, practice=False)
    with override_settings(EGRESS_ALLOW=["127.0.0.1:2525"]):
        assert refused("smtp", config).facts == {"field": "host"}
