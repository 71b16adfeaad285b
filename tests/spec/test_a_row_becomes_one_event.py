"""A row of somebody else's table becomes one event: by a cursor that looks back, or as an acknowledged outbox."""

import sqlite3
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg
import pytest

from project.lib.problem import Problem
from tests import builders
from tests.listening import events, listened, listener, state, turns
from triggers import configure, retention
from triggers.listeners import database, thread, tryout
from triggers.models import ConfigVersion, DeadLetter, Position, Seen, Source, Trigger, Watch
from triggers.sources import cursors

pytestmark = pytest.mark.django_db
START = datetime(2026, 5, 1, 10, tzinfo=UTC)


@pytest.fixture
def shop(tmp_path, settings):
    """A SQLite file that a shop writes."""
    settings.FILE_ROOTS = [str(tmp_path)]
    with sqlite3.connect(tmp_path / "shop.sqlite3", isolation_level=None) as far:
        far.execute("PRAGMA journal_mode = WAL")
        far.execute('CREATE TABLE "order ""lines""" (id INTEGER PRIMARY KEY, name TEXT, updated_at TEXT)')
        far.execute("CREATE TABLE outbox (id INTEGER PRIMARY KEY, topic TEXT, payload TEXT, sent_at TEXT)")
        yield far


LINES = 'order "lines"'
INSERT = 'INSERT INTO "order ""lines""" VALUES (?, ?, ?)'


def sqlite_table(tmp_path, slug="shop", **config):
    given = {"url": f"sqlite:///{tmp_path}/shop.sqlite3", "table": LINES, "cursor": "updated_at", **config}
    return listened("database", slug, **given)


def outbox(tmp_path, **config):
    named = {"table": "outbox", "mode": "outbox", "cursor": "", "type_column": "topic", "data_column": "payload"}
    return sqlite_table(tmp_path, **{**named, **config})


def at(seconds):
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")


def names(slug="shop"):
    return [event.data["name"] for event in events(slug)]


def test_a_row_that_is_new_or_changed_rings_once(shop, tmp_path):
    shop.execute(INSERT, (1, "from before", at(0)))
    source = sqlite_table(tmp_path)
    one = listener(source)
    turns(one)
    assert names() == []
    shop.execute(INSERT, (2, "new", at(5)))
    turns(one, 2)
    [event] = events("shop")
    assert (event.type, event.subject) == ("shop.changed", "2")
    assert event.data == {"id": 2, "name": "new", "updated_at": at(5)}
    shop.execute('UPDATE "order ""lines""" SET name = ?, updated_at = ? WHERE id = 1', ("edited", at(6)))
    turns(one, 2)
    assert names() == ["new", "edited"]
    one.next_sign = 0
    turns(one)
    assert (state(source), Watch.objects.get().facts) == ((Watch.WATCHING, ""), {"behind": 0, "position": at(6)})


def test_a_row_that_became_visible_late_is_found_by_looking_back(shop, tmp_path):
    """SR-09: T1 says 10:00:00 and commits at 10:00:05, T2 says 10:00:02 and commits at once."""
    one = listener(sqlite_table(tmp_path, start="all"))
    shop.execute(INSERT, (2, "T2", at(2)))
    turns(one)
    shop.execute(INSERT, (1, "T1", at(0)))
    turns(one, 2)
    assert names() == ["T2", "T1"]
    shop.execute(INSERT, (3, "too late for any window", at(-3600)))
    turns(one)
    assert names() == ["T2", "T1"]


def test_a_thousand_equal_times_are_a_thousand_events(shop, tmp_path):
    """SR-09"""
    shop.executemany(INSERT, [(n, str(n), at(0)) for n in range(1000)])
    one = listener(sqlite_table(tmp_path, start="all"))
    turns(one, 2)
    assert sorted(map(int, names())) == list(range(1000))
    turns(listener(one.source))
    assert len(events("shop")) == 1000


