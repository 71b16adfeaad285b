"""Retention: payloads go after their time in small pieces, facts stay, and nothing that is still needed is touched."""

import io
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection as database
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext

from approvals.act import act
from approvals.models import Action, Asking, CallBack, Channel, Click, Connection, Notice, Proposal
from project import audited
from project.lib import clock
from project.people.models import ApiToken, User
from tests import builders
from tests.nodding import handling, now_of, say, serving, settle
from triggers import bulk, pinning, redrive, retention, search
from triggers.durable import Durable
from triggers.endings import ALARM
from triggers.errors import NotValid, PayloadGone
from triggers.models import (
    Audit,
    Blob,
    Bulk,
    Counted,
    DeadLetter,
    Event,
    EventWords,
    Refusal,
    Run,
    ScheduleFire,
    Seen,
    Step,
)

pytestmark = pytest.mark.django_db(transaction=True)
OLD = timedelta(days=31)
Later = Callable[..., None]


@pytest.fixture(autouse=True)
def _no_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "REST", 0)


def story(status: str = "succeeded", **fields: Any) -> Run:
    """An event that came 31 days ago and a run that ended then, with a payload everywhere."""
    then = clock.now() - OLD
    told = [{"trigger": "t", "outcome": "matched", "detail": "secret"}]
    event = builders.event(data={"card": "secret"}, received_at=then, outcomes=told, subject="orders/7")
    ended = {"finished_at": then} if status in ("succeeded", "dead", "cancelled") else {}
    error = {"type": "KeyError", "message": "secret", "traceback": "secret"}
    run = builders.run(event=event, status=status, result_json='"secret"', error=error, **{**ended, **fields})
    builders.step(run, 1, result_json='"secret"', input_text='"secret"')
    return run


def everything(run: Run) -> str:
    """All that the desk still remembers of it, as one text."""
    rows = [*Event.objects.values(), *Run.objects.values(), *Step.objects.values(), *EventWords.objects.values()]
    return json.dumps([{name: str(value) for name, value in row.items()} for row in rows])


def keeps_all(run: Run) -> bool:
    event = Event.objects.get(pk=run.event_id)
    return event.pruned_at is None and event.data == {"card": "secret"}


def test_payloads_go_and_facts_stay() -> None:
    run = story()
    search.index()
    assert "secret" in everything(run)
    done = retention.prune()
    assert (done["events"], done["runs"]) == (1, 1)
    assert "secret" not in everything(run)
    event, run = Event.objects.get(), Run.objects.get()
    assert (event.type, event.subject, event.outcomes) == (
        "github.issues.opened",
        "orders/7",
        [{"trigger": "t", "outcome": "matched"}],
    )
    assert (run.status, run.error and run.error["type"], run.finished_at is not None) == ("succeeded", "KeyError", True)
    assert [step.name for step in run.steps.all()] == ["step 1"]
    assert search.by_words("orders", payloads=True) == [event.pk]
    assert retention.prune()["events"] == 0


def test_young_payloads_stay() -> None:
    builders.event(data={"card": "secret"})
    retention.prune()
    assert Event.objects.get().data == {"card": "secret"}


@pytest.mark.parametrize("status", ["queued", "waiting", "retrying", "blocked"])
def test_what_still_waits_keeps_everything(status: str) -> None:
    run = story(status)
    retention.prune()
    assert keeps_all(run)
    assert Step.objects.get().result == "secret"


def test_an_open_letter_keeps_its_event_and_its_run_until_somebody_settles_it(ann: User, later: Later) -> None:
    run = story("dead")
    now = clock.now()
    times = {"first_at": now - OLD, "last_at": now - OLD}
    DeadLetter.objects.create(kind="run", run=run, error_type="KeyError", message="secret", fingerprint="f", **times)
    retention.prune()
    assert keeps_all(run)
    redrive.dismiss(DeadLetter.objects.get(), by=ann, reason="known")
    later(days=1, seconds=1)
    retention.prune()
    assert not keeps_all(run)
    assert DeadLetter.objects.get().message == "secret", "it was settled a day ago"
    later(days=31)
    retention.prune()
    assert (DeadLetter.objects.get().message, DeadLetter.objects.get().error_type) == ("", "KeyError")


