"""`/settings/notifications`: a channel is set up, shown to reach its owner, tried out and removed; nobody else's."""

import re

import pytest

from approvals import channels
from approvals.models import Channel, Hours
from project.lib import clock
from tests import builders
from tests.slack import press
from tests.telling import a_chat, a_mailbox, reach
from triggers.models import Audit

pytestmark = pytest.mark.django_db
PAGE = "/settings/notifications"


@pytest.fixture
def chat():
    with a_chat() as chat:
        yield chat


@pytest.fixture
def browser(sign_in, ben):
    return sign_in(ben)


def code_in(text: str) -> str:
    return re.search(r"\b\d{6}\b", text)[0]


def test_a_desk_without_a_way_out_says_what_is_missing(browser, sign_in, owner):
    page = browser.get(PAGE).content.decode()
    assert "Nobody can tell you yet" in page
    assert "An admin makes one" in page
    assert "/connections/new" in sign_in(owner).get(PAGE).content.decode()


def test_from_the_code_to_the_click(chat, browser, ben):
    browser.post(PAGE, {"connection": "slack", "address": "U2"})
    channel = Channel.objects.get()
    assert (channel.confirmed_at, channel.identity) == (None, "T111/U2")
    assert "Not shown yet" in browser.get(PAGE).content.decode()
    browser.post(f"{PAGE}/{channel.pk}/code", {"code": code_in(chat.to("U2")[0]["text"])})
    assert "Reaches you" in browser.get(PAGE).content.decode()
    assert Audit.objects.filter(verb="link", by=ben).exists()
    browser.post(f"{PAGE}/{channel.pk}/test")
    assert "Clicks not tried" in browser.get(PAGE).content.decode()
    press(chat.button("U2"), name="test")
    assert "Clicks arrive" in browser.get(PAGE).content.decode()
    browser.post(f"{PAGE}/{channel.pk}/remove")
    assert not Channel.objects.kept().exists()


def test_a_mail_address_is_shown_to_be_ones_own(browser):
    with a_mailbox() as box:
        browser.post(PAGE, {"connection": "post", "address": "ben@example.org"})
        channel = Channel.objects.get()
        browser.post(f"{PAGE}/{channel.pk}/code", {"code": code_in(str(box.taken[0].message["Subject"]))})
        assert Channel.objects.usable().count() == 1


@pytest.mark.parametrize("why", ["wrong", "old", "too many"])
def test_a_code_that_is_not_it_links_nothing(chat, browser, later, why):
    browser.post(PAGE, {"connection": "slack", "address": "U2"})
    channel, code = Channel.objects.get(), code_in(chat.to("U2")[0]["text"])
    other = f"{(int(code) + 1) % 10**6:06}"
    for _ in range({"wrong": 1, "old": 0, "too many": 5}[why]):
        browser.post(f"{PAGE}/{channel.pk}/code", {"code": other})
    if why == "old":
        later(minutes=11)
    if why != "wrong":
        browser.post(f"{PAGE}/{channel.pk}/code", {"code": code})
    assert Channel.objects.get().confirmed_at is None


def test_no_second_code_within_half_a_minute(chat, browser, later):
    for _ in range(3):
        browser.post(PAGE, {"connection": "slack", "address": "U2"})
    assert len(chat.messages) == 1
    later(seconds=31)
    browser.post(f"{PAGE}/{Channel.objects.get().pk}/code", {"code": ""})
    assert len(chat.messages) == 2


def test_nobody_writes_to_ever_more_addresses_by_it(chat, browser, later):
    """Each new channel sends a code to somebody who may not have asked for it, also when it is removed at once."""
    for number in range(channels.MOST_CHANNELS + 2):
        browser.post(PAGE, {"connection": "slack", "address": f"U{number}"})
        Channel.objects.update(removed_at=clock.now())
    assert len(chat.messages) == channels.MOST_CHANNELS
    later(hours=1, seconds=1)
    browser.post(PAGE, {"connection": "slack", "address": "U99"})
    assert chat.to("U99")


def test_an_account_is_one_persons(chat, browser, ann):
    reach(ann, "slack", "U2")
    browser.post(PAGE, {"connection": "slack", "address": "U2"})
    channel = Channel.objects.get(person__username="ben")
    browser.post(f"{PAGE}/{channel.pk}/code", {"code": code_in(chat.to("U2")[-1]["text"])})
    channel.refresh_from_db()
    assert channel.confirmed_at is None


@pytest.mark.parametrize("address", ["", "ben", "C0123", "U1; drop"])
def test_an_address_that_is_none_is_refused_beside_its_field(chat, browser, address):
    answer = browser.post(PAGE, {"connection": "slack", "address": address})
    assert answer.status_code == 422
    assert not Channel.objects.exists()


def test_what_the_far_side_says_no_to_is_said(chat, browser):
    chat.far.next((200, {}, {"ok": False, "error": "user_not_found"}))
    answer = browser.post(PAGE, {"connection": "slack", "address": "U2"})
    assert "user_not_found" in answer.content.decode()


def test_a_code_that_was_not_taken_was_not_sent(chat, browser, later):
    chat.far.next((200, {}, {"ok": False, "error": "user_not_found"}))
    for page in (browser.post(PAGE, {"connection": "slack", "address": "U2"}), browser.get(PAGE)):
        own = page.content.decode().split("<aside")[0]
        assert "a code was not taken" in own
        assert "a code was sent" not in own
        assert ("user_not_found" in own) is (page.status_code == 422)
    channel = Channel.objects.get()
    later(seconds=31)
    browser.post(f"{PAGE}/{channel.pk}/code", {"code": ""})
    assert "a code was sent" in browser.get(PAGE).content.decode()
    browser.post(f"{PAGE}/{channel.pk}/code", {"code": code_in(chat.to("U2")[-1]["text"])})
    assert "Reaches you" in browser.get(PAGE).content.decode()


@pytest.mark.parametrize("deed", ["code", "test", "remove"])
def test_somebody_elses_channel_is_not_there(chat, browser, ann, deed):
    channel = reach(ann, "slack", "U1")
    assert browser.post(f"{PAGE}/{channel.pk}/{deed}", {"code": "1"}).status_code == 404
    assert Channel.objects.usable().count() == 1


def test_hours_are_typed_as_windows(browser, ben):
    browser.post(f"{PAGE}/hours", {"windows": "mon-fri 09:00-17:00"})
    assert Hours.objects.get().windows == [
        {"days": ["mon", "tue", "wed", "thu", "fri"], "from": "09:00", "to": "17:00"}
    ]
    assert "mon-fri 09:00-17:00" in browser.get(PAGE).content.decode()
    assert browser.post(f"{PAGE}/hours", {"windows": "always"}).status_code == 422
    browser.post(f"{PAGE}/hours", {"windows": ""})
    assert Hours.objects.get().windows == []


def test_a_practice_connection_and_one_without_a_token_tell_nobody(db):
    builders.connection("slack")
    builders.connection("slack", slug="hook", practice=False)
    assert channels.open_ways() == []
