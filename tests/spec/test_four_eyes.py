"""Who asked for an action does not nod to it, and who has no right to nod does not either."""

import json
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from approvals import decide, policy, requesters
from approvals.act import act
from approvals.errors import NotReviewer, ReasonRequired, SelfApproval, StepUpRequired
from approvals.kinds import ASKED_BY
from approvals.models import Act, Action, Channel, Decision
from approvals.models.action import EVERYBODY
from project.lib import clock, tester
from project.people import roles
from project.people.models import ApiToken, User
from tests import builders
from tests.conftest import person
from tests.nodding import handling, say, serving, settle
from triggers import configure, redrive
from triggers.models import Audit, Event, Gathered, Run, Trigger, Wait
from triggers.unblock import unblock

pytestmark = pytest.mark.django_db


def test_the_one_who_asked_cannot_approve(ann, ben):
    """AP-05: whoever asked does not nod, by whichever way he comes."""
    action = builders.action(by=ann)
    with pytest.raises(SelfApproval):
        say(action, ann)
    assert say(action, ben).status == "approved"


def test_the_one_who_asked_may_say_no(ann, ben):
    assert say(builders.action(by=ann), ann, "reject").status == "rejected"


def test_a_stranger_cannot_decide(ann, eve):
    for verdict in ("approve", "reject"):
        with pytest.raises(NotReviewer):
            say(builders.action(by=ann), eve, verdict)


def test_a_superuser_is_no_reviewer_by_that(ann):
    """AP-05: whoever asked does not nod, by whichever way he comes."""
    root = User.objects.create_superuser("root", password="x")
    with pytest.raises(NotReviewer):
        say(builders.action(by=ann), root)


def test_the_right_is_checked_when_the_button_is_pressed(ann, ben):
    action = builders.action(by=ann)
    ben.groups.clear()
    with pytest.raises(NotReviewer):
        say(action, User.objects.get(pk=ben.pk))


def test_who_was_switched_off_cannot_decide(ann, ben):
    action = builders.action(by=ann)
    ben.is_active = False
    ben.save()
    with pytest.raises(NotReviewer):
        say(action, User.objects.get(pk=ben.pk))


def test_no_program_nods_to_what_another_program_of_the_same_person_rang_for(owner):
    """AP-05: one token rings, another one says yes: together they would be nobody's nod at all."""
    rung = builders.run(event=builders.event(requester=owner))
    action = builders.action(run=rung, requester_chain=requesters.chain(rung, four_eyes=False))
    with pytest.raises(SelfApproval, match="in the browser"):
        say(action, owner, channel=decide.BY_TOKEN)
    assert say(action, owner).status == "approved"


def test_on_a_desk_with_one_reviewer_the_owner_may_decide_medium(owner, eve):
    roles.grant(eve, roles.VIEWER)  # hired second; she must not lock the desk
    assert say(builders.action(by=owner), owner).status == "approved"


def test_where_all_reviewers_asked_for_it_each_of_them_may_decide_medium(ann, ben):
    """Each was refused since the other one was there, who was refused as well: it could only expire."""
    both = {"requester_chain": [ann.pk, ben.pk]}
    for somebody in (ann, ben):
        assert say(builders.action(by=ann, **both), somebody).status == "approved"
    person("cleo", roles.REVIEWER)
    for somebody in (ann, ben):
        with pytest.raises(SelfApproval):
            say(builders.action(by=ann, **both), somebody)


def test_on_a_desk_with_one_reviewer_high_needs_a_second_person(owner):
    with pytest.raises(SelfApproval) as refusal:
        say(builders.action(by=owner, tier="high"), owner, stepped_up=True, reason="because")
    assert "second person" in refusal.value.detail


