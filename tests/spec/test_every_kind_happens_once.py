"""Whatever a far side does with our call, no kind has its effect twice, and every outcome is called by its name."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import override_settings

from approvals import deliver
from approvals.act import act
from approvals.kinds import KINDS
from approvals.models import Action, Connection
from approvals.tiers import Tier
from project.lib import crypto
from tests import builders
from tests.fars import FARS, World
from tests.handlers import work
from tests.nodding import carry_out, handling, now_of, say, settle
from triggers.models import DeadLetter, Event, Run, Source

pytestmark = pytest.mark.usefixtures("high_has_its_rule")

TOLD_TWICE_RATHER_THAN_NEVER = "notify.send"  # to our own people; its module says so
DEAF_TO_RETRY_AFTER = ("notify.send", "email.send")  # their protocols have no such word
LATER = (429, {"retry-after": "60"}, {})
MUCH_LATER = (429, {"retry-after": "777600"}, {})


@pytest.fixture(params=sorted(FARS))
def world(request: pytest.FixtureRequest, db: None) -> Iterator[World]:
    with FARS[request.param]() as world, override_settings(EGRESS_ALLOW=["127.0.0.1", at(world)]):
        Connection.objects.create(
            slug="far", system=world.system, config=world.config, sealed_secrets=crypto.seal(world.secrets)
        )
        yield world


def at(world: World) -> str:
    return f"127.0.0.1:{world.far.port}"


@pytest.fixture
def hasty(world: World) -> Iterator[None]:
    """The kind gives up waiting after a second, so that a far side that hangs is no test that hangs."""
    patient = KINDS[world.kind]
    KINDS[world.kind] = replace(patient, timeout=timedelta(seconds=1))
    yield
    KINDS[world.kind] = patient


@pytest.fixture
def sent(world: World, ben, later) -> Callable[[], Action]:
    """Propose it, have it approved where it must be, and let the first try happen."""

    def first_try() -> Action:
        with handling(lambda run: act(run, "do it", kind=world.kind, key="once", **world.arguments)):
            builders.run("story")
            work()
            action = Action.objects.get()
            if Tier(action.tier).waits:
                say(action, ben, reason="seen", stepped_up=action.tier == Tier.HIGH)
                later(seconds=11)
                settle()
        return now_of(action)

    return first_try


def let_time_pass(later: Callable[..., None], action: Action) -> Action:
    """Half an hour, in steps in which the desk does all it can."""
    for _ in range(14):
        later(seconds=130)
        carry_out()
    return now_of(action)


def safety(world: World) -> str:
    return KINDS[world.kind].safety


def test_a_good_answer_is_one_effect(world, sent):
    action = sent()
    assert (action.status, action.tries, world.done()) == ("delivered", 1, 1)
    assert isinstance(action.result, dict)
    for _ in range(2):
        deliver.deliver(action.pk)
    assert world.done() == 1
    assert "SECRET" not in str(action.result) + action.canonical


@pytest.mark.parametrize("fault", ["drop", "hang"])
def test_a_lost_answer_is_in_doubt_and_nothing_is_done_twice(world, sent, later, hasty, fault):
    world.misbehave(fault)
    action = sent()
    if world.kind == TOLD_TWICE_RATHER_THAN_NEVER:
        assert action.status == "approved"
        assert let_time_pass(later, action).status == "delivered"
        return
    happened = int(fault == "drop")
    assert (action.status, action.attempts.get().outcome, world.done()) == ("unknown", "unknown", happened)
    action = let_time_pass(later, action)
    if safety(world) == "unsafe":
        assert (action.status, action.tries, world.done()) == ("unknown", 1, happened)
    else:
        assert (action.status, world.done()) == ("delivered", 1)
    assert "SECRET" not in str(list(action.attempts.values("error")))


def test_trouble_over_there_is_in_doubt_too(world, sent, later):
    world.misbehave(500)
    action = sent()
    said_no = world.kind in DEAF_TO_RETRY_AFTER  # both learn for certain that it was not taken
    assert action.status == ("approved" if said_no else "unknown")
    before = world.done()
    action = let_time_pass(later, action)
    if safety(world) == "unsafe" and not said_no:
        assert (action.status, action.tries, world.done()) == ("unknown", 1, 0)
    else:
        assert (action.status, action.tries, world.done() - before) == ("delivered", 2, 1)


def test_too_many_is_tried_again_when_the_far_side_said(world, sent, later):
    world.misbehave(LATER)
    action = sent()
    assert (action.status, action.attempts.get().outcome) == ("approved", "put_back")
    before = world.done()
    if world.kind not in DEAF_TO_RETRY_AFTER:
        later(seconds=50)
        carry_out()
        assert (now_of(action).tries, world.done()) == (1, before)
    action = let_time_pass(later, action)
    assert (action.status, action.tries, world.done() - before) == ("delivered", 2, 1)


def test_a_far_side_cannot_put_us_off_for_longer_than_a_quarter_of_an_hour(world, sent, later):
    world.misbehave(MUCH_LATER)
    action = sent()
    assert action.not_before < action.execute_by
    later(seconds=931)
    carry_out()
    assert now_of(action).status == "delivered"


def test_a_no_is_final_and_stands_under_dead_letters(world, sent, later):
    world.misbehave(422)
    action = sent()
    if world.kind == TOLD_TWICE_RATHER_THAN_NEVER:
        assert action.status == "approved"
        return
    assert (action.status, action.keeps_key, world.done()) == ("failed", False, 0)
    assert DeadLetter.objects.get().action_id == action.pk
    assert (let_time_pass(later, action).tries, world.done()) == (1, 0)


def test_a_practice_connection_does_it_on_the_practice_page_only(world, sent):
    Connection.objects.update(practice=True)
    action = sent()
    assert (action.status, action.result["practice"], world.done()) == ("delivered", True, 0)
    assert action.connection.practice_items.get().title == action.title


def test_no_kind_is_left_out():
    inside = {"event.publish", "human.question"}  # these have no far side; they follow
    # A cluster misbehaves on no request: test_a_topic_is_read_once.py. A tool's server speaks a protocol of its own:
    # test_an_agent_uses_tools_of_servers.py.
    apart = {"kafka.publish", "mcp.call"}
    assert {name.partition(" ")[0] for name in FARS} | inside | apart == set(KINDS)


def publish(run):
    return act(run, "tell", kind="event.publish", key="once", type="shop.closed", subject="shop/1", data={"at": 22})


class TestPublish:
    def test_is_one_event_from_a_source_of_its_own_one_step_further_on(self, db):
        with handling(publish):
            run = builders.run("story", event=builders.event(hops=2, correlationid="c-1"))
            work()
        event = Event.objects.get(type="shop.closed")
        assert (event.source_slug, event.ce_source, event.ce_id) == ("published", "/published", "once")
        assert (event.hops, event.correlationid, event.subject, event.data) == (3, "c-1", "shop/1", {"at": 22})
        assert now_of(run).result["seq"] == event.pk

    def test_a_process_that_died_after_it_finds_the_first_event(self, db, later):
        with handling(publish):
            builders.run("story")
            KINDS["event.publish"] = replace(KINDS["event.publish"], take_back=timedelta(seconds=5))
            try:
                work()
            finally:
                KINDS["event.publish"] = replace(KINDS["event.publish"], take_back=None)
        action = Action.objects.get()
        later(seconds=6)
        attempt = deliver.start(action.pk, 0)
        assert attempt is not None
        deliver.call(attempt)  # it was stored; then the process was gone
        later(seconds=46)
        action = let_time_pass(later, action)
        assert (action.status, action.tries, action.result["status"]) == ("delivered", 2, "duplicate")
        assert Event.objects.filter(type="shop.closed").count() == 1

    def test_a_chain_that_feeds_itself_comes_to_an_end(self, db):
        builders.source("published", secrets=(), kind="cloudevents", provider="")
        builders.trigger("story", source="published", type_pattern="shop.**")
        with handling(lambda run: act(run, "tell", kind="event.publish", type="shop.closed")):
            builders.run("story")
            settle(rounds=12)
        assert Run.objects.count() == 9
        assert Event.objects.get(status="suppressed", type="shop.closed").hops == 9

    def test_a_source_that_is_switched_off_takes_nothing(self, db):
        builders.source("published", secrets=(), kind="cloudevents", provider="", enabled=False)
        with handling(publish):
            builders.run("story")
            work()
        assert Action.objects.get().status == "failed"
        assert Source.objects.count() == 1

    def test_a_source_of_another_kind_is_never_taken_for_its_own(self, db):
        builders.source("published", provider="github")
        with handling(publish):
            builders.run("story")
            work()
        action = Action.objects.get()
        assert action.status == "failed"
        assert "the source published is a webhook" in action.error["message"]
        assert not Event.objects.filter(type="shop.closed").exists()


def test_a_question_is_answered_once(db, ann, ben):
    """Its own promises stand in test_people_are_asked.py."""
    with handling(lambda run: act(run, "ask", kind="human.question", question="Which one?")["answer"]):
        builders.run("story")
        work()
        action = Action.objects.get()
        say(action, ben, answer="the first")
        for _ in range(3):
            deliver.deliver(action.pk)
        settle()
    assert (now_of(action).result, now_of(action).tries) == ("the first", 1)
    assert Run.objects.get().result == "the first"