def test_two_updates_between_two_looks_are_one_event_and_a_rollback_none(shop, tmp_path):
    """SR-09: the latest state is told; a delete leaves no row to tell of."""
    one = listener(sqlite_table(tmp_path, start="all"))
    shop.execute(INSERT, (1, "first", at(0)))
    shop.execute('UPDATE "order ""lines""" SET name = ?, updated_at = ?', ("second", at(1)))
    shop.execute("BEGIN")
    shop.execute(INSERT, (2, "never", at(1)))
    shop.execute("ROLLBACK")
    turns(one)
    shop.execute('DELETE FROM "order ""lines"""')
    turns(one)
    assert names() == ["second"]


def test_an_update_within_the_same_second_is_not_missed(shop, tmp_path):
    one = listener(sqlite_table(tmp_path, start="all"))
    shop.execute(INSERT, (1, "first", at(0)))
    turns(one)
    shop.execute('UPDATE "order ""lines""" SET name = ?', ("again",))
    turns(one, 2)
    assert names() == ["first", "again"]


def test_a_kill_before_the_place_was_kept_doubles_nothing(shop, tmp_path):
    source = sqlite_table(tmp_path, start="all")
    shop.executemany(INSERT, [(n, str(n), at(n)) for n in range(5)])
    turns(listener(source))
    Position.objects.all().delete()
    turns(listener(source))
    assert len(events("shop")) == 5
    assert not any(event.duplicates for event in events("shop"))


def test_another_database_or_cursor_begins_as_the_source_says_and_keeps_no_place_of_the_one_before(shop, tmp_path):
    shop.execute(INSERT, (1, "here", at(0)))
    source = sqlite_table(tmp_path, start="all")
    before = listener(Source.objects.get(pk=source.pk))
    turns(before)
    with sqlite3.connect(tmp_path / "other.sqlite3", isolation_level=None) as other:
        other.execute('CREATE TABLE "order ""lines""" (id INTEGER PRIMARY KEY, name TEXT, updated_at TEXT)')
        other.execute(INSERT, (1, "there, and older", at(-86400)))
    change(source, url=f"sqlite:///{tmp_path}/other.sqlite3")
    turns(listener(source))
    assert names() == ["here", "there, and older"]
    there = Position.objects.get().value
    for late in (partial(turns, before), partial(before.move, LINES, high=None)):
        with suppress(thread.Trouble):  # its thread had not ended yet
            late()
        assert Position.objects.get().value == there
    change(source, cursor="id")
    turns(listener(source))
    assert state(source) == (Watch.WATCHING, "")
    assert Position.objects.get().value["high"] == {"number": "1"}


def change(source, **config):
    configure.change_source(source, by=None, version=source.version, config={**source.config, **config})
    source.refresh_from_db()


def test_a_place_that_was_kept_before_addresses_were_is_gone_on_from(shop, tmp_path):
    shop.execute(INSERT, (1, "told", at(0)))
    source = sqlite_table(tmp_path, overlap=0)
    Position.objects.create(source=source, place=LINES, value={"high": {"text": at(0)}, "floor": None})
    shop.execute(INSERT, (2, "news", at(5)))
    turns(listener(source))
    assert "news" in names()


def test_a_number_that_grows_is_a_cursor_too(shop, tmp_path):
    one = listener(sqlite_table(tmp_path, cursor="id", overlap=3))
    turns(one)
    shop.execute(INSERT, (10, "ten", None))
    turns(one)
    shop.execute(INSERT, (8, "late", None))
    turns(one, 2)
    assert names() == ["ten", "late"]


def test_an_outbox_is_acknowledged_after_the_event_is_stored(shop, tmp_path):
    one = listener(outbox(tmp_path))
    shop.execute("INSERT INTO outbox VALUES (1, 'order.created', '{\"n\": 1}', NULL)")
    shop.execute("INSERT INTO outbox VALUES (2, 'order.created', 'no json', NULL)")
    turns(one)
    by_type = {event.type: event for event in events("shop")}
    assert by_type["shop.order.created"].data == {"n": 1}
    assert by_type["shop.unreadable"].status == "invalid"
    assert "no JSON" in DeadLetter.objects.get().message
    assert shop.execute("SELECT count(*) FROM outbox").fetchone() == (0,)


