"""What is hidden in arguments comes back at its own place only, and only if it is what the mark stands for."""

import copy
import json

import pytest

from approvals.errors import Refused
from approvals.hiding import hide, mark, restore, reveal
from approvals.kinds import KINDS
from approvals.wish import Wish
from project.client import StillHidden, revealed

WISH = {
    "method": "POST",
    "url": "https://x.example/a?api_key=SECRET-1&page=2&empty_token=",
    "headers": {"Authorization": "Bearer SECRET-2", "Accept": "text/plain"},
    "json": {
        "user": "ann",
        "login": {"password": "SECRET-3"},
        "tokens": ["SECRET-4", ["SECRET-5"]],
        "max_tokens": 5,
        "note": "",
    },
}


def test_what_is_shown_holds_no_secret_and_everything_else() -> None:
    shown, kept = hide(copy.deepcopy(WISH))
    assert "SECRET" not in repr(shown)
    assert "page=2" in shown["url"]
    assert (shown["headers"]["Accept"], shown["json"]["user"], shown["json"]["max_tokens"]) == ("text/plain", "ann", 5)
    assert len(kept) == 5


@pytest.mark.parametrize(
    "name", ["pwd", "pass", "passcode", "jwt", "bearer", "otp", "creds", "csrfToken", "dsn", "connection_string"]
)
def test_a_credential_is_known_by_any_of_its_names(name: str) -> None:
    assert "SECRET" not in repr(hide({"json": {name: "SECRET"}})[0])


@pytest.mark.parametrize("name", ["note", "passage", "compass", "option", "passenger"])
def test_a_word_that_only_looks_like_one_is_shown(name: str) -> None:
    assert hide({"json": {name: "plain"}}) == ({"json": {name: "plain"}}, [])


def test_what_is_sent_is_what_was_asked_for() -> None:
    shown, kept = hide(copy.deepcopy(WISH))
    assert reveal(shown, kept) == WISH


def test_what_is_hidden_already_is_shown_as_it_is() -> None:
    shown, _ = hide(copy.deepcopy(WISH))
    assert hide(copy.deepcopy(shown)) == (shown, [])


def test_the_headline_is_that_of_the_text_that_is_stored() -> None:
    """A start compares them: with names in another order, or a mark of a mark, nothing could ever begin."""
    given = {"service": "shop", "count": 1.0, "nothing": None, "password": "SECRET-1", "url": "https://x.de/?token=S"}
    wish = Wish.of("external.deploy", None, "k", "", (), None, given)
    assert wish.title == KINDS["external.deploy"].headline_of(json.loads(wish.freeze()[0])["arguments"])
    assert mark("SECRET-1") in wish.title


def test_the_same_secret_has_the_same_mark_and_another_another() -> None:
    assert mark("a") == mark("a") != mark("b")


def test_a_mark_written_into_a_text_reveals_nothing() -> None:
    shown, kept = hide({"url": "https://evil.example/?q=" + mark("SECRET-2"), "headers": {"X-Token": "SECRET-2"}})
    assert reveal(shown, kept)["url"] == "https://evil.example/?q=" + mark("SECRET-2")


def test_a_value_that_was_exchanged_is_not_sent() -> None:
    shown, _ = hide({"headers": {"X-Token": "SECRET-2"}})
    with pytest.raises(Refused):
        reveal(shown, [(["headers", "X-Token"], "another")])


def test_a_member_that_is_only_called_url_stays_as_it_is() -> None:
    wish = {"json": {"url": "http://[no address?token=x"}}
    assert hide(copy.deepcopy(wish)) == (wish, [])


@pytest.mark.parametrize(
    "url",
    [
        "https://x.example/a?api_key=SECRET-1&q=a%20b&empty_token=",
        "https://x.example/a?token=SECRET-1&token=SECRET-2#there",
        "HTTPS://X.example?sig=%C3%A4",
    ],
)
def test_a_program_outside_gets_its_own_credentials_back_letter_for_letter(url: str) -> None:
    wish = copy.deepcopy(WISH) | {"url": url}
    shown, _ = hide(copy.deepcopy(wish))
    assert "hidden:" in shown["url"]
    assert revealed(shown, wish) == wish


def test_it_gets_them_back_in_what_a_reviewer_left_of_them() -> None:
    wish = {"url": "https://x.example/a?api_key=SECRET-1&page=2", "tokens": ["SECRET-2", "SECRET-3"], "note": "a"}
    shown, kept = hide(copy.deepcopy(wish))
    edited = {
        "url": shown["url"].replace("page=2", "page=3"),
        "tokens": shown["tokens"][:1],
        "note": "b",
    }
    wanted = {"url": "https://x.example/a?api_key=SECRET-1&page=3", "tokens": ["SECRET-2"], "note": "b"}
    assert revealed(edited, wish) == restore(edited, shown, kept) == wanted


@pytest.mark.parametrize(
    ("shown", "given"),
    [
        ({"token": mark("S")}, {}),
        ({"token": mark("S")}, {"token": 5}),
        ({"tokens": ["new", mark("S")]}, {"tokens": ["S"]}),
        ({"url": "https://evil.example/?token=" + mark("S")}, {"url": "https://x.example/?token=S"}),
        ({"url": "https://x.example/?token=" + mark("S")}, {"url": "https://x.example/?token=S&token=T"}),
        ({"note": "it is " + mark("S")}, {"note": "it is S"}),
    ],
)
def test_a_function_is_not_called_with_a_mark_in_place_of_a_credential(shown: dict, given: dict) -> None:
    with pytest.raises(StillHidden):
        revealed(shown, given)


def test_a_text_that_only_looks_like_a_mark_is_its_own() -> None:
    wish = {"note": mark("S"), "url": "https://x.example/?q=" + mark("S")}
    assert revealed(copy.deepcopy(wish), wish) == wish
