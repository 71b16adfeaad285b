"""The database refuses, or its answer is lost: the transaction is written again, and nothing is counted twice."""

import sqlite3
from collections.abc import Callable, Iterator

import psycopg
import pytest
from django.db import OperationalError, connection, transaction

from project.lib import failpoints, retrying
from tests import builders
from triggers import registry
from triggers.durable import Durable
from triggers.execute import execute
from triggers.history import History
from triggers.journal import Journal
from triggers.models import Event, Step
from triggers.models.run import LOADED

pytestmark = pytest.mark.django_db(transaction=True)

CALLS: list[str] = []
Fault = Callable[[], None]


def refuse() -> None:
    raise OperationalError("not now") from psycopg.errors.SerializationFailure()


def stop() -> None:
    raise SystemExit


def lose_the_answer() -> None:
    """The commit goes through, and the line is cut."""
    transaction.on_commit(refuse)


@pytest.fixture
def faults() -> Iterator[list[Fault]]:
    """What happens, one after another, at the end of the transactions of a run."""
    waiting: list[Fault] = []

    def reached(place: str) -> None:
        if place == "before_journal_commit" and waiting:
            waiting.pop(0)()

    failpoints.reached = reached
    CALLS.clear()
    yield waiting
    failpoints.reached = None


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(run: Durable) -> int:
        number = run.step("count", lambda: CALLS.append("count") or len(CALLS))
        run.emit(type="counted", data=number)
        return int(number)

    monkeypatch.setattr(registry, "HANDLERS", {})
    registry.handler("counts")(work)


@pytest.mark.parametrize("fault", [refuse, lose_the_answer])
@pytest.mark.parametrize("place", [0, 1, 2], ids=["step", "emit", "end"])
def test_a_refused_or_unheard_commit_is_made_good(faults: list[Fault], handler: None, fault: Fault, place: int) -> None:
    run = builders.run("counts")
    faults += [lambda: None] * place + [fault]
    execute(run.pk)

    run.refresh_from_db()
    assert (run.status, run.attempt, run.crashes, run.result) == ("succeeded", 1, 0, 1)
    assert CALLS == ["count"], "the function is not called again"
    assert list(Step.objects.order_by("seq").values_list("seq", "name")) == [(1, "count"), (2, "emit")]
    assert Event.objects.filter(type="counted").count() == 1


def test_a_database_that_stays_away_gives_the_run_back_uncounted(
    faults: list[Fault], handler: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "PATIENCE", 0.1)
    run = builders.run("counts")
    faults += [refuse] * 3
    execute(run.pk)

    run.refresh_from_db()
    assert (run.status, run.attempt, run.crashes) == ("queued", 1, 0)
    faults.clear()
    execute(run.pk)
    run.refresh_from_db()
    assert (run.status, run.attempt, run.result) == ("succeeded", 1, 2)


def test_a_step_that_was_written_unheard_is_not_written_twice(handler: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its one statement is a whole transaction: the line may be cut once it is done."""
    add = Journal.add

    def cut(journal: Journal, step: Step) -> None:
        add(journal, step)
        transaction.on_commit(refuse)

    monkeypatch.setattr(Journal, "add", cut)
    CALLS.clear()
    run = builders.run("counts")
    execute(run.pk)
    run.refresh_from_db()
    assert (run.status, run.attempt, run.result, CALLS) == ("succeeded", 1, 1, ["count"])
    assert list(run.steps.order_by("seq").values_list("name", "seq")) == [("count", 1), ("emit", 2)]


@pytest.mark.parametrize("fault", [refuse, stop], ids=["the database", "a worker that is told to end"])
def test_what_fails_beside_a_run_that_was_taken_up_gives_it_back_at_once(handler: None, fault: Fault) -> None:
    """The look for another run that is due: this one would wait for its lease to run out, and count as a crash."""
    run = builders.run("counts")
    CALLS.clear()
    with pytest.raises((OperationalError, SystemExit)):
        execute(run.pk, on_claim=fault)
    run.refresh_from_db()
    assert (run.status, run.lease_owner, run.attempt, run.crashes, CALLS) == ("queued", "", 1, 0, [])
    execute(run.pk)
    run.refresh_from_db()
    assert (run.status, run.fence, CALLS) == ("succeeded", 3, ["count"])


def test_so_does_a_memory_that_cannot_be_read(handler: None, monkeypatch: pytest.MonkeyPatch) -> None:
    run = builders.run("counts")
    monkeypatch.setattr(History, "__init__", lambda *_, **__: refuse())
    with pytest.raises(OperationalError):
        execute(run.pk)
    run.refresh_from_db()
    assert (run.status, run.crashes) == ("queued", 0)


def test_a_line_that_was_cut_between_two_tasks_is_noticed_before_the_next_one_begins() -> None:
    """Workers keep their connections: the first statement of a task asks whether its own still lives."""
    run = builders.run("counts")
    assert LOADED(pk=run.pk) == [run]
    connection.health_check_enabled, connection.health_check_done = True, False  # as a task begins
    if connection.vendor == "postgresql":
        connection.connection.close()
    assert LOADED(pk=run.pk) == [run]


def test_a_fault_of_what_was_asked_is_not_asked_again() -> None:
    tries = []

    @retrying.retried
    def ask() -> None:
        tries.append(1)
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM nowhere")

    with pytest.raises(Exception, match="nowhere"):
        ask()
    assert tries == [1]


def test_which_refusals_pass_by_themselves() -> None:
    def caused(cause: Exception) -> OperationalError:
        error = OperationalError("refused")
        error.__cause__ = cause
        return error

    busy, broken = sqlite3.OperationalError("database is locked"), sqlite3.OperationalError("near FROM")
    busy.sqlite_errorcode, broken.sqlite_errorcode = sqlite3.SQLITE_BUSY, sqlite3.SQLITE_ERROR  # type: ignore[misc]
    assert retrying.passes(caused(busy))
    assert not retrying.passes(caused(broken))
    for cause in (psycopg.errors.DeadlockDetected(), psycopg.errors.AdminShutdown(), psycopg.OperationalError("gone")):
        assert retrying.passes(caused(cause))
    assert not retrying.passes(caused(psycopg.errors.InsufficientPrivilege()))