def test_rows_that_cannot_be_acknowledged_are_said_and_not_read_for_ever(shop, tmp_path):
    source = outbox(tmp_path, key=["topic"])
    shop.executemany("INSERT INTO outbox VALUES (?, NULL, '{}', NULL)", [(n,) for n in range(database.BATCH)])
    turns(listener(source))
    assert (state(source)[0], "key" in state(source)[1]) == (Watch.FAILED, True)


@pytest.mark.parametrize("odd", ["[" * 3000 + "]" * 3000, '{"a": NaN}', '{"a": "\\ud800"}', "9" * 5000])
def test_a_column_of_odd_json_keeps_no_other_row_waiting(shop, tmp_path, odd):
    one = listener(outbox(tmp_path))
    shop.execute("INSERT INTO outbox VALUES (1, 'odd', ?, NULL), (2, 'fine', '{}', NULL)", [odd])
    turns(one)
    assert "shop.fine" in {event.type for event in events("shop")}
    assert all(event.data is not None for event in events("shop") if event.status != "invalid")
    assert (shop.execute("SELECT count(*) FROM outbox").fetchone(), one.failures) == ((0,), 0)


def test_a_text_of_broken_bytes_is_read_all_the_same(shop, tmp_path):
    one = listener(sqlite_table(tmp_path, start="all"))
    shop.execute('INSERT INTO "order ""lines""" VALUES (1, CAST(x\'61ff\' AS TEXT), ?)', [at(1)])
    turns(one)
    assert names() == ["a\ufffd"]


def test_an_outbox_may_mark_its_rows_instead(shop, tmp_path):
    shop.execute("INSERT INTO outbox VALUES (1, 'a', '1', NULL), (2, 'b', '2', '2026-01-01')")
    turns(listener(outbox(tmp_path, acknowledge="sent_at")), 2)
    assert [event.type for event in events("shop")] == ["shop.a"]
    assert shop.execute("SELECT count(*) FROM outbox WHERE sent_at IS NULL").fetchone() == (0,)


def test_an_outbox_that_finds_no_room_keeps_its_rows(shop, tmp_path):
    source = outbox(tmp_path)
    builders.trigger(source="shop", limits={"queue": {"limit": 1, "when_full": "block"}})
    one = listener(source)
    shop.execute("INSERT INTO outbox VALUES (1, 'a', '1', NULL)")
    turns(one)
    shop.execute("INSERT INTO outbox VALUES (2, 'b', '2', NULL)")
    turns(one)
    assert (state(source)[0], shop.execute("SELECT id FROM outbox").fetchall()) == (Watch.HELD, [(2,)])
    Trigger.objects.update(limits={})
    ConfigVersion.bump()
    turns(one)
    assert [event.type for event in events("shop")] == ["shop.a", "shop.b"]


def test_the_table_is_only_read_and_its_names_are_quoted(shop, tmp_path):
    source = sqlite_table(tmp_path)
    one = listener(source)
    turns(one)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        one.link.open.execute("DELETE FROM outbox")
    wrong = sqlite_table(tmp_path, "wrong", table="outbox; DROP TABLE outbox", cursor="id")
    turns(listener(wrong))
    assert "no such table" in state(wrong)[1]
    lacking = sqlite_table(tmp_path, "lacking", cursor="changed")
    turns(listener(lacking))
    assert state(lacking)[1] == f"{LINES} has no column changed; it has id, name, updated_at"


@pytest.mark.parametrize(
    ("config", "field", "said"),
    [
        ({"url": "sqlite:////etc/passwd"}, "url", "outside FILE_ROOTS"),
        ({"url": "sqlite:///{here}/none.sqlite3"}, "url", "there is no file"),
        ({"url": "postgresql://ann@10.0.0.7/shop"}, "url", "EGRESS_ALLOW can name it"),
        ({"url": "postgresql://ann@example.org:22/shop"}, "url", "not a PostgreSQL port"),
        ({"url": "postgresql://ann:pw@example.org/shop"}, "url", "give that as the secret"),
        ({"url": "mysql://ann@example.org/shop"}, "url", "postgresql://"),
        ({"cursor": ""}, "url", "needs the cursor column"),
        ({"table": "a\x00b"}, "table", "no name should"),
    ],
)
def test_what_may_not_be_read_is_refused_when_it_is_saved(shop, tmp_path, config, field, said, db):
    given = {"url": f"sqlite:///{tmp_path}/shop.sqlite3", "table": LINES, "cursor": "updated_at"}
    given |= {name: value.format(here=tmp_path) for name, value in config.items()}
    with pytest.raises(Problem) as refused:
        configure.make_source(by=None, slug="shop", kind="database", config=given)
    assert (refused.value.facts["field"], said in refused.value.detail) == (field, True)


