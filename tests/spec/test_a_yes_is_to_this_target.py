"""People say yes to doing this to that: what has moved since is asked again, and the card shows what would change."""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from approvals.act import act
from approvals.before_after import before
from approvals.cards import card_of
from approvals.errors import NotSent, OutcomeUnknown, Refused
from approvals.kinds import KINDS, Far, Now, Unbound
from approvals.models import Action, Asking
from project.lib import canonical, clock
from tests import builders
from tests.handlers import work
from tests.nodding import Order, Shop, changed_kind, handling, now_of, say, serving, settle
from triggers.models import DeadLetter, Run

pytestmark = pytest.mark.django_db


@dataclass
class Shelf:
    """What stands at the target; everybody may move it, and the desk only looks."""

    tea: str = "green\nblack"
    looks: int = 0
    faults: list[Exception] = field(default_factory=list)
    told: list[str] = field(default_factory=list)  # the version that each call was said to expect

    def now(self, far: Far, order: Order) -> Now | None:
        self.looks += 1
        if self.faults:
            raise self.faults.pop(0)
        return Now("the shelf", canonical.digest(self.tea), {"tea": self.tea})


def after(order: Order, state: Any) -> Any:
    return {"tea": f"{order.cups} cups of {order.item}"}


def order(run):
    return act(run, "order tea", kind="shop.order", key="order-7", item="tea", cups=2)


@pytest.fixture
def shelf(connection):
    shelf = Shelf()
    with serving(current=shelf.now, after=after) as shop, handling(order):
        real = shop.deliver

        def deliver(far: Far, wish: Order, key: str) -> dict[str, Any]:
            shelf.told.append(far.expected)
            return real(far, wish, key)

        changed_kind(deliver=deliver)
        shelf.shop = shop  # type: ignore[attr-defined]
        yield shelf


@pytest.fixture
def shop(shelf) -> Shop:
    return shelf.shop


@pytest.fixture
def asked(shelf) -> Action:
    builders.run("story")
    work()
    return Action.objects.get()


def test_the_target_is_a_part_of_what_is_digested(asked, shelf):
    bound = json.loads(asked.canonical)["preconditions"]
    assert bound == {
        "target": "the shelf",
        "version": canonical.digest(shelf.tea),
        "state": canonical.digest_of_text(json.dumps({"tea": shelf.tea})),
    }
    assert asked.digest == canonical.digest_of_text(asked.canonical)


def test_what_would_change_is_drawn_from_what_is_bound(asked, ben, sign_in):
    card = card_of(asked, ben, clock.now())
    assert [change.label for change in card.before.changes] == ["tea"]
    assert ("del", "-green") in card.before.changes[0].lines
    assert ("add", "+2 cups of tea") in card.before.changes[0].lines
    page = sign_in(ben).get(f"/actions/{asked.pk}").content.decode()
    assert "What it changes" in page
    assert "-green" in page


def test_a_kind_that_cannot_say_what_would_change_hides_no_card(asked, ben):
    changed_kind(after=lambda order, state: state.nothing_of_the_kind)
    assert card_of(asked, ben, clock.now()).before.changes is None


def test_what_would_change_is_shown_where_several_are_decided_too(asked, ben, sign_in):
    page = sign_in(ben).get("/approvals/together", {"kind": "shop.order", "pick": asked.pk}).content.decode()
    assert "What it changes" in page
    assert "2 cups of tea" in page


def test_nothing_moved_and_it_happens_once_with_the_version_told(asked, shelf, shop, ben):
    say(asked, ben)
    settle()
    assert (now_of(asked).status, shop.sent, shelf.told) == ("delivered", ["order-7"], [canonical.digest(shelf.tea)])


