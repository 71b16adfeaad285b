"""Whoever may decide is told, reminded, and the next group after them; what became of every message is kept, and when
nobody could be reached the desk says so."""

from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth.models import Group

from approvals import asking, deliver, telling
from approvals.act import act
from approvals.errors import NotValid
from approvals.links import link_to
from approvals.models import Action, Asking, Channel, Connection, Hours, Notice
from approvals.windows import DAYS
from project import tour
from project.lib import clock, crypto
from tests import builders
from tests.agents import agent
from tests.conftest import person
from tests.handlers import work
from tests.nodding import handling, now_of, say, serving, settle, the_action
from tests.recorder import Recorder
from tests.ruled import rule, team
from tests.telling import a_chat, a_mailbox, reach, receipts
from triggers.models import Event

pytestmark = pytest.mark.django_db
UNREACHED = "nightdesk.approval.unreached"


@pytest.fixture
def chat():
    with a_chat() as chat:
        yield chat


@pytest.fixture
def cho(db):
    return person("cho", "viewer", "reviewer")


def rounds(number: int = 3) -> None:
    for _ in range(number):
        telling.tick()


def alarms() -> list[dict]:
    return [event.data for event in Event.objects.filter(type=UNREACHED).order_by("pk")]


@contextmanager
def a_group(settings, *readers):
    """A group of WeCom that these people read; what was written to it is in `seen`."""
    with Recorder(lambda *_: (200, {}, {"errcode": 0})) as far:
        settings.EGRESS_ALLOW = [f"127.0.0.1:{far.port}"]
        secrets = crypto.seal({"webhook_url": f"{far.url}/hook"})
        Connection.objects.create(slug="group", system="wecom", sealed_secrets=secrets)
        for one in readers:
            reach(one, "group", "")
        yield far


