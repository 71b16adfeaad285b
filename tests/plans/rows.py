"""A desk that has been at work for long: every big table filled by one INSERT … SELECT, on either database.

What is rare on a real desk is rare here: most runs have ended, most actions are delivered, some wait, few are due."""

from typing import Any

from django.db import connection
from django.db.models import Field, Model

from approvals.models import Act, Action, Attempt
from project.lib import clock
from tests import builders
from tests.plans.bulk import filling
from triggers.models import Audit, DeadLetter, Event, Run, Seen, Step, Wait

BIG: tuple[type[Model], ...] = (
    *(Event, Run, Step, Wait, DeadLetter, Seen, Audit),
    *(Action, Act, Attempt),
)
HANDLERS = 5
FIRST = 1_000  # ids below are those of single rows that a test makes
LIFE = 600_000  # seconds over which all of it came, a week, however much it is: most is kept for longer


def is_postgres() -> bool:
    return connection.vendor == "postgresql"


def ago(seconds: str) -> str:
    """SQL of the time `seconds` (SQL over n) before now; a negative number lies ahead."""
    now = clock.now().strftime("%Y-%m-%d %H:%M:%S")
    if is_postgres():
        return f"(TIMESTAMPTZ '{now}+00' - ({seconds}) * interval '1 second')"
    # As Django writes it: a fraction that is not zero, of six digits.
    return f"strftime('%Y-%m-%d %H:%M:%S', '{now}', (-({seconds})) || ' seconds') || '.000001'"


def fill(model: type[Model], count: int, *, where: str = "1=1", **columns: str) -> None:
    """Rows for n from 1 to `count` where it fits; `columns` are SQL over n, all others hold their defaults."""
    given = {"id": f"{FIRST} + n"} | columns
    names, values, params = [], [], []
    for field in model._meta.concrete_fields:
        names.append(f'"{field.column}"')
        if field.column in given:
            values.append(given[field.column].replace("%", "%%"))
        else:
            values.append(f"CAST(%s AS {field.db_type(connection)})" if is_postgres() else "%s")
            params.append(default_of(field))
    series = (
        f"SELECT n FROM generate_series(1, {count}) AS n"
        if is_postgres()
        else f"WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count}) SELECT n FROM s"
    )
    into = f'INSERT INTO "{model._meta.db_table}" ({", ".join(names)})'
    chosen = f"SELECT {', '.join(values)} FROM ({series}) AS numbers WHERE {where.replace('%', '%%')}"
    with connection.cursor() as cursor:
        cursor.execute(f"{into} {chosen}", params)


def default_of(field: "Field[Any, Any]") -> Any:
    value = None if field.null and not field.has_default() else field.get_default()
    return field.get_db_prep_save(value, connection)


def share(*shares: tuple[int, str], rest: str) -> str:
    """SQL of a text by parts of a thousand: `share((10, "dead"), rest="succeeded")` makes 10 of 1000 dead."""
    upto, cases = 0, []
    for some, text in shares:
        upto += some
        cases.append(f"WHEN n % 1000 < {upto} THEN '{text}'")
    return f"CASE {' '.join(cases)} ELSE '{rest}' END"


def a_long_life(count: int) -> None:
    """`count` events, runs, steps, actions and what comes with them."""
    builders.source("github")
    for number in range(HANDLERS):
        builders.trigger(f"handler-{number}", slug=f"trigger-{number}", source="github", type_pattern="order.*")
    same, age = f"{FIRST} + n", f"({count} - n) * {LIFE}.0 / {count}"
    with filling(BIG):
        events(count, age)
        runs(count, same, age)
        actions(count, same, age)
        others(count, same, age)
    analyze()


def analyze() -> None:
    """As autovacuum does on PostgreSQL. SQLite plans without statistics, as on a desk."""
    if is_postgres():
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")


