"""SIGKILL at the named places, and to whatever lives, under load: each run ends once, each effect happens once.

The figures of a round are printed, with its seed. NIGHTDESK_CHAOS_SECONDS makes it last (`make chaos`).
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.chaos.conftest import SlowGitHub, connect
from tests.chaos.load import TRIGGER, Caller
from tests.chaos.striking import Plan
from tests.processes import NAMES, Desk, desk
from tests.recorder import Recorder

KILLS = 200  # at least, on each database
SECONDS = float(os.environ.get("NIGHTDESK_CHAOS_SECONDS", "0"))
MAIN_KILLS = 12  # of web, worker, desk, beat, listen and Valkey themselves, in turn, within a round of KILLS
BACKLOG = 40  # runs that are not done; with more, the caller waits
REFUSALS = {"sqlite": ("locked",), "postgres": ("serialization", "deadlock", "away")}
LIVE = "status NOT IN ('succeeded', 'dead', 'cancelled')"
OPEN = "status IN ('awaiting', 'approved', 'delivering', 'unknown')"

# `drawn` has a line for each execution of the first step, `seen` what the second one was given.
ORDERS = """
import uuid
from datetime import timedelta

from django.conf import settings
from approvals.act import act
from triggers.registry import handler


@handler("take-order")
def take_order(run):
    order = run.event.data["data"]["order"]
    drawn = run.step("draw", draw, order)
    if order % 4 == 1:
        run.sleep("nap", timedelta(seconds=0.5))
    if order % 4 == 2:
        act(run, "tell", kind="github.comment", repo="acme/shop", number=order + 1, body=drawn)
    if order % 4 == 3:
        run.emit(type="order.drawn", subject=drawn)
        run.wait_for("echo", type="order.drawn", source="/nightdesk", subject=drawn)
    run.step("see", see, order, drawn)
    return drawn


def draw(order):
    return write("drawn", order, str(uuid.uuid4()))


def see(order, drawn):
    write("seen", order, drawn)


def write(name, order, value):
    with open(settings.DATA_DIR / name, "a") as file:
        file.write(f"{order} {value}\\n")
    return value
