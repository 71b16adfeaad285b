"""What is of low risk happens without a nod: held for a while, bounded, told every morning, and looked at by chance."""

import pytest

from approvals import channels, clearing, mornings, outcomes, reviewing
from approvals.act import act
from approvals.budget import BUDGET, SPENT
from approvals.errors import AlreadyDecided, NotReviewer, ReasonRequired, SelfApproval
from approvals.models import Action, Compensation, Morning, Review
from project.lib import clock
from tests import builders
from tests.approvals.test_pages import text_of
from tests.conftest import person
from tests.handlers import work
from tests.mailbox import Mailbox
from tests.nodding import changed_kind, handling, now_of, say, serving, settle
from tests.ruled import rule
from triggers.models import Audit, Run, Switch

pytestmark = pytest.mark.django_db
HELD = 'action.kind == "shop.order"'


def order(run):
    return act(run, "order tea", kind="shop.order", item="tea", cups=run.event.data["cups"])


@pytest.fixture
def shop(connection):
    with serving(tier="low") as shop, handling(order):
        yield shop


def ordered(cups: int = 2, **event) -> Action:
    builders.run("story", event=builders.event(data={"cups": cups}, **event))
    work()
    return Action.objects.latest("pk")


class TestAHold:
    @pytest.fixture(autouse=True)
    def held(self, shop):
        rule("held", HELD, "allow", hold=300)

    def test_it_waits_before_it_happens(self, shop, later):
        action = ordered()
        settle()
        assert (now_of(action).status, shop.sent, Run.objects.get().status) == ("approved", [], "waiting")
        later(seconds=290)
        settle()
        assert shop.sent == []
        later(seconds=11)
        settle()
        assert (now_of(action).status, len(shop.sent), Run.objects.get().status) == ("delivered", 1, "succeeded")

    def test_whoever_may_undoes_it_in_time(self, shop, later, ben, sign_in):
        action = ordered()
        browser = sign_in(ben)
        page = browser.get(f"/actions/{action.pk}")
        assert "Low risk, nobody is asked" in text_of(page)
        assert f"/actions/{action.pk}/cancel" in page.content.decode()
        assert f"/actions/{action.pk}/take-back" not in page.content.decode()
        assert browser.post(f"/actions/{action.pk}/cancel").status_code == 302
        later(seconds=600)
        settle()
        assert (now_of(action).status, shop.sent, Run.objects.get().status) == ("cancelled", [], "cancelled")

    def test_it_is_on_the_page_of_what_is_done_and_on_home(self, shop, ben, sign_in):
        action = ordered()
        for page in ("/done", "/"):
            assert "goes out soon" in text_of(sign_in(ben).get(page)).lower()
        assert f"/actions/{action.pk}/cancel" in sign_in(ben).get("/done").content.decode()

    def test_a_hold_longer_than_its_patience_does_not_let_it_expire(self, shop, later):
        with handling(lambda run: act(run, "tea", kind="shop.order", expires=60), "hasty"):
            builders.run("hasty")
            work()
            later(seconds=301)
            settle()
        assert Action.objects.get().status == "delivered"

    def test_a_switch_stops_it_while_it_is_held(self, shop, later):
        action = ordered()
        Switch.objects.create(scope="all", paused=True, at=clock.now())
        later(seconds=301)
        settle()
        assert (now_of(action).status, shop.sent) == ("approved", [])

    def test_another_connection_than_was_shown_is_asked_about(self, shop, later):
        action = ordered()
        action.connection.change(by=None, config={"address": "another"})
        later(seconds=301)
        settle()
        row = now_of(action)
        assert (row.status, row.tier, row.reason_code) == ("awaiting", "medium", "changed_after_approval")
        assert shop.sent == []

    def test_the_longest_hold_counts_and_its_rule_is_named(self, shop):
        rule("longer", HELD, "allow", hold=900)
        action = ordered()
        assert action.take_back_for == 900
        assert {said["rule"] for said in action.ruled_by} == {"held", "longer"}

    def test_what_a_rule_raised_is_not_held(self, shop):
        rule("ask", HELD, "require")
        assert ordered().take_back_for == 0


