"""A backup knows nothing of what was sent after it: what it calls approved is looked for before it is sent."""

from typing import Any

import pytest
from django.core.management import CommandError, call_command

from approvals.act import act
from approvals.models import Action, Connection
from project.lib import clock
from tests import builders
from tests.handlers import fresh, work
from tests.nodding import Order, handling, say, serving, settle
from triggers.models import Run, Switch

pytestmark = pytest.mark.django_db


def story(run: Any) -> Any:
    return act(run, "buy", kind="shop.order", item="tea")


@pytest.fixture
def shop_connection() -> Connection:
    return builders.connection("shop", practice=False)


def approved(ben: Any) -> Run:
    """A run whose action was approved when the backup was made."""
    run = builders.run("story")
    work()
    say(Action.objects.get(), ben)
    return run


@pytest.mark.parametrize("happened", [True, False])
def test_what_can_be_looked_for_is_found_or_sent_once(shop_connection, ben, happened, later, capsys) -> None:
    with serving("medium", safety="probe") as shop, handling(story):
        run = approved(ben)
        action = Action.objects.get()
        if happened:  # after the backup was made
            shop.done[action.sent_key] = Order(item="tea")
        call_command("restored")
        assert "1 approved actions are in doubt now" in capsys.readouterr().out
        assert Action.objects.get().status == "unknown"
        later(minutes=1)
        if not happened:
            settle()
            assert shop.sent == [], "everything is paused"
        call_command("switch", "--resume")
        later(minutes=15)
        settle()
    assert len(shop.done) == 1
    assert shop.looked
    assert bool(shop.sent) is not happened
    assert (Action.objects.get().status, fresh(run).status) == ("delivered", "succeeded")


def test_what_nobody_can_look_for_is_asked_of_a_person(shop_connection, ben) -> None:
    with serving("medium", safety="unsafe") as shop, handling(story):
        approved(ben)
        call_command("restored")
        call_command("switch", "--resume")
        settle()
    action = Action.objects.get()
    assert (action.status, action.not_before, shop.sent) == ("unknown", None, [])
    assert action.error["type"] == "Restored"


@pytest.mark.parametrize("happened", [True, False])
def test_what_a_run_of_the_backup_asks_for_later_is_looked_for_first(shop_connection, happened, later) -> None:
    with serving("low", safety="probe") as shop, handling(story):
        run = builders.run("story")
        if happened:  # the lost desk went on with it after the backup was made
            shop.done[f"R-{run.pk}/buy"] = Order(item="tea")
        call_command("restored")
        call_command("switch", "--resume")
        later(seconds=1)
        work()
        assert (shop.sent, Action.objects.get().error["type"]) == ([], "Restored")
        later(minutes=15)
        settle()
    assert len(shop.done) == 1
    assert bool(shop.sent) is not happened
    assert (Action.objects.get().status, fresh(run).status) == ("delivered", "succeeded")


def test_a_run_that_comes_after_the_restore_has_no_number_of_a_lost_one_and_sends_at_once(
    shop_connection, later
) -> None:
    with serving("low", safety="probe") as shop, handling(story):
        last = builders.run("other", status="cancelled", finished_at=clock.now())
        call_command("restored")
        call_command("switch", "--resume")
        later(seconds=1)
        run = builders.run("story")
        work()
    assert run.pk > last.pk + 1_000_000
    assert shop.sent == [f"R-{run.pk}/buy"]


def test_called_again_it_doubts_nothing_twice(shop_connection, ben) -> None:
    with serving("medium"), handling(story):
        approved(ben)
        call_command("restored")
        call_command("restored")
    assert Action.objects.get().attempts.count() == 1


def test_the_log_has_the_doubt_like_any_other_try(shop_connection, ben, later, capsys) -> None:
    with serving("medium", safety="unsafe"), handling(story):
        approved(ben)
        later(minutes=1)
        settle()
        assert Action.objects.get().status == "delivered"
        later(seconds=1)
        builders.run("story")
        work()
        say(Action.objects.latest("pk"), ben)
        call_command("restored")
        assert Action.objects.latest("pk").status == "unknown"
        call_command("verify_audit")
    assert "and the log has everything that became of it" in capsys.readouterr().out


def test_the_switch_says_what_is_paused(db, capsys) -> None:
    call_command("switch")
    assert capsys.readouterr().out == "nothing is paused\n"
    call_command("switch", "--pause", "--reason", "the move")
    call_command("switch", "handler", "notify", "--pause")
    assert capsys.readouterr().out.splitlines()[-2:] == ["paused: all, the move", "paused: handler notify"]
    call_command("switch", "--resume")
    assert capsys.readouterr().out == "paused: handler notify\n"
    assert Switch.objects.off().count() == 1
    with pytest.raises(CommandError, match="has no name"):
        call_command("switch", "all", "notify", "--pause")