"""

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900 + int(SECONDS) * 2)]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[Desk]:
    database = request.getfixturevalue("postgres_server") if request.param == "postgres" else ""
    with desk(database, EGRESS_ALLOW="127.0.0.1") as made:
        made.handlers(ORDERS, name="orders")
        yield made
        made.tell()


def test_each_run_ends_once_and_each_effect_happens_once(store: Desk, github: SlowGitHub, far_side: Recorder) -> None:
    plan = Plan(store, seed=time.time_ns() % 1_000_000)
    store.start("--workers", "6")
    connect(store, far_side)
    with Caller(store, store.python(TRIGGER).split()[-1], pause=0.3) as caller:
        plan.strike(*faults("postgres" if store.database_url else "sqlite"))
        until_enough(plan, caller)
    plan.rest()
    wait_for_the_end(store)

    print(f"seed {plan.seed}: {plan.deaths} deaths, {len(caller.answered)} orders, {caller.refused} refused")
    assert caller.surprises == []
    assert plan.struck("fail")
    assert plan.struck("commit")
    assert_every_answer_was_true(store, caller)
    assert_every_run_ended_once(store)
    assert_journals_are_what_steps_saw(store)
    assert_every_effect_happened_once(store, github)
    assert_nothing_is_left(store)


def faults(database: str) -> list[str]:
    """Pool children die often, since they are back at once; web seldom: it passes the last two."""
    refused = [f"before_journal_commit {how}:{what} 0.01" for what in REFUSALS[database] for how in ("fail", "commit")]
    refused += [f"before_journal_commit {how}:{REFUSALS[database][0]} #20" for how in ("fail", "commit")]  # for certain
    rare = ["after_ingest_commit kill 0.004", "before_ring kill 0.004"]
    return ["* kill 0.06", "before_journal_commit kill 0.03", *refused, *rare]


def until_enough(plan: Plan, caller: Caller) -> None:
    """Strike from outside, too: a child now and then, and each process of the desk in its turn."""
    shop, began, main = plan.shop, time.monotonic(), 0
    while plan.deaths < KILLS or time.monotonic() - began < SECONDS:
        time.sleep(0.4)
        plan.kill_a_child()
        busy = shop.count("triggers_run", LIVE) > BACKLOG
        caller.held.set() if busy else caller.held.clear()
        if plan.deaths > main * KILLS / MAIN_KILLS and (pid := shop.main(NAMES[main % len(NAMES)])):
            plan.kill(pid)
            main += 1
    assert main >= MAIN_KILLS or SECONDS


def wait_for_the_end(store: Desk) -> None:
    """Until nothing is left to do; a bound on liveness."""
    try:
        store.until(lambda: not unfinished(store), seconds=180, every=0.5)
    except TimeoutError:
        raise AssertionError(f"still at work: {unfinished(store)}") from None


def unfinished(store: Desk) -> list[tuple[object, ...]]:
    return [
        *store.rows(f"SELECT id, status, reason, fence, waiting_for, due_at FROM triggers_run WHERE {LIVE}"),
        *store.rows("SELECT id, type FROM triggers_event WHERE status = 'accepted'"),
        *store.rows(f"SELECT id, kind, status, tries, not_before, leased_until FROM approvals_action WHERE {OPEN}"),
    ]


def assert_every_answer_was_true(store: Desk, caller: Caller) -> None:
    stored = dict(store.rows("SELECT ce_id, id FROM triggers_event WHERE source_slug = 'generic'"))
    assert len(stored) == store.count("triggers_event", "source_slug = 'generic'"), "an event is stored once"
    assert {f"order-{order}": seq for order, seq in caller.answered.items()} == stored
    assert {order: stored[f"order-{order}"] for order in caller.twice} == caller.twice


def assert_every_run_ended_once(store: Desk) -> None:
    ran = store.rows("SELECT count(r.id) FROM triggers_event e LEFT JOIN triggers_run r ON r.event_id = e.id"
                     " WHERE e.source_slug = 'generic' GROUP BY e.id")  # fmt: skip
    assert {count for (count,) in ran} == {1}
    ends = store.rows("SELECT status, attempt, count(*) FROM triggers_run WHERE handler = 'take-order' GROUP BY 1, 2")
    assert {(status, attempt) for status, attempt, _ in ends} == {("succeeded", 1)}, "no attempt is lost to a crash"


def assert_journals_are_what_steps_saw(store: Desk) -> None:
    drawn, seen = told(store, "drawn"), told(store, "seen")
    rows = store.rows("SELECT r.result_json, s.result_json FROM triggers_run r JOIN triggers_step s ON s.run_id = r.id"
                      " WHERE r.handler = 'take-order' AND s.name = 'draw'")  # fmt: skip
    kept = {value.strip('"') for _, value in rows}
    assert all(result == value for result, value in rows)
    assert {value for values in seen.values() for value in values} == kept
    assert all(len(values) == 1 for values in seen.values()), "a later step saw nothing but what the journal holds"
    assert all(seen[order] <= drawn[order] for order in drawn)
    assert any(len(values) > 1 for values in drawn.values()), "no step was computed twice: nothing was proven"


def told(store: Desk, name: str) -> dict[int, set[str]]:
    found: dict[int, set[str]] = defaultdict(set)
    for line in (store.folder / name).read_text().splitlines():
        order, _, value = line.partition(" ")
        found[int(order)].add(value)
    return found


def assert_every_effect_happened_once(store: Desk, github: SlowGitHub) -> None:
    kept = {number: value for number, (value,) in told(store, "seen").items()}
    commented = sorted(int(item["issue"]) - 1 for item in github.comments)
    assert commented == sorted(order for order in kept if order % 4 == 2)
    assert store.rows("SELECT DISTINCT status FROM approvals_action") == [("delivered",)]


def assert_nothing_is_left(store: Desk) -> None:
    for table, where in (
        ("triggers_wait", "status = 'pending'"),
        ("triggers_run", "leased_until IS NOT NULL"),
        ("triggers_deadletter", "1 = 1"),
        ("approvals_action", "leased_until IS NOT NULL"),
        ("approvals_attempt", "outcome = 'sending'"),
    ):
        assert store.count(table, where) == 0, (table, where)
    twice = "SELECT run_id, name FROM triggers_step GROUP BY run_id, name HAVING count(*) > 1"
    assert store.rows(twice) == []
