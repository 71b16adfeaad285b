"""A look at a target is a call with credentials: nobody causes it who could not have the thing done in the end."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from approvals import decide, deliver, freezing, outside
from approvals.act import act
from approvals.clearing import settle_unknown
from approvals.errors import ApprovalProblem, NotSent, OutcomeUnknown
from approvals.kinds import Far, Now
from approvals.models import Action, Connection
from project.lib import clock
from project.people import roles
from project.people.models import User
from tests import agents, builders, ruled
from tests.conftest import person
from tests.contract.world import API
from tests.handlers import work
from tests.nodding import Order, Shop, changed_kind, handling, now_of, say, serving, settle
from triggers import pausing
from triggers.models import Run, Switch

pytestmark = pytest.mark.django_db

MINE = 'action.kind == "shop.order"'
EDIT = {"item": "rum", "cups": 3}


@dataclass
class Shelf:
    """A target that counts who looks at it."""

    shop: Shop
    looks: int = 0
    state: str = "green tea"

    def now(self, far: Far, order: Order) -> Now:
        self.looks += 1
        return Now(f"the {order.item} shelf", self.state, {"there": self.state})


@pytest.fixture
def shelf(connection: Connection) -> Iterator[Shelf]:
    builders.source("github")
    with serving() as shop, handling(lambda run: act(run, "order", kind="shop.order", key="order-7")):
        shelf = Shelf(shop)
        changed_kind(current=shelf.now)
        yield shelf


@pytest.fixture
def asked(shelf: Shelf) -> Action:
    """Waits for a nod, bound to its target; from here on looks are counted."""
    builders.run("story")
    work()
    shelf.looks = 0
    return Action.objects.get()


def high(action: Action) -> None:
    Action.objects.update(tier="high")


def ended(action: Action) -> None:
    Action.objects.update(status="cancelled", settled_at=clock.now())


def over(action: Action) -> None:
    Action.objects.update(expires_at=clock.now() - timedelta(seconds=1))


def rewritten(action: Action) -> None:
    Action.objects.update(canonical=action.canonical.replace("tea", "gin"))


def denied(action: Action) -> None:
    ruled.rule("never", f'{MINE} && action.arguments.item == "rum"', "deny")


def nothing(action: Action) -> None:
    return None


class TestAnEdit:
    """The person who edits chooses the target."""

    def edit(self, action: Action, by: User, **said: Any) -> None:
        seen = {"digest": action.digest, "revision": action.revision, **said}
        decide.decide(action, by=by, verdict="approve", arguments=EDIT, **seen)

    @pytest.mark.parametrize("before", [high, ended, over, rewritten, denied])
    def test_that_is_refused_for_what_the_action_is(
        self, before: Callable[[Action], None], asked: Action, shelf: Shelf, ben: User
    ) -> None:
        before(asked)
        with pytest.raises(ApprovalProblem):
            self.edit(asked, ben)
        assert shelf.looks == 0

    @pytest.mark.parametrize("said", [{"digest": "sha256:other"}, {"revision": 7}, {"reason": "x" * 9999}])
    def test_that_is_refused_for_what_was_said(
        self, said: dict[str, Any], asked: Action, shelf: Shelf, ben: User
    ) -> None:
        with pytest.raises(ApprovalProblem):
            self.edit(asked, ben, **said)
        assert shelf.looks == 0

    @pytest.mark.parametrize("held", [(), (roles.VIEWER,), (roles.OPERATOR,), (roles.ADMIN,)])
    def test_of_who_may_not_decide(self, held: tuple[str, ...], asked: Action, shelf: Shelf, sign_in: Any) -> None:
        eve = sign_in(person("someone", *held))
        seen = {"digest": asked.digest, "revision": asked.revision}
        page = eve.post(f"/actions/{asked.pk}/edit", {"do": "save", "a.item": "rum", "a.cups": "3", **seen})
        assert page.status_code in (302, 403)
        said = {"verdict": "approve", "arguments": EDIT, **seen}
        api = eve.post(f"{API}/actions/{asked.pk}/decisions", said, content_type="application/json")
        assert api.status_code == 403
        assert shelf.looks == 0

    def test_of_who_asked(self, asked: Action, shelf: Shelf, ben: User) -> None:
        Action.objects.update(requester_chain=[ben.pk], four_eyes=True)
        with pytest.raises(ApprovalProblem):
            self.edit(asked, ben)
        assert shelf.looks == 0

    def test_through_a_connection_that_was_removed(self, asked: Action, shelf: Shelf, ben: User) -> None:
        Connection.objects.update(archived_at=clock.now())
        with pytest.raises(ApprovalProblem):
            self.edit(asked, ben)
        assert (now_of(asked).revision, shelf.looks) == (1, 0)

    def test_that_changes_nothing(self, asked: Action, shelf: Shelf, ben: User) -> None:
        say(asked, ben, arguments={"item": "tea", "cups": 1})
        assert (now_of(asked).status, shelf.looks) == ("approved", 0)

    def test_that_counts_looks_once_and_uses_the_proof_up_once(self, asked: Action, shelf: Shelf, ben: User) -> None:
        ruled.first()
        Action.objects.update(tier="high")
        tried: list[int] = []
        self.edit(now_of(asked), ben, reason="better", proof=lambda: not tried.append(1))
        assert (now_of(asked).revision, shelf.looks, len(tried)) == (2, 1, 2), "tried on before the look, then taken"
        assert now_of(asked).preconditions["target"] == "the rum shelf"


class TestAsking:
    """A program outside chooses the target, and nobody has nodded yet."""

    @pytest.fixture
    def robot(self, shelf: Shelf) -> Client:
        return agents.agent("robot")

    def test_what_a_rule_denies(self, robot: Client, shelf: Shelf) -> None:
        ruled.rule("never", MINE, "deny")
        assert agents.ask(robot).json()["status"] == "rejected"
        assert shelf.looks == 0

    def test_where_there_is_no_room(self, robot: Client, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(outside, "MOST_WAITING", 2)
        codes = [agents.ask(robot, f"k{n}", arguments={"cups": n}).status_code for n in range(5)]
        assert (codes, shelf.looks) == ([201, 201, 429, 429, 429], 2)

    def test_what_people_said_no_to_three_times_though_its_target_moved(
        self, robot: Client, shelf: Shelf, ben: User
    ) -> None:
        for number in range(3):
            shelf.state = f"tea {number}"
            agents.ask(robot, f"please-{number}")
            say(Action.objects.latest("pk"), ben, "reject")
        shelf.looks = 0
        assert agents.ask(robot, "please-3").status_code == 409
        assert shelf.looks == 0

    def test_without_end_where_no_look_succeeds(self, robot: Client, shelf: Shelf) -> None:
        """Nothing is stored of it, so no room is ever full."""
        calls: list[int] = []

        def busy(far: Far, order: Order) -> Now:
            calls.append(1)
            raise NotSent("busy")

        changed_kind(current=busy)
        answers = [agents.ask(robot, f"again-{number}") for number in range(25)]
        assert {answer.json()["code"] for answer in answers} == {"cannot_look"}
        assert len(calls) == 20
        assert int(answers[-1].headers["Retry-After"]) > 100
        changed_kind(current=shelf.now)
        assert agents.ask(agents.agent("another"), "one").status_code == 201, "it holds up nobody else"

    def test_a_look_that_succeeds_counts_nothing(self, robot: Client, shelf: Shelf) -> None:
        for number in range(outside.MOST_WAITING):
            assert agents.ask(robot, f"again-{number}").status_code == 201
        assert outside.FAILING.of(robot.token.pk, outside.MOST_FAILING).tokens == 20  # type: ignore[attr-defined]

    def test_without_the_scope(self, shelf: Shelf, owner: User) -> None:
        assert agents.ask(agents.agent(owner, "read", "decide")).status_code == 403
        assert shelf.looks == 0

    @pytest.mark.parametrize("scope", ["all", "kind"])
    def test_under_a_switch_and_after_it_people_are_asked_with_what_is_there(
        self, scope: str, robot: Client, shelf: Shelf, ben: User
    ) -> None:
        pausing.pause(scope, "shop.order" if scope == "kind" else "", by=None)
        action = Action.objects.get(pk=agents.ask(robot).json()["id"])
        say(action, ben)
        settle()
        assert (shelf.looks, action.preconditions) == (0, {"unbound": "held"})
        pausing.resume(scope, "shop.order" if scope == "kind" else "", by=None)
        settle()
        again = now_of(action)
        assert (again.status, again.reason_code, shelf.shop.sent) == ("awaiting", "target_moved", [])
        assert again.preconditions["version"] == "green tea"
        say(again, ben)
        settle()
        assert now_of(action).status == "delivered"


class TestARun:
    @pytest.mark.parametrize("why", ["denied", "asked enough", "switched off"])
    def test_that_asks_for_what_may_not_be_done(self, why: str, shelf: Shelf, ben: User) -> None:
        if why == "denied":
            ruled.rule("never", MINE, "deny")
        elif why == "switched off":
            pausing.pause("kind", "shop.order", by=None)
        else:
            for _ in range(3):
                builders.run("story")
                work()
                say(Action.objects.latest("pk"), ben, "reject")
                settle()
        shelf.looks = 0
        builders.run("story")
        work()
        assert shelf.looks == 0

    def test_whose_low_action_was_switched_off_happens_when_it_goes_on(self, shelf: Shelf) -> None:
        changed_kind(tier="low")
        pausing.pause("kind", "shop.order", by=None)
        builders.run("story")
        settle()
        pausing.resume("kind", "shop.order", by=None)
        settle()
        assert (Action.objects.get().status, len(shelf.shop.sent)) == ("delivered", 1), "nobody was shown anything"


class TestAStart:
    """Only what could start now looks, however it is called for."""

    @pytest.fixture
    def approved(self, asked: Action, ben: User) -> Action:
        say(asked, ben)
        return now_of(asked)

    def frozen(self) -> None:
        now = clock.now()
        times = {"starts_at": now - timedelta(hours=1), "ends_at": now + timedelta(hours=1)}
        freezing.freeze("Release", kinds=["shop.order"], by=None, **times)

    @pytest.mark.parametrize(
        "against",
        [
            lambda self: Action.objects.update(not_before=clock.now() + timedelta(minutes=1)),
            lambda self: Action.objects.update(execute_by=clock.now() - timedelta(minutes=1)),
            lambda self: Connection.objects.update(busy_until=clock.now() + timedelta(minutes=1)),
            lambda self: ruled.rule("never", MINE, "deny"),
            lambda self: ruled.rule("hours", MINE, windows=[{"days": ["mon"], "from": "00:00", "to": "00:01"}]),
            lambda self: self.frozen(),
            *[
                lambda self, scope=scope, name=name: Switch.objects.create(
                    scope=scope, name=name, paused=True, at=clock.now()
                )
                for scope, name in zip(Switch.SCOPES, ("", "story", "shop.order", "github"), strict=True)
            ],
        ],
        ids=["not yet", "too late", "busy", "denied", "shut", "frozen", *Switch.SCOPES],
    )
    def test_that_something_else_holds_back(self, against: Any, approved: Action, shelf: Shelf) -> None:
        against(self)
        deliver.deliver(approved.pk)
        assert (shelf.looks, shelf.shop.sent) == (0, [])

    def test_that_may_begin_looks_once(self, approved: Action, shelf: Shelf) -> None:
        deliver.deliver(approved.pk)
        assert (shelf.looks, len(shelf.shop.sent)) == (1, 1)


class TestADoubt:
    """`not_sent` sends it again, after a look."""

    @pytest.fixture
    def unknown(self, asked: Action, shelf: Shelf, ben: User) -> Action:
        shelf.shop.faults, shelf.shop.before_fault = [OutcomeUnknown("timeout")], False
        say(asked, ben)
        deliver.deliver(asked.pk)
        shelf.looks = 0
        return now_of(asked)

    @pytest.mark.parametrize("why", ["a viewer", "no proof", "it has ended", "denied", "a long note"])
    def test_of_who_may_not_clear_it_up(self, why: str, unknown: Action, shelf: Shelf, ann: User, ben: User) -> None:
        by, note = ann, "no"
        if why == "a viewer":
            by = person("vic", roles.VIEWER)
        elif why == "no proof":
            Action.objects.update(tier="high")
        elif why == "it has ended":
            Action.objects.update(status="delivered", settled_at=clock.now())
        elif why == "denied":
            ruled.rule("never", MINE, "deny")
        else:
            note = "x" * 9999
        with pytest.raises(ApprovalProblem):
            settle_unknown(unknown, by=by, status="not_sent", note=note)
        assert shelf.looks == 0

    def test_of_an_operator_looks_once(self, unknown: Action, shelf: Shelf, ann: User) -> None:
        settle_unknown(unknown, by=ann, status="not_sent")
        assert shelf.looks == 1


class TestWhatWasSeen:
    """It was read with the credentials of the connection: asking for something opens none of it."""

    def test_is_for_operators_and_for_who_may_decide(
        self, asked: Action, shelf: Shelf, ben: User, sign_in: Callable[[User], Client]
    ) -> None:
        vic = person("vic", roles.VIEWER)
        Action.objects.update(requester_chain=[vic.pk], requested_by=vic)
        mine, theirs = (sign_in(who).get(f"/actions/{asked.pk}").content.decode() for who in (vic, ben))
        assert "green tea" in theirs
        assert "Exact payload" in mine
        assert "What is there now" not in mine
        assert Run.objects.get().status == "waiting"