class TestHigh:
    def test_needs_a_fresh_sign_in_and_then_a_reason(self, ann, ben):
        action = builders.action(by=ann, tier="high")
        with pytest.raises(StepUpRequired):
            say(action, ben, reason="because")
        with pytest.raises(ReasonRequired):
            say(action, ben, stepped_up=True)
        assert say(action, ben, stepped_up=True, reason="seen the invoice").status == "approved"

    def test_is_not_for_the_requester_nor_for_whoever_rang_or_ran_it_again(self, ann, ben, owner):
        """AP-05: whoever asked does not nod, by whichever way he comes."""
        run = builders.run(event=builders.event(requester=ann), requester=ben)
        action = builders.action(tier="high", run=run, requester_chain=requesters.chain(run, four_eyes=True))
        for somebody in (ann, ben):
            with pytest.raises(SelfApproval):
                say(action, somebody, stepped_up=True, reason="because")

    def test_the_database_itself_refuses_a_yes_without_a_fresh_sign_in(self, ann, ben):
        action = builders.action(by=ann, tier="high")
        words = {"verdict": "approve", "digest": action.digest, "revision": 1, "at": action.created_at}
        with pytest.raises(IntegrityError), transaction.atomic():
            Decision.objects.create(action=action, by=ben, on_high=True, stepped_up=False, **words)

    @pytest.mark.parametrize("status", ["approved", "delivering", "unknown", "delivered"])
    def test_the_database_itself_refuses_high_without_a_person(self, ann, status):
        action = builders.action(by=ann, tier="high")
        with pytest.raises(IntegrityError), transaction.atomic():
            Action.objects.filter(pk=action.pk).update(
                status=status, leased_until=action.created_at, settled_at=action.created_at
            )


class TestRequesterChain:
    def test_is_everybody_behind_the_run(self, ann, ben, owner):
        trigger = builders.trigger(owner=owner, changed_by=owner)
        rung = builders.event(requester=ann)
        first = builders.run(event=rung, trigger=trigger, status="dead", finished_at=clock.now())
        again = redrive.rerun(first, by=ben)
        assert requesters.chain(again, four_eyes=False) == [ben.pk, ann.pk]
        assert requesters.chain(again, four_eyes=True) == [ben.pk, ann.pk, owner.pk]

    def test_the_last_editor_counts_only_if_he_changed_it_since_the_last_run(self, ann, ben, later):
        trigger = builders.trigger(owner=ann)
        builders.run(trigger=trigger)
        run = builders.run(trigger=trigger)
        assert requesters.chain(run, four_eyes=True) == [ann.pk]
        later(hours=1)
        trigger.change(by=ben, name="another")
        assert ben.pk in requesters.chain(builders.run(trigger=trigger), four_eyes=True)


