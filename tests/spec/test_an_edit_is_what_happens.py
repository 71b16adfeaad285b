"""A reviewer may mend what was asked for: what he made of it is decided on and happens, and nothing else."""

import pytest

from approvals import decide
from approvals.act import act
from approvals.errors import AlreadyDecided, Changed, NotReviewer, NotValid, SelfApproval, StepUpRequired
from approvals.models import Action, Decision
from approvals.tiers import Tier
from project.people import roles
from tests import builders
from tests.conftest import person
from tests.handlers import work
from tests.nodding import changed_kind, handling, now_of, say, serving, settle, the_action
from triggers.models import Audit, DeadLetter

pytestmark = pytest.mark.django_db
LESS = {"item": "tea", "cups": 1}


@pytest.fixture
def shop():
    builders.connection("shop", practice=False)
    with serving() as shop:
        yield shop


@pytest.fixture
def asked(shop, ann):
    """A run ordered three cups of tea; Ann rang, and waits."""
    story = lambda run: dict(act(run, "order", kind="shop.order", key="order-7", item="tea", cups=3))  # noqa: E731
    with handling(story):
        builders.run("story", event=builders.event(requester=ann))
        work()
        yield the_action()


def test_what_the_reviewer_made_of_it_is_what_happens_once(asked, shop, ben):
    said = say(asked, ben, arguments=LESS)
    assert (said.status, said.revision, said.is_new) == ("approved", 2, True)
    settle()
    assert [order.cups for order in shop.done.values()] == [1]
    assert len(shop.sent) == 1
    done = now_of(asked)
    assert (done.status, done.arguments, done.title) == ("delivered", LESS, "Order 1 tea")
    assert now_of(done.run).result == {"cups": 1, "key": "order-7"}


def test_both_texts_are_kept_with_who_and_why(asked, ben):
    before = asked.canonical
    say(asked, ben, arguments=LESS, reason="one is enough")
    after = now_of(asked)
    edit, yes = Decision.objects.order_by("pk")
    assert (edit.verdict, edit.by, edit.revision, edit.reason) == ("edit", ben, 1, "one is enough")
    assert (edit.before, edit.after, edit.digest) == (before, after.canonical, asked.digest)
    assert (yes.verdict, yes.revision, yes.digest) == ("approve", 2, after.digest)
    assert after.digest != asked.digest
    assert after.proposal_digest == asked.digest
    trail = Audit.objects.filter(kind="action", ref=str(asked.pk)).order_by("pk")
    assert list(trail.values_list("verb", flat=True)) == ["propose", "edit", "approve"]
    told = trail.get(verb="edit").detail
    assert (told["revision"], told["digest"]) == (2, after.digest)
    assert {name: told["saw"][name] for name in ("title", "tier", "digest", "revision", "given")} == {
        "title": "Order 3 tea",
        "tier": "medium",
        "digest": asked.digest,
        "revision": 1,
        "given": 0,
    }


def test_an_edit_that_changes_nothing_is_a_plain_yes(asked, ben):
    said = say(asked, ben, arguments={"item": "tea", "cups": 3})
    assert (said.status, said.revision) == ("approved", 1)
    assert not Decision.objects.filter(verdict="edit")


def test_what_was_seen_must_still_be_there(asked, ben, owner):
    old = asked.digest
    say(asked, ben, arguments=LESS)
    decide.take_back(asked, by=ben)
    with pytest.raises(Changed) as refusal:
        say(asked, owner, arguments={"item": "tea", "cups": 2}, digest=old, revision=1)
    assert refusal.value.facts["revision"] == 3
    assert now_of(asked).arguments == LESS


