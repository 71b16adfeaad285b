"""Nobody reaches the inside of the network through the desk, whatever the spelling of the address."""

import gzip
import logging
import threading
import traceback
from datetime import timedelta

import httpx
import pytest

from project.lib import egress
from project.lib.addresses import AllowList, is_public, read_address
from project.lib.egress import Answer, Forbidden, NoAnswer, Session, Unreachable, Unsendable, check_url
from tests.recorder import Recorder

HERE = ("127.0.0.1",)
SPELLINGS = (
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:7f00:1]/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://127.1/",
    "http://0177.0.0.1/",
    "http://127\u30020\u30020\u30021/",
    "http://0.0.0.0/",
    "http://[::]/",
    "http://[::1]/",
    "http://100.100.100.200/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "http://localhost./",
    "http://224.0.0.1/",
    "http://[fec0::1]/",
    "http://[fe80::1]/",
    "http://[fd00::1]/",
    "http://10.0.0.1/",
    "http://192.168.1.1/",
    "http://240.0.0.1/",
    "http://198.18.0.1/",
    "http://[64:ff9b:1::1]/",
)


@pytest.mark.parametrize("url", SPELLINGS)
def test_every_spelling_of_a_private_address_is_refused_on_save_and_on_call(url):
    """SS-01: no spelling of a private address is called."""
    with pytest.raises((Forbidden, Unreachable)):
        check_url(url, allow=())
    with Session(allow=()) as http, pytest.raises((Forbidden, Unreachable, Unsendable)):
        http.call("GET", url)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "gopher://example.com/", "ftp://example.com/", "http://user:pw@example.com/", "//x/"]
)
def test_only_web_addresses_without_credentials_are_called(url):
    with pytest.raises(Forbidden):
        check_url(url, allow=(), resolver=lambda host, port: ["93.184.216.34"])
    with Session(allow=()) as http, pytest.raises((Forbidden, Unsendable)):
        http.call("GET", url)


@pytest.mark.parametrize("port", [22, 25, 6379, 5432, 11211])
def test_ports_of_other_trades_are_refused_unless_named(port):
    """SS-02: a name that answers otherwise the second time, or a redirect, leads nowhere private."""
    url = f"http://example.com:{port}/"

    def public(host, port):
        return ["93.184.216.34"]

    with pytest.raises(Forbidden):
        check_url(url, allow=("example.com",), resolver=public)
    check_url(url, allow=(f"example.com:{port}",), resolver=public)


@pytest.mark.parametrize("text", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "8.8.8.8"])
def test_the_public_internet_is_open(text):
    assert is_public(read_address(text))


def test_every_answer_of_a_name_must_be_allowed():
    """SS-02: a name that answers otherwise the second time, or a redirect, leads nowhere private."""
    with pytest.raises(Forbidden):
        check_url("http://x.example/", allow=(), resolver=lambda host, port: ["93.184.216.34", "10.0.0.1"])


def test_a_name_that_cannot_be_resolved_is_refused():
    with pytest.raises(Unreachable):
        check_url("http://nowhere.invalid/", allow=())


def test_the_connection_goes_to_the_address_that_was_checked():
    """SS-02: A second look-up answers otherwise (DNS rebinding): it is never asked."""
    answers = iter([["127.0.0.1"], ["10.9.9.9"]])
    with Recorder() as far, Session(allow=HERE, resolver=lambda host, port: next(answers)) as http:
        answer = http.call("GET", f"http://rebind.example:{far.port}/x")
    assert answer.status == 200
    assert far.seen[0].headers["host"] == f"rebind.example:{far.port}"
    assert next(answers) == ["10.9.9.9"]


def test_a_redirect_is_not_followed_unless_asked():
    with Recorder() as far, Session(allow=HERE) as http:
        far.next((302, {"location": "/elsewhere"}, {}))
        assert http.call("GET", far.url + "/x").status == 302
        far.next((302, {"location": "/elsewhere"}, {}))
        assert http.call("GET", far.url + "/x", follow=True).status == 200
    assert [one.path for one in far.seen] == ["/x", "/x", "/elsewhere"]


@pytest.mark.parametrize("there", ["http://169.254.169.254/latest/meta-data/", "file:///etc/passwd", "http://[::1]/"])
def test_every_hop_of_a_redirect_is_checked(there):
    """SS-02: a name that answers otherwise the second time, or a redirect, leads nowhere private."""
    with Recorder() as far, Session(allow=HERE) as http:
        far.next((302, {"location": there}, {}))
        with pytest.raises((Forbidden, NoAnswer)):
            http.call("GET", far.url + "/x", follow=True)
    assert len(far.seen) == 1


