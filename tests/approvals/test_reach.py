"""An address on the inside of the network is refused when a connection is saved, not only when it is called."""

import pytest
from django.test import override_settings

from approvals.connectors.mail import server_of
from approvals.errors import NotValid
from approvals.kinds import Far
from approvals.reach import check_config


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/", "http://[::ffff:7f00:1]/", "http://u:p@127.0.0.1/", "ftp://x/"]
)
def test_an_inner_address_is_refused(url):
    with pytest.raises(NotValid) as refusal:
        check_config({"api_url": url})
    assert refusal.value.facts == {"field": "api_url"}
    assert url not in refusal.value.detail


def test_what_the_operator_named_is_allowed():
    address = {"api_url": "http://127.0.0.1:9000"}
    with pytest.raises(NotValid):
        check_config(address)
    with override_settings(EGRESS_ALLOW=["127.0.0.1"]):
        check_config(address)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"host": "127.0.0.1", "port": 587}, "host"),
        ({"host": "smtp.example.org", "port": 22}, "host"),
        ({"host": "smtp.example.org", "port": "many"}, "host"),
        ({"hosts": ["ftp://x"]}, "hosts"),
        ({"hosts": ["u:p@x"]}, "hosts"),
        ({"hosts": [7]}, "hosts"),
        ({"hosts": 7}, "hosts"),
    ],
)
def test_a_mail_server_and_the_hosts_of_credentials_are_looked_at_too(config, field):
    with pytest.raises(NotValid) as refusal:
        check_config(config)
    assert refusal.value.facts == {"field": field}


@pytest.mark.parametrize("config", [None, {}, {"api_url": ""}, {"api_url": "https://ghe.invalid/api/v3"}])
def test_no_address_and_an_unknown_name_are_taken(config):
    check_config(config)


@pytest.mark.parametrize(("security", "port"), [("starttls", 587), ("tls", 465), ("none", 25), ("", 587)])
def test_a_mail_server_is_asked_for_at_the_port_at_which_mail_will_be_handed_in(security, port):
    config = {"host": "127.0.0.1", "security": security}
    assert server_of(Far("post", config, {})).port == port
    with override_settings(EGRESS_ALLOW=[f"127.0.0.1:{port}"]):
        check_config(config)
    with override_settings(EGRESS_ALLOW=["127.0.0.1:2525"]), pytest.raises(NotValid):
        check_config(config)