class TestAsking:
    def test_who_may_decide_is_told_once_and_nobody_else(self, chat, ann, ben, eve):
        for one, member in ((ann, "U1"), (ben, "U2"), (eve, "U3")):
            reach(one, "slack", member)
        action = builders.action(by=ann)
        rounds()
        assert receipts() == [("ben", "ask", "sent")], "Ann asked for it, and Eve holds no role"
        told = chat.to("U2")[0]
        assert f"A-{action.pk} {action.title}" in str(told["blocks"])
        receipt = Notice.objects.get()
        assert (receipt.ref["channel"], receipt.sent_at is not None) == ("DU2", True)

    def test_whoever_may_not_decide_takes_nobodys_place(self, chat, ann, ben, monkeypatch):
        monkeypatch.setattr(asking, "MOST_PEOPLE", 1)
        ann.groups.add(Group.objects.get(name="reviewer"))
        reach(ben, "slack", "U2")
        builders.action(by=ann)
        rounds()
        assert receipts() == [("ben", "ask", "sent")], "Ann asked for it, and comes before Ben"

    def test_nor_does_whoever_has_no_channel(self, chat, ann, ben, monkeypatch):
        monkeypatch.setattr(asking, "MOST_PEOPLE", 1)
        reach(person("cleo", "reviewer"), "slack", "U2")
        builders.action(by=ann)
        rounds()
        assert receipts() == [("cleo", "ask", "sent")], "Ben comes before Cleo, and nothing reaches him"

    def test_the_time_people_have_counts_from_when_they_can_see_it(self, chat, ann, ben, connection, later):
        """However long its run waited for a worker; and a chat that is down meanwhile ends nothing."""
        reach(ben, "slack", "U2")
        with serving(), handling(lambda run: act(run, "order", kind="shop.order")):
            builders.run("story")
            later(days=3)
            seen_from = clock.now()
            work()
            action = the_action()
            assert action.expires_at >= seen_from + timedelta(days=1)
            chat.far.next(*[503] * 50)
            for hours in (1, 12, 10):
                later(hours=hours)
                rounds()
                deliver.expire_overdue()
            assert (chat.messages, now_of(action).status) == ({}, "awaiting")
            assert say(action, ben).status == "approved"

    def test_a_channel_nobody_has_confirmed_or_that_was_removed_is_not_used(self, chat, ann, ben):
        for fields in ({"confirmed_at": None}, {"removed_at": clock.now()}):
            channel = reach(ben, "slack", f"U{len(fields)}{'confirmed_at' in fields:d}")
            Channel.objects.filter(pk=channel.pk).update(**fields)
        builders.action(by=ann)
        rounds()
        assert receipts() == []

    @pytest.mark.parametrize("gone", ["channel", "person", "connection"])
    def test_what_is_on_its_way_over_a_channel_that_goes_is_not_sent(self, chat, ann, ben, gone):
        channel = reach(ben, "slack", "U2")
        asking.begin(builders.action(by=ann).pk)
        if gone == "channel":
            Channel.objects.update(removed_at=clock.now())
        elif gone == "person":
            ben.change(is_active=False)
        else:
            channel.connection.archive(by=ann)
        rounds()
        assert (receipts(), chat.messages) == ([("ben", "ask", "skipped")], {})

    def test_every_channel_of_a_person_is_written_to(self, chat, ann, ben, settings):
        with a_mailbox() as box:
            settings.EGRESS_ALLOW = [f"127.0.0.1:{box.port}", f"127.0.0.1:{chat.far.port}"]
            reach(ben, "slack", "U2")
            reach(ben, "post", "ben@example.org")
            action = builders.action(by=ann)
            rounds()
            assert len(chat.to("U2")) == len(box.taken) == 1
            mail = box.taken[0]
            assert mail.recipients == ["ben@example.org"]
            assert f"A-{action.pk}" in str(mail.message["Subject"])

    def test_a_group_is_written_to_once_however_many_read_it_there(self, ann, ben, cho, settings):
        with a_group(settings, ben, cho) as far:
            action = builders.action(by=ann)
            rounds()
            assert receipts() == [("ben", "ask", "sent")]
            say(action, cho)
            rounds()
            assert "Approved by cho" in far.seen[-1].json["text"]["content"]
            assert len(far.seen) == 2, "it cannot be changed where it stands, so a second one says how it ended"

    def test_a_group_is_written_to_though_the_first_of_its_readers_left(self, ann, ben, cho, settings, later):
        with a_group(settings, ben, cho) as far:
            asking.begin(builders.action(by=ann).pk)
            ben.groups.clear()
            rounds()
            later(minutes=4)
            rounds()
            assert receipts() == [("ben", "ask", "skipped"), ("cho", "ask", "sent")]
            assert len(far.seen) == 1
            assert alarms() == []

    @pytest.mark.parametrize("who", ["a handler", "a program", "a person"])
    def test_a_message_says_who_asked(self, chat, ann, ben, who):
        reach(ben, "slack", "U2")
        asked = {
            "a handler": {"run": builders.run("order-tea")},
            "a program": {"token": agent("robot").token},
            "a person": {"by": ann},
        }[who]
        builders.action(**asked)
        rounds()
        name = {"a handler": "order-tea", "a program": "robot", "a person": "ann"}[who]
        assert f"Asked by {name}" in str(chat.to("U2")[0])

    def test_what_became_another_revision_is_asked_about_anew(self, chat, ann, ben):
        reach(ben, "slack", "U2")
        action = builders.action(by=ann)
        rounds()
        now_of(action).move("edit", revision=2, given=0)
        rounds()
        assert receipts() == [("ben", "ask", "sent"), ("ben", "ask", "sent"), ("ben", "end", "sent")]
        old, new = chat.to("U2")
        assert "Changed since" in old["text"]
        assert "Medium: A-" in new["text"]

    @pytest.mark.parametrize(
        ("verdict", "told"),
        [("approve", "Changed since. Approved by ben"), ("reject", "Changed since. Rejected by ben")],
    )
    def test_what_was_changed_and_decided_is_told_with_its_end_and_asks_nobody_anew(
        self, chat, ann, ben, sign_in, verdict, told
    ):
        reach(ben, "slack", "U2")
        action = builders.action(by=ann)
        rounds()
        asked = Notice.objects.get(what="ask")
        now_of(action).move("edit", revision=2, given=0)
        say(now_of(action), ben, verdict)
        rounds()
        assert told in chat.to("U2")[0]["text"]
        page = sign_in(ben).get(link_to(asked).removeprefix(settings.BASE_URL)).content.decode()
        assert (told in page, "asked anew" in page) == (True, False)

    def test_the_link_of_an_older_revision_says_so_while_the_newer_one_waits(self, chat, ann, ben, sign_in):
        reach(ben, "slack", "U2")
        action = builders.action(by=ann)
        rounds()
        asked = Notice.objects.get(what="ask")
        now_of(action).move("edit", revision=2, given=0)
        page = sign_in(ben).get(link_to(asked).removeprefix(settings.BASE_URL)).content.decode()
        assert ("Changed since; you are asked anew" in page, f"/actions/{action.pk}" in page) == (True, True)

    def test_odd_characters_of_a_headline_are_shown_as_such_and_call_nobody(self, chat, ann, ben):
        reach(ben, "slack", "U2")
        builders.action(by=ann, title="Pay \u202egnp.exe <!channel>")
        rounds()
        told = chat.to("U2")[0]
        assert "⟨U+202E⟩gnp.exe &lt;!channel&gt;" in told["text"]
        assert {block["text"]["type"] for block in told["blocks"] if "text" in block} == {"plain_text"}