def test_an_infinite_cursor_holds_no_other_row_back_and_rings_once(shop, tmp_path, later):
    shop.execute("CREATE TABLE odd (id INTEGER PRIMARY KEY, name TEXT, at REAL)")
    shop.execute("INSERT INTO odd VALUES (1, 'from before', 5), (4, 'for ever from before', 9e999)")
    one = listener(sqlite_table(tmp_path, table="odd", cursor="at", overlap=0))
    turns(one)
    shop.execute("INSERT INTO odd VALUES (2, 'for ever', 9e999)")
    turns(one)
    shop.execute("INSERT INTO odd VALUES (3, 'after', 6)")
    turns(one, 2)
    assert names() == ["for ever", "after"]
    assert one.counted == {"behind": 0, "position": "6.0", "ahead": 2}
    for _ in range(4):  # for longer than a repeat is known
        later(days=3)
        turns(one)
    assert (names(), one.failures) == (["for ever", "after"], 0)


AHEAD = ["9999-12-31 00:00:00", "9999-12-31T00:00:00Z", "2999-01-01", "99991231T000000"]


@pytest.mark.parametrize("sentinel", AHEAD)
def test_a_time_to_come_hides_no_later_row_and_rings_once(shop, tmp_path, later, sentinel):
    """It is passed over like infinity, until the clock over there has come to it."""
    one = listener(sqlite_table(tmp_path, start="all"))
    shop.execute(INSERT, (1, "sentinel", sentinel))
    turns(one)
    shop.execute(INSERT, (2, "normal", at(5)))
    turns(one, 2)
    assert names() == ["sentinel", "normal"]
    assert one.counted == {"behind": 0, "position": at(5), "ahead": 1}
    for _ in range(4):
        later(days=3)
        retention.prune()
        turns(one)
    assert (len(events("shop")), one.failures) == (2, 0)


@pytest.mark.parametrize("config", [{}, {"cursor": "id"}, {"overlap": 86400 * 20}])
def test_what_lies_in_the_window_stays_known_however_long_nothing_happens(shop, tmp_path, later, config):
    source = sqlite_table(tmp_path, start="all", **config)
    one = listener(source)
    shop.executemany(INSERT, [(n, str(n), at(n)) for n in range(30)])
    turns(one)
    for _ in range(4):  # somebody looks
        later(days=3)
        retention.prune()
        turns(one)
    later(days=40)  # nobody does
    retention.prune()
    turns(listener(source), 2)
    assert len(events("shop")) == 30
    assert Seen.objects.count() == 30


def test_the_key_of_a_row_that_is_read_no_more_is_free_again(shop, tmp_path, later):
    one = listener(sqlite_table(tmp_path, start="all"))
    shop.executemany(INSERT, [(n, str(n), at(n * 3600)) for n in range(5)])
    turns(one)
    one.next_freed = 0.0
    later(days=8)
    turns(one)
    assert Seen.objects.count() == 1
    Source.objects.get(slug="shop").archive(by=None)
    later(days=8)
    retention.prune()
    assert not Seen.objects.exists()


@pytest.mark.parametrize(
    ("told", "earlier"),
    [
        ("2026-05-01 10:00:05", "2026-05-01 09:59:05"),
        ("2026-05-01T10:00:05.25Z", "2026-05-01T09:59:05.25Z"),
        ("2026-05-01T10:00:05+08:00", "2026-05-01T09:59:05+08:00"),
        ("2026-05-01 10:00", "2026-05-01 09:59"),
        ("20260501T100005", "20260501T095905"),
        ("2026-05-01", "2026-04-30"),
        ("20260501", "20260430"),
    ],
)
def test_a_time_as_text_is_looked_back_from_as_it_is_written(told, earlier):
    assert cursors.back(told, timedelta(seconds=60), 60) == earlier


