"""Lists in pages by key: newest first, no row twice and none left out while others come and go."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from django.core.signing import BadSignature, Signer
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Schema
from pydantic import BeforeValidator, Field

from project.lib.problem import Problem
from project.lib.table import by_number, csv_answer
from project.lib.text import is_storable


class BadCursor(Problem):
    """This cursor is not one of ours, or belongs to another list."""

    code = "bad_cursor"
    http = 400


class UnknownFilter(Problem):
    """This list has no such filter."""

    code = "unknown_filter"
    http = 400


def moment(value: Any) -> Any:
    """A point in time with its zone; a `+` that arrived as a space is named, not guessed."""
    if not isinstance(value, str):
        return value
    if " " in value:
        raise ValueError("a `+` in an address must be written %2B")
    read = datetime.fromisoformat(value)
    if read.tzinfo is None:
        raise ValueError("a time needs its zone, such as 2026-01-01T00:00:00Z")
    try:
        return read.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC this is outside the years 1 to 9999") from None


def word(value: Any) -> Any:
    if isinstance(value, str) and not is_storable(value):
        raise ValueError("NUL and half a surrogate pair are no characters of a filter")
    return value


Instant = Annotated[datetime, BeforeValidator(moment)]
Word = Annotated[str, BeforeValidator(word)]
Words = list[Word]
Number = Annotated[int, Field(ge=1, lt=2**63)]


Rows = TypeVar("Rows", bound="QuerySet[Any]")


class Filters(Schema):
    """What every list takes, in the API as on its page. A subclass adds its filters and says which column each asks."""

    NAME: ClassVar[str] = ""
    COLUMNS: ClassVar[dict[str, str]] = {}  # filter -> column, any of the values given
    AT: ClassVar[str] = ""  # the column of `since` (from then on) and `until` (before)

    limit: int = Field(50, ge=1, le=200)
    after: Word = ""
    format: Literal["json", "csv"] = "json"

    def narrow(self, rows: Rows) -> Rows:
        """`rows` with every filter that was given."""
        given = {column: getattr(self, name) for name, column in self.COLUMNS.items() if getattr(self, name)}
        rows = rows.filter(**{f"{column}__in": values for column, values in given.items()})
        if since := getattr(self, "since", None):
            rows = rows.filter(**{f"{self.AT}__gte": since})
        if until := getattr(self, "until", None):
            rows = rows.filter(**{f"{self.AT}__lt": until})
        return rows


Row = TypeVar("Row")


class Page(Schema, Generic[Row]):
    """What a list answers; `next` is null on the last page."""

    items: list[Row]
    next: str | None


Shown = dict[str, Any] | StreamingHttpResponse


def listing(
    request: HttpRequest, rows: QuerySet[Any], filters: Filters, show: Callable[[Any], Any], *, row: type[Schema]
) -> Shown:
    """`{items, next}`; `next` is the cursor of the following page, None on the last one.

    With `format=csv` every row as a line with the members of `row`; only a `limit` that was given cuts it."""
    unknown = sorted(set(request.GET) - set(type(filters).model_fields))
    if unknown:
        raise UnknownFilter(f"This list has no filter `{unknown[0]}`.", filter=unknown[0])
    rows = filters.narrow(rows)
    if filters.after:
        rows = rows.filter(pk__lt=position(filters.NAME, filters.after))
    if filters.format == "csv":
        most = filters.limit if "limit" in filters.model_fields_set else None
        return download(request, filters.NAME, row, map(show, by_number(rows, most=most)))
    found = list(rows.order_by("-pk")[: filters.limit + 1])
    shown, more = found[: filters.limit], len(found) > filters.limit
    return {"items": [show(one) for one in shown], "next": cursor(filters.NAME, shown[-1].pk) if more else None}


def download(
    request: HttpRequest, name: str, row: type[Schema], rows: Iterable[dict[str, Any]]
) -> StreamingHttpResponse:
    """`name.csv` with a column for each member of `row`; what a reader may not see is empty."""
    head = list(row.model_fields)
    return csv_answer(request, name, head, ([facts.get(member) for member in head] for facts in rows))


def cursor(name: str, key: int) -> str:
    return signer(name).sign(str(key))


def position(name: str, text: str) -> int:
    try:
        return int(signer(name).unsign(text))
    except BadSignature as error:
        raise BadCursor from error


def signer(name: str) -> Signer:
    return Signer(salt=f"page:{name}", sep="~")
