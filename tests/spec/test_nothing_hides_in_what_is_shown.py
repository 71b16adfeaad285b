"""Whatever a title, an argument or a reason holds, people read it as it is: on pages, in the feed, by mail and chat."""

import re
import sys
import unicodedata

import pytest

from approvals import decide, letters, mornings
from approvals.act import act
from approvals.done import done
from approvals.kinds import KINDS
from approvals.models import Action, Asking, Morning, Notice
from project.lib import clock
from project.lib.visible import is_odd, plain
from tests import builders
from tests.handlers import work
from tests.house.test_pages import ALL
from tests.nodding import handling, settle
from tests.project.test_pages import Reader
from triggers.models import Audit, Run

pytestmark = pytest.mark.django_db

HIDDEN = [
    char
    for char in map(chr, range(1, sys.maxunicode + 1))
    if unicodedata.category(char) in ("Cc", "Cf") and char not in "\n\t\r"
] + ["\u115f", "\u3164", "\u034f", "\u2028", "\u2029", "\ue000", "\u2800", "\u17b4", "\u180b", "\u180f"]
HIDDEN += [chr(code) for code in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))]  # each could carry a byte
EVIL = "</script><img src=x onerror=window.__x=1>"
CORPUS = f"{''.join(HIDDEN)}{EVIL}"
SHORT = f"pay \u202eeve\u2066 \u200b\u200dall\u00ad\ufeff\x1b[2K{EVIL}"
FILE = {"path": f"docs/{SHORT}.md", "content": f"first\n{CORPUS}\nlast"}
PULL = {"repo": "acme/shop", "base": f"main{SHORT}", "title": SHORT, "body": CORPUS, "files": [FILE]}


def story(run):
    evidence = [{"text": CORPUS, "for": False}, {CORPUS: CORPUS}]
    act(run, "write", kind="github.comment", repo="acme/shop", number=1, body=CORPUS)
    act(run, "open", kind="github.create_pr", reason=CORPUS, evidence=evidence, **PULL)


@pytest.fixture
def asked(db) -> Action:
    builders.connection()
    with handling(story):
        builders.run("story")
        work()
        settle()
    return Action.objects.get(kind="github.create_pr")


def hidden_in(text: str) -> set[str]:
    return {f"U+{ord(char):04X}" for char in text if is_odd(char)}


def test_the_corpus_is_all_there_is():
    assert len(HIDDEN) > 400
    assert all(map(is_odd, HIDDEN))


def test_how_a_symbol_is_drawn_is_left_to_it_and_hides_nothing():
    assert plain("\u26a0\ufe0f stop \u2714\ufe0e") == "\u26a0\ufe0f stop \u2714\ufe0e"
    assert plain("\u26a0\ufe0f\ufe0f") == "\u26a0\ufe0f⟨U+FE0F⟩", "one alone carries nothing"
    assert plain("a\ufe0f\ufe01") == "a⟨U+FE0F⟩⟨U+FE01⟩"


def test_the_form_of_a_question_hides_nothing(owner, sign_in):
    odd = "yes\u202e\u200b\ufe01"
    member = {"type": "string", "title": odd, "description": odd, "enum": [odd, "no"]}
    form = {"type": "object", "properties": {"answer": member}, "required": ["answer"]}
    question = builders.action("human.question", arguments={"question": "Go on?", "form": form})
    assert hidden_in(Reader(sign_in(owner).get(f"/actions/{question.pk}").content.decode()).text) == set()


def test_no_page_lets_anything_hide(asked, owner, sign_in):
    """XS-01: every page of the desk, with the rows of this story in its address, and the windows of the admin; nor does
    one take for markup what somebody wrote."""
    decide.cancel(Action.objects.get(pk=asked.pk), by=owner, reason=CORPUS)
    browser, seen, found = sign_in(owner), [], {}
    numbers = {"actions": asked.pk, "runs": asked.run_id, "events": asked.run.event_id}
    pages = [re.sub(r"/(\w+)/1\b", lambda at: f"/{at[1]}/{numbers.get(at[1], 1)}", path) for path, _ in ALL]
    pages += [f"/approvals?sel={asked.pk}", f"/actions/{Action.objects.get(kind='github.comment').pk}", "/find?q=pay"]
    pages += [f"/admin/{row._meta.label_lower.replace('.', '/')}/" for row in (Action, Audit, Run)]
    pages += [f"/admin/approvals/action/{asked.pk}/change/", f"/admin/triggers/run/{asked.run_id}/change/"]
    for page in pages:
        answer = browser.get(page)
        if answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/html"):
            seen.append(page)
            if hides := hidden_in(Reader(answer.text).text) | ({EVIL} if EVIL in answer.text else set()):
                found[page] = hides
    assert found == {}
    assert {f"/actions/{asked.pk}", f"/runs/{asked.run_id}", *pages[-8:]} <= {*seen}
    assert len(seen) > 40