class TestWhoGaveItSomethingToWorkOn:
    """Whatever a run has read, who stands behind that has asked for what it does."""

    WAYS: ClassVar[dict[str, Callable[[Run, User], Any]]] = {
        "who rang": lambda run, ben: Event.objects.filter(pk=run.event_id).update(requester=ben),
        "who pressed Send a test delivery": lambda run, ben: Event.objects.filter(pk=run.event_id).update(
            headers=tester.header_of(ben.pk)
        ),
        "who rang for what was gathered into it": lambda run, ben: Gathered.objects.create(
            run=run, event=builders.event(requester=ben)
        ),
        "who sent what it waited for": lambda run, ben: waited(run, builders.event(requester=ben)),
        "whose run emitted what it waited for": lambda run, ben: waited(
            run, builders.event(emitted_by=builders.run(requester=ben).pk)
        ),
        "who was behind the action that rang": lambda run, ben: Event.objects.filter(pk=run.event_id).update(
            source_slug="/approvals", subject=f"actions/{builders.action(by=ben).pk}"
        ),
        "who edited the action that rang": lambda run, ben: Event.objects.filter(pk=run.event_id).update(
            source_slug="/approvals", subject=f"actions/{edited(ben).pk}"
        ),
        "who answered its question": lambda run, ben: answered(run, ben),
        "who let it go on with other code": lambda run, ben: unblock(run, by=ben, choice="continue"),
    }

    @pytest.mark.parametrize("way", WAYS)
    def test_has_asked_for_what_it_does(self, way, ben):
        run = builders.run(status="blocked", gather_key="")
        assert requesters.chain(run, four_eyes=False) == []
        self.WAYS[way](run, ben)
        assert requesters.chain(Run.objects.get(pk=run.pk), four_eyes=False) == [ben.pk]
        again = builders.run(rerun_of=run)
        assert requesters.chain(again, four_eyes=False) == [ben.pk]

    @pytest.mark.parametrize("headers", [{tester.HEADER: "1"}, {tester.HEADER: "1:x:y"}, {ASKED_BY: "1"}])
    def test_is_nobody_whom_a_stranger_names(self, headers, ben):
        builders.action(by=ben)
        assert requesters.chain(builders.run(event=builders.event(headers=headers)), four_eyes=False) == []

    def test_is_also_who_asked_for_the_action_that_published_it(self, connection, ann, ben, with_token):
        roles.grant(ben, roles.OPERATOR)
        builders.trigger("second", source="published", type_pattern="go")
        wish = {"kind": "event.publish", "arguments": {"type": "go"}}
        with serving("high"), handling(lambda run: act(run, "order", kind="shop.order", cups=99), "second"):
            robot = with_token(ben, "propose")
            for _ in range(2):  # the first event makes the source, so it is known before the trigger hears
                sent = {"content_type": "application/json", "headers": {"Idempotency-Key": f"k{Event.objects.count()}"}}
                assert robot.post("/api/v1/actions", json.dumps(wish), **sent).status_code == 201
                settle()
        order = Action.objects.filter(kind="shop.order").latest("pk")
        assert order.requester_chain == [ben.pk]
        with pytest.raises(SelfApproval):
            say(order, ben, reason="fine", stepped_up=True)

    def test_is_also_who_made_the_token_of_a_service_that_rings(self, ben):
        builders.source("api", kind="cloudevents", provider="", types=["**"])
        _, secret = ApiToken.objects.all().issue(user=None, service="ci", name="ci", scopes=["ingest"], made_by=ben)
        event = {"specversion": "1.0", "id": "1", "source": "/x", "type": "go"}
        robot = Client(headers={"authorization": f"Bearer {secret}"})
        told = robot.post("/api/v1/events", json.dumps(event), content_type="application/cloudevents+json")
        assert told.status_code == 202
        assert Event.objects.get(type="go").requester == ben

    def test_is_everybody_who_changed_the_trigger_since_its_last_run(self, ann, ben, later):
        builders.source("github")
        trigger = builders.trigger()
        builders.run(trigger=trigger)
        later(hours=1)
        changed = configure.change_trigger(trigger, by=ann, version=trigger.version, filter="true")
        configure.change_trigger(changed, by=ben, version=changed.version, name="a better name")
        run = builders.run(trigger=Trigger.objects.get(pk=trigger.pk))
        assert requesters.chain(run, four_eyes=True) == [ben.pk, ann.pk]


def waited(run, event):
    past = {"since": event.received_at, "registered_at": event.received_at, "ended_at": event.received_at}
    return Wait.objects.create(run=run, step="more", type="go", event=event, status="done", **past)


def edited(by):
    action = builders.action()
    Decision.objects.create(
        action=action, by=by, verdict="edit", digest=action.digest, revision=1, at=clock.now(), before="{}", after="{}"
    )
    return action


def answered(run, by):
    action = builders.action("human.question", arguments={"question": "How many?"}, run=run)
    Act.objects.create(run=run, name="how many", action=action, digest=action.digest)
    return say(action, by, answer="7")


def test_each_deed_is_in_the_audit_trail(ann, ben):
    action = builders.action(by=ann, take_back_for=10)
    say(action, ben, reason="fine")
    decide.take_back(action, by=ben)
    say(action, ben, "reject")
    deeds = Audit.objects.filter(kind="action", ref=str(action.pk)).order_by("pk")
    assert [(deed.verb, deed.by) for deed in deeds] == [
        ("approve", ben),
        ("take back", ben),
        ("reject", ben),
        ("reject", ben),
    ]