class TestReceipts:
    def test_what_is_not_taken_is_tried_again_and_given_up_in_the_end(self, chat, ann, ben, later):
        reach(ben, "slack", "U2")
        builders.action(by=ann)
        chat.far.next(503, "drop")
        rounds(1)
        assert receipts() == [("ben", "ask", "due")]
        assert "503" in Notice.objects.get().error
        for _ in range(3):
            later(minutes=1)
            rounds(1)
        assert receipts() == [("ben", "ask", "sent")]

    def test_what_the_far_side_refuses_is_not_tried_again(self, chat, ann, ben):
        reach(ben, "slack", "U2")
        builders.action(by=ann)
        chat.far.next((200, {}, {"ok": False, "error": "channel_not_found"}))
        rounds()
        assert receipts() == [("ben", "ask", "failed")]
        assert "channel_not_found" in Notice.objects.get().error

    def test_what_a_dead_process_left_is_taken_up(self, chat, ann, ben, later):
        reach(ben, "slack", "U2")
        builders.action(by=ann)
        asking.begin(Action.objects.get().pk)
        assert telling.take(Notice.objects.get().pk)
        rounds()
        assert receipts() == [("ben", "ask", "sending")]
        later(minutes=2)
        rounds()
        assert receipts() == [("ben", "ask", "sent")]

    def test_what_kills_every_process_that_sends_it_is_given_up(self, chat, ann, ben, later):
        reach(ben, "slack", "U2")
        asking.begin(builders.action(by=ann).pk)
        for _ in range(len(telling.PAUSES) + 1):
            assert telling.take(Notice.objects.get().pk)
            later(minutes=2)
        rounds()
        assert receipts() == [("ben", "ask", "failed")]
        assert chat.messages == {}

    def test_they_are_told_by_the_api(self, chat, ann, ben, with_token):
        reach(ben, "slack", "U2")
        action = builders.action(by=ann)
        rounds()
        (told,) = with_token(ben, "read").get(f"/api/v1/actions/{action.pk}").json()["told"]
        assert told["sent_at"].endswith("Z")
        assert {**told, "sent_at": 0} == {
            "person": "ben",
            "channel": "slack",
            "what": "ask",
            "status": "sent",
            "sent_at": 0,
        }

    def test_they_stand_on_the_page_of_the_request(self, chat, ann, ben, sign_in):
        reach(ben, "slack", "U2")
        action = builders.action(by=ann)
        rounds()
        page = sign_in(ben).get(f"/actions/{action.pk}").content.decode()
        assert "Who was told" in page
        assert "ben, slack" in page.partition("Who was told")[2]


class TestReminders:
    def test_come_twice_and_to_those_who_have_said_nothing(self, chat, ann, ben, cho, later):
        rule("two", 'action.kind == "github.create_pr"', quorum=2)
        reach(ben, "slack", "U2")
        reach(cho, "slack", "U3")
        action = builders.action(by=ann, needed=2)
        rounds()
        say(action, ben)
        later(hours=12, minutes=1)
        rounds()
        assert [row for row in receipts() if row[1] == "remind"] == [("cho", "remind", "sent")]
        later(hours=10)
        rounds()
        assert len([row for row in receipts() if row[1] == "remind"]) == 2
        assert "still waiting, Medium" in chat.to("U3")[-1]["text"]

    def test_find_also_who_came_to_the_reviewers_since(self, chat, ann, ben, eve, later):
        reach(ben, "slack", "U2")
        reach(eve, "slack", "U3")
        builders.action(by=ann)
        rounds()
        eve.groups.add(Group.objects.get(name="reviewer"))
        later(hours=12, minutes=1)
        rounds()
        assert receipts() == [("ben", "ask", "sent"), ("eve", "ask", "sent"), ("ben", "remind", "sent")]

    def test_that_were_missed_become_one(self, chat, ann, ben, later):
        reach(ben, "slack", "U2")
        builders.action(by=ann)
        rounds()
        later(hours=23)
        rounds()
        assert receipts() == [("ben", "ask", "sent"), ("ben", "remind", "sent")]