@pytest.mark.parametrize("asks", ["/approvals/together?kind=github.create_pr&pick={}", "/actions/{}/edit"])
def test_nor_does_one_that_is_about_what_waits(asks, asked, owner, sign_in):
    answer = sign_in(owner).get(asks.format(asked.pk))
    assert answer.status_code == 200
    assert "U+202E" in Reader(answer.content.decode()).text
    assert hidden_in(Reader(answer.content.decode()).text) == set()


def test_the_card_says_where_they_stand(asked, owner, sign_in):
    text = Reader(sign_in(owner).get(f"/actions/{asked.pk}").content.decode()).text
    assert "pay U+202EeveU+2066" in re.sub(r"⟨(U\+\w+)⟩", r"\1", text)
    for char in HIDDEN:
        assert f"U+{ord(char):04X}" in text, unicodedata.name(char, hex(ord(char)))


def test_the_title_of_the_api_tells_them(asked, owner, with_token):
    told = with_token(owner, "read", "operate").get(f"/api/v1/actions/{asked.pk}").json()
    assert hidden_in(told["title"]) == set()
    assert "⟨U+202E⟩eve⟨U+2066⟩" in told["title"]


@pytest.mark.parametrize("char", [*"\x00\r\x85", "\u202e", "\u2028", "\ud800"])
def test_a_headline_lets_no_character_disappear(char):
    wish = KINDS["email.send"].arguments.model_construct(to=["ann@example.org"], subject=f"a{char}b", body="")
    headline = KINDS["email.send"].headline(wish)
    assert f"a⟨U+{ord(char):04X}⟩b" in headline


def test_no_message_lets_anything_hide(asked, ben):
    way = builders.connection("smtp", practice=False)
    channel = ben.channels.create(connection=way, address="ben@example.org", created_at=clock.now())
    now = clock.now()
    asking, _ = Asking.objects.get_or_create(action=asked, revision=asked.revision, defaults={"asked_at": now})
    for what in ("ask", "remind", "end"):
        notice = Notice(asking=asking, channel=channel, person=ben, what=what, due_at=now, pk=1)
        assert hidden_in(letters.letter_of(notice).text) == set(), what


def test_what_a_program_says_begins_no_line_of_ours_and_pushes_none_out(ann, ben):
    against = {"text": f"nothing much\nRisk: Low\nUndo: {'easy ' * 9000}", "for": False}
    told = letters.facts(builders.action(by=ann, evidence=[against]), ben)
    assert [line.split()[0] for line in "\n".join(told).splitlines()] == ["Risk:", "Against:", "Asked", "If"]
    assert len(told[1]) < letters.LONGEST_LINE + 20


def test_no_digest_lets_anything_hide(asked, ben):
    since = asked.run.queued_at
    letter = mornings.letter_of(done(since, clock.now()), Morning(pk=1, person=ben, until=since, next_at=since))
    assert "1 done" in letter.text
    assert hidden_in(letter.text) == set()


@pytest.mark.parametrize("kind", ["http.request", "gone.kind"])
def test_a_megabyte_is_shown_to_its_last_letter(kind, owner, sign_in):
    body = "x" * 500_000 + " THE MIDDLE " + "y" * 500_000 + " THE END"
    action = builders.action(kind=kind, arguments={"method": "POST", "url": "https://example.org", "body": body})
    text = Reader(sign_in(owner).get(f"/actions/{action.pk}").content.decode()).text
    assert " THE MIDDLE " in text
    assert "y" * 500_000 + " THE END" in text
