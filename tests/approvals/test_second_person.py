"""Whoever may not say yes reads why, who may instead, and how to get somebody where there is nobody."""

import re

import pytest

from project.people.models import User
from tests import builders
from tests.conftest import person

INVITE = 'href="/admin/people/user/add/"'


@pytest.fixture
def seen(owner: User, sign_in):
    """The card of something high that the owner, an admin, asked for himself."""
    action = builders.action(by=owner, run=builders.run(), tier="high")

    def read(who: User = owner) -> str:
        page = sign_in(who).get(f"/actions/{action.pk}").content.decode()
        return re.sub(r"\s+", " ", page[page.index('class="decide quiet"') :])

    return read


def test_an_admin_alone_is_told_to_invite_somebody_and_led_there(seen):
    page = seen()
    assert "it needs a second person" in page
    assert INVITE in page
    assert "Nobody else is there yet" in page
    assert "disabled" in page


def test_with_a_second_reviewer_the_card_names_him_and_invites_nobody(seen, ben):
    page = seen()
    assert "These people may say yes: ben." in page
    assert INVITE not in page


def test_who_cannot_invite_is_told_who_can(seen, ann):
    page = seen(person("vic", "viewer"))
    assert INVITE not in page
    assert "These people may say yes: ann." in page


def test_the_reason_is_said_in_the_language_of_the_reader(seen, owner):
    owner.change(language="zh-hans")
    assert "需要第二个人" in seen()
