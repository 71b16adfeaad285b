"""Queries of the ORM that are compiled once: to build a short one costs ten times as much as to run it.

    held = Select(lambda pk, fence: Run.objects.filter(pk=pk, fence=fence).values_list("status"), pk=int, fence=int)
    [(status,)] = held(pk=7, fence=2)

The statement stays the ORM's own, so its rules are written in one place. What changes from call to call are the
parameters it names; whatever else the query reads is what it was at the first call.

PostgreSQL plans a statement once, too, where the connection lets it (`prepare_threshold`): what does not change stands
in its text, so that a plan made for all calls finds the partial indexes."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection, connections, models, transaction
from django.db.backends.sqlite3.base import FORMAT_QMARK_REGEX, SQLiteCursorWrapper
from django.db.models import sql
from django.db.models.query import get_related_populators

from project.lib import clock
from project.lib.deferred import deferred

if TYPE_CHECKING:
    import psycopg
else:
    psycopg = deferred("psycopg")

Built = TypeVar("Built")
STAND_INS: dict[type, Callable[[int], Any]] = {  # unlike each other, and within what every column takes
    int: lambda number: 30_011 + number,
    str: lambda number: f"stands for {number}",
    datetime: lambda number: datetime(2001, 2, 3, tzinfo=UTC) + timedelta(minutes=number),
}


@dataclass(frozen=True, slots=True)
class Text:
    """A statement as this database takes it, with the places of its parameters that are given at each call."""

    sql: str
    params: tuple[Any, ...]
    places: tuple[tuple[int, str], ...]
    compiler: Any
    converters: dict[int, Any]  # of the columns that are not read as they are stored

    def filled(self, given: dict[str, Any]) -> list[Any]:
        params = list(self.params)
        for place, name in self.places:
            params[place] = like(self.params[place], given[name])
        return params

    def with_constants(self) -> "Text":
        """The same with only what is given at each call as a parameter."""
        places = dict(self.places)
        words = ["%s" if place in places else literal(value) for place, value in enumerate(self.params)]
        parts = self.sql.split("%s")
        text = "".join(chain.from_iterable(zip_longest(parts, words, fillvalue="")))
        params = tuple(value for place, value in enumerate(self.params) if place in places)
        named = tuple(enumerate(places[place] for place in sorted(places)))
        return Text(text, params, named, self.compiler, self.converters)


def literal(value: Any) -> str:
    return psycopg.sql.Literal(value).as_string(connection.connection).replace("%", "%%")


@lru_cache(maxsize=512)
def in_form_of_sqlite(text: str) -> str:
    return FORMAT_QMARK_REGEX.sub("?", text).replace("%%", "%")


class SQLiteCursor(SQLiteCursorWrapper):
    """Django's own, which turns a text into SQLite's form once and not at every call."""

    def convert_query(self, query: str, *, param_names: Any = None) -> str:
        return in_form_of_sqlite(query)


def cursor() -> AbstractContextManager[Any]:
    """One that does nothing twice, and whose parameters the server binds: Django's own writes them into the text."""
    held: Any = connections[DEFAULT_DB_ALIAS]
    held.close_if_health_check_failed()  # as before each statement of Django's own
    held.ensure_connection()
    if held.vendor == "postgresql":
        return held.make_cursor(psycopg.Cursor(held.connection))  # type: ignore[no-any-return]
    with held.wrap_database_errors:
        return held._prepare_cursor(held.connection.cursor(factory=SQLiteCursor))  # type: ignore[no-any-return]


def by_itself() -> AbstractContextManager[Any]:
    """Around one statement that is a whole transaction: SQLite's waits for its turn, as all who write there."""
    return transaction.atomic() if connection.vendor == "sqlite" else nullcontext()


def like(stand_in: Any, value: Any) -> Any:
    """`value` in the form in which the driver got the stand-in: psycopg's integers know their width."""
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return value if type(stand_in) is str else type(stand_in)(value)


def places_of(params: Sequence[Any], given: dict[str, Any]) -> tuple[tuple[int, str], ...]:
    """Where the stand-ins stand."""
    names = {like("", value): name for name, value in given.items()}
    known = [(place, value) for place, value in enumerate(params) if isinstance(value, str | int | datetime)]
    return tuple((place, names[value]) for place, value in known if value in names)


class Prepared(Generic[Built]):
    """One text for each database; `build` takes the parameters of `kinds` by name."""

    def __init__(self, build: Callable[..., Built], /, **kinds: type) -> None:
        self.build = build
        self.kinds = kinds
        self.texts: dict[str, Text] = {}

    def text(self) -> Text:
        found = self.texts.get(connection.vendor)
        if found is None:
            found = self.texts[connection.vendor] = self.compile()
        return found

    def compile(self) -> Text:
        """Compiled for two sets of stand-ins, which must come out alike: one text, the values in the same places."""
        given, others = self.stand_ins(0), self.stand_ins(500)
        compiler = self.query(self.build(**given)).get_compiler(DEFAULT_DB_ALIAS)
        text, params = compiler.as_sql()
        places = places_of(params, given)
        again, changed = self.query(self.build(**others)).get_compiler(DEFAULT_DB_ALIAS).as_sql()
        if (again, places_of(changed, others)) != (text, places) or {name for _, name in places} != set(self.kinds):
            raise TypeError(f"a prepared statement has one form and uses every parameter: {text}")
        columns = [column[0] for column in compiler.select[: compiler.col_count]] if compiler.select else []
        made = Text(text, tuple(params), places, compiler, compiler.get_converters(columns))
        return made.with_constants() if connection.vendor == "postgresql" else made

    def stand_ins(self, first: int) -> dict[str, Any]:
        return {name: STAND_INS[kind](first + number) for number, (name, kind) in enumerate(self.kinds.items())}

    def query(self, built: Built) -> sql.Query:
        raise NotImplementedError


