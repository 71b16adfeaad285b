"""What is hidden in arguments comes back at its own place only, and only if it is what the mark stands for."""

import copy

import pytest

from approvals.errors import Refused
from approvals.hiding import hide, mark, reveal

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


def test_what_is_sent_is_what_was_asked_for() -> None:
    shown, kept = hide(copy.deepcopy(WISH))
    assert reveal(shown, kept) == WISH


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