@pytest.mark.parametrize("status", ["awaiting", "approved", "delivering", "unknown"])
def test_an_action_that_is_not_settled_keeps_what_it_came_from(ann: User, status: str) -> None:
    run = story()
    builders.action(by=ann, run=run, status=status, leased_until=clock.now())
    retention.prune()
    assert keeps_all(run)


def test_a_run_that_waits_a_month_and_a_request_that_waits_a_week_outlive_every_round(
    connection: Connection, ann: User, ben: User, later: Later
) -> None:
    """Retention of a day, a round of everything each day: none who waits is cleared away, and nothing happens early."""

    def patient(run: Durable) -> Any:
        run.sleep("a month", timedelta(days=30))
        return dict(act(run, "order", kind="shop.order", expires=timedelta(days=7).total_seconds()))

    def goes_on(days: int) -> None:
        for _ in range(days):
            settle(2)
            retention.prune()
            later(days=1)

    with serving() as shop, handling(patient), override_settings(RETENTION_DAYS=1):
        run = builders.run("story", event=builders.event(requester=ann))
        goes_on(29)
        assert (Run.objects.get(pk=run.pk).status, Action.objects.exists()) == ("waiting", False)
        goes_on(2)
        asked = Action.objects.get()
        goes_on(5)
        assert (Run.objects.get(pk=run.pk).status, now_of(asked).status, shop.sent) == ("waiting", "awaiting", [])
        say(asked, ben)
        settle()
        assert (Run.objects.get(pk=run.pk).status, len(shop.sent)) == ("succeeded", 1)
        assert audited.look() == []


def test_a_pinned_event_is_kept_whole_until_it_is_no_longer(ann: User, sign_in: Any, later: Later) -> None:
    run = story()
    browser = sign_in(ann)
    assert "Keep it longer" in browser.get(f"/events/{run.event_id}").content.decode()
    browser.post(f"/events/{run.event_id}/pin", {"reason": "evidence in a dispute"})
    retention.prune()
    assert keeps_all(run)
    assert fresh_result(run) == "secret"
    page = browser.get(f"/events/{run.event_id}").content.decode()
    assert "evidence in a dispute" in page
    assert "by ann" in page
    browser.post(f"/events/{run.event_id}/pin/end")
    later(days=1, seconds=1)
    retention.prune()
    assert not keeps_all(run)
    assert list(Audit.objects.filter(kind="event").values_list("verb", flat=True)) == ["pin", "unpin"]
    with pytest.raises(PayloadGone):
        pinning.pin(run.event, by=ann, reason="too late")


def fresh_result(run: Run) -> Any:
    return Run.objects.get(pk=run.pk).result


def test_a_pin_says_why(ann: User) -> None:
    with pytest.raises(NotValid):
        pinning.pin(builders.event(), by=ann, reason=" ")
    with pytest.raises(NotValid, match="at most 2,000 characters"):
        pinning.pin(builders.event(), by=ann, reason="x" * 2001)


def test_what_a_bulk_job_will_take_is_kept_and_its_own_rows_go_with_the_years(ann: User, later: Later) -> None:
    run, trigger = story(), builders.trigger("story")
    job = bulk.press("run_again", Event.objects.all(), by=ann, filter={}, triggers=[trigger], canary=0)
    retention.prune()
    assert keeps_all(run)
    bulk.cancel(job, by=ann)
    later(days=1, seconds=1)
    retention.prune()
    assert not keeps_all(run), "nobody will take it any more"
    later(days=31)
    retention.prune()
    job = Bulk.objects.get()
    assert (job.items.count(), job.tally) == (0, {"waiting": 1})