class TestTheBudget:
    def spend(self, number: int) -> None:
        with handling(self.many, "many"):
            builders.run("many", event=builders.event(data={"number": number}))
            work()

    @staticmethod
    def many(run):
        for cups in range(run.event.data["number"]):
            act(run, f"tea {cups}", kind="shop.order", cups=cups)

    def test_the_thirty_first_of_an_hour_waits_for_a_nod_and_says_why(self, shop, ben, sign_in):
        self.spend(BUDGET + 1)
        last = Action.objects.latest("pk")
        assert (Action.objects.filter(status="delivered").count(), last.status, last.tier) == (
            BUDGET,
            "awaiting",
            "medium",
        )
        assert last.policy == SPENT
        assert "more than 30 within an hour" in text_of(sign_in(ben).get(f"/actions/{last.pk}"))

    def test_the_next_hour_is_another(self, shop, later):
        self.spend(BUDGET)
        later(minutes=61)
        assert ordered().status == "delivered"

    def test_each_handler_has_its_own(self, shop):
        self.spend(BUDGET)
        assert ordered().status == "delivered"

    def test_a_nod_lets_it_through(self, shop, ben):
        self.spend(BUDGET + 1)
        say(Action.objects.latest("pk"), ben)
        settle()
        assert Action.objects.latest("pk").status == "delivered"


def test_how_it_is_undone_is_written_down_before_it_is_done(shop):
    """Also when the process dies in the call."""
    found = []
    real = shop.deliver

    def deliver(far, wish, key):
        found.append(Compensation.objects.get().wish["arguments"])
        return real(far, wish, key)

    changed_kind(deliver=deliver)
    undo = {"kind": "shop.order", "item": "tea", "cups": 0}
    with handling(lambda run: act(run, "tea", kind="shop.order", compensate=undo), "undoing"):
        builders.run("undoing")
        work()
    assert found == [{"item": "tea", "cups": 0}]


class TestTheSample:
    @pytest.fixture(autouse=True)
    def everything_is_drawn(self, settings):
        settings.REVIEW_SAMPLE = 100

    @pytest.fixture
    def drawn(self, shop, ann) -> Review:
        return ordered(requester=ann).review

    def test_of_all_that_is_low_some_is_drawn(self, shop, settings, monkeypatch):
        settings.REVIEW_SAMPLE = 5
        rolled = iter([4.9, 5.1])
        monkeypatch.setattr("approvals.models.review.random.uniform", lambda low, high: next(rolled))
        assert [Review.objects.filter(action=ordered(cups)).exists() for cups in (1, 2)] == [True, False]

    def test_what_a_person_says_has_happened_is_drawn_like_what_the_far_side_says(self, shop, ann):
        action = ordered()
        Review.objects.all().delete()
        Action.objects.filter(pk=action.pk).update(status="unknown")
        clearing.settle_unknown(action, by=ann, status="delivered")
        assert Review.objects.get().action == action

    def test_what_people_nodded_at_is_not_drawn(self, shop, ben):
        changed_kind(tier="medium")
        action = ordered()
        say(action, ben)
        settle()
        assert (now_of(action).status, Review.objects.count()) == ("delivered", 0)

    def test_it_is_drawn_with_the_outcome_and_only_once(self, drawn):
        outcomes.record(drawn.action.attempts.get(), outcomes.Outcome("delivered", {}))
        assert Review.objects.get() == drawn

    def test_a_reviewer_finds_it_fine_or_wrong(self, drawn, ben, sign_in):
        browser = sign_in(ben)
        assert "was it right to do this without a nod?" in text_of(browser.get(f"/actions/{drawn.action_id}"))
        answer = browser.post(f"/actions/{drawn.action_id}/review", {"verdict": "wrong", "note": "no sugar"})
        assert answer.status_code == 302
        drawn.refresh_from_db()
        assert (drawn.verdict, drawn.note, drawn.by) == ("wrong", "no sugar", ben)
        assert Audit.objects.get(verb="find wrong").by == ben
        assert "ben looked at it afterwards and found it wrong" in text_of(browser.get(f"/actions/{drawn.action_id}"))
        assert "1" in text_of(browser.get("/done"))

    def test_it_is_said_once(self, drawn, ben):
        reviewing.say(drawn, by=ben, verdict="fine")
        with pytest.raises(AlreadyDecided):
            reviewing.say(drawn, by=person("cleo", "reviewer"), verdict="wrong", note="no")
        assert Review.objects.get().verdict == "fine"

    def test_wrong_needs_a_note(self, drawn, ben):
        with pytest.raises(ReasonRequired):
            reviewing.say(drawn, by=ben, verdict="wrong")

    def test_who_asked_does_not_judge_it_unless_nobody_else_is_there(self, drawn, ann):
        reviewing.say(drawn, by=ann, verdict="fine")
        Review.objects.update(verdict="", by=None, at=None)
        person("cleo", "reviewer")
        with pytest.raises(SelfApproval):
            reviewing.say(drawn, by=ann, verdict="fine")

    def test_a_viewer_only_reads_it(self, drawn, sign_in):
        viewer = person("vic", "viewer")
        with pytest.raises(NotReviewer):
            reviewing.say(drawn, by=viewer, verdict="fine")
        assert "a reviewer who did not ask for it looks at it" in text_of(
            sign_in(viewer).get(f"/actions/{drawn.action_id}")
        )

    def test_home_says_that_some_wait(self, drawn, ben, sign_in):
        assert "1 done without a nod to look at" in text_of(sign_in(ben).get("/"))


