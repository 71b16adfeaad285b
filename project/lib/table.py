"""Lists as CSV for a spreadsheet and as JSON: streamed a batch of rows at a time, and no cell is ever a formula."""

import csv
import io
import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Model, QuerySet
from django.http import HttpRequest, StreamingHttpResponse

from project.lib.schema import rfc3339

BATCH = 500  # rows read and written at a time
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # what a spreadsheet would reckon
# Where half the world's spreadsheets begin a cell of their own: they split at `;`, and inside quotes then too.
SPLIT = re.compile(r"(?<=[;\t\r\n])(?=[=+\-@＝＋－＠])")
Row = TypeVar("Row", bound=Model)


def csv_answer(
    request: HttpRequest, name: str, head: Sequence[str], rows: Iterable[Sequence[Any]]
) -> StreamingHttpResponse:
    """`rows` below `head` as the download `name.csv`; they are read while they are sent."""
    return streamed(request, f"{name}.csv", "text/csv; charset=utf-8", written(head, rows))


def streamed(request: HttpRequest, file: str, content_type: str, texts: Iterator[str]) -> StreamingHttpResponse:
    """A download that is made while it is sent."""
    content = in_a_thread(texts) if isinstance(request, ASGIRequest) else texts
    headers = {"Content-Disposition": f'attachment; filename="{file}"', "X-Content-Type-Options": "nosniff"}
    return StreamingHttpResponse(content, content_type=content_type, headers=headers)


def json_answer(request: HttpRequest, name: str, rows: Iterable[dict[str, Any]]) -> StreamingHttpResponse:
    """The same rows as the array `name.json`, one a line, as the API says them."""
    return streamed(request, f"{name}.json", "application/json", as_array(rows))


def as_array(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    waiting, before = iter(rows), "[\n"
    while batch := list(islice(waiting, BATCH)):
        yield before + ",\n".join(json.dumps(row, ensure_ascii=False, default=plain) for row in batch)
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


def plain(value: Any) -> str:
    return rfc3339(value) if isinstance(value, datetime) else str(value)


def by_number(rows: QuerySet[Row], *, most: int | None = None, oldest_first: bool = False) -> Iterator[Row]:
    """Every row, the newest first: one short query a batch, so that a long list holds no lock and no memory."""
    order, beyond = ("pk", "pk__gt") if oldest_first else ("-pk", "pk__lt")
    ordered, last = rows.order_by(order), None
    while most is None or most > 0:
        page = list((ordered if last is None else ordered.filter(**{beyond: last}))[: min(BATCH, most or BATCH)])
        yield from page
        if len(page) < BATCH:
            return
        last, most = page[-1].pk, None if most is None else most - len(page)


def written(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """The lines of the file, a batch a text."""
    yield ",".join(head) + "\r\n"  # names of our own
    waiting = iter(rows)
    while batch := list(islice(waiting, BATCH)):
        yield lines(batch)


async def in_a_thread(texts: Iterator[str]) -> AsyncIterator[str]:
    """The same for a server of many: each batch is read in the request's own thread, the others go on meanwhile."""
    read = sync_to_async(lambda: next(texts, None))
    while (text := await read()) is not None:
        yield text


def lines(rows: Iterable[Sequence[Any]]) -> str:
    page = io.StringIO()
    csv.writer(page, quoting=csv.QUOTE_NONNUMERIC).writerows([cell(value) for value in row] for row in rows)
    return page.getvalue()


def cell(value: Any) -> str | int | float:
    """A number, or words; what would be a formula is quoted by an apostrophe, as spreadsheets do it."""
    if value is None:
        return ""
    if isinstance(value, str):
        return SPLIT.sub("'", f"'{value}" if value.startswith(FORMULA) else value)
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, bool | dict | list):
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
        return text.replace(";", r"\u003b")  # says the same, and splits nothing
    return value if isinstance(value, int | float) else str(value)
