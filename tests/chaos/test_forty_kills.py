"""SIGKILL to web, worker, desk, beat, listen and Valkey in turn, under load: nothing accepted is lost or doubled."""

import os
from collections.abc import Iterator

import pytest

from tests.chaos.conftest import SHORT_CALLS, SlowGitHub, connect
from tests.chaos.load import HANDLER, TRIGGER, Caller
from tests.processes import NAMES, Desk, desk
from tests.recorder import Recorder

KILLS = 20 * int(os.environ.get("NIGHTDESK_CHAOS_ROUNDS", "1"))  # on each database
UNFINISHED = "status NOT IN ('succeeded', 'dead', 'cancelled')"

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600 + 30 * KILLS)]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[Desk]:
    database = request.getfixturevalue("postgres_server") if request.param == "postgres" else ""
    with desk(database, EGRESS_ALLOW="127.0.0.1") as made:
        made.handlers(SHORT_CALLS, name="short_calls")
        made.handlers(HANDLER, name="orders")
        yield made
        made.tell()


def test_every_yes_has_its_event_its_run_and_its_effect_once(
    store: Desk, github: SlowGitHub, far_side: Recorder
) -> None:
    store.start()
    connect(store, far_side)
    secret = store.python(TRIGGER).split()[-1]
    with Caller(store, secret) as caller:
        for number in range(KILLS):
            before = len(caller.answered)
            store.kill(NAMES[number % len(NAMES)])
            store.until(lambda before=before: len(caller.answered) > before + 5, seconds=60)
    store.until(lambda: is_idle(store), seconds=120, every=0.5)

    assert caller.surprises == []
    assert_every_answer_was_true(store, caller)
    assert_every_event_ran_once(store)
    told = sorted(int(item["issue"]) - 1 for item in github.comments)
    assert told == [order for order in sorted(caller.answered) if order % 10 == 0]
    assert "database is locked" not in store.log


def assert_every_answer_was_true(store: Desk, caller: Caller) -> None:
    stored = dict(store.rows("SELECT ce_id, id FROM triggers_event WHERE source_slug = 'generic'"))
    assert len(stored) == store.count("triggers_event", "source_slug = 'generic'"), "an event is stored once"
    assert {f"order-{order}": seq for order, seq in caller.answered.items()} == stored
    assert {order: stored[f"order-{order}"] for order in caller.twice} == caller.twice


def assert_every_event_ran_once(store: Desk) -> None:
    ran = dict(store.rows("SELECT e.id, count(r.id) FROM triggers_event e LEFT JOIN triggers_run r ON r.event_id = e.id"
                          " WHERE e.source_slug = 'generic' GROUP BY e.id"))  # fmt: skip
    assert set(ran.values()) == {1}
    ends = store.rows("SELECT status, reason, count(*) FROM triggers_run WHERE handler = 'take-order' GROUP BY 1, 2")
    assert {status for status, _, _ in ends} == {"succeeded"}, ends
    twice = "SELECT run_id, name FROM triggers_step GROUP BY run_id, name HAVING count(*) > 1"
    assert store.rows(twice) == []


def is_idle(store: Desk) -> bool:
    open_actions = "status IN ('awaiting', 'approved', 'delivering', 'unknown')"
    return not (
        store.count("triggers_run", UNFINISHED)
        or store.count("triggers_event", "status = 'accepted'")
        or store.count("approvals_action", open_actions)
    )
