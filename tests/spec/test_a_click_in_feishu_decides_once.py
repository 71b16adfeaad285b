"""A button in Feishu decides medium like one in Slack: by what Feishu signed, for who linked that account, once."""

import json

import pytest
from django.test import override_settings

from approvals import channels, telling
from approvals.errors import NotValid
from approvals.links import link_to
from approvals.models import Action, Channel, Click, Connection, Decision, Notice
from project.lib import crypto
from tests import builders, feishu
from tests.approvals.test_argument_forms import PULL
from tests.feishu import APP, BEN, FakeFeishu, deliver, press, sealed
from tests.nodding import now_of, say
from tests.recorder import Recorder
from tests.telling import reach
from triggers.models import Audit

pytestmark = pytest.mark.django_db
DEEP = "[" * 20_000
SECRETS = {"app_secret": "app-secret-1", "encrypt_key": feishu.KEY}


@pytest.fixture
def lark():
    """A connection `lark` by whose app single people are told."""
    fake = FakeFeishu()
    with Recorder(fake.answer) as far, override_settings(EGRESS_ALLOW=[f"127.0.0.1:{far.port}"]):
        config = {"api_url": far.url, "app_id": APP}
        Connection.objects.create(slug="lark", system="feishu", config=config, sealed_secrets=crypto.seal(SECRETS))
        yield fake


@pytest.fixture
def asked(lark, ann, ben) -> Action:
    """Ben has been told of it by a card."""
    Channel.objects.filter(pk=reach(ben, "lark", BEN).pk).update(identity=BEN)
    action = builders.action(by=ann, arguments=PULL)
    telling.tick()
    return action


def toast(answer) -> str:
    return answer.json()["toast"]["content"]


def outcome() -> str:
    return Click.objects.latest("pk").outcome


def test_the_linked_person_approves_by_a_click_and_the_card_says_so(lark, asked, ben):
    assert lark.button()["name"] == "approve"
    assert link_to(Notice.objects.get()) in str(lark.last)
    assert press(lark.button()).status_code == 200
    said, click = Decision.objects.get(), Click.objects.get()
    assert (said.by, said.channel, now_of(asked).status) == (ben, "feishu", "approved")
    assert (click.person, click.identity, click.message, click.outcome) == (ben, BEN, {"message": "om_1"}, "approved")
    telling.tick()
    assert (len(lark.cards), lark.button()) == (1, None)
    assert "Approved by ben" in str(lark.last)


def test_a_decision_on_the_page_brings_the_card_up_to_date(lark, asked, owner):
    say(asked, owner)
    telling.tick()
    assert (len(lark.cards), lark.button()) == (1, None)
    assert "Approved by owner" in str(lark.last)


@pytest.mark.parametrize(
    ("of", "code"), [({"by": "ou_eve"}, "unlinked"), ({"by": ""}, "unlinked")], ids=["somebody else", "nobody"]
)
def test_nobody_else_decides_by_that_button(lark, asked, ann, of, code):
    Channel.objects.create(  # a group that reads along belongs to nobody's account
        person=ann,
        connection=Connection.objects.get(),
        created_at=asked.created_at,
        confirmed_at=asked.created_at,
    )
    answer = press(lark.button(), **of)
    assert (now_of(asked).status, outcome()) == ("awaiting", code)
    assert "linked to nobody" in toast(answer)


def test_a_click_of_another_app_is_none_of_ours(lark, asked):
    assert press(lark.button(), app="cli_other").status_code == 200
    assert (now_of(asked).status, Click.objects.count()) == ("awaiting", 0)


def test_the_same_click_again_decides_nothing_more(lark, asked):
    value = lark.button()
    press(value, event="ev-same")
    now_of(asked).move("reopen", revision=2, given=0, decided_at=None, not_before=None, execute_by=None)
    assert "taken already" in toast(press(value, event="ev-same"))
    assert (now_of(asked).status, Decision.objects.count(), Click.objects.count()) == ("awaiting", 1, 1)


def test_high_has_no_button_and_a_click_on_it_decides_nothing(lark, asked, ann):
    action = builders.action(by=ann, tier="high", arguments=PULL)
    telling.tick()
    assert lark.button() is None
    value = json.dumps({"id": action.pk, "digest": action.digest, "revision": 1})
    assert "open the page" in toast(press({"name": "approve", "value": value}))
    assert (now_of(action).status, outcome()) == ("awaiting", "not_in_chat")


