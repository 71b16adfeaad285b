"""An undoing that was written down before a reviewer edited the effect waits for a person, who sees what differs."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from approvals.act import act
from approvals.models import Action, Compensation, Connection, Decision
from approvals.tiers import Tier
from project.people.models import User
from tests import builders
from tests.handlers import work
from tests.nodding import Shop, changed_kind, handling, say, serving, settle
from triggers.errors import Permanent
from triggers.models import DeadLetter

pytestmark = pytest.mark.django_db


@pytest.fixture
def shop(connection: Connection) -> Iterator[Shop]:
    with serving(tier="medium") as shop:
        yield shop


def undone(undo: Any, *said: tuple[User, dict[str, Any]], meanwhile: Callable[[], object] = int) -> Action:
    """A run asks for prod, people say yes to what they make of it; the run fails: the action that is to undo what was
    done. Its kind is low by then."""

    def story(run: Any) -> None:
        act(run, "create", kind="shop.order", item="prod", key="create", compensate=undo)
        raise Permanent("later")

    with handling(story):
        builders.run("story")
        work()
        Action.objects.update(needed=min(2, len(said)))  # an edit is a yes, too
        for by, edit in said:
            say(Action.objects.get(), by, **edit)
        changed_kind(tier=Tier.LOW)
        meanwhile()
        settle()
        settle()
    return Action.objects.get(compensates__key="create")


TEST = {"arguments": {"item": "test"}}
DROP = {"kind": "shop.order", "item": "drop prod", "key": "drop"}


def test_it_waits_for_a_person_although_it_is_low(shop, ben):
    undo = undone(DROP, (ben, TEST))
    assert (undo.status, undo.tier, len(shop.sent)) == ("awaiting", "medium", 1)
    assert undo.policy == "what was done had been edited"


def test_both_texts_are_shown_and_no_message_carries_them(shop, ben, ann, sign_in):
    undo = undone(DROP, (ben, {"arguments": {"item": "test", "cups": 2}}))
    against, *values = undo.evidence
    effect = Action.objects.get(key="create")
    assert against["for"] is False
    assert f"A-{effect.pk} was edited before it was done (cups, item)" in against["text"]
    assert "prod" not in against["text"], "it goes out in messages"
    assert [each["text"] for each in values] == [
        "cups: asked for “1”, done with “2”",
        "item: asked for “prod”, done with “test”",
    ]
    page = sign_in(ann).get(f"/actions/{undo.pk}").content.decode()
    assert "item: asked for “prod”, done with “test”" in page


def test_a_reviewer_mends_it_and_that_is_what_undoes(shop, ben):
    undo = undone(DROP, (ben, TEST))
    say(undo, ben, arguments={"item": "drop test"})
    settle()
    settle()
    assert [order.item for order in shop.done.values()] == ["test", "drop test"]
    assert Compensation.objects.get().status == "undone"


@pytest.mark.parametrize("edits", [({},), (TEST, {"arguments": {"item": "prod"}}, {})])
def test_what_was_done_as_asked_is_undone_by_its_own_tier(shop, ann, ben, edits):
    undo = undone(DROP, *zip((ben, ann, ben), edits, strict=False))
    assert (undo.status, undo.tier, undo.evidence) == ("delivered", "low", [])


def test_a_function_of_the_result_knows_what_was_done(shop, ben):
    def drop(effect: Any) -> dict[str, Any]:
        return {**DROP, "item": f"drop {effect.arguments['item']}"}

    undo = undone(drop, (ben, TEST))
    assert (undo.status, undo.arguments["item"], undo.evidence) == ("delivered", "drop test", [])


def test_a_run_that_joins_what_was_edited_asked_for_the_first_text_too(shop, ann, ben):
    def story(run: Any) -> None:
        act(run, "create", kind="shop.order", item="prod", key="create", compensate=DROP)
        raise Permanent("later")

    with handling(story):
        builders.run("story")
        work()
        Action.objects.update(needed=2)
        say(Action.objects.get(), ben, **TEST)
        builders.run("story")
        work()
        say(Action.objects.get(), ann)
        changed_kind(tier=Tier.LOW)
        settle()
        settle()
    assert Action.objects.get(compensates__key="create").status == "awaiting"


def test_what_nobody_can_read_any_more_is_kept_and_told(shop, ben):
    with pytest.raises(Action.DoesNotExist):
        undone(DROP, (ben, TEST), meanwhile=lambda: Decision.objects.filter(verdict="edit").update(before="{"))
    owed = Compensation.objects.get()
    assert owed.status == "kept"
    assert "can read how" in owed.why
    assert "was not undone" in DeadLetter.objects.get(error_type="NotUndone").message
