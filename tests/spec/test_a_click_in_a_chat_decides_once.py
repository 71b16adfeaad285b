"""A button in a chat decides medium, for the person who linked that account, on what the message showed, once. Every
other click decides nothing and says why."""

import json
from urllib.parse import urlencode

import pytest
from django.db import OperationalError
from django.test import Client

from approvals import clicks, decide, telling
from approvals.chats.slack import SIGNED
from approvals.models import Action, Channel, Click, Decision
from project.lib import clock
from tests import builders, slack
from tests.approvals.test_argument_forms import PULL
from tests.conftest import person
from tests.nodding import now_of, say
from tests.slack import deliver, press
from tests.spec.test_a_link_only_opens_a_page import READERS
from tests.telling import a_chat, reach
from triggers.sources.verify import Forged, verify

pytestmark = pytest.mark.django_db


@pytest.fixture
def chat():
    with a_chat() as chat:
        yield chat


@pytest.fixture
def asked(chat, ann, ben) -> Action:
    """Ben has been told of it in the chat."""
    reach(ben, "slack", "U2")
    action = builders.action(by=ann, arguments=PULL)
    telling.tick()
    return action


def value_of(action: Action, **other: object) -> str:
    return json.dumps({"id": action.pk, "digest": action.digest, "revision": action.revision} | other)


def why(chat) -> str:
    """What the last whisper said."""
    return chat.whispers[-1]["text"] if chat.whispers else ""


def outcome() -> str:
    return Click.objects.latest("pk").outcome


def test_the_linked_person_approves_by_a_click(chat, asked, ben):
    assert press(chat.button("U2")).status_code == 200
    said = Decision.objects.get()
    assert (said.by, said.channel, said.revision, now_of(asked).status) == (ben, "slack", 1, "approved")
    click = Click.objects.get()
    assert (click.person, click.identity, click.action_id, click.outcome) == (ben, "T111/U2", asked.pk, "approved")
    assert chat.whispers == []


@pytest.mark.parametrize(
    ("by", "team"),
    [("U9", "T111"), ("U2", "T999"), ("U1", "T111")],
    ids=["unknown", "another workspace", "not confirmed"],
)
def test_nobody_else_decides_by_that_button(chat, asked, ann, by, team):
    mine = reach(person("cho", "reviewer"), "slack", "U1")
    Channel.objects.filter(pk=mine.pk).update(confirmed_at=None)
    assert press(chat.button("U2"), by=by, team=team).status_code == 200
    assert (now_of(asked).status, outcome()) == ("awaiting", "unlinked")
    assert "linked to nobody" in why(chat)


def test_an_account_that_was_removed_decides_nothing(chat, asked):
    value = chat.button("U2")
    Channel.objects.update(removed_at=clock.now())
    press(value)
    assert (now_of(asked).status, outcome()) == ("awaiting", "unlinked")


def test_who_may_not_decide_may_not_in_a_chat_either(chat, asked, ann, ben):
    """AP-05: whoever asked does not nod, by whichever way he comes."""
    reach(ann, "slack", "U1")
    press(value_of(asked), by="U1")
    assert (now_of(asked).status, outcome()) == ("awaiting", "self_approval")
    ben.groups.clear()
    press(value_of(asked))
    assert (now_of(asked).status, outcome()) == ("awaiting", "not_reviewer")
    ben.change(is_active=False)
    press(value_of(asked))
    assert now_of(asked).status == "awaiting"


def test_high_has_no_button_and_a_click_on_it_decides_nothing(chat, ann, ben):
    reach(ben, "slack", "U2")
    action = builders.action(by=ann, tier="high", arguments=PULL)
    telling.tick()
    assert chat.button("U2") is None
    press(value_of(action))
    assert (now_of(action).status, outcome()) == ("awaiting", "not_in_chat")
    assert "open the page" in why(chat)


@pytest.mark.parametrize(("kind", "title"), [("github.create_pr", "Open a very long …"), ("human.question", "Which?")])
def test_what_a_message_cannot_show_whole_has_no_button(chat, ann, ben, kind, title):
    reach(ben, "slack", "U2")
    builders.action(kind, by=ann, title=title)
    telling.tick()
    assert chat.button("U2") is None
    assert "Open" in str(chat.to("U2")[0]["blocks"])