def test_nothing_runs_again_without_its_payload(ann: User) -> None:
    run, trigger = story(), builders.trigger("story")
    retention.prune()
    run = Run.objects.get(pk=run.pk)
    for again in (
        lambda: redrive.rerun(run, by=ann),
        lambda: redrive.rerun(run, by=ann, from_step="step 1", data={"card": "new"}),
        lambda: redrive.run_event_again(run.event, trigger, by=ann),
    ):
        with pytest.raises(PayloadGone):
            again()
    assert Run.objects.count() == 1
    assert redrive.rerun(run, by=ann, data={"card": "new"}).data_json == '{"card": "new"}'


def test_nor_without_what_a_person_made_of_it(ann: User) -> None:
    run = story()
    edited = redrive.rerun(run, by=ann, data={"card": "new"})
    Run.objects.filter(pk=edited.pk).update(status="succeeded", finished_at=run.finished_at)
    retention.prune()
    with pytest.raises(PayloadGone):
        redrive.rerun(Run.objects.get(pk=edited.pk), by=ann)


def test_thousands_go_in_pieces_and_a_round_that_was_cut_short_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """BG-04: no statement names more rows than a piece, and what is done stays done."""
    monkeypatch.setattr(retention, "PIECE", 10)
    then = clock.now() - OLD
    for _ in range(35):
        builders.event(received_at=then)
    emptied, pieces = retention.empty_some_events, []

    def cut_short(ids: list[int], now: Any) -> int:
        if len(pieces) == 2:
            raise KeyboardInterrupt
        pieces.append(len(ids))
        return emptied(ids, now)

    monkeypatch.setattr(retention, "empty_some_events", cut_short)
    with pytest.raises(KeyboardInterrupt):
        retention.prune()
    monkeypatch.setattr(retention, "empty_some_events", emptied)
    assert Event.objects.filter(pruned_at=None).count() == 15
    with CaptureQueriesContext(database) as asked:
        assert retention.prune()["events"] == 15
    named = [len(ids.split(",")) for sql in asked for ids in re.findall(r" IN \(([^()]*)\)", sql["sql"])]
    assert 5 < max(named) <= 10
    assert not Event.objects.filter(pruned_at=None).exists()


def test_a_round_does_not_read_again_what_it_emptied_before() -> None:
    story()
    retention.prune()
    until = Counted.objects.get(name="pruned events").until
    assert until == Event.objects.get().received_at
    assert retention.begin_at("events", again=True) == until


def test_the_command_counts_first_and_does_it_then() -> None:
    story()
    told = io.StringIO()
    call_command("prune", dry_run=True, stdout=told)
    assert "1  events would go" in told.getvalue()
    assert Event.objects.filter(pruned_at=None).count() == 1
    call_command("prune", stdout=told, stderr=io.StringIO())
    assert "1  events gone" in told.getvalue()


def test_the_command_counts_everything_that_goes(ann: User) -> None:
    then = clock.now() - OLD
    run = story()
    Event.objects.filter(pk=run.event_id).update(credentials="sealed")
    source = builders.source()
    Seen.objects.create(source_id=source.pk, key="k", event=run.event_id, until=then)
    for age in (OLD, *[timedelta(0)] * (retention.REFUSALS_A_SOURCE + 3)):
        Refusal.objects.create(source=source, at=clock.now() - age, reason="unsigned", answered=401, credentials="x")
    times = {"first_at": then, "last_at": then, "settled_at": then}
    DeadLetter.objects.create(
        kind="run", run=run, status="dismissed", error_type="E", message="secret", fingerprint="f", **times
    )
    Counted.objects.create(name=f"{ALARM}f", until=then)
    Blob.objects.create(sha256="0" * 64, text="1", size=1, stored_at=then)
    trigger = builders.trigger("story")
    ScheduleFire.objects.create(source=source, fire_at=then, fired_at=then, outcome="missed")
    job = bulk.press("run_again", Event.objects.all(), by=ann, filter={}, triggers=[trigger])
    job.move("cancel", ended_at=then)
    way = builders.connection("shop")
    Click.objects.create(connection=way, claim="1", identity="T/U", outcome="already_decided", at=then)
    counted = retention.due()
    assert all(counted.values()), "each kind has something to go"
    assert counted["refusals"] == 1 + 3
    done = retention.prune()
    # an old refusal is gone before its headers are asked
    assert {**done, "credentials": done["credentials"] + 1} == counted