def test_the_same_edit_twice_is_one(asked, ben):
    seen = {"digest": asked.digest, "revision": asked.revision, "arguments": LESS}
    first, second = say(asked, ben, **seen), say(asked, ben, **seen)
    assert (first.is_new, second.is_new, second.id) == (True, False, first.id)
    assert Decision.objects.count() == 2
    with pytest.raises(AlreadyDecided):
        say(asked, person("wei", roles.REVIEWER), **seen)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"item": "tea", "cups": "many"}, "cups"), ({"item": "tea", "sugar": True}, "sugar"), ({"item": []}, "item")],
)
def test_what_the_kind_does_not_take_is_refused_by_name_and_nothing_changes(asked, ben, arguments, field):
    before = Action.objects.values().get()
    with pytest.raises(NotValid) as refusal:
        say(asked, ben, arguments=arguments)
    assert refusal.value.facts["field"] == field
    assert Action.objects.values().get() == before
    assert not Decision.objects.exists()


def test_a_no_edits_nothing(asked, ben):
    with pytest.raises(NotValid):
        say(asked, ben, "reject", arguments=LESS)


def test_only_who_may_decide_may_edit(asked, ann, eve, ben):
    for somebody, refusal in ((eve, NotReviewer), (ann, SelfApproval)):  # Ben reviews too, so Ann may not
        with pytest.raises(refusal):
            say(asked, somebody, arguments=LESS)
    assert now_of(asked).revision == 1


def test_votes_for_the_text_before_do_not_count_for_the_new_one(asked, ben, owner):
    """AP-07: a yes belongs to the revision it was said to."""
    Action.objects.update(needed=2)
    say(asked, owner)
    said = say(asked, ben, arguments=LESS)
    assert (said.status, said.given, said.needed) == ("awaiting", 1, 2)
    assert say(asked, owner).status == "approved"


def test_on_medium_the_yes_of_who_edited_counts_also_after_a_take_back(asked, ben, owner):
    say(asked, ben, arguments=LESS)
    decide.take_back(asked, by=ben)
    assert say(asked, ben).status == "approved"


class TestHigh:
    @pytest.fixture
    def asked(self, asked, high_has_its_rule):
        changed_kind(tier=Tier.HIGH)
        Action.objects.update(tier="high")
        return now_of(asked)

    def test_who_edits_joins_those_who_asked_and_somebody_else_must_say_yes(self, asked, shop, ben, owner):
        said = say(asked, ben, arguments=LESS, reason="too many", stepped_up=True)
        assert (said.status, said.revision, said.given) == ("awaiting", 2, 0)
        with pytest.raises(SelfApproval) as refusal:
            say(asked, ben, reason="mine", stepped_up=True)
        assert "edited" in refusal.value.detail
        assert say(asked, owner, reason="read it", stepped_up=True).status == "approved"
        settle()
        assert [order.cups for order in shop.done.values()] == [1]

    def test_needs_a_fresh_sign_in_and_a_reason_like_every_verdict(self, asked, ben):
        with pytest.raises(StepUpRequired):
            say(asked, ben, arguments=LESS, reason="too many")
        assert now_of(asked).revision == 1

    def test_who_edited_may_still_say_no(self, asked, ben):
        say(asked, ben, arguments=LESS, reason="too many", stepped_up=True)
        assert say(asked, ben, "reject", stepped_up=True).status == "rejected"


def test_the_tier_is_computed_again_and_a_yes_to_what_became_high_does_not_count(asked, ben, high_has_its_rule):
    changed_kind(tier=Tier.HIGH)
    said = say(asked, ben, arguments=LESS)
    assert (said.status, said.given, now_of(asked).tier) == ("awaiting", 0, "high")


def test_a_replay_compares_with_what_was_proposed_never_with_an_edit(asked, ben):
    say(asked, ben, arguments=LESS)
    asked.run.refresh_from_db()
    type(asked.run).objects.update(status="queued", due_at=asked.created_at)
    work()
    assert now_of(asked.run).status in ("waiting", "succeeded")
    assert not DeadLetter.objects.exists()


def test_the_handler_learns_what_was_delivered(shop, ann, ben):
    seen = []

    def story(run):
        seen.append(act(run, "order", kind="shop.order", item="tea", cups=3).arguments)

    with handling(story):
        builders.run("story", event=builders.event(requester=ann))
        work()
        say(the_action(), ben, arguments=LESS)
        settle()
    assert seen == [LESS]


def test_a_question_is_answered_not_edited(ann, ben):
    action = builders.action("human.question", by=ann, arguments={"question": "Tea?"})
    with pytest.raises(NotValid):
        say(action, ben, arguments={"question": "Coffee?"})