def test_a_target_that_moved_is_asked_about_again_with_what_is_there_now(asked, shelf, shop, ben):
    say(asked, ben)
    shelf.tea = "somebody else was here"
    settle()
    action = now_of(asked)
    assert (action.status, action.revision, action.reason_code, shop.sent) == ("awaiting", 2, "target_moved", [])
    assert action.digest != asked.digest
    assert action.preconditions["version"] == canonical.digest(shelf.tea)
    assert ("del", "-somebody else was here") in before(action, KINDS["shop.order"]).changes[0].lines
    assert action.given == 0
    assert Asking.objects.filter(action=action, revision=2).exists(), "people are told"
    say(action, ben)
    settle()
    assert (now_of(asked).status, len(shop.sent)) == ("delivered", 1)
    assert Run.objects.get().status == "succeeded", "it is no drift: the run still asks for the same"


def test_its_page_says_why_it_is_asked_again(asked, shelf, ben, sign_in):
    say(asked, ben)
    shelf.tea = "moved"
    settle()
    page = sign_in(ben).get(f"/actions/{asked.pk}").content.decode()
    assert "what it would change is no longer what people saw" in page


def test_a_low_action_whose_target_moves_while_it_is_held_waits_for_a_person(shelf, shop, ben, later):
    changed_kind(tier="low", take_back=timedelta(seconds=30))
    builders.run("story")
    work()
    shelf.tea = "moved"
    later(seconds=31)
    settle()
    action = Action.objects.get()
    assert (action.status, action.tier, shop.sent) == ("awaiting", "medium", [])


@pytest.mark.parametrize("fault", [NotSent("down"), OutcomeUnknown("no answer"), Refused("404"), KeyError("head")])
def test_a_target_nobody_can_look_at_is_left_for_later(asked, shelf, shop, ben, later, fault):
    say(asked, ben)
    shelf.faults = [fault]
    settle()
    action = now_of(asked)
    assert (action.status, action.tries, shop.sent) == ("approved", 0, [])
    assert action.not_before > clock.now()
    assert "cannot be looked at" in action.error["message"]
    later(seconds=40)
    settle()
    assert now_of(asked).status == "delivered"


def test_what_can_never_be_looked_at_expires_and_opens_a_letter(asked, shelf, shop, ben, later):
    say(asked, ben)
    shelf.faults = [NotSent("down")] * 9
    settle()
    later(hours=2)
    settle()
    assert (now_of(asked).status, shop.sent) == ("expired", [])
    assert DeadLetter.objects.get().kind == "action"


def test_nobody_is_asked_while_the_target_cannot_be_looked_at(shelf):
    shelf.faults = [NotSent("down")] * 9  # a slow machine comes to its second try, too
    builders.run("story")
    work()
    assert not Action.objects.exists()
    assert Run.objects.get().status == "retrying"


def test_a_target_that_refuses_to_be_looked_at_ends_the_run(shelf):
    shelf.faults = [Refused("404")]
    builders.run("story")
    work()
    assert not Action.objects.exists()
    assert Run.objects.get().status == "dead"


def test_a_replay_looks_at_nothing(asked, shelf, ben):
    before_it = shelf.looks
    Run.objects.update(status="queued", due_at=clock.now())
    work()
    assert (shelf.looks, Action.objects.count()) == (before_it, 1)


def test_a_practice_connection_has_no_target(shelf):
    builders.connection("shop", slug="drill", practice=True)
    with handling(lambda run: act(run, "drill", kind="shop.order", connection="drill"), "drill"):
        builders.run("drill")
        work()
    assert (Action.objects.get().preconditions, shelf.looks) == ({}, 0)


def test_a_state_that_is_too_large_to_show_is_bound_all_the_same(shelf, shop, ben):
    shelf.tea = "x" * 600_000
    builders.run("story")
    work()
    action = Action.objects.get()
    assert ("state" in action.preconditions, action.state_json) == (False, "")
    say(action, ben)
    shelf.tea += "y"
    settle()
    assert (now_of(action).reason_code, shop.sent) == ("target_moved", [])