def a_story_of_people(ann: User, ended: timedelta | None) -> Action:
    """Ann was asked by a message that was brought up to date, pressed in vain, and a program was called back."""
    then = clock.now() - (ended or OLD)
    status = {"status": "rejected", "settled_at": then} if ended else {"status": "awaiting"}
    row, _ = ApiToken.objects.all().issue(user=ann, service="", name="agent", scopes=["propose"])
    action = builders.action(by=ann, token=row, **status)
    way = Connection.objects.create(slug=f"chat-{action.pk}", system="slack")
    channel = Channel.objects.create(person=ann, connection=way, created_at=then)
    closed = {"closed_at": then if ended else None, "asked_at": then}
    asking = Asking.objects.create(action=action, revision=1, digest=action.digest, **closed)
    given = {"asking": asking, "channel": channel, "person": ann, "status": "sent", "due_at": then, "sent_at": then}
    first = Notice.objects.create(what="ask", **given)
    Notice.objects.create(what="end", follows=first, **given)
    for outcome in ("changed", "approved"):
        Click.objects.create(connection=way, claim=outcome, identity="T/U", outcome=outcome, at=then)
    Proposal.objects.create(action=action, key="one", body_digest="sha256:1", number=1)
    CallBack.objects.create(action=action, sealed_url="x", due_at=None if ended else then)
    return action


PEOPLE = (Asking, Notice, Click, Proposal, CallBack)


def test_messages_and_requests_go_with_the_years_and_what_people_decided_stays(ann: User) -> None:
    action = a_story_of_people(ann, OLD)
    assert retention.due()["messages"] == 6
    assert retention.prune()["messages"] == 6
    assert [model.objects.count() for model in PEOPLE] == [0, 0, 1, 0, 0]
    assert Click.objects.get().outcome == "approved"
    assert Action.objects.get() == action


@pytest.mark.parametrize("revoked", [True, False])
def test_an_address_that_is_never_called_any_more_goes_with_its_token(ann: User, revoked: bool) -> None:
    action = a_story_of_people(ann, OLD)
    CallBack.objects.update(due_at=clock.now())
    if revoked:
        ApiToken.objects.get(pk=action.token_id).revoke()
    retention.prune()
    assert CallBack.objects.exists() is not revoked


@pytest.mark.parametrize("ended", [None, timedelta(days=29)], ids=["still open", "young"])
def test_messages_about_what_is_open_or_young_stay(ann: User, ended: timedelta | None) -> None:
    a_story_of_people(ann, ended)
    Click.objects.update(at=clock.now())
    retention.prune()
    assert [model.objects.count() for model in PEOPLE] == [1, 2, 2, 1, 1]


def test_the_page_of_an_old_event_still_opens(ann: User, sign_in: Callable[[User], Client]) -> None:
    run = story()
    retention.prune()
    browser = sign_in(ann)
    assert "removed" in browser.get(f"/events/{run.event_id}").content.decode()
    for tab in ("timeline", "log", "payload", "history"):
        assert browser.get(f"/runs/{run.pk}?tab={tab}").status_code == 200
    assert browser.get(f"/runs/{run.pk}?step=step+1").status_code == 200
    told = browser.get(f"/api/v1/events/{run.event_id}").json()
    assert (told["data"], told["pruned_at"] is None) == (None, False)
