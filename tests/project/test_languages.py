"""A page speaks the language of the person who reads it; whatever is kept or answers machines speaks English."""

import pytest
from django.test import Client

CHINESE = {"HTTP_ACCEPT_LANGUAGE": "zh-CN,zh;q=0.9,en;q=0.8"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "language"),
    [("", "en"), ("de-AT,de;q=0.9", "en"), ("de, zh-TW;q=0.5", "zh-Hans"), ("zh-CN", "zh-Hans"), ("nonsense;;", "en")],
)
def test_a_stranger_reads_what_his_browser_asks_for(asked, language):
    answer = Client(HTTP_ACCEPT_LANGUAGE=asked).get("/sign-in")
    assert f'<html lang="{language}"' in answer.content.decode()
    assert answer["Content-Language"] == language.lower()
    assert "Accept-Language" in answer["Vary"]


@pytest.mark.django_db
def test_the_desk_has_a_language_for_whose_browser_says_nothing(settings):
    settings.PAGES_LANGUAGE = "zh-hans"
    assert '<html lang="zh-Hans"' in Client().get("/sign-in").content.decode()
    assert '<html lang="en"' in Client(HTTP_ACCEPT_LANGUAGE="en").get("/sign-in").content.decode()


def test_what_a_person_chose_wins_over_the_browser(ann, sign_in):
    browser = sign_in(ann)
    told = {"name": "Ann", "email": ann.email, "language": "zh-hans"}
    assert '<html lang="zh-Hans"' in browser.post("/settings", told, follow=True).content.decode()
    assert '<html lang="zh-Hans"' in browser.get("/settings", HTTP_ACCEPT_LANGUAGE="en").content.decode()
    browser.post("/settings", told | {"language": "en"})
    assert '<html lang="en"' in browser.get("/settings", **CHINESE).content.decode()


def test_a_language_the_desk_does_not_speak_is_not_chosen(ann, sign_in):
    answer = sign_in(ann).post("/settings", {"name": "Ann", "email": ann.email, "language": "klingon"})
    assert answer.status_code == 400
    ann.change(language="klingon")  # one that is gone
    assert '<html lang="en"' in sign_in(ann).get("/settings").content.decode()