def test_who_asked_for_a_run_asked_for_what_its_events_wake(ann, ben):
    """A handler that emits an event hands on who stands behind it, however many runs lie between."""
    first = builders.run(event=builders.event(requester=ann))
    second = builders.run(event=builders.event(emitted_by=first.pk), requester=ben)
    third = builders.run(event=builders.event(emitted_by=second.pk))
    assert requesters.chain(third, four_eyes=False) == [ben.pk, ann.pk]


class TestWhoWroteIt:
    """Who writes in a chat what makes an agent propose has asked for it."""

    SAID = {
        "a message": {"team_id": "T1", "event": {"type": "message", "user": "U2", "text": "refund it"}},
        "a command": {"team_id": "T1", "user_id": "U2", "command": "/refund"},
        "a click": {"team": {"id": "T1"}, "user": {"id": "U2"}, "type": "block_actions"},
    }

    @pytest.fixture
    def linked(self, ben):
        builders.source("chat", kind="slack", provider="slack")
        way = builders.connection("slack", slug="our-slack", practice=False)
        at = {"created_at": clock.now(), "confirmed_at": clock.now()}
        return Channel.objects.create(person=ben, connection=way, address="U2", identity="T1/U2", **at)

    def chain(self, data, source="chat"):
        return requesters.chain(builders.run(event=builders.event(data=data, source_slug=source)), four_eyes=False)

    @pytest.mark.parametrize("said", SAID)
    def test_is_the_person_who_linked_that_member(self, said, linked, ben):
        assert self.chain(self.SAID[said]) == [ben.pk]

    def test_is_nobody_we_know_where_no_one_linked_it(self, linked):
        told = self.SAID["a message"]
        other = told | {"event": told["event"] | {"user": "U3"}}
        assert self.chain(other) == []
        assert self.chain(told | {"team_id": "T2"}) == [], "ids of people are their workspace's own"
        for odd in ([], "x", None, {"team_id": 1, "event": {"user": ["U2"]}}, {"event": 7, "user": {}}):
            assert self.chain(odd) == []

    def test_counts_only_what_slack_signed(self, linked):
        builders.source("mine", provider="generic")
        assert self.chain(self.SAID["a message"], source="mine") == [], "anybody may write that name there"

    def test_ends_with_the_link(self, linked):
        Channel.objects.filter(pk=linked.pk).update(removed_at=clock.now())
        assert self.chain(self.SAID["a message"]) == []


class TestMoreIsBehindItThanIsLookedThrough:
    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch, ann: User) -> Run:
        """A run that repeats one that repeats one, where two are looked through."""
        monkeypatch.setattr(requesters, "MOST_RUNS", 2)
        first = builders.run("story", requester=ann)
        return builders.run("story", rerun_of=builders.run("story", rerun_of=first))

    @pytest.mark.parametrize("tier", ["medium", "high"])
    def test_nobody_says_yes_to_it_and_everybody_may_say_no(
        self, asked: Run, connection: Any, ann: User, ben: User, tier: str
    ) -> None:
        with serving(tier), handling(lambda run: act(run, "order", kind="shop.order")):
            settle()
            action = Action.objects.get(run=asked)
            assert action.requester_chain[-1] == EVERYBODY
            for person_ in (ann, ben):
                with pytest.raises(SelfApproval, match="nobody can tell who asked for it"):
                    say(action, person_, reason="fine", stepped_up=True)
            assert not policy.able(action, policy.ruling_of(action)).exists(), "and the desk says that nobody may"
            assert say(action, ben, "reject", stepped_up=True).status == "rejected"

    def test_it_is_no_wish_of_a_person(self, asked: Run) -> None:
        """A rule that lets people go on lets nobody on whom it could not find."""
        Run.objects.update(requester=None)
        wish = policy.Asked("shop.order", {}, "", "", "", asked, None)
        assert requesters.chain(asked, four_eyes=False) == [EVERYBODY]
        assert wish.is_by_agent

    def test_it_opens_nothing_to_read_for_anybody(self, asked: Run, connection: Any, eve: User) -> None:
        with serving(), handling(lambda run: act(run, "order", kind="shop.order")):
            settle()
        assert not Action.objects.get(run=asked).asked_by(eve)
