"""What holds runs back is typed in plain words and said where people look for it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from project.lib import clock
from project.people.models import User
from tests import builders
from tests.triggers.test_forms import typed
from triggers.limits import read_limits
from triggers.models import Breaker, Gathered, Run, Slot, Trigger
from triggers.views.holds import briefs_of

pytestmark = pytest.mark.django_db
Browsers = Callable[[User], Client]
ALL = {
    "at_once": "2",
    "busy": "cancel_running",
    "busy_key": "event.data.customer",
    "waiting_counts": "on",
    "rate": "10",
    "rate_period": "60",
    "quiet": "5",
    "quiet_most": "20",
    "quiet_key": "event.subject",
    "queue_limit": "500",
    "when_full": "block",
}


def post(browser: Client, **fields: Any) -> Any:
    return browser.post(reverse("trigger-new"), typed(**fields))


def test_every_limit_is_typed_saved_and_shown_again(owner: User, sign_in: Browsers) -> None:
    builders.source("github")
    browser = sign_in(owner)
    post(browser, **ALL)
    row = Trigger.objects.get(slug="triage")
    told = {name: row.limits[name] for name in ("concurrency", "rate_limit", "debounce", "queue")}
    assert told == {
        "concurrency": {
            "limit": 2,
            "key": "event.data.customer",
            "when_busy": "cancel_running",
            "waiting_counts": True,
        },
        "rate_limit": {"limit": 10, "period": 60.0, "key": ""},
        "debounce": {"period": 5.0, "max_wait": 20.0, "key": "event.subject"},
        "queue": {"limit": 500, "when_full": "block"},
    }
    form = browser.get(reverse("trigger-edit", args=["triage"])).context["form"]
    assert {name: str(form[name].value()) for name in ALL if name != "waiting_counts"} == {
        name: value for name, value in ALL.items() if name != "waiting_counts"
    }
    assert form["waiting_counts"].value() is True


def test_an_empty_first_field_lifts_the_limit(owner: User, sign_in: Browsers) -> None:
    builders.source("github")
    browser = sign_in(owner)
    post(browser, **ALL)
    row = Trigger.objects.get(slug="triage")
    emptied = {**typed(**ALL), "at_once": "", "rate": "", "quiet": "", "queue_limit": "", "version": str(row.version)}
    browser.post(reverse("trigger-edit", args=["triage"]), emptied)
    assert set(Trigger.objects.get(slug="triage").limits) == {"timeout", "retries"}


def test_a_schedule_starts_one_at_a_time_until_that_is_lifted(owner: User, sign_in: Browsers) -> None:
    builders.source("clock", kind="schedule", provider="", secrets=(), config={"every": 60})
    browser = sign_in(owner)
    post(browser, source="clock", type_pattern="**")
    row = Trigger.objects.get(slug="triage")
    assert row.limits["concurrency"]["when_busy"] == "skip"
    lifted = {**typed(source="clock", type_pattern="**"), "version": str(row.version)}
    browser.post(reverse("trigger-edit", args=["triage"]), lifted)
    assert "concurrency" not in Trigger.objects.get(slug="triage").limits


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"at_once": "1", "busy_key": "event.data.("}, "busy_key"),
        ({"quiet": "60", "quiet_most": "5"}, "quiet"),
        ({"at_once": "0"}, "at_once"),
        ({"queue_limit": "1", "when_full": "explode"}, "when_full"),
    ],
)
def test_what_makes_no_sense_is_said_beside_its_field(
    owner: User, sign_in: Browsers, fields: dict[str, str], field: str
) -> None:
    builders.source("github")
    answer = post(sign_in(owner), **fields)
    assert answer.status_code == 422
    assert answer.context["form"].errors[field]
    assert answer.context["form"].is_limited, "the fold is open"
    top = answer.content.decode().partition('<form class="stack')[0]
    assert "Not saved: 1 field needs a look:" in top
    assert f'<a href="#id_{field}">Limits · ' in top


def opened(**fields: Any) -> Breaker:
    now = clock.now()
    until = now + timedelta(minutes=5)
    return Breaker.objects.create(handler="triage-issue", failures=5, opened=1, opened_at=now, until=until, **fields)


def test_an_open_breaker_is_said_on_every_page_it_concerns(ann: User, sign_in: Browsers) -> None:
    trigger = builders.trigger("triage-issue", slug="triage")
    run = builders.run(trigger=trigger)
    opened()
    browser = sign_in(ann)
    for address in (
        reverse("handlers"),
        reverse("handler", args=["triage-issue"]),
        reverse("trigger-edit", args=["triage"]),
    ):
        assert b"The breaker of triage-issue is open" in browser.get(address).content
    page = browser.get(reverse("run", args=[run.pk])).content
    assert b"Held by the breaker until" in page
    assert b"<span>Held by the breaker of triage-issue</span>" in page, "its row of the timeline says the same"
    assert b"Wait for a worker" not in page


def test_an_operator_closes_it_and_a_viewer_cannot(ann: User, ben: User, sign_in: Browsers) -> None:
    opened()
    given = {"handler": "triage-issue"}
    assert sign_in(ben).post(reverse("breaker-close"), given).status_code == 403
    assert b"Close it now" not in sign_in(ben).get(reverse("handlers")).content
    answer = sign_in(ann).post(reverse("breaker-close"), given)
    assert answer.url == reverse("handler", args=["triage-issue"])
    assert not Breaker.objects.exists()


def test_a_run_says_what_it_waits_for(ann: User, sign_in: Browsers) -> None:
    limits = {
        "concurrency": {"limit": 1, "key": "event.data.customer"},
        "rate_limit": {"limit": 1, "period": 60},
        "debounce": {"period": 60},
    }
    trigger = builders.trigger("triage-issue", limits=read_limits(limits))
    soon = clock.now() + timedelta(minutes=5)
    browser = sign_in(ann)

    def said(**fields: Any) -> str:
        run = builders.run(trigger=trigger, **fields)
        page: bytes = browser.get(reverse("run", args=[run.pk])).content
        return page.decode()

    gathers, slowed = said(gather_key="", due_at=soon), said(rate_key="", not_before=soon, due_at=soon)
    assert ("Gathers events until" in gathers, "<span>Gathers events</span>" in gathers) == (True, True)
    assert "Its turn comes at" in slowed
    assert "<span>Held by the rate of its trigger</span>" in slowed
    working = builders.run(trigger=trigger, slot_key="anna", status="running", leased_until=soon)
    Slot.objects.create(trigger=trigger, key="anna", place=1, run=working, since=clock.now())
    assert "A run of its trigger is at work for “anna”" in said(slot_key="anna")
    assert "Waits for a worker" in said(slot_key="bert")
    assert "Ends within seconds" in said(cancel_requested_at=clock.now())


def test_the_list_says_why_each_run_is_queued_in_as_many_questions_as_for_one(
    ann: User, sign_in: Browsers, django_assert_num_queries: Callable[[int], Any]
) -> None:
    limits = read_limits({"concurrency": {"limit": 1}})
    trigger, soon = builders.trigger("triage-issue", limits=limits), clock.now() + timedelta(minutes=5)
    working = builders.run(trigger=trigger, status="running", leased_until=soon)
    Slot.objects.create(trigger=trigger, place=1, run=working, since=clock.now())
    held = [builders.run(trigger=trigger, slot_key="")]
    opened()
    broken = builders.run("triage-issue")
    Breaker.objects.update(probe=held[0])
    held.extend(builders.run(f"story-{number}") for number in range(5))
    now = clock.now()
    with django_assert_num_queries(3):
        told = briefs_of([working, broken, *held], now)
    words = ["held by the breaker of triage-issue", "waits for a slot", *["no worker has taken it yet"] * 5]
    assert told == dict(zip([broken.pk, *(run.pk for run in held)], words, strict=True))
    assert b"held by the breaker of triage-issue" in sign_in(ann).get(reverse("runs")).content


def test_a_gathered_event_leads_to_its_run_and_the_run_to_its_events(ann: User, sign_in: Browsers) -> None:
    trigger = builders.trigger("triage-issue", slug="triage")
    told = [{"trigger": "triage", "outcome": "gathered", "detail": "an earlier event's run gathers it", "run": 1}]
    first, last = builders.event(), builders.event(outcomes=told)
    run: Run = builders.run(trigger=trigger, event=last)
    for event in (first, last):
        Gathered.objects.create(run=run, event=event)
    browser = sign_in(ann)
    assert reverse("run", args=[run.pk]).encode() in browser.get(reverse("event", args=[first.pk])).content
    page = browser.get(reverse("run", args=[run.pk])).content
    assert all(f"E-{event.pk}</a>".encode() in page for event in (first, last))