class TestEscalation:
    @pytest.fixture
    def ladder(self, ben, cho):
        team("on-call", ben)
        team("managers", cho)
        rule("ladder", 'action.kind == "github.create_pr"', reviewers=["on-call", "managers"], escalate_after=600)

    def test_the_next_group_is_told_after_so_many_minutes(self, chat, ladder, ann, ben, cho, later):
        reach(ben, "slack", "U2")
        reach(cho, "slack", "U3")
        groups = [{"reviewers": ["on-call", "managers"], "quorum": 1}]
        builders.action(by=ann, groups=groups)
        rounds()
        assert receipts() == [("ben", "ask", "sent")]
        later(minutes=11)
        rounds()
        assert receipts() == [("ben", "ask", "sent"), ("cho", "ask", "sent")]
        assert Asking.objects.get().level == 1

    def test_the_next_group_is_told_at_once_when_nobody_of_the_first_can_be(self, chat, ladder, ann, cho):
        reach(cho, "slack", "U3")
        builders.action(by=ann)
        rounds()
        assert receipts() == [("cho", "ask", "sent")]

    def test_a_decision_stops_it(self, chat, ladder, ann, ben, cho, later):
        reach(ben, "slack", "U2")
        reach(cho, "slack", "U3")
        action = builders.action(by=ann)
        rounds()
        say(action, ben)
        later(minutes=11)
        rounds()
        assert [name for name, _, _ in receipts()] == ["ben", "ben"]

    @pytest.mark.parametrize(
        "fields",
        [
            {"escalate_after": 30, "reviewers": ["reviewer", "admin"]},
            {"escalate_after": 8 * 86400, "reviewers": ["reviewer", "admin"]},
            {"escalate_after": 600, "reviewers": ["reviewer"]},
            {"escalate_after": 600},
            {"escalate_after": 600, "effect": "allow"},
        ],
        ids=["too soon", "too late", "nobody is next", "nobody is named", "nobody is asked"],
    )
    def test_a_rule_that_names_nobody_to_go_on_to_is_refused(self, db, fields):
        with pytest.raises(NotValid) as refusal:
            rule("ladder", 'action.kind == "github.create_pr"', **fields)
        assert refusal.value.facts["field"] == "escalate_after"

    def test_who_is_asked_next_may_decide_from_the_start(self, chat, ladder, ann, cho):
        action = builders.action(by=ann)
        rounds()
        assert say(action, cho).status == "approved"


class TestHours:
    def test_who_sleeps_is_told_when_the_hours_begin(self, chat, ann, ben, later):
        now = clock.now()
        begins = f"{(now.hour + 3) % 24:02}:00"
        ben.change(time_zone="UTC")
        Hours.objects.create(
            person=ben, windows=[{"days": list(DAYS), "from": begins, "to": f"{(now.hour + 5) % 24:02}:00"}]
        )
        reach(ben, "slack", "U2")
        builders.action(by=ann)
        rounds()
        assert receipts() == [("ben", "ask", "due")]
        later(minutes=6)
        rounds()
        assert [alarm["why"] for alarm in alarms()] == ["outside_hours"]
        later(hours=3)
        rounds()
        assert receipts() == [("ben", "ask", "sent")]