def test_a_text_that_is_no_time_has_no_window():
    for text in ("01HZX3", "2026-W18-5", "x"):
        with pytest.raises(ValueError, match="no time"):
            cursors.back(text, timedelta(seconds=60), 60)


@pytest.mark.parametrize("acknowledge", ["delete", "sent_at"])
def test_a_key_that_is_used_again_names_another_row(shop, tmp_path, later, acknowledge):
    """An INTEGER PRIMARY KEY of SQLite is given anew once its row was deleted."""
    one = listener(outbox(tmp_path, acknowledge=acknowledge))
    row = "INSERT OR REPLACE INTO outbox VALUES (1, 'ping', '{}', NULL)"
    for _ in range(3):
        shop.execute(row)
        turns(one)
        later(seconds=1)
    assert len(events("shop")) == 3


def test_a_clock_that_is_set_back_hides_no_row_of_an_outbox(shop, tmp_path, later):
    one = listener(outbox(tmp_path))
    row = "INSERT INTO outbox VALUES (1, 'ping', '{}', NULL)"
    for _ in range(2):
        shop.execute(row)
        turns(one)
        later(hours=-1)
    assert len(events("shop")) == 2


def test_a_place_noted_of_a_time_to_come_hides_no_row(shop, tmp_path):
    """As when the clock over there was set back."""
    one = listener(sqlite_table(tmp_path, start="all"))
    shop.execute(INSERT, (1, "first", at(0)))
    turns(one)
    ahead = {"text": "9999-12-31 00:00:00"}
    Position.objects.update(value={"high": ahead, "floor": ahead})
    shop.execute(INSERT, (2, "second", at(5)))
    turns(one)
    shop.execute(INSERT, (3, "third", at(6)))
    turns(one)
    assert names() == ["first", "second", "third"]


def test_whoever_read_a_row_before_it_was_acknowledged_tells_it_no_more(shop, tmp_path, later):
    """Two listen, as while a source is changed: the second comes to tell when the first has acknowledged."""
    source = outbox(tmp_path)
    first, second = listener(source), listener(source)
    shop.execute("INSERT INTO outbox VALUES (1, 'ping', '{}', NULL)")
    turns(second)
    shop.execute("INSERT INTO outbox VALUES (2, 'pong', '{}', NULL)")
    rows = second.link.unacknowledged(10)
    turns(first)
    second.tell(rows)
    assert [(event.type, event.duplicates) for event in events("shop")] == [("shop.ping", 0), ("shop.pong", 0)]


@pytest.fixture
def far_postgres(postgres_server, settings):
    """A PostgreSQL of somebody else, and its address for a source."""
    port = postgres_server.rpartition(":")[2].partition("/")[0]
    settings.EGRESS_ALLOW = [f"127.0.0.1:{port}"]
    with psycopg.connect(postgres_server, autocommit=True) as far:
        far.execute("CREATE SCHEMA sales")
        far.execute("CREATE TABLE sales.orders (id uuid, n numeric, raw bytea, more jsonb, updated_at timestamptz)")
        yield far, f"postgresql://nightdesk@127.0.0.1:{port}/postgres"
        far.execute("DROP SCHEMA sales CASCADE")


def test_postgresql_is_read_the_same_way(far_postgres, postgres_server):
    far, url = far_postgres
    given = {"url": url, "tls": "prefer", "table": "sales.orders", "start": "all", "cursor": "updated_at"}
    source = listened("database", "sales", **given)
    assert tryout.try_out(source) == "Connected: the newest updated_at of sales.orders is None."
    one = listener(source)
    row = "INSERT INTO sales.orders VALUES (gen_random_uuid(), 1.50, '\\xff', '{\"a\": [1]}', %s)"
    with psycopg.connect(postgres_server) as slow:
        slow.execute(row, [START])
        far.execute(row, [START + timedelta(seconds=2)])
        turns(one)
        assert len(events("sales")) == 1
        slow.commit()
    turns(one, 2)
    late = events("sales")[1]
    assert (late.data["n"], late.data["raw"], late.data["more"]) == ("1.50", "/w==", {"a": [1]})
    assert (late.time, late.duplicates) == (START, 0)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        one.link.rows("DELETE FROM sales.orders RETURNING id")
    one.let_go()