def test_proxies_of_the_environment_are_ignored(monkeypatch):
    """SS-02: a name that answers otherwise the second time, or a redirect, leads nowhere private."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with Recorder() as far, Session(allow=HERE) as http:
        assert http.call("GET", far.url).status == 200


def test_the_allow_list_opens_what_it_names_and_nothing_beside_it():
    allow = AllowList(["printer.local", "10.1.0.0/16", "box:8443", "[::1]:9000"])
    assert allow.permits("printer.local", 80, read_address("192.168.0.9"))
    assert allow.permits("x", 80, read_address("10.1.2.3"))
    assert allow.permits("x", 80, read_address("::ffff:10.1.2.3"))
    assert not allow.permits("x", 80, read_address("10.2.0.1"))
    assert allow.permits("box", 8443, read_address("10.9.9.9"))
    assert not allow.permits("box", 443, read_address("10.9.9.9"))
    assert allow.permits("::1", 9000, read_address("::1"))


def test_an_answer_is_read_up_to_the_cap():
    with Recorder(lambda *_: (200, {}, b"x" * 5000)) as far, Session(allow=HERE, max_answer=1000) as http:
        answer = http.call("GET", far.url)
    assert (len(answer.body), answer.truncated) == (1000, True)


def test_a_compressed_bomb_is_unpacked_up_to_the_cap():
    bomb = gzip.compress(b"0" * 5_000_000)
    far = Recorder(lambda *_: (200, {"content-encoding": "gzip"}, bomb))
    with far, Session(allow=HERE, max_answer=10_000) as http:
        answer = http.call("GET", far.url)
    assert (len(answer.body), answer.truncated) == (10_000, True)


def test_a_closed_port_means_nothing_was_sent():
    with Recorder() as far:
        url = far.url
    with Session(allow=HERE) as http, pytest.raises(Unreachable):
        http.call("POST", url)


@pytest.mark.parametrize("fault", ["drop", "drop_before", "hang"])
def test_a_broken_answer_is_not_the_same_as_nothing_sent(fault):
    with Recorder() as far, Session(timedelta(seconds=1.5), allow=HERE) as http:
        far.next(fault)
        with pytest.raises(NoAnswer):
            http.call("POST", far.url, json={"a": 1})


def test_a_dripping_far_side_cannot_outlast_the_budget():
    dripped = threading.Event()

    class Drip(Recorder):
        def serve(self, handler):
            handler.connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not dripped.wait(0.1):
                handler.connection.sendall(b"x: y\r\n")

    with Drip() as far, Session(timedelta(seconds=1.5), allow=HERE) as http:
        with pytest.raises(NoAnswer):
            http.call("GET", far.url)
        dripped.set()
        assert http.deadline.is_over


SECRETS = ("SECRET-123", "SECRET-456", "SECRET-789")


def leaky(far_url, allow=HERE, **faulty):
    with Session(timedelta(seconds=1.5), allow=allow) as http:
        return http.call(
            "POST",
            f"{far_url}/x?api_key=SECRET-456",
            **{"headers": {"authorization": "Bearer SECRET-123"}, "json": {"password": "SECRET-789"}, **faulty},
        )


def said(error):
    return "".join(traceback.format_exception(error)) + repr(vars(error))


@pytest.mark.parametrize("fault", ["drop", "hang", "closed", "forbidden", "tls", "header", "body"])
def test_no_secret_is_in_the_text_of_an_error_or_the_log(fault, caplog):
    caplog.set_level(logging.DEBUG)
    with Recorder() as far:
        far.next(fault if fault in ("drop", "hang") else None)
        url, more, allow = far.url, {}, HERE
        if fault == "closed":
            url = "http://127.0.0.1:1"
        if fault == "forbidden":
            allow = ()
        if fault == "tls":
            url = far.url.replace("http:", "https:")
        if fault == "header":
            more = {"headers": {"authorization": "Bearer SECRET-123\r\nx: y"}}
        if fault == "body":
            more = {"json": {"password": "SECRET-789", "bad": object()}}
        with pytest.raises(egress.EgressError) as refusal:
            leaky(url, allow, **more)
    text = said(refusal.value) + caplog.text
    assert not [secret for secret in SECRETS if secret in text]
    assert "POST" in str(refusal.value)


def test_a_normal_call_leaves_no_secret_in_the_log(caplog):
    caplog.set_level(logging.DEBUG)
    with Recorder() as far:
        far.next(404)
        assert leaky(far.url).status == 404
    assert not [secret for secret in SECRETS if secret in caplog.text]


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ("120", 120, 120),
        (" 120 ", 120, 120),
        ("0", 0, 0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 3650 * 86400, 3650 * 86400),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("31536000", 365 * 86400, 365 * 86400),
        ("9" * 5000, 3650 * 86400, 3650 * 86400),
        *((value, None, None) for value in ("-5", "abc", "1e9", "1.5", "", "²", "Wed, 99 Foo", "Mon, 1 Jan 0000 0:0")),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date_and_nonsense_as_nothing(value, least, most):
    """WK-10."""
    read = Answer("GET", "host", 429, httpx.Headers({"retry-after": value.encode()}), b"").retry_after
    assert read == (None if least is None else read)
    assert least is None or least <= read.total_seconds() <= most