def events(count: int, age: str) -> None:
    status = share((100, "ignored"), (1, "invalid"), rest="routed")
    fill(
        Event,
        count,
        source_id="(SELECT id FROM triggers_source LIMIT 1)",
        source_slug="'github'",
        ce_id="'d-' || n",
        ce_source="'/github'",
        type="'order.' || (n % 20)",
        subject="'order-' || (n % 1000)",
        received_at=ago(age),
        status=status,
        data_json="'{}'",
    )
    fill(Seen, count, source_id="1", key="'id:' || n", event=f"{FIRST} + n", until=ago(f"{age} - 604800"))


def runs(count: int, same: str, age: str) -> None:
    live = [(40, "waiting"), (3, "queued"), (3, "retrying"), (1, "running"), (1, "blocked")]
    status = share(*live, (10, "dead"), (20, "cancelled"), rest="succeeded")
    fill(
        Run,
        count,
        event_id=same,
        trigger_id=f"(SELECT min(id) FROM triggers_trigger) + n % {HANDLERS}",
        handler=f"'handler-' || (n % {HANDLERS})",
        status=status,
        queued_at=ago(age),
        due_at=ago("60 - n % 600"),
        finished_at=f"CASE WHEN n % 1000 >= 48 THEN {ago(age)} END",
        leased_until=f"CASE WHEN n % 1000 = 46 THEN {ago('n % 60 - 50')} END",
        lease_owner="CASE WHEN n % 1000 = 46 THEN 'worker' ELSE '' END",
        wake_at=f"CASE WHEN n % 1000 < 20 THEN {ago('600 - n % 60000')} END",
    )
    fill(
        Wait,
        count,
        where="n % 1000 < 300",
        run_id=same,
        step="'pay'",
        type="CASE WHEN n % 2 = 0 THEN 'order.paid' ELSE 'approvals.action.settled' END",
        source="CASE WHEN n % 2 = 0 THEN 'github' ELSE '/approvals' END",
        subject="'order-' || n",
        since=ago(age),
        registered_at=ago(age),
        expires_at=f"CASE WHEN n % 1000 < 20 THEN {ago('600 - n % 60000')} END",
        status="CASE WHEN n % 1000 < 40 THEN 'pending' ELSE 'resolved' END",
    )
    fill(Step, count, run_id=same, name="'look'", seq="1", fence="1", result_json="'1'", started_at=ago(age))


def actions(count: int, same: str, age: str) -> None:
    moving = [(1, "awaiting"), (1, "approved"), (1, "delivering"), (1, "unknown")]
    ended = [(20, "failed"), (20, "rejected"), (10, "expired"), (10, "cancelled")]
    fill(
        Action,
        count,
        kind="'github.comment'",
        tier="'medium'",
        status=share(*moving, *ended, rest="delivered"),
        title="'Comment'",
        canonical="""'{"arguments":{}}'""",
        digest="'sha256:' || n",
        proposal_digest="'sha256:' || n",
        run_id=same,
        key="'k-' || n",
        created_at=ago(age),
        expires_at=ago(f"{age} - 86400"),
        not_before=f"CASE WHEN n % 1000 IN (1, 3) THEN {ago('600 - n % 6000')} END",
        execute_by=f"CASE WHEN n % 1000 = 1 THEN {ago('60 - n % 6000')} END",
        leased_until=f"CASE WHEN n % 1000 = 2 THEN {ago('n % 60 - 50')} END",
        settled_at=f"CASE WHEN n % 1000 >= 4 THEN {ago(age)} END",
    )
    fill(Act, count, run_id=same, action_id=same, name="'tell'", digest="'sha256:' || n")
    fill(Attempt, count, action_id=same, number="1", key_sent="'k-' || n", outcome="'delivered'", started_at=ago(age))


def others(count: int, same: str, age: str) -> None:
    fill(
        DeadLetter,
        count,
        where="n % 2 = 0",
        kind="'run'",
        run_id=same,
        event_id=same,
        fingerprint="'cause-' || (n % 50)",
        error_type="'KeyError'",
        handler=f"'handler-' || (n % {HANDLERS})",
        first_at=ago(age),
        last_at=ago(age),
        status="CASE WHEN n % 100 = 0 THEN 'open' ELSE 'dismissed' END",
    )
    fill(Audit, count, at=ago(age), verb="'cancel'", kind="'run'", ref="'' || n")
