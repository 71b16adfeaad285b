"""Lists: filters live in the address, rows come fifty at a time, counts stop at 10,000, and each is also a table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, get_args, get_origin

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from ninja import Schema

from project.lib import clock
from project.lib.language import phrase
from project.lib.pages import Filters as ListFilters
from project.lib.pages import Rows, download
from project.lib.table import by_number, json_answer

SIZE = 50  # rows a page starts with, and how many "Load 50 more" adds
LONGEST = 500  # rows on one page; older ones are on the next
COUNTED = 10_000  # above it a list says "10,000+"
SPANS = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
PAGING = ("rows", "after", "format", "sort")
FORMATS = ("csv", "json")  # of the file a list is downloaded as
PREFIXES = {"run": "R-", "event": "E-"}  # how people write the numbers of these filters
OLDEST = "oldest"  # beside the newest first the order every list has: both are walked by the number of a row


@dataclass(frozen=True)
class Pick:
    """A filter of which any number of values may be ticked; whoever ticks two means either."""

    name: str
    label: str
    options: list[tuple[str, bool]]  # value, ticked

    @property
    def words(self) -> str:
        return ", ".join(value for value, ticked in self.options if ticked) or phrase("Any")


@dataclass(frozen=True)
class Order:
    """A column a list can be in the order of: where that leads to, and whether it is so now."""

    url: str
    now: str = ""  # ascending, descending


@dataclass
class Filters:
    """The filters of an address. What it cannot use is left out and said in `notes`, never an error."""

    query: QueryDict
    names: tuple[str, ...]
    sorts: dict[str, str] = field(default_factory=dict)  # beside the number: name -> a column with an index
    notes: list[str] = field(default_factory=list)
    picked: set[str] = field(default_factory=set)  # the filters that are boxes to tick
    left_out: int = 0

    def __post_init__(self) -> None:
        known = {*self.names, *PAGING}
        for name in self.query:
            if name not in known:
                self.leave_out(f"“{name[:40]}” is no filter of this list")
        if self.query.get("format", "") not in ("", *FORMATS):
            self.leave_out("“format” can only be csv or json")
        known_sorts = [OLDEST, *(f"{way}{name}" for name in self.sorts for way in ("", "-"))]
        if self.query.get("sort", "") not in ("", *known_sorts):
            self.leave_out(f"“sort” can only be {', '.join(known_sorts)}")

    def narrow(self, rows: Rows, asked: type[ListFilters]) -> Rows:
        """The rows by the filters of the API; what they cannot use is left out."""
        kinds = {name: field.annotation for name, field in asked.model_fields.items() if name in self.names}
        given: dict[str, Any] = {
            name: self.usable(name, kind) for name, kind in kinds.items() if get_origin(kind) is list
        }
        given |= {name: self.time(name) for name in ("since", "until") if name in kinds}
        return asked.model_construct(**given).narrow(rows)

    def usable(self, name: str, kind: Any) -> list[Any]:
        """The values of one filter, by what the API takes there: words, some known ones, or numbers."""
        (item,) = get_args(kind)
        if get_origin(item) is Literal:
            return self.some(name, get_args(item))
        is_number = get_origin(item) is Annotated and get_args(item)[0] is int
        return self.numbers(name, prefix=PREFIXES.get(name, "")) if is_number else self.many(name)

    def leave_out(self, why: str) -> None:
        note = f"{why}; it was left out."
        if note not in self.notes:
            self.left_out += 1
            self.notes.append(note)

    def one(self, name: str) -> str:
        return next(iter(self.many(name)), "")

    def many(self, name: str) -> list[str]:
        """Repeated values are read as "or"; empty ones are dropped."""
        return [text for value in self.query.getlist(name) if (text := value.replace("\x00", "").strip())]

    def some(self, name: str, known: Iterable[str]) -> list[str]:
        """Those of the values that are in `known`."""
        possible = list(known)
        for text in self.many(name):
            if text not in possible:
                self.leave_out(f"“{text[:40]}” is none of {', '.join(possible)}")
        return [text for text in self.many(name) if text in possible]

    def numbers(self, name: str, *, prefix: str = "") -> list[int]:
        """`17`, or `E-17` for prefix `E-`."""
        found = []
        for text in self.many(name):
            if (number := as_number(text, prefix)) is None:
                self.leave_out(f"“{name}” is a number such as {prefix}17, not “{text[:40]}”")
            else:
                found.append(number)
        return found

    def time(self, name: str) -> datetime | None:
        """A moment (`2026-11-29T03:00Z`, a day, or in the reader's zone), or a span back from now (`24h`)."""
        text = self.one(name)
        if not text:
            return None
        if text in SPANS:
            return clock.now() - SPANS[text]
        if (moment := read_moment(text)) is not None:
            return moment
        self.leave_out(f"“{name}” is a time such as 24h or 2026-11-29T03:00Z, not “{text[:40]}”")
        return None

    def whole(self, name: str) -> int:
        """A whole number above 0; 0 when there is none."""
        text = self.query.get(name, "")
        if text and not as_number(text, ""):
            self.leave_out(f"“{name}” is a whole number above 0, not “{text[:40]}”")
        return as_number(text, "") or 0

    def place(self) -> tuple[datetime, int] | None:
        """Where a page in the order of a column goes on: the time and the number of the row before."""
        text = self.query.get("after", "")
        at, _, number = text.partition("~")
        moment, found = read_moment(at), as_number(number, "")
        if moment and found:
            return moment, found
        if text:
            self.leave_out(f"“after” is no place in this order: “{text[:40]}”")
        return None

    def pick(self, name: str, label: str, known: Iterable[str]) -> Pick:
        """What can be ticked; a value that is ticked but unknown stays to be seen."""
        self.picked.add(name)
        ticked = self.many(name)
        return Pick(name, label, [(value, value in ticked) for value in dict.fromkeys([*known, *ticked])])

    @property
    def as_table(self) -> bool:
        """Whether the rows are asked for as a file; not by filters that could not be used, for a file says no notes."""
        return self.query.get("format") in FORMATS and not self.left_out

    @property
    def status(self) -> int:
        """Of the page: a table that was not made is a refusal."""
        return 400 if self.query.get("format") in FORMATS else 200

    @property
    def oldest_first(self) -> bool:
        return is_oldest_first(self.query)

    @property
    def sort(self) -> str:
        """The name of the column whose order is asked for; "" for the number."""
        name = self.query.get("sort", "").removeprefix("-")
        return name if name in self.sorts else ""

    @property
    def turned(self) -> str:
        """The address of the same rows from their other end."""
        other = f"{'-' * self.oldest_first}{self.sort}" if self.sort else None if self.oldest_first else OLDEST
        return self.address(sort=other, after=None, rows=None)

    @property
    def orders(self) -> dict[str, Order]:
        """The heads of columns that put a list in their order: the newest first, or turned round when it is so."""
        found = {"number": Order(self.address(sort=None, after=None, rows=None))}
        found |= {name: Order(self.address(sort=f"-{name}", after=None, rows=None)) for name in self.sorts}
        found[self.sort or "number"] = Order(self.turned, "ascending" if self.oldest_first else "descending")
        return found

    @property
    def active(self) -> bool:
        return any(self.many(name) for name in self.names)

    @property
    def values(self) -> dict[str, str]:
        """One value a filter, to fill the form again."""
        return {name: self.one(name) for name in self.names}

    @property
    def rest(self) -> list[tuple[str, str, str]]:
        """`(name, value, the address without it)` of what has no place in the form: second values of a text field."""
        return [
            (name, value, self.address(**{name: [kept for kept in self.many(name) if kept != value], "after": None}))
            for name in self.names
            if name not in self.picked
            for value in self.many(name)[0 if name == "id" else 1 :]  # numbers that were chosen have no field
        ]

    @property
    def here(self) -> str:
        """The address without what is empty."""
        return self.address(format=None)

    @property
    def table(self) -> str:
        """The address of the same rows as CSV, all of them."""
        return self.address(format="csv", rows=None, after=None)

    @property
    def lines(self) -> str:
        """The same as JSON."""
        return self.address(format="json", rows=None, after=None)

    @property
    def wish(self) -> str:
        """`&…` to follow a verb: the same rows, for a bulk job."""
        text = self.address(format=None, rows=None, after=None).removeprefix("?")
        return f"&{text}" if text else ""

    def address(self, **changes: Any) -> str:
        """`?…` of this list with some parameters changed; None, "" and [] take one out."""
        query = self.query.copy()
        for name in list(query):
            query.setlist(name, [value for value in query.getlist(name) if value])
            if name not in {*self.names, *PAGING} or not query.getlist(name):
                del query[name]
        for name, value in changes.items():
            values = value if isinstance(value, list) else [value]
            query.setlist(name, [str(one) for one in values if one not in (None, "")])
        text = query.urlencode()
        return f"?{text}" if text else "?"


def is_oldest_first(query: QueryDict) -> bool:
    """By number, or by a column whose name stands without a minus."""
    name = query.get("sort", "")
    return bool(name) and not name.startswith("-")


def as_number(text: str, prefix: str) -> int | None:
    digits = text.upper().removeprefix(prefix)
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def read_moment(text: str) -> datetime | None:
    """In UTC; None for what is no time, also for one that is none in UTC: before the year 1, after 9999."""
    try:
        moment = parse_datetime(text)
        day = None if moment else parse_date(text)
        if day is not None:
            moment = datetime(day.year, day.month, day.day)
        if moment is not None and timezone.is_naive(moment):
            moment = timezone.make_aware(moment)
        return moment and moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class Listing:
    """The rows of one page of a list, and what is said around them."""

    rows: list[Any]
    count: int  # at most COUNTED + 1
    total: int | None  # without the filters; None when there are none
    more: str  # the address with fifty more rows; "" at the end
    older: str  # the address of what comes after a page that is full
    top: str  # back to where the list begins, "" when this is there
    filters: Filters

    @property
    def last(self) -> int:
        """The number of the last row, where "Load 50 more" goes on."""
        return self.rows[-1].pk if self.rows else 0

    @property
    def count_words(self) -> str:
        return capped(self.count)

    @property
    def total_words(self) -> str:
        return capped(self.total or 0)


def capped(count: int) -> str:
    """`1,204`, or `10,000+`."""
    return f"{COUNTED:,}+" if count > COUNTED else f"{count:,}"


def count_of(rows: QuerySet[Any]) -> int:
    """Exact to COUNTED, then one more: a count never walks a million rows."""
    return rows.order_by()[: COUNTED + 1].count()


class ByNumber:
    """A list in the order of the numbers of its rows."""

    def __init__(self, filters: Filters) -> None:
        self.up = filters.oldest_first
        self.after: Any = filters.whole("after")

    def all_of(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows

    def page(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """What comes after the row the address names, in order."""
        beyond, order = ("pk__gt", "pk") if self.up else ("pk__lt", "-pk")
        return (rows.filter(**{beyond: self.after}) if self.after else rows).order_by(order)

    def key(self, row: Any) -> str:
        """What says in an address where a page ended."""
        return str(row.pk)


class ByColumn:
    """A list in the order of a time its rows have; rows of the same time by their number."""

    def __init__(self, filters: Filters) -> None:
        self.up, self.column = filters.oldest_first, filters.sorts[filters.sort]
        self.after = filters.place()

    def all_of(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(**{f"{self.column}__isnull": False})

    def page(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        beyond, sign = ("gte", "") if self.up else ("lte", "-")
        if self.after:
            at, number = self.after
            seen = {self.column: at, f"pk__{'lte' if self.up else 'gte'}": number}
            rows = rows.filter(**{f"{self.column}__{beyond}": at}).exclude(**seen)
        return rows.order_by(f"{sign}{self.column}", f"{sign}pk")

    def key(self, row: Any) -> str:
        return f"{getattr(row, self.column).astimezone(UTC).isoformat()}~{row.pk}"


def listing(rows: QuerySet[Any], everything: QuerySet[Any], filters: Filters) -> Listing:
    """Newest first, or oldest first; a row that arrives meanwhile moves no other to another page.

    In the order of a column only the rows that have a value there are listed."""
    size = min(filters.whole("rows") or SIZE, LONGEST)
    walk = ByColumn(filters) if filters.sort else ByNumber(filters)
    rows = walk.all_of(rows)
    found = list(walk.page(rows)[: size + 1])
    shown, is_more = found[:size], len(found) > size
    return Listing(
        rows=shown,
        count=count_of(rows),
        total=count_of(everything) if filters.active else None,
        more=filters.address(rows=size + SIZE) if is_more and size < LONGEST else "",
        older=filters.address(after=walk.key(shown[-1]), rows=None) if is_more and size >= LONGEST else "",
        top=filters.address(after=None, rows=None) if walk.after else "",
        filters=filters,
    )


def list_page(request: HttpRequest, template: str, filters: Filters, context: dict[str, Any]) -> HttpResponse:
    """The page of a list; its address, in the browser too, is the one without what is empty."""
    here = f"{request.path}{filters.here.removesuffix('?')}"
    facts = {"filters": filters, "here": here if request.get_full_path() != here else "", **context}
    answer = render(request, template, facts, status=filters.status)
    answer["HX-Push-Url"] = here
    return answer


def as_table(
    request: HttpRequest, name: str, row: type[Schema], rows: QuerySet[Any], show: Callable[[Any], dict[str, Any]]
) -> HttpResponseBase:
    """Every row of a list as `name.csv` or `name.json`, with the same members as in the API."""
    found = by_number(rows, oldest_first=is_oldest_first(request.GET))
    if request.GET.get("format") == "json":
        told = (row.model_validate(show(one)).model_dump(mode="json") for one in found)
        return json_answer(request, name, told)
    return download(request, name, row, map(show, found))
