"""People decide on exactly what they saw, and every page says what really happened to their click."""

import gzip
import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qsl

import pytest
from django.test import Client

from approvals import policy
from approvals.authority import may_cancel
from approvals.cards import card_of
from approvals.kinds import KINDS
from approvals.models import Action, PracticeItem
from project import feed
from project.lib import clock
from project.people import roles
from tests import builders
from tests.conftest import PASSWORD, person
from triggers.models import Event


def say(client: Client, action: Action, verdict: str = "approve", **fields: object):
    seen = {"digest": action.digest, "revision": action.revision, "verdict": verdict, **fields}
    return client.post(f"/actions/{action.pk}/decisions", seen)


def text_of(answer) -> str:
    """What a person reads: tags away, spaces folded."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode())).replace(" .", ".")


def form_of(answer) -> dict[str, str]:
    """What the form of the decision holds, {} without one: its note, and the verdict the note was begun for."""
    tag, _, rest = answer.content.decode().partition('<form class="decide"')[2].partition(">")
    begun = re.search(r'data-begun="(\w+)"', tag)
    note = re.search(r'name="reason"[^>]*>(.*?)</textarea>', rest, re.S)
    return {"begun": begun[1] if begun else "", "reason": unescape(note[1]) if note else ""} if rest else {}


@pytest.fixture
def asked(ann):
    """Ann asked for a pull request; Ben reviews."""
    return builders.action(by=ann, run=builders.run(), connection=builders.connection())


@pytest.fixture
def ben_reads(ben, sign_in):
    return sign_in(ben)


def test_the_form_carries_the_digest_and_the_revision_that_are_shown(asked, ben_reads):
    page = ben_reads.get(f"/actions/{asked.pk}").content.decode()
    assert f'name="digest" value="{asked.digest}"' in page
    assert f'name="revision" value="{asked.revision}"' in page


def test_a_yes_approves_and_can_be_taken_back(asked, ben_reads):
    answer = say(ben_reads, asked)
    assert answer.status_code == 302
    asked.refresh_from_db()
    assert asked.status == "approved"
    page = text_of(ben_reads.get(f"/actions/{asked.pk}"))
    assert re.search(r"Approved\. The pull request goes out in \d+ s", page)
    assert "Take back" in page
    ben_reads.post(f"/actions/{asked.pk}/take-back")
    asked.refresh_from_db()
    assert (asked.status, asked.revision) == ("awaiting", 2)
    assert "Taken back. Nothing was sent. It is waiting again." in text_of(ben_reads.get(f"/actions/{asked.pk}"))


def test_a_second_click_of_the_same_person_is_the_same_yes(asked, ben_reads):
    assert [say(ben_reads, asked).status_code for _ in range(2)] == [302, 302]
    assert asked.decisions.count() == 1


def test_after_a_decision_the_next_waiting_one_opens(asked, ben_reads, ann):
    later = builders.action(by=ann, run=builders.run(), expires_at=clock.now() + timedelta(days=2))
    assert say(ben_reads, asked, **{"from": "inbox"}).url == f"/approvals?sel={later.pk}&done={asked.pk}"
    page = text_of(ben_reads.get(f"/approvals?sel={later.pk}&done={asked.pk}"))
    assert re.search(r"Approved\. The pull request goes out in \d+ s", page)


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_the_next_card_says_what_was_decided_and_goes_on_saying_it(verdict, asked, ben_reads, ann):
    Action.objects.filter(pk=asked.pk).update(title="Mend the typo")
    later = builders.action(by=ann, run=builders.run(), expires_at=clock.now() + timedelta(days=2))
    answer = ben_reads.get(say(ben_reads, asked, verdict, reason="seen").url)
    here = f"/actions/{later.pk}?done={asked.pk}"
    assert answer["HX-Push-Url"] == here, "the page asks for its parts again under this address"
    assert f'data-here="{here}"' in answer.content.decode()
    [toast] = re.findall(r'<div class="toast".*?\n</div>', ben_reads.get(here).content.decode(), re.DOTALL)
    assert "Mend the typo" in toast
    assert f"A-{asked.pk}" in toast
    assert (f"/actions/{asked.pk}/take-back" in toast) is (verdict == "approve")


def test_a_note_that_was_kept_says_for_which_verdict_it_was_typed(asked, ben_reads):
    assert "data-begun" not in ben_reads.get(f"/actions/{asked.pk}").content.decode()
    page = say(ben_reads, asked, "reject", reason="not tonight", digest="sha256:old").content.decode()
    assert "not tonight</textarea>" in page
    assert 'data-begun="reject"' in page
    ben_reads.post(f"/actions/{asked.pk}/decisions", {"reason": "x"})
    settled = {"decided_at": clock.now(), "settled_at": clock.now()}
    Action.objects.filter(pk=asked.pk).update(status="delivered", **settled)
    answer = ben_reads.post(f"/actions/{asked.pk}/cancel", {"reason": "why it was withdrawn"})
    assert "why it was withdrawn" not in answer.content.decode()


def test_what_names_the_card_moves_on_with_it(asked, ben_reads):
    page = ben_reads.get(f"/actions/{asked.pk}").content.decode()
    [swapped] = set(re.findall(r'hx-select-oob="([^"]+)"', page[page.index('class="decide"') :]))
    outside = page[: page.index('id="main"')]
    named = re.findall(rf'id="(\w+)"(?:(?! id=").)*?A-{asked.pk}', outside[outside.index("<body") :], re.DOTALL)
    assert named == ["crumbs"]
    assert {f"#{name}" for name in named} <= set(swapped.split(","))
    [bar] = re.findall(r'class="q">(.*?)</b>', page)
    assert f"A-{asked.pk}" in bar


def test_when_nothing_else_waits_the_decided_one_stays(asked, ben_reads):
    assert say(ben_reads, asked).url == f"/actions/{asked.pk}"


def test_a_reject_needs_a_note_and_keeps_nothing_without_one(asked, ben_reads):
    answer = say(ben_reads, asked, "reject")
    assert answer.status_code == 422
    assert "Say why" in text_of(answer)
    say(ben_reads, asked, "reject", reason="already fixed by hand")
    asked.refresh_from_db()
    assert asked.status == "rejected"
    page = text_of(ben_reads.get(f"/actions/{asked.pk}"))
    assert "ben said no" in page
    assert "already fixed by hand" in page


def test_who_comes_second_reads_who_was_first(asked, ben_reads, sign_in, later):
    wei = person("wei", roles.VIEWER, roles.REVIEWER)
    say(sign_in(wei), asked)
    later(seconds=4)
    answer = say(ben_reads, asked, reason="looks fine")
    assert answer.status_code == 409
    assert re.search(r"wei decided [45] s before you\. Your click changed nothing\.", text_of(answer))
    assert asked.decisions.count() == 1


def test_who_comes_after_the_end_reads_by_how_much(asked, ben_reads, later):
    later(days=1, seconds=3)
    answer = say(ben_reads, asked)
    assert answer.status_code == 410
    assert re.search(r"Too late by [34] s\. It expired at \d\d:\d\d:\d\d\. Nothing was sent\.", text_of(answer))
    asked.refresh_from_db()
    assert asked.status != "approved"


def test_a_page_that_shows_an_older_revision_decides_nothing(asked, ben_reads):
    """AP-07: a yes belongs to the revision it was said to."""
    answer = say(ben_reads, asked, revision=asked.revision + 1)
    assert answer.status_code == 412
    assert "The request changed while you read it. Read it again before you decide." in text_of(answer)
    asked.refresh_from_db()
    assert asked.status == "awaiting"


def test_a_digest_of_other_bytes_decides_nothing(asked, ben_reads):
    assert say(ben_reads, asked, digest="sha256:00").status_code == 412


def test_a_take_back_leaves_its_trace(asked, ben_reads, owner, sign_in):
    say(ben_reads, asked)
    ben_reads.post(f"/actions/{asked.pk}/take-back")
    assert "ben took it back. It waits again as revision 2" in text_of(ben_reads.get(f"/actions/{asked.pk}"))
    told = [line.what for line in feed.lines(owner)]
    assert told.index("ben took back") < told.index("ben approved"), "newest first"
    log = text_of(sign_in(owner).get("/audit?verb=approve"))
    digest = asked.digest.removeprefix("sha256:")
    assert f"sha256 {digest[:4]}…{digest[-4:]}" in log


def test_the_request_is_withdrawn_by_a_second_press(asked, ann, ben, sign_in):
    page = sign_in(ann).get(f"/actions/{asked.pk}").content.decode()
    first, _, folded = page.partition('<details class="sure"')[2].partition("</summary>")
    assert "Withdraw the request" in first
    assert "<button" not in first
    assert "Yes, withdraw it" in folded.partition("</details>")[0]


def test_what_goes_out_in_hours_is_not_counted_in_seconds(asked, ben_reads):
    say(ben_reads, asked)
    Action.objects.update(not_before=clock.now() + timedelta(hours=9, minutes=30, seconds=10))
    assert "The pull request goes out in 9 h 30 min" in text_of(ben_reads.get(f"/actions/{asked.pk}"))


def test_a_yes_from_before_the_take_back_does_not_count_again(asked, ben_reads):
    say(ben_reads, asked)
    ben_reads.post(f"/actions/{asked.pk}/take-back")
    assert say(ben_reads, asked).status_code == 412


def test_the_one_who_asked_sees_why_the_button_is_off(asked, ann, ben, sign_in):
    answer = sign_in(ann).get(f"/actions/{asked.pk}")
    assert "You cannot approve what you asked for" in text_of(answer)
    assert 'value="approve"' not in answer.content.decode()
    assert say(sign_in(ann), asked).status_code == 403


@pytest.mark.parametrize("status", ["awaiting", "overdue", "approved", "held", "delivering", "delivered"])
@pytest.mark.parametrize("reader", ["ann", "ben", "owner", "eve"])
def test_whoever_may_withdraw_it_finds_that_on_its_page(status, reader, asked, sign_in, request):
    now = clock.now()
    times = {"decided_at": now, "not_before": now + timedelta(seconds=60 if status == "held" else -60)}
    stored = {"overdue": "awaiting", "held": "approved"}.get(status, status)
    over = {
        "overdue": {"expires_at": now - timedelta(seconds=1)},
        "delivering": {"leased_until": now + timedelta(seconds=45)},
        "delivered": {"settled_at": now},
    }.get(status, {})
    Action.objects.filter(pk=asked.pk).update(status=stored, **({} if stored == "awaiting" else times), **over)
    who = request.getfixturevalue(reader)
    page = sign_in(who).get(f"/actions/{asked.pk}").content.decode()
    asked.refresh_from_db()
    may = stored in ("awaiting", "approved") and may_cancel(asked, who, policy.ruling_of(asked))
    assert page.count(f'action="/actions/{asked.pk}/cancel"') == may
    assert (sign_in(who).post(f"/actions/{asked.pk}/cancel").status_code == 302) is may


def test_a_viewer_reads_the_facts_but_not_the_arguments(asked, sign_in):
    viewer = sign_in(person("vic", roles.VIEWER))
    answer = viewer.get(f"/actions/{asked.pk}")
    assert answer.status_code == 200
    assert "Fix the typo" not in answer.content.decode()
    assert "Operators and reviewers read the arguments" in text_of(answer)
    assert say(viewer, asked).status_code == 403


class TestHigh:
    @pytest.fixture
    def merge(self, ann):
        return builders.action("github.merge", by=ann, tier="high", run=builders.run())

    def test_asks_for_the_password_first_and_keeps_the_note(self, merge, ben_reads):
        answer = say(ben_reads, merge, reason="tests are green")
        assert answer.url == f"/step-up?next=%2Factions%2F{merge.pk}"
        assert ben_reads.post(answer.url, {"password": "wrong"}).status_code == 400
        back = ben_reads.post("/step-up", {"password": PASSWORD, "next": f"/actions/{merge.pk}"})
        assert back.url == f"/actions/{merge.pk}"
        assert "tests are green" in ben_reads.get(back.url).content.decode()

    @pytest.mark.parametrize(("verdict", "status"), [("approve", "approved"), ("reject", "rejected")])
    @pytest.mark.parametrize("inbox", [False, True])
    def test_what_was_begun_without_a_script_goes_on_after_the_password(self, merge, ben_reads, verdict, status, inbox):
        place = {"from": "inbox"} if inbox else {}
        asked = say(ben_reads, merge, verdict, reason="as agreed <by phone>", **place)
        assert asked.url.startswith("/step-up?next=")
        merge.refresh_from_db()
        assert (merge.status, merge.decisions.count()) == ("awaiting", 0)
        there = dict(parse_qsl(asked.url.partition("?")[2]))["next"]
        back = ben_reads.post(asked.url, {"password": PASSWORD, "next": there})
        sent = form_of(ben_reads.get(back.url))
        assert sent["begun"] == verdict, "a script would hold back every other verdict"
        assert sent["reason"] == "as agreed <by phone>"
        assert say(ben_reads, merge, verdict, reason=sent["reason"], **place).status_code == 302
        merge.refresh_from_db()
        assert (merge.status, merge.decisions.get().reason) == (status, "as agreed <by phone>")
        assert "as agreed" not in form_of(ben_reads.get(f"/actions/{merge.pk}")).get("reason", "")

    def test_a_note_begun_for_another_verdict_since_is_that_ones(self, merge, ben_reads):
        for verdict in ("approve", "reject"):
            say(ben_reads, merge, verdict, reason=f"I {verdict}")
            sent = form_of(ben_reads.get(f"/actions/{merge.pk}"))
            assert (sent["begun"], sent["reason"]) == (verdict, f"I {verdict}")

    def test_an_empty_note_is_begun_for_nothing(self, merge, ben_reads):
        say(ben_reads, merge, "approve", reason="")
        assert form_of(ben_reads.get(f"/actions/{merge.pk}"))["begun"] == ""

    def test_a_note_an_older_desk_kept_is_still_there(self, merge, ben_reads):
        session = ben_reads.session
        session[f"draft:{merge.pk}"] = "typed before the upgrade"
        session.save()
        sent = form_of(ben_reads.get(f"/actions/{merge.pk}"))
        assert (sent["begun"], sent["reason"]) == ("", "typed before the upgrade"), "nobody knows for which verdict"

    def test_the_only_yes_there_is_takes_the_note_along(self, merge, ben_reads):
        page = ben_reads.get(f"/actions/{merge.pk}").content.decode()
        form = page[page.index('<form class="decide"') :]
        form = form[: form.index("</form>")]
        assert "/step-up" not in form, "a link would leave what was typed behind"
        assert re.search(r'name="verdict" value="approve" formnovalidate', form), "an empty note may be written later"
        seen = {"digest": merge.digest, "revision": merge.revision, "verdict": "approve", "reason": "tests are green"}
        answer = ben_reads.post(f"/actions/{merge.pk}/decisions", seen, headers={"HX-Request": "true"})
        assert answer["HX-Redirect"] == f"/step-up?next=%2Factions%2F{merge.pk}"
        assert "tests are green" in ben_reads.get(f"/actions/{merge.pk}").content.decode()

    @pytest.mark.parametrize("four_eyes", [True, False])
    def test_an_edit_that_is_no_yes_is_not_called_one(self, asked, merge, ben_reads, four_eyes):
        Action.objects.filter(pk=asked.pk).update(four_eyes=four_eyes)
        for action, says_yes in ((merge, False), (asked, not four_eyes)):
            told = text_of(ben_reads.get(f"/actions/{action.pk}"))
            assert ("Edit and approve" in told) is says_yes
            assert ("Edit, for somebody else to approve" in told) is not says_yes

    def test_a_fresh_sign_in_is_good_for_one_decision(self, merge, ben_reads, ann):
        ben_reads.post("/step-up", {"password": PASSWORD, "next": "/"})
        assert say(ben_reads, merge, reason="tests are green").status_code == 302
        merge.refresh_from_db()
        assert merge.status == "approved"
        other = builders.action("github.merge", by=ann, tier="high", run=builders.run())
        assert say(ben_reads, other, reason="this too").url.startswith("/step-up")

    def test_a_text_that_was_changed_uses_no_sign_in_up(self, merge, ben_reads):
        ben_reads.post("/step-up", {"password": PASSWORD, "next": "/"})
        Action.objects.filter(pk=merge.pk).update(canonical=merge.canonical.replace("typo", "tipo"))
        assert say(ben_reads, merge, reason="tests are green").status_code == 412
        merge.refresh_from_db()
        assert say(ben_reads, merge, reason="tests are green").status_code == 302
        merge.refresh_from_db()
        assert merge.status == "approved"

    def test_has_no_key_for_yes(self, merge, ben_reads):
        ben_reads.post("/step-up", {"password": PASSWORD, "next": "/"})
        page = ben_reads.get(f"/actions/{merge.pk}").content.decode()
        assert 'value="approve"' in page
        assert 'data-shortcut="a"' not in page

    def test_its_requester_is_told_to_find_a_second_person(self, merge, ann, sign_in):
        assert "second person" in text_of(sign_in(ann).get(f"/actions/{merge.pk}"))


class TestUnknown:
    @pytest.fixture
    def lost(self, ann):
        return builders.action(by=ann, run=builders.run(), status="unknown", tries=1, decided_at=clock.now())

    def test_people_are_asked_whether_it_happened(self, lost, ann, sign_in):
        page = text_of(sign_in(ann).get(f"/actions/{lost.pk}"))
        assert "Did it happen?" in page
        for answer in ("Yes, it happened", "No, send it again", "Give up"):
            assert answer in page

    def test_an_operator_settles_it(self, lost, ann, sign_in):
        client = sign_in(ann)
        client.post(f"/actions/{lost.pk}/outcome", {"status": "delivered", "note": "I see number 1301"})
        lost.refresh_from_db()
        assert lost.status == "delivered"

    def test_a_reviewer_alone_does_not(self, lost, ben_reads):
        assert "An operator answers this" in text_of(ben_reads.get(f"/actions/{lost.pk}"))
        assert ben_reads.post(f"/actions/{lost.pk}/outcome", {"status": "delivered"}).status_code == 403


@pytest.mark.parametrize(
    ("status", "fields", "words"),
    [
        ("approved", {"not_before": timedelta(0), "execute_by": timedelta(hours=1)}, "Approved, waiting to go out"),
        ("delivering", {"leased_until": timedelta(minutes=1)}, "is going out now"),
        ("delivered", {"settled_at": timedelta(0)}, "went out once"),
        ("failed", {"settled_at": timedelta(0)}, "It could not be done"),
        ("expired", {"settled_at": timedelta(0)}, "Nobody decided in time"),
        ("cancelled", {"settled_at": timedelta(0)}, "The request was withdrawn"),
        ("superseded", {"settled_at": timedelta(0)}, "A newer request of the same step took its place"),
        ("rejected", {"settled_at": timedelta(0)}, "Nothing was sent"),
    ],
)
def test_every_status_has_its_page(status, fields, words, ann, ben_reads):
    times = {name: clock.now() + delay for name, delay in fields.items()}
    action = builders.action(by=ann, status=status, run=builders.run(), **times)
    answer = ben_reads.get(f"/actions/{action.pk}")
    assert answer.status_code == 200
    assert words in text_of(answer)


def test_an_expired_request_is_not_offered_before_tick_says_so(asked, ben_reads, later):
    later(days=2)
    answer = ben_reads.get(f"/actions/{asked.pk}")
    assert "Too late" in text_of(answer)
    assert 'value="approve"' not in answer.content.decode()


def test_a_text_that_was_changed_behind_our_back_cannot_be_approved(asked, ben_reads):
    Action.objects.filter(pk=asked.pk).update(canonical=asked.canonical.replace("typo", "tipo"))
    page = ben_reads.get(f"/actions/{asked.pk}")
    assert "The stored text is not what its digest says" in text_of(page)
    assert say(ben_reads, asked).status_code == 412
    asked.refresh_from_db()
    assert asked.status == "awaiting"


@pytest.mark.parametrize("trouble", [ValueError, KeyError, TypeError])
def test_one_that_cannot_be_told_in_words_takes_no_list_down(trouble, asked, ben_reads, with_token, ben, monkeypatch):
    def preview(arguments):
        raise trouble("no words")

    monkeypatch.setitem(KINDS, "email.send", replace(KINDS["email.send"], preview=preview, title=preview))
    mail = {"to": ["ann@example.org"], "subject": "Night", "body": "All is well."}
    odd = builders.action("email.send", run=builders.run(), arguments=mail, title="A mail")
    for address in ("/approvals", f"/approvals?sel={odd.pk}", "/actions", f"/actions/{odd.pk}"):
        assert ben_reads.get(address).status_code == 200
    told = text_of(ben_reads.get(f"/actions/{odd.pk}"))
    assert "No summary for this action. Read the exact payload below." in told
    assert "ann@example.org" in told
    assert with_token(ben, "read", "decide").get(f"/api/v1/actions/{odd.pk}").json()["preview"] == []
    assert KINDS["email.send"].headline(KINDS["email.send"].read(mail)) == "email.send"


def test_what_speaks_against_it_is_read_first(asked, ben):
    Action.objects.filter(pk=asked.pk).update(
        evidence=[{"text": "for", "for": True}, {"text": "against", "for": False}, {"text": "perhaps", "for": None}]
    )
    asked.refresh_from_db()
    card = card_of(asked, ben, clock.now())
    assert [item.text for item in card.evidence] == ["against", "perhaps", "for"]
    assert card.score == {"good": 1, "bad": 1, "open": 1}


def test_evidence_is_for_who_may_read_the_arguments_on_the_page_as_in_the_api(ann, eve, sign_in):
    """It quotes what the program worked on; a viewer reads that something is asked, and by whom."""
    roles.grant(eve, roles.VIEWER)
    action = builders.action(by=ann, evidence=[{"text": "IBAN DE02", "for": False}])
    browser = sign_in(eve)
    assert "IBAN DE02" not in browser.get(f"/actions/{action.pk}").content.decode()
    assert browser.get(f"/api/v1/actions/{action.pk}").json()["evidence"] is None


def test_links_of_the_evidence_lead_only_to_the_web(asked, ben_reads):
    Action.objects.filter(pk=asked.pk).update(evidence=[{"text": "look", "for": True, "url": "javascript:alert(1)"}])
    assert "javascript:" not in ben_reads.get(f"/actions/{asked.pk}").content.decode()


def test_the_inbox_lists_the_soonest_first_and_opens_it(asked, ben_reads, ann):
    soon = builders.action(by=ann, run=builders.run(), title="Soon", expires_at=clock.now() + timedelta(minutes=5))
    page = ben_reads.get("/approvals").content.decode()
    assert page.index(f'data-row data-key="{soon.pk}"') < page.index(f'data-row data-key="{asked.pk}"')
    assert f'data-card="{soon.pk}"' in page


EMPTY = {
    "waiting": "Nothing waits for you",
    "decided": "Decisions are listed here",
    "expired": "nobody decided in time",
}


@pytest.mark.parametrize("tab", [*EMPTY, "nonsense"])
def test_an_empty_inbox_says_so(tab, ben_reads):
    for odd in ("none", "9" * 5000):
        answer = ben_reads.get(f"/approvals?tab={tab}&sel={odd}&done={odd}&page=z")
        assert answer.status_code == 200
        assert EMPTY.get(tab, EMPTY["waiting"]) in answer.content.decode()


@pytest.mark.parametrize("noun", ["decisions", "take-back", "cancel", "outcome"])
def test_looking_never_decides(noun, asked, ben_reads):
    before = Action.objects.values().get(pk=asked.pk)
    assert ben_reads.get(f"/actions/{asked.pk}/{noun}?verdict=approve").status_code == 405
    assert Action.objects.values().get(pk=asked.pk) == before
    assert not Event.objects.filter(source_slug="/approvals").exists()


def test_a_decision_without_the_csrf_mark_is_refused(asked, ben):
    client = Client(enforce_csrf_checks=True)
    client.force_login(ben, backend="django.contrib.auth.backends.ModelBackend")
    assert say(client, asked).status_code == 403
    asked.refresh_from_db()
    assert asked.status == "awaiting"


@pytest.mark.usefixtures("one_look")
def test_a_card_costs_few_queries_however_many_wait(asked, ben_reads, ann, django_assert_max_num_queries):
    for _ in range(30):
        builders.action(by=ann, run=builders.run())
    ben_reads.get("/approvals")
    with django_assert_max_num_queries(30):
        ben_reads.get("/approvals")


def test_the_page_somebody_opens_at_night_on_a_phone_is_small(asked, ben_reads, ann):
    for _ in range(10):
        builders.action(by=ann, run=builders.run())
    page = ben_reads.get(f"/approvals?sel={asked.pk}").content
    assert b"Approve" in page
    assert len(gzip.compress(page)) <= 10 * 1024


@pytest.mark.usefixtures("one_look")
@pytest.mark.parametrize("name", ["ann", "vic"])
def test_a_list_costs_few_queries_also_for_who_may_decide_none_of_it(
    asked, ann, name, sign_in, django_assert_max_num_queries
):
    """Ann asked for all of them, Vic only looks."""
    vic = person("vic", "viewer")
    for _ in range(30):
        builders.action(by=ann, run=builders.run())
    reads = sign_in(ann if name == "ann" else vic)
    reads.get("/approvals")
    with django_assert_max_num_queries(30):
        reads.get("/approvals")


def test_the_practice_page_shows_what_was_delivered(ben_reads):
    PracticeItem.objects.create(
        connection=builders.connection(),
        kind="github.comment",
        key="k",
        title="Comment on acme/shop#7",
        arguments={"repo": "acme/shop", "number": 7, "body": "Thank you\u202e <b>"},
        at=clock.now(),
    )
    page = ben_reads.get("/practice").content.decode()
    assert "Comment on acme/shop#7" in page
    assert "U+202E" in page
    assert "&lt;b&gt;" in page