def test_a_value_of_no_calendar_is_read_as_its_text(far_postgres):
    far, url = far_postgres
    far.execute("CREATE TABLE sales.terms (id int, until timestamptz, since date, updated_at timestamptz)")
    far.execute("INSERT INTO sales.terms VALUES (1, 'infinity', '0044-03-15 BC', now()), (2, now(), now(), 'infinity')")
    given = {"url": url, "tls": "prefer", "table": "sales.terms", "start": "all", "cursor": "updated_at"}
    one = listener(listened("database", "terms", **given))
    turns(one, 2)
    first, second = events("terms")
    assert (first.data["until"], first.data["since"], second.data["updated_at"]) == (
        "infinity",
        "0044-03-15 BC",
        "infinity",
    )
    assert one.failures == 0
    one.let_go()


def test_a_cursor_that_is_no_number_ends_no_listener(far_postgres):
    far, url = far_postgres
    far.execute("CREATE TABLE sales.counts (id int, n numeric)")
    far.execute("INSERT INTO sales.counts VALUES (1, 7), (2, 'NaN')")
    one = listener(listened("database", "sales", url=url, tls="prefer", table="sales.counts", cursor="n", overlap=0))
    turns(one)
    far.execute("INSERT INTO sales.counts VALUES (3, 8), (4, 'NaN')")
    turns(one, 2)
    assert [event.subject for event in events("sales")] == ["3", "4"]
    assert (one.failures, one.counted["position"]) == (0, "8")
    one.let_go()


def test_an_outbox_of_postgresql_is_acknowledged(far_postgres):
    far, url = far_postgres
    far.execute("CREATE TABLE sales.outbox (a int, b text, body jsonb, PRIMARY KEY (a, b))")
    far.execute("INSERT INTO sales.outbox VALUES (1, 'x', '{\"k\": true}'), (1, 'y', 'null')")
    config = {"table": "sales.outbox", "mode": "outbox", "key": ["a", "b"], "data_column": "body"}
    one = listener(listened("database", "sales", url=url, tls="prefer", **config))
    turns(one)
    assert [(event.subject, event.data) for event in events("sales")] == [("1/x", {"k": True}), ("1/y", None)]
    assert far.execute("SELECT count(*) FROM sales.outbox").fetchone() == (0,)
    far.execute("INSERT INTO sales.outbox VALUES (1, 'y', 'null')")
    turns(one)
    assert [event.subject for event in events("sales")] == ["1/x", "1/y", "1/y"]
    one.let_go()


def test_an_empty_key_of_postgresql_is_told_once(far_postgres):
    far, url = far_postgres
    far.execute("CREATE TABLE sales.loose (id int, body text)")
    far.execute("INSERT INTO sales.loose VALUES (NULL, '1'), (2, '2')")
    config = {"table": "sales.loose", "mode": "outbox", "data_column": "body"}
    one = listener(listened("database", "sales", url=url, tls="prefer", **config))
    turns(one, 3)
    assert sorted(event.data for event in events("sales")) == [1, 2]
    assert not any(event.duplicates for event in events("sales"))
    one.let_go()


def test_a_server_that_does_not_answer_is_said(far_postgres, settings):
    _, url = far_postgres
    source = listened(
        "database", "sales", url=url.replace("/postgres", "/nothing"), tls="prefer", table="t", cursor="c"
    )
    turns(listener(source))
    assert 'database "nothing" does not exist' in state(source)[1]
    settings.EGRESS_ALLOW = []
    turns(listener(source))
    assert "EGRESS_ALLOW can name it" in state(source)[1]