class TestTheMorning:
    @pytest.fixture
    def box(self, settings):
        with Mailbox() as box:
            settings.EGRESS_ALLOW = [f"127.0.0.1:{box.port}"]
            config = {"host": "127.0.0.1", "port": box.port, "security": "none", "sender": "desk@example.org"}
            self.way = builders.connection("smtp", slug="mail", practice=False, config=config)
            yield box

    def reach(self, someone) -> None:
        now = clock.now()
        someone.channels.create(connection=self.way, address=someone.email, created_at=now, confirmed_at=now)
        mornings.tick()

    def test_each_morning_a_person_is_told_what_was_done(self, shop, box, ben, later):
        self.reach(ben)
        ordered(1)
        ordered(2)
        mornings.tick()
        assert box.taken == []
        later(hours=24)
        mornings.tick()
        mornings.tick()
        assert len(box.taken) == 1
        mail = box.taken[0].message
        assert mail["Subject"].startswith("2 done without a nod since")
        assert "story, shop.order: 2 done" in mail.get_content()
        assert "/done" in mail.get_content()
        later(hours=24)
        mornings.tick()
        assert len(box.taken) == 1, "nothing is said of nothing"

    def test_who_wants_no_such_mail_gets_none(self, shop, box, ben, later):
        self.reach(ben)
        channels.set_hours(ben, [], mornings=False)
        ordered(1)
        later(hours=24)
        mornings.tick()
        channels.set_hours(ben, [], mornings=True)
        later(hours=24)
        mornings.tick()
        assert box.taken == [], "what was not wanted is not told later on either"

    def test_it_is_morning_where_the_person_is(self, shop, box, ben):
        ben.time_zone = "Asia/Shanghai"
        ben.save()
        self.reach(ben)
        assert Morning.objects.get().next_at.astimezone(ben.zone).hour == 8

    def test_what_does_not_go_out_is_told_later(self, shop, box, ben, later):
        self.reach(ben)
        ordered()
        box.next((451, "DATA"))
        later(hours=24)
        mornings.tick()
        assert box.taken == []
        later(hours=2)
        mornings.tick()
        assert len(box.taken) == 1

    def test_what_ended_in_the_very_last_moment_is_told_the_next_day(self, shop, box, ben, later):
        """One that ended a little before it may only become visible a little after it."""
        self.reach(ben)
        later(hours=24)
        ordered()
        mornings.tick()
        assert box.taken == []
        later(hours=24)
        mornings.tick()
        assert [letter.message["Subject"][:6] for letter in box.taken] == ["1 done"]

    def test_who_may_see_nothing_any_more_is_told_nothing(self, shop, box, ben, later):
        self.reach(ben)
        ordered()
        ben.groups.clear()
        later(hours=24)
        mornings.tick()
        assert box.taken == []

    def test_who_cannot_be_reached_is_no_trouble(self, shop, box, ben, later):
        ordered()
        later(hours=24)
        assert mornings.tick() == 0
        assert not Morning.objects.exists()