def test_a_click_on_what_is_no_longer_there_decides_nothing(lark, asked):
    shown = json.loads(lark.button()["value"])
    answer = press({"name": "approve", "value": json.dumps(shown | {"revision": 2})})
    assert (now_of(asked).status, outcome()) == ("awaiting", "changed")
    assert "changed" in toast(answer)


@pytest.mark.parametrize("given", [{"key": "another"}, {"at": 0}, {"slug": "nobody"}])
def test_what_feishu_did_not_sign_is_not_heard(lark, asked, given):
    answer = press(lark.button(), **given)
    assert (answer.status_code, answer.json()["code"]) == (401, "not_authentic")
    assert (now_of(asked).status, Click.objects.count()) == ("awaiting", 0)


@pytest.mark.parametrize("mark", ["0" * 64, "x", "é"], ids=["another", "no hex", "no ascii"])
def test_encrypted_alone_is_not_signed(lark, asked, mark):
    body = sealed(feishu.told(lark.button()))
    assert deliver(body, mark=mark).status_code == 401
    assert now_of(asked).status == "awaiting"


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"encrypt": 7}', '{"encrypt": "AAAA"}', sealed([1]), "{", DEEP])
def test_what_is_not_encrypted_with_the_key_is_answered_alike(lark, body):
    answer = deliver(body)
    assert (answer.status_code, answer.json()["code"]) == (401, "not_authentic")


@pytest.mark.parametrize("value", [None, "approve", {"name": "open"}, {"name": "approve", "value": "[]"}, {}])
def test_whatever_else_is_pressed_decides_nothing(lark, asked, value):
    assert press(value).status_code == 200
    assert now_of(asked).status == "awaiting"


def test_without_an_encrypt_key_nothing_is_heard(lark, asked):
    Connection.objects.get().change(by=None, secrets={"app_secret": "app-secret-1"})
    assert press(lark.button(), key="").status_code == 401
    assert now_of(asked).status == "awaiting"


def test_the_trial_of_the_address_is_answered_only_when_it_was_encrypted_with_the_key(lark):
    trial = {"type": "url_verification", "challenge": "1b6a", "token": "v"}
    answer = deliver(sealed(trial), mark="0")
    assert (answer.status_code, answer.json()) == (200, {"challenge": "1b6a"})
    assert deliver(json.dumps(trial)).status_code == 401
    assert deliver(sealed(trial, "another")).status_code == 401


def test_a_person_links_the_account_by_mail_address_and_code(lark, ben):
    channel = channels.add(ben, Connection.objects.get(), "ben@example.org")
    code = lark.last["elements"][0]["text"]["content"].rpartition(" ")[2]
    channel.refresh_from_db()
    assert (channel.identity, list(lark.to.values())) == (BEN, ["ben@example.org"])
    channels.confirm(channel, code)
    channel.refresh_from_db()
    channels.try_out(channel)
    assert "It works" in toast(press(lark.button()))
    assert outcome() == "tested"


@pytest.mark.parametrize("holder", [BEN, "ou_other"])
def test_a_new_code_links_whoever_has_the_address_by_then_only_once_it_is_typed(lark, asked, ben, later, holder):
    """Somebody else got the mail address in Feishu: until the code is typed nobody's clicks count."""
    approve, channel = lark.button(), Channel.objects.get()
    Channel.objects.update(address="ben@example.org")
    channel.refresh_from_db()
    lark.ben = holder
    later(minutes=1)
    channels.send_code(channel)
    code = lark.last["elements"][0]["text"]["content"].rpartition(" ")[2]
    again = Channel.objects.get()
    assert (again.identity, again.confirmed_at is not None) == (holder, holder == BEN)
    assert Audit.objects.filter(verb="unlink", ref=str(channel.pk)).exists() == (holder != BEN)
    press(approve, by="ou_other")
    assert outcome() == "unlinked"
    channels.confirm(channel, code)
    assert Channel.objects.usable().get().identity == holder


def test_whom_feishu_does_not_know_is_not_linked(lark, ben):
    with pytest.raises(NotValid, match="knows nobody"):
        channels.add(ben, Connection.objects.get(), "who@example.org")


def test_without_an_app_a_connection_leads_to_its_group_only(lark, ben):
    connection = Connection.objects.get()
    connection.change(by=None, secrets={"webhook_url": "https://open.feishu.cn/open-apis/bot/v2/hook/x"})
    with pytest.raises(NotValid, match="leads to one group"):
        channels.add(ben, connection, "ben@example.org")