class TestUnreached:
    def test_is_said_once_when_nobody_has_a_channel(self, ann, ben, later):
        action = builders.action(by=ann)
        rounds()
        assert alarms() == [], "people have five minutes"
        later(minutes=6)
        rounds(5)
        (alarm,) = alarms()
        assert (alarm["action"], alarm["why"], alarm["link"]) == (action.pk, "no_channel", f"/actions/{action.pk}")
        assert "Fix the typo" not in str(alarm), "no word of what it is about"
        later(hours=12)
        rounds()
        assert Asking.objects.get().reminders == 1
        assert len(alarms()) == 1, "not at every step that follows"

    @pytest.mark.usefixtures("noon")  # at eight the letter of the morning comes as well
    def test_reaches_our_people_in_words_by_the_trigger_of_the_tour(self, ann, ben, later):
        tour.seed(ann)
        action = builders.action(by=ann)
        rounds()
        later(minutes=6)
        rounds()
        settle()
        told = Action.objects.get(kind="notify.send")
        assert told.status == "delivered"
        assert told.arguments["title"] == f"Nobody could be asked: A-{action.pk} github.create_pr"
        assert "has a channel: Settings, Notifications" in told.arguments["text"]

    def test_is_said_when_the_far_side_takes_nothing(self, chat, ann, ben, later):
        reach(ben, "slack", "U2")
        builders.action(by=ann)
        chat.far.next((200, {}, {"ok": False, "error": "account_inactive"}))
        rounds()
        later(minutes=6)
        rounds()
        assert [alarm["why"] for alarm in alarms()] == ["not_taken"]

    def test_is_said_at_once_when_nobody_may_decide(self, ann, later):
        builders.action(tier="high", by=ann)
        rounds(1)
        assert [alarm["why"] for alarm in alarms()] == ["nobody_may_decide"]
        later(minutes=6)
        rounds()
        assert len(alarms()) == 1

    @pytest.mark.parametrize(
        ("more", "of"),
        [
            ({"reviewers": ["legal"]}, ["legal"]),
            ({"reviewers": ["finance"], "quorum": 2}, ["finance"]),
            ({"quorum": 9}, ["finance"]),
        ],
    )
    def test_is_said_at_once_when_more_are_needed_than_may_decide(self, chat, ann, ben, owner, more, of, later):
        team("finance", ben)
        team("legal")
        reach(ben, "slack", "U2")
        rule("money", "true", reviewers=["finance"])
        rule("more", "true", **more)
        builders.action(by=ann)
        rounds(1)
        assert [(alarm["why"], alarm["of"]) for alarm in alarms()] == [("too_few_may_decide", of)]
        later(minutes=6)
        rounds()
        assert len(alarms()) == 1

    def test_is_not_said_of_what_somebody_was_told_or_what_is_over(self, chat, ann, ben, later):
        reach(ben, "slack", "U2")
        builders.action(by=ann)
        rejected = builders.action(by=ann)
        say(rejected, ben, "reject")
        rounds()
        later(minutes=6)
        rounds()
        assert alarms() == []

    def test_calls_itself_no_second_time(self, ann, ben, later):
        """A handler of the alarm that asks people, too."""
        event = builders.event(UNREACHED, source_slug="/nightdesk")
        builders.action(by=ann, run=builders.run(event=event))
        rounds()
        later(minutes=6)
        rounds()
        assert len(alarms()) == 1, "the one this test made"


class TestTheEnd:
    def test_every_message_is_brought_up_to_date_after_a_decision_anywhere(self, chat, ann, ben, cho):
        reach(ben, "slack", "U2")
        reach(cho, "slack", "U3")
        action = builders.action(by=ann)
        rounds()
        assert chat.button("U3")
        say(action, ben)
        rounds()
        for member in ("U2", "U3"):
            (message,) = chat.to(member)
            assert "Approved by ben (" in message["text"]
            assert chat.button(member) is None

    def test_an_expiry_closes_and_tells(self, ann, ben, later):
        with a_mailbox() as box:
            reach(ben, "post", "ben@example.org")
            builders.action(by=ann)
            rounds()
            later(hours=24, seconds=1)
            deliver.expire_overdue()
            rounds()
            first, last = box.taken[0].message, box.taken[-1].message
            assert "Expired: nobody decided, nothing was sent" in str(last["Subject"])
            assert last["In-Reply-To"] == first["Message-ID"]

    def test_who_decided_is_not_told_of_it_by_mail(self, ann, ben):
        with a_mailbox() as box:
            reach(ben, "post", "ben@example.org")
            action = builders.action(by=ann)
            rounds()
            say(action, ben)
            rounds()
            assert len(box.taken) == 1

    def test_what_was_not_sent_yet_is_not_sent_any_more(self, chat, ann, ben):
        reach(ben, "slack", "U2")
        action = builders.action(by=ann)
        asking.begin(action.pk)
        say(action, ben)
        rounds()
        assert receipts() == [("ben", "ask", "skipped")]
        assert chat.messages == {}
