"""Each way to a person: what goes over the wire, and what a no or a silence means."""

import base64
import hashlib
import hmac
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import override_settings

from approvals.carriers import CARRIERS, TO_ONE
from approvals.carrying import Letter
from approvals.errors import NotSent, NotValid, OutcomeUnknown, Refused
from approvals.kinds import Far
from tests.recorder import Recorder

LETTER = Letter("Waiting for you: A-7 <at user_id=all> & more", ("Risk: Medium",), "http://desk/go/1-ab", key="n-1")
GOOD = {
    "slack": {"ok": True, "channel": "D1", "ts": "1.2"},
    "feishu": {"code": 0},
    "wecom": {"errcode": 0},
    "dingtalk": {"errcode": 0},
    "telegram": {"ok": True, "result": {"message_id": 5}},
}
NO = {
    "slack": {"ok": False, "error": "not_in_channel"},
    "feishu": {"code": 19001, "msg": "bad"},
    "wecom": {"errcode": 93000, "errmsg": "bad"},
    "dingtalk": {"errcode": 300001, "errmsg": "bad"},
    "telegram": {"ok": False, "description": "chat not found"},
}
ADDRESS = {"slack": "U1", "telegram": "77"}


@pytest.fixture
def far():
    with Recorder() as far, override_settings(EGRESS_ALLOW=[f"127.0.0.1:{far.port}"]):
        yield far


def way(far: Recorder, system: str, **secrets: str) -> Far:
    given = {"token": "TOKEN-1", "webhook_url": f"{far.url}/hook?access_token=1", **secrets}
    return Far(system, {"api_url": far.url}, given, timedelta(seconds=5))


def send(far: Recorder, system: str, reply: object, letter: Letter = LETTER, **secrets: str) -> dict:
    far.next((200, {}, reply))
    return CARRIERS[system].send(way(far, system, **secrets), ADDRESS.get(system, ""), letter)


@pytest.mark.parametrize("system", GOOD)
def test_a_message_goes_out_whole_with_its_link_and_calls_nobody(far, system):
    send(far, system, GOOD[system])
    said = far.seen[-1].body.decode()
    assert "A-7" in said
    assert "http://desk/go/1-ab" in said
    assert "Risk: Medium" in said
    assert system != "feishu" or "<at" not in said


@pytest.mark.parametrize("system", NO)
def test_a_no_inside_a_good_answer_is_a_no(far, system):
    with pytest.raises(Refused):
        send(far, system, NO[system])


@pytest.mark.parametrize("system", GOOD)
def test_too_many_is_tried_again_and_no_secret_is_in_what_is_said_of_it(far, system):
    far.next(429)
    with pytest.raises(NotSent) as refused:
        CARRIERS[system].send(way(far, system), ADDRESS.get(system, ""), LETTER)
    assert "TOKEN" not in str(refused.value)
    assert "access_token" not in str(refused.value)


def test_a_silence_is_no_yes(far):
    far.next("drop")
    with pytest.raises(OutcomeUnknown):
        CARRIERS["telegram"].send(way(far, "telegram"), "77", LETTER)


def test_apprise_is_told_by_the_name_of_a_channel(far):
    channels = {"night": [f"json://127.0.0.1:{far.port}/night"], "day": [f"json://127.0.0.1:{far.port}/day"]}
    CARRIERS["notify"].send(Far("people", {}, {"channels": channels}, timedelta(seconds=5)), "night", LETTER)
    assert [one.path for one in far.seen] == ["/night"]
    assert far.seen[0].json["title"] == LETTER.title
    assert LETTER.link in far.seen[0].json["message"]


def test_dingtalk_is_signed_in_its_address(far):
    send(far, "dingtalk", GOOD["dingtalk"], secret="SEC-1")
    asked = parse_qs(urlsplit(far.seen[-1].path).query)
    moment = asked["timestamp"][0]
    mark = hmac.new(b"SEC-1", f"{moment}\nSEC-1".encode(), hashlib.sha256).digest()
    assert base64.b64decode(asked["sign"][0]) == mark
    assert asked["access_token"] == ["1"]


def test_a_long_message_is_cut_but_never_its_link(far):
    send(far, "wecom", GOOD["wecom"], Letter("夜" * 2000, (), "http://desk/go/1-ab"))
    text = far.seen[-1].json["text"]["content"]
    assert len(text.encode()) <= 2048
    assert text.endswith("http://desk/go/1-ab")


@pytest.mark.parametrize(("system", "path"), [("slack", "chat.update"), ("telegram", "editMessageText")])
def test_a_message_is_brought_up_to_date_where_it_stands(far, system, path):
    ref = send(far, system, GOOD[system])
    far.next((200, {}, GOOD[system]))
    CARRIERS[system].replace(way(far, system), ref, Letter("Approved by Ben: A-7", (), LETTER.link))
    assert far.seen[-1].path.endswith(path)
    assert "Approved by Ben" in far.seen[-1].body.decode()


def test_only_where_clicks_are_signed_a_message_can_have_a_button():
    assert {system for ways in (CARRIERS, TO_ONE) for system, way in ways.items() if way.clicks} == {"slack", "feishu"}


@pytest.mark.parametrize(
    ("system", "address"),
    [
        ("smtp", "Ann <a@example.org>"),
        ("slack", "C123"),
        ("telegram", "@ann"),
        ("feishu", "ou_1"),
        ("notify", "mailto://x"),
    ],
)
def test_an_address_that_is_none_is_refused(system, address):
    with pytest.raises(NotValid):
        CARRIERS[system].check(address)
