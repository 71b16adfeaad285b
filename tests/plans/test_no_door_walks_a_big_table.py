"""Every question a desk asks again and again, on 100,000 rows of each kind: by an index, never by a walk or a sort.

NIGHTDESK_ROWS=1000000 asks the same of ten times as many (`python -m bench plans`)."""

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from project import context, figures
from project.agent.telling import costs_of
from project.lib import clock
from project.people.models import User
from tests import builders
from tests.database import empty_the_database
from tests.handlers import registered
from tests.nodding import carry_out
from tests.plans import rows
from tests.plans.plans import check, plans_of
from triggers import dispatch, retention, waking
from triggers.envelope import Arrival
from triggers.execute import execute
from triggers.ingest import ingest, match_stored
from triggers.models import DeadLetter, Run, Source
from triggers.views.dead_letters import causes_of

pytestmark = pytest.mark.django_db
ROWS = int(os.environ.get("NIGHTDESK_ROWS", "100000"))
PAGES = [
    "/",
    "/events",
    "/events?source=github",
    "/events?type=order.3",
    "/events?status=ignored",
    "/runs",
    "/runs?status=dead",
    "/runs?status=waiting",
    "/runs?handler=handler-3",
    "/actions",
    "/actions?status=unknown",
    "/actions?status=delivered",
    "/actions?kind=github.comment",
    "/approvals",
    "/dead-letters",
    "/triggers",
    "/sources",
    "/audit",
    "/find?q=order-17",
]


@pytest.fixture(scope="module", autouse=True)
def _a_long_life(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Filled once for the whole file; each test takes back what it does."""
    with django_db_blocker.unblock():
        empty_the_database()
        rows.a_long_life(ROWS)
        yield
        empty_the_database()


def test_a_worker_finds_what_is_due() -> None:
    check(dispatch.next_due, "runs_due_by_trigger")


def test_a_worker_claims_a_run_works_and_ends_it() -> None:
    with registered("story", lambda run: run.step("look", lambda: 1)):
        run = builders.run("story")
        check(lambda: execute(run.pk))


def test_the_bells_ring_for_what_is_due() -> None:
    check(dispatch.ring_due, "runs_due_by_trigger")


def test_lost_workers_are_noticed() -> None:
    check(dispatch.reclaim_lost, "runs_leased")


def test_those_whose_time_has_come_wake() -> None:
    check(lambda: waking.expire_batch(clock.now()), "runs_to_wake")


def test_a_crowd_that_is_due_at_one_moment_is_not_sorted_anew_for_each_batch() -> None:
    """Among equals the index has no order: whoever asks for one has PostgreSQL sort all of them, a million too."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_sort = off; SET LOCAL enable_incremental_sort = off")  # unless it must
    plans = plans_of(lambda: waking.expire_batch(clock.now()))
    assert [plan.sql for plan in plans if "Sort" in plan.text or "TEMP B-TREE" in plan.text] == []


def test_an_event_finds_who_waits_for_it() -> None:
    event = builders.event("order.paid", subject="order-2")
    check(lambda: waking.wake_waits([event.pk]), "waits_pending")


def test_a_wait_finds_the_event_that_came_before() -> None:
    waiting = Run.objects.filter(status="waiting").order_by("pk")[7]
    check(lambda: waking.look_for_event(waiting.pk))


def test_the_walk_over_all_waits_goes_page_by_page() -> None:
    check(lambda: waking.repair(0))


def test_stored_events_are_matched() -> None:
    builders.event("order.1", status="accepted")
    check(lambda: match_stored(None), "events_to_match")


def test_a_delivery_is_taken() -> None:
    source = Source.objects.get(slug="github")
    keys = [("id:new", "duplicate"), ("id:7", "duplicate")]
    check(lambda: ingest([Arrival(source.pk, "github", "new", "/github", "order.1", raw=b"{}", keys=keys[:1])]))
    check(lambda: ingest([Arrival(source.pk, "github", "old", "/github", "order.1", raw=b"{}", keys=keys)]))


def test_the_machines_round_as_a_whole() -> None:
    check(dispatch.tick)


def test_the_desk_finds_what_is_due_overdue_lost_or_unknown() -> None:
    check(carry_out, "actions_by_status")


def test_home_asks_for_the_newest_runs_by_when_they_ended() -> None:
    """Nearly all have succeeded: by that SQLite found them all, and sorted them by their end."""
    check(lambda: figures.results(clock.now()), "runs_by_end")


def test_the_letters_of_a_cause_are_counted_by_their_time(owner: User, sign_in: Callable[[User], Client]) -> None:
    browser = sign_in(owner)
    check(lambda: browser.get("/dead-letters"), "letters_of_a_cause")


@pytest.mark.parametrize(
    ("page", "index"),
    [
        ("/approvals", "actions_by_status"),
        ("/actions", "actions_of_a_status"),
        ("/actions?status=rejected", "actions_of_a_status"),
        ("/actions?tier=high", "actions_of_a_tier"),
        ("/dead-letters", "letters_by_cause"),
        ("/events?status=invalid", "events_not_routed"),
        ("/runs?trigger=trigger-1", "runs_by_trigger"),
        ("/runs?trigger=resting", "runs_by_trigger"),
        ("/triggers/trigger-1", "runs_by_trigger"),
        ("/triggers/trigger-1", "runs_due_by_trigger"),
        ("/", "audit_of_take_backs"),
    ],
)
def test_a_page_takes_the_index_that_was_made_for_it(
    page: str, index: str, owner: User, sign_in: Callable[[User], Client]
) -> None:
    builders.trigger("story", slug="resting")  # none of all the runs is its own
    browser = sign_in(owner)
    check(lambda: browser.get(page), index)


def test_the_clock_of_a_source_whose_events_tell_no_time_is_looked_for_among_few(
    owner: User, sign_in: Callable[[User], Client]
) -> None:
    browser = sign_in(owner)
    plans = plans_of(lambda: browser.get("/sources/github"))
    timed = [plan.sql for plan in plans if '"triggers_event"."time"' in plan.sql]
    assert timed
    assert [text for text in timed if '"time" IS NOT NULL' in text] == []


def test_what_waits_is_counted_without_a_look_at_its_rows() -> None:
    """Nor are the causes of dead letters, by which Home and their own list begin."""
    texts = [plan.text for plan in plans_of(context.counted)]
    texts += [plan.text for plan in plans_of(lambda: list(causes_of(DeadLetter.objects.filter(status="open"))))]
    alone = "Index Only Scan" if connection.vendor == "postgresql" else "COVERING INDEX"
    assert [text for text in texts if alone not in text or "Seq Scan" in text] == []


def test_what_handlers_took_is_asked_of_what_was_paid_not_of_all_their_runs() -> None:
    plans = plans_of(lambda: costs_of([f"handler-{number}" for number in range(rows.HANDLERS)]))
    assert [plan for plan in plans if "runs_of_a_handler" in plan.indexes] == []


def test_what_is_old_goes() -> None:
    clock.shift = timedelta(hours=12)
    try:
        check(retention.prune)
    finally:
        clock.shift = timedelta(0)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_a_list(page: str, owner: User, sign_in: Callable[[User], Client]) -> None:
    browser = sign_in(owner)
    check(lambda: browser.get(page))