def test_what_no_code_knows_any_more_is_not_edited(ann, ben):
    action = builders.action("shop.order", by=ann, arguments={"item": "tea"})
    with pytest.raises(NotValid):
        say(action, ben, arguments=LESS)


class TestHidden:
    """Credentials in arguments are never shown to who edits, survive the edit, and go nowhere else by it."""

    URL = "https://shop.example/orders?api_key=SECRET-456&page=1"
    GIVEN = {
        "url": URL,
        "headers": {"Authorization": "Bearer SECRET-123", "X-Note": "a"},
        "json": {"cups": 3, "password": "SECRET-789"},
    }

    @pytest.fixture
    def asked(self, ann, ben):
        builders.connection("http", practice=True)
        story = lambda run: act(run, "call", kind="http.request", key="call-1", **self.GIVEN)  # noqa: E731
        with handling(story):
            builders.run("story", event=builders.event(requester=ann))
            work()
            yield the_action()

    def test_they_survive_an_edit_of_something_else(self, asked, ben):
        shown = asked.arguments
        assert "SECRET" not in asked.canonical
        shown["json"]["cups"] = 1
        shown["url"] = shown["url"].replace("page=1", "page=2")
        say(asked, ben, arguments=shown)
        edited = now_of(asked)
        sent = edited.sent_arguments
        assert "SECRET" not in edited.canonical
        assert sent["headers"]["Authorization"] == "Bearer SECRET-123"
        assert sent["json"] == {"cups": 1, "password": "SECRET-789"}
        assert sent["url"] == "https://shop.example/orders?api_key=SECRET-456&page=2"
        assert all("SECRET" not in (said.before + said.after) for said in Decision.objects.all())

    def test_one_that_is_taken_out_is_gone_and_one_written_anew_is_hidden_too(self, asked, ben):
        shown = asked.arguments
        del shown["headers"]["Authorization"]
        shown["json"]["password"] = "another SECRET"
        say(asked, ben, arguments=shown)
        edited = now_of(asked)
        assert "another SECRET" not in edited.canonical
        assert edited.sent_arguments["json"]["password"] == "another SECRET"
        assert edited.sent_arguments["headers"] == {"X-Note": "a"}

    @pytest.mark.parametrize(
        "change",
        [
            lambda shown: shown["headers"].update({"X-Note": shown["headers"]["Authorization"]}),
            lambda shown: shown["json"].update({"text": f"look: {shown['json']['password']}"}),
            lambda shown: shown["json"].update({shown["json"]["password"]: 1}),
            lambda shown: shown.update(url="https://evil.example/orders"),
            lambda shown: shown.update(url="https://shop.example@evil.example/"),
            lambda shown: shown.update(url=shown["url"].replace("shop.example", "evil.example")),
            lambda shown: shown.update(url=shown["url"].replace("https", "http")),
            lambda shown: shown.update(url=shown["url"].replace("api_key", "q")),
        ],
    )
    def test_none_is_sent_elsewhere_by_an_edit(self, asked, ben, change):
        shown = asked.arguments
        change(shown)
        with pytest.raises(NotValid):
            say(asked, ben, arguments=shown)
        assert now_of(asked).sent_arguments["url"] == self.URL

    def test_to_another_address_go_only_values_that_were_written_anew(self, asked, ben):
        new = {"url": "https://other.example/orders", "headers": {"Authorization": "Bearer mine"}, "json": {"cups": 1}}
        say(asked, ben, arguments=new)
        assert now_of(asked).sent_arguments["headers"] == {"Authorization": "Bearer mine"}


def test_a_new_run_asks_for_the_proposal_not_for_what_an_edit_made_of_it(asked, ben, owner):
    Action.objects.update(needed=2)
    say(asked, ben, arguments=LESS)
    say(asked, owner, "reject")
    settle()
    builders.run("story", event=builders.event())
    work()
    again = the_action(generation=2)
    assert (again.arguments["cups"], again.revision, again.status) == (3, 1, "awaiting")