class TestNotBound:
    """A kind that has targets found nothing to bind: people are told, and it is bound as soon as it can be."""

    @pytest.fixture
    def unread(self, shelf) -> Action:
        changed_kind(current=lambda far, order: Unbound("unread", 406))
        builders.run("story")
        work()
        return Action.objects.get()

    def test_the_card_says_so_and_why(self, unread, ben, sign_in):
        assert unread.preconditions == {"unbound": "unread", "status": 406}
        for address in (f"/actions/{unread.pk}", f"/approvals/together?kind=shop.order&pick={unread.pk}"):
            page = sign_in(ben).get(address).content.decode()
            assert "Not bound: its state could not be read (406)." in page

    def test_so_does_that_of_what_has_no_target(self, shelf, ben, sign_in):
        changed_kind(current=lambda far, order: None)
        builders.run("story")
        work()
        page = sign_in(ben).get(f"/actions/{Action.objects.get().pk}").content.decode()
        assert "Not bound: nothing shows beforehand what it would change." in page

    def test_nor_a_bound_one_nor_one_without_targets_says_it(self, asked, ben, sign_in):
        other = builders.action("github.comment", arguments={"repo": "acme/shop", "number": 7, "body": "Thanks"})
        for action in (asked, other):
            assert "Not bound" not in sign_in(ben).get(f"/actions/{action.pk}").content.decode()

    def test_it_happens_when_nothing_could_be_read_at_the_start_either(self, unread, shop, ben):
        say(unread, ben)
        settle()
        assert (now_of(unread).status, len(shop.sent)) == ("delivered", 1)

    def test_it_is_asked_about_again_when_it_can_be_read(self, unread, shelf, shop, ben):
        say(unread, ben)
        changed_kind(current=shelf.now)
        settle()
        assert (now_of(unread).status, now_of(unread).reason_code, shop.sent) == ("awaiting", "target_moved", [])
        say(unread, ben)
        settle()
        assert len(shop.sent) == 1


class TestAnEdit:
    def test_of_the_same_target_keeps_what_was_shown(self, asked, shelf, shop, ben):
        shelf.tea = "moved while Ben was typing"
        say(asked, ben, arguments={"item": "tea", "cups": 3})
        action = now_of(asked)
        assert (action.revision, action.preconditions) == (2, asked.preconditions)
        settle()
        assert (now_of(asked).reason_code, shop.sent) == ("target_moved", [])

    def test_to_another_target_is_bound_to_that_one(self, asked, shelf, shop, ben):
        changed_kind(current=lambda far, order: Now(f"the {order.item} shelf", "v1", {}))
        say(asked, ben, arguments={"item": "rum", "cups": 3})
        assert now_of(asked).preconditions["target"] == "the rum shelf"
        settle()
        assert (now_of(asked).status, len(shop.sent)) == ("delivered", 1)


class TestInDoubt:
    """A try that may have happened may have moved the target itself."""

    def sent_into_the_dark(self, asked, shelf, shop, ben, *, happened: bool) -> Action:
        shop.faults, shop.before_fault = [OutcomeUnknown("timeout")], happened
        say(asked, ben)
        settle()
        shelf.tea = "moved"
        return now_of(asked)

    def test_a_moved_target_is_left_to_a_person(self, asked, shelf, shop, ben, later):
        self.sent_into_the_dark(asked, shelf, shop, ben, happened=True)
        later(seconds=7)
        settle()
        action = now_of(asked)
        assert (action.status, action.not_before, len(shop.sent)) == ("unknown", None, 1)

    def test_what_may_be_repeated_whatever_happened_is(self, asked, shelf, shop, ben, later):
        changed_kind(is_natural=lambda order: True)
        self.sent_into_the_dark(asked, shelf, shop, ben, happened=True)
        later(seconds=7)
        settle()
        assert (now_of(asked).status, len(shop.done), shelf.told[-1]) == ("delivered", 1, "")
