"""Whoever may decide may mend: a form of the shown arguments, what differs, and a yes to exactly that."""

import re

import pytest

from approvals.argument_forms import Form
from approvals.connectors.github import GITHUB_CREATE_PR
from approvals.models import Action, Decision
from tests import builders
from tests.approvals.test_argument_forms import PULL, filled
from tests.approvals.test_pages import text_of
from tests.conftest import PASSWORD, person
from tests.ruled import rule


@pytest.fixture
def asked(ann):
    return builders.action(by=ann, run=builders.run(), connection=builders.connection(), arguments=PULL)


@pytest.fixture
def ben_reads(ben, sign_in):
    return sign_in(ben)


def typed(action: Action, do: str = "save", note: str = "", **changed: str):
    """The form as it stands for this action, with some fields typed over."""
    posted = filled(Form(GITHUB_CREATE_PR, action.arguments), **changed)
    seen = {"digest": action.digest, "revision": str(action.revision), "do": do, "reason": note}
    return posted.dict() | seen


def test_the_form_shows_what_is_asked_and_carries_what_was_seen(asked, ben_reads):
    page = ben_reads.get(f"/actions/{asked.pk}/edit").content.decode()
    assert f'name="digest" value="{asked.digest}"' in page
    assert 'name="a.title" value="Fix"' in page
    assert re.search(r'<textarea[^>]* name="a\.files\.0\.content"[^>]*>\n\nA\r?\nB</textarea>', page)
    assert f"/actions/{asked.pk}/edit" in ben_reads.get(f"/actions/{asked.pk}").content.decode()


def test_looking_at_the_difference_changes_nothing(asked, ben_reads):
    before = Action.objects.values().get()
    answer = ben_reads.post(f"/actions/{asked.pk}/edit", typed(asked, "look", title="Mend"))
    assert answer.status_code == 200
    assert "-Fix" in text_of(answer)
    assert "+Mend" in text_of(answer)
    assert Action.objects.values().get() == before
    assert not Decision.objects.exists()


def test_save_and_approve_is_a_yes_to_what_stands_there(asked, ben_reads):
    answer = ben_reads.post(f"/actions/{asked.pk}/edit", typed(asked, title="Mend", note="clearer"))
    assert answer.url == f"/actions/{asked.pk}"
    asked.refresh_from_db()
    assert (asked.status, asked.revision, asked.arguments["title"]) == ("approved", 2, "Mend")
    page = text_of(ben_reads.get(answer.url))
    assert "Edited by ben, revision 1 to 2: “clearer”" in page
    assert "-Fix" in page
    assert "+Mend" in page


@pytest.mark.parametrize(
    ("changed", "field", "words"),
    [
        ({"title": ""}, "title", "title: String should have at least 1 character"),
        ({"files__1__path": "../x"}, "files.1.path", "must be a path inside the repository"),
    ],
)
def test_what_the_kind_refuses_is_said_beside_its_field_with_everything_typed_kept(
    asked, ben_reads, changed, field, words
):
    answer = ben_reads.post(f"/actions/{asked.pk}/edit", typed(asked, body="a long text", note="because", **changed))
    page = answer.content.decode()
    assert answer.status_code == 422
    assert re.search(rf'id="e-a\.{field}">[^<]*{re.escape(words)}', page)
    assert "a long text" in page
    assert "because" in page
    asked.refresh_from_db()
    assert (asked.status, asked.revision) == ("awaiting", 1)


def test_what_changed_meanwhile_is_compared_anew_and_nothing_typed_is_lost(asked, ben_reads, owner, sign_in):
    mine = typed(asked, title="Mend")
    asked.needed = 2
    asked.save(update_fields=["needed"])
    sign_in(owner).post(f"/actions/{asked.pk}/edit", typed(asked, base="develop"))
    answer = ben_reads.post(f"/actions/{asked.pk}/edit", mine)
    page = text_of(answer)
    assert answer.status_code == 412
    assert "The request changed while you read it" in page
    assert "-develop" in page, "his form would put back what the owner changed, and says so"
    assert 'value="Mend"' in answer.content.decode()
    asked.refresh_from_db()
    assert (asked.revision, asked.arguments["base"]) == (2, "develop")


def test_whoever_was_slower_is_told_who_decided(asked, ben_reads, owner, sign_in):
    mine = typed(asked, title="Mend")
    seen = {"verdict": "approve", "digest": asked.digest, "revision": 1}
    sign_in(owner).post(f"/actions/{asked.pk}/decisions", seen)
    answer = ben_reads.post(f"/actions/{asked.pk}/edit", mine)
    assert answer.status_code == 409
    assert "owner decided" in text_of(answer)


def test_who_may_not_decide_may_not_edit(asked, ann, eve, ben, sign_in):
    assert sign_in(ann).get(f"/actions/{asked.pk}/edit").url == f"/actions/{asked.pk}"
    assert sign_in(ann).post(f"/actions/{asked.pk}/edit", typed(asked, title="x")).status_code == 403
    assert sign_in(eve).post(f"/actions/{asked.pk}/edit", typed(asked, title="x")).status_code == 403
    asked.refresh_from_db()
    assert asked.revision == 1