def test_a_button_stands_under_all_that_is_approved(chat, ann, ben):
    reach(ben, "slack", "U2")
    order = {"method": "POST", "url": "https://api.example.com/v1/accounts/7/close?force=1", "json": {"all": True}}
    builders.action("http.request", by=ann, arguments=order)
    telling.tick()
    assert chat.button("U2") is not None
    said = str(chat.to("U2")[0]["blocks"])
    assert "/v1/accounts/7/close?force=1" in said
    assert '"all":true' in said


def test_what_is_too_long_for_a_message_has_no_button(chat, ann, ben):
    reach(ben, "slack", "U2")
    builders.action("email.send", by=ann, arguments={"to": ["b@example.com"], "subject": "Hello", "body": "x" * 1000})
    telling.tick()
    assert chat.button("U2") is None


def test_a_click_that_was_cut_short_counts_when_it_is_sent_again(chat, asked, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(clicks, "decide", lambda *_, **__: (_ for _ in ()).throw(OperationalError("gone")))
        with pytest.raises(OperationalError):
            press(value_of(asked), trigger="1.same")
    for told in ("", "taken already"):
        press(value_of(asked), trigger="1.same")
        assert (now_of(asked).status, Decision.objects.count(), told in why(chat)) == ("approved", 1, True)


@pytest.mark.parametrize("other", [{"revision": 2}, {"digest": "sha256:0"}])
def test_a_click_on_what_is_no_longer_there_decides_nothing(chat, asked, other):
    press(value_of(asked, **other))
    assert (now_of(asked).status, outcome()) == ("awaiting", "changed")
    assert "changed" in why(chat)


def test_a_late_click_is_told_who_was_first(chat, asked, owner):
    say(asked, owner, "reject")
    press(value_of(asked))
    assert (now_of(asked).status, outcome()) == ("rejected", "already_decided")
    assert "owner decided" in why(chat)


def test_each_cause_of_a_click_that_decides_nothing_has_its_own_words(chat, asked, owner):
    told = []
    for cause in ("nobody knows it", "changed", "withdrawn", "decided", "over"):
        if cause == "nobody knows it":
            press(value_of(asked, id=10**9))
        elif cause == "changed":
            press(value_of(asked, revision=2))
        else:
            action = builders.action(by=asked.requested_by, arguments=PULL)
            if cause == "withdrawn":
                decide.cancel(action, by=owner)
            elif cause == "decided":
                say(action, owner)
            else:
                Action.objects.filter(pk=action.pk).update(expires_at=action.created_at)
            press(value_of(action))
        told.append(why(chat))
    for words, said in zip(("does not belong", "changed", "withdrawn", "owner decided", "expired"), told, strict=True):
        assert words in said
    assert len(set(told)) == len(told)
    assert now_of(asked).status == "awaiting"


def test_the_same_click_again_decides_nothing_more(chat, asked, ben):
    value = chat.button("U2")
    press(value, trigger="1.same")
    now_of(asked).move("reopen", revision=2, given=0, decided_at=None, not_before=None, execute_by=None)
    press(value, trigger="1.same")
    assert (now_of(asked).status, Decision.objects.count(), Click.objects.count()) == ("awaiting", 1, 1)
    assert "taken already" in why(chat)


@pytest.mark.parametrize("given", [{"secret": "another"}, {"at": 0}, {"slug": "nobody"}])
def test_what_slack_did_not_sign_is_not_heard(chat, asked, given):
    answer = press(chat.button("U2"), **given)
    assert (answer.status_code, answer.json()["code"]) == (401, "not_authentic")
    assert (now_of(asked).status, Click.objects.count(), chat.whispers) == ("awaiting", 0, [])


def test_a_connection_without_a_signing_secret_hears_nothing(chat, asked):
    connection = Channel.objects.get().connection
    connection.change(by=None, secrets={"token": "xoxb-1"})
    assert press(chat.button("U2"), secret="").status_code == 401
    assert now_of(asked).status == "awaiting"


@pytest.mark.parametrize(
    "value",
    ["", "[]", "{}", "null", '{"id": "1", "digest": 1, "revision": true}', '{"id": 99, "digest": "x", "revision": 1}'],
)
def test_a_button_that_is_not_ours_is_answered(chat, asked, value):
    assert press(value).status_code == 200
    assert (now_of(asked).status, outcome()) == ("awaiting", "not_ours")


@pytest.mark.parametrize(
    "body", ["", "payload=", "payload=[]", "payload=%7B%7D", "x=1", "payload={%22type%22:%22view_submission%22}"]
)
def test_whatever_else_slack_says_is_let_go(chat, body):
    assert deliver(body).status_code == 200
    assert not Click.objects.exists()


def test_a_click_is_read_as_slack_describes_it(chat, asked):
    """Members and ids of its own example of a call-back, with our button in it."""
    Channel.objects.update(identity="T111/W111")
    button = {"action_id": "approve", "block_id": "b", "value": value_of(asked), "type": "button", "action_ts": "15.19"}
    told = {
        "type": "block_actions",
        "user": {"id": "W111", "username": "Person 1", "name": "Person 1", "team_id": "T111"},
        "api_app_id": "A111",
        "token": "verification_token",
        "container": {"type": "message", "message_ts": "111.222", "channel_id": "C111", "is_ephemeral": True},
        "trigger_id": "111.222.valid",
        "team": {"id": "T111", "domain": "workspace-domain", "enterprise_id": "E111"},
        "channel": {"id": "C111", "name": "test-channel"},
        "response_url": "https://hooks.example/actions/T111/111/random-value",
        "actions": [button],
    }
    deliver(urlencode({"payload": json.dumps(told)}))
    assert (now_of(asked).status, outcome()) == ("approved", "approved")


def test_the_button_that_only_opens_decides_nothing(chat, asked):
    press(value_of(asked), name="open")
    assert (now_of(asked).status, Click.objects.count()) == ("awaiting", 0)


def test_no_link_of_a_message_decides_whoever_follows_it(chat, asked, ben, sign_in):
    """AP-02: a preview of a chat follows every link and decides nothing."""
    assert (chat.to("U2")[0]["unfurl_links"], chat.to("U2")[0]["unfurl_media"]) == (False, False)
    link = next(
        each["url"]
        for block in chat.to("U2")[0]["blocks"]
        if block["type"] == "actions"
        for each in block["elements"]
        if "url" in each
    )
    path = "/" + link.split("/", 3)[3]
    for browser in (Client(), sign_in(ben)):
        for reader in [*READERS.values(), {}]:
            for method in ("get", "head", "options"):
                assert getattr(browser, method)(path, headers=reader).status_code < 500
    assert (now_of(asked).status, Decision.objects.count()) == ("awaiting", 0)
    assert Client().get(path)["location"].startswith("/sign-in")
    assert sign_in(ben).get(path)["location"] == f"/actions/{asked.pk}"


def test_a_link_is_one_persons_and_is_over_with_what_it_was_for(chat, asked, ann, ben, owner, sign_in):
    link = chat.to("U2")[0]["blocks"][-1]["elements"][-1]["url"]
    path = "/" + link.split("/", 3)[3]
    assert sign_in(ann).get(path).status_code == 404
    assert sign_in(ben).get(path[:-1] + ("0" if path[-1] != "0" else "1")).status_code == 404
    say(asked, owner)
    page = sign_in(ben).get(path)
    assert page.status_code == 200
    assert "Approved by owner" in page.content.decode()


def test_a_signature_that_slack_publishes_fits():
    """The example of its documentation: another body, or another second, and it does not."""
    where = {"trigger_id": "398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"}
    answer = "https://hooks.slack.com/commands/T1DC2JH3J/397700885554/96rGlfmibIGlgcZRskXaIFfN"
    who = {"user_id": "U2CERLKJA", "user_name": "roadrunner", "command": "/webhook-collect", "text": ""}
    chat = {"team_id": "T1DC2JH3J", "team_domain": "testteamnow", "channel_id": "G8PSS9T3V", "channel_name": "foobar"}
    told = {"token": "xyzz0WbapA4vBCDEFasx0q6G", **chat, **who, "response_url": answer, **where}
    mark = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    headers = {"x-slack-request-timestamp": "1531420618", "x-slack-signature": mark}
    body = urlencode(told).encode()
    verify(SIGNED, body, headers, [slack.SIGNING.encode()], now=1531420620)
    for other in ({"body": body + b"&", "now": 1531420620}, {"body": body, "now": 1531420620 + 301}):
        with pytest.raises(Forged):
            verify(SIGNED, other["body"], headers, [slack.SIGNING.encode()], now=other["now"])