class Select(Prepared[models.QuerySet[Any, Any]]):
    """Returns model instances, with what they were selected along with, or the tuples of `values_list`."""

    def query(self, built: models.QuerySet[Any, Any]) -> sql.Query:
        return built.query

    def __call__(self, **given: Any) -> list[Any]:
        return self.found(self.text().filled(given))

    def found(self, params: list[Any]) -> list[Any]:
        text = self.text()
        with cursor() as run:
            run.execute(text.sql, params)
            found = run.fetchall()
        if not found:
            return []
        rows = map(tuple, text.compiler.apply_converters(found, text.converters))
        return [instance(text.compiler, row) for row in rows] if text.compiler.query.default_cols else list(rows)


class Both(Select):
    """The rows of two queries of tuples by one statement, the first one's before the second one's."""

    def __init__(self, first: Select, second: Select) -> None:
        super().__init__(first.build, **first.kinds)
        self.parts = (first, second)

    def compile(self) -> Text:
        first, second = (part.text() for part in self.parts)
        places = [(place + len(first.params), name) for place, name in second.places]
        text = f"SELECT * FROM ({first.sql}) AS first UNION ALL SELECT * FROM ({second.sql}) AS second"
        return replace(first, sql=text, params=(*first.params, *second.params), places=(*first.places, *places))


def instance(compiler: Any, row: Sequence[Any]) -> models.Model:
    """As the ORM makes one of a row whose columns it has chosen itself."""
    info = compiler.klass_info
    first, last = info["select_fields"][0], info["select_fields"][-1] + 1
    names = [column[0].target.attname for column in compiler.select[first:last]]
    made: models.Model = info["model"].from_db(DEFAULT_DB_ALIAS, names, row[first:last])
    for populator in get_related_populators(info, compiler.select, DEFAULT_DB_ALIAS):  # type: ignore[call-arg]  # of Django 6
        populator.populate(row, made)
    return made


class Held(Select):
    """Locks the rows of a `values_list`; returns after each row's values the database's time at which it is held."""

    def compile(self) -> Text:
        """The time is asked outside the query that locks, else PostgreSQL would tell when it began to wait."""
        made = super().compile()
        return replace(made, sql=self.around(made.sql))

    def around(self, locking: str) -> str:
        return f"SELECT held.*, {clock.question().replace('%', '%%')} FROM ({locking}) held"

    def __call__(self, **given: Any) -> list[Any]:
        return self.told(self.text().filled(given))

    def told(self, params: list[Any]) -> list[Any]:
        return [(*values, clock.read(at)) for *values, at in self.found(params)]


class Update(Prepared[tuple[models.QuerySet[Any, Any], dict[str, Any]]]):
    """Returns how many rows it changed; `build` returns the rows and the new values of their fields."""

    def query(self, built: tuple[models.QuerySet[Any, Any], dict[str, Any]]) -> sql.Query:
        rows, values = built
        query: sql.UpdateQuery = rows.query.chain(sql.UpdateQuery)  # type: ignore[assignment]  # what `chain` returns
        query.add_update_values(values)
        query.clear_select_clause()
        return query

    def __call__(self, **given: Any) -> int:
        text = self.text()
        with cursor() as run:
            run.execute(text.sql, text.filled(given))
            count: int = run.rowcount
        return count


class Insert:
    """Writes one row of these fields of a model, named as its columns' attributes are: `Insert(Step, "run_id", …)`."""

    def __init__(self, model: type[models.Model], *names: str) -> None:
        self.fields: list[Any] = [model._meta.get_field(name) for name in names]
        columns = ", ".join(f'"{field.column}"' for field in self.fields)
        self.into = f'INSERT INTO "{model._meta.db_table}" ({columns})'
        self.places = ", ".join(["%s"] * len(names))

    def __call__(self, row: models.Model) -> None:
        with cursor() as run:
            run.execute(f"{self.into} VALUES ({self.places})", self.values(row))

    def values(self, row: models.Model) -> list[Any]:
        return [stored(field, getattr(row, field.attname)) for field in self.fields]


class InsertHeld(Held):
    """Writes a row beside the one that `build` locks and `Held` returns; where there is none, it writes nothing.

    To PostgreSQL, which is further away, it is one statement, and may be a whole transaction."""

    def __init__(self, insert: Insert, build: Callable[..., models.QuerySet[Any, Any]], /, **kinds: type) -> None:
        super().__init__(build, **kinds)
        self.insert = insert

    def compile(self) -> Text:
        with transaction.atomic():  # the ORM locks nowhere else
            return super().compile()

    def around(self, locking: str) -> str:
        if connection.vendor == "sqlite":
            return super().around(locking)
        added = f"{self.insert.into} SELECT {self.insert.places} FROM held"
        return f"WITH held AS ({locking}), added AS ({added}) SELECT held.*, {clock.question()} FROM held"

    def __call__(self, row: models.Model, /, **given: Any) -> list[Any]:  # type: ignore[override]  # it has a row to write
        if connection.vendor == "postgresql":
            return self.told([*self.text().filled(given), *self.insert.values(row)])
        found = super().__call__(**given)
        if found:
            self.insert(row)
        return found


def stored(field: Any, value: Any) -> Any:
    """As the ORM would write it; it asks each field, though a text in a text's column stays what it is."""
    if value is None or (type(value) is str and isinstance(field, models.CharField | models.TextField)):
        return value
    return field.get_db_prep_save(value, connection)