@pytest.mark.parametrize("wrong", [{"a.timeout": "abc"}, {"a.json": "{"}, {"a.url": "no address"}, {}])
@pytest.mark.parametrize("who", ["viewer", "operator", "admin", "who asked"])
def test_who_may_not_edit_sees_no_form_whatever_he_sends(who, wrong, ann, sign_in):
    action = builders.action(
        "http.request", by=ann, four_eyes=True, arguments={"method": "POST", "url": "https://x.dev"}
    )
    reader = ann if who == "who asked" else person("vic", who)
    sent = {"do": "save", "a.method": "POST", "a.url": "https://y.dev", "a.timeout": "5", **wrong}
    answer = sign_in(reader).post(f"/actions/{action.pk}/edit", {**sent, "digest": action.digest, "revision": "1"})
    assert answer.status_code == 403
    assert 'name="a.' not in answer.content.decode()
    assert Action.objects.get().revision == 1


def test_whoever_was_too_late_sees_no_form_whatever_he_sends(ann, ben_reads):
    action = builders.action("http.request", by=ann, arguments={"method": "POST", "url": "https://x.dev"})
    Action.objects.update(status="cancelled", settled_at=action.created_at)
    answer = ben_reads.post(f"/actions/{action.pk}/edit", {"do": "save", "a.timeout": "abc", "revision": "1"})
    assert answer.status_code == 409
    assert 'name="a.' not in answer.content.decode()


@pytest.mark.parametrize("why", ["high", "four eyes", "the policy in force"])
def test_the_form_says_when_the_yes_of_who_edits_will_not_count(why, asked, ben_reads, high_has_its_rule):
    if why == "the policy in force":
        rule("careful", "true", tier="high")
    else:
        Action.objects.update(**({"tier": "high"} if why == "high" else {"four_eyes": True}))
    ben_reads.post("/step-up", {"password": PASSWORD})
    page = text_of(ben_reads.get(f"/actions/{asked.pk}/edit"))
    assert "Save for somebody else" in page
    assert "Save and approve" not in page
    ben_reads.post(f"/actions/{asked.pk}/edit", typed(asked, title="Mend", note="clearer"))
    assert (Action.objects.get().revision, Action.objects.get().status) == (2, "awaiting"), "and it is so"


@pytest.mark.parametrize("kind", ["shop.gone", "human.question"])
def test_what_has_no_form_has_no_link_to_one(kind, ann, ben_reads):
    action = builders.action(kind, by=ann, run=builders.run(), arguments={"question": "Tea?"})
    assert f"/actions/{action.pk}/edit" not in ben_reads.get(f"/actions/{action.pk}").content.decode()
    assert ben_reads.get(f"/actions/{action.pk}/edit").status_code == 302


class TestHigh:
    @pytest.fixture
    def asked(self, ann):
        return builders.action(
            by=ann, tier="high", run=builders.run(), connection=builders.connection(), arguments=PULL
        )

    def test_asks_for_the_password_before_the_form(self, asked, ben_reads):
        assert ben_reads.get(f"/actions/{asked.pk}/edit").url.startswith("/step-up")

    def test_keeps_what_was_typed_when_the_proof_is_over(self, asked, ben_reads):
        answer = ben_reads.post(f"/actions/{asked.pk}/edit", typed(asked, title="Mend", note="clearer"))
        assert answer.status_code == 403
        assert 'value="Mend"' in answer.content.decode()
        assert "Confirm in another tab" in text_of(answer)

    def test_waits_for_somebody_else_after_an_edit(self, asked, ben_reads):
        ben_reads.post("/step-up", {"password": PASSWORD, "next": "/"})
        answer = ben_reads.post(f"/actions/{asked.pk}/edit", typed(asked, title="Mend", note="clearer"))
        page = text_of(ben_reads.get(answer.url))
        assert "Saved as revision 2. It waits for somebody else" in page
        assert "You edited this" in page
        asked.refresh_from_db()
        assert (asked.status, asked.revision) == ("awaiting", 2)


def test_what_is_hidden_is_not_in_the_form(ann, ben_reads):
    from_ann = {"by": ann, "run": builders.run(), "connection": builders.connection("http")}
    given = {"url": "https://shop.example/", "headers": {"Authorization": "hidden:0123456789abcdef"}}
    action = builders.action("http.request", arguments=given, **from_ann)
    page = text_of(ben_reads.get(f"/actions/{action.pk}/edit"))
    assert "hidden:0123456789abcdef" in page
    assert "is hidden. Leave it where it is" in page


def test_foreign_text_in_the_form_and_the_difference_is_only_text(asked, ben_reads):
    evil = "</textarea><script>window.__x=1</script>"
    answer = ben_reads.post(f"/actions/{asked.pk}/edit", typed(asked, "look", title=evil, body=evil, base="a\u202eb"))
    page = answer.content.decode()
    assert "<script>window" not in page
    assert "U+202E" in page


def test_the_difference_is_not_asked_for_once_it_is_decided(asked, ben_reads):
    """The page's own look a moment after the save: nothing is left behind that the next page would say."""
    mine = typed(asked, title="Mend")
    ben_reads.post(f"/actions/{asked.pk}/edit", mine)
    look = ben_reads.post(f"/actions/{asked.pk}/edit", mine | {"do": ""}, headers={"hx-request": "true"})
    assert look.status_code == 204
    assert "cannot be edited" not in text_of(ben_reads.get(f"/actions/{asked.pk}"))
    assert ben_reads.get(f"/actions/{asked.pk}/edit").url == f"/actions/{asked.pk}"
    assert "cannot be edited" in text_of(ben_reads.get(f"/actions/{asked.pk}"))
