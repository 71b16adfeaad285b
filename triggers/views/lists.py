"""Lists: filters live in the address, rows come fifty at a time, counts stop at 10,000."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db.models import Q, QuerySet
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from project.lib import clock

SIZE = 50  # rows a page starts with, and how many "Load 50 more" adds
LONGEST = 500  # rows on one page; older ones are on the next
REACH = 100_000  # rows a search by words reads
COUNTED = 10_000  # above it a list says "10,000+"
SPANS = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
PAGING = ("rows", "after")
Rows = TypeVar("Rows", bound="QuerySet[Any]")


@dataclass
class Filters:
    """The filters of an address. What it cannot use is left out and said in `notes`, never an error."""

    query: QueryDict
    names: tuple[str, ...]
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        known = {*self.names, *PAGING}
        self.notes += [
            f"“{name}” is no filter of this list; it was left out." for name in self.query if name not in known
        ]

    def one(self, name: str) -> str:
        return self.query.get(name, "").replace("\x00", "").strip()

    def many(self, name: str) -> list[str]:
        """Repeated values are read as "or"; empty ones are dropped."""
        return [text for value in self.query.getlist(name) if (text := value.replace("\x00", "").strip())]

    def number(self, name: str, *, prefix: str = "") -> int | None:
        """`17`, or `E-17` for prefix `E-`."""
        text = self.one(name)
        digits = text.upper().removeprefix(prefix)
        if digits.isascii() and digits.isdigit() and len(digits) < 19:
            return int(digits)
        if text:
            self.notes.append(f"“{name}” is a number such as {prefix}17; “{text[:40]}” was left out.")
        return None

    def time(self, name: str) -> datetime | None:
        """A moment (`2026-11-29T03:00Z`, a day, or in the reader's zone), or a span back from now (`24h`)."""
        text = self.one(name)
        if not text:
            return None
        if text in SPANS:
            return clock.now() - SPANS[text]
        if (moment := read_moment(text)) is not None:
            return moment
        self.notes.append(f"“{name}” is a time such as 24h or 2026-11-29T03:00Z; “{text[:40]}” was left out.")
        return None

    @property
    def active(self) -> bool:
        return any(self.many(name) for name in self.names)

    @property
    def values(self) -> dict[str, str]:
        """One value a filter, to fill the form again."""
        return {name: self.one(name) for name in self.names}

    def address(self, **changes: Any) -> str:
        """`?…` of this list with some parameters changed; None and "" take one out."""
        query = self.query.copy()
        for name in [name for name in query if name not in {*self.names, *PAGING} or not query.get(name)]:
            del query[name]
        for name, value in changes.items():
            query.pop(name, None)
            if value not in (None, ""):
                query[name] = str(value)
        text = query.urlencode()
        return f"?{text}" if text else "?"


def read_moment(text: str) -> datetime | None:
    try:
        moment = parse_datetime(text)
        day = None if moment else parse_date(text)
    except ValueError:
        return None
    if day is not None:
        moment = datetime(day.year, day.month, day.day)
    if moment is not None and timezone.is_naive(moment):
        moment = timezone.make_aware(moment)
    return moment


@dataclass(frozen=True)
class Listing:
    """The rows of one page of a list, and what is said around them."""

    rows: list[Any]
    count: int  # at most COUNTED + 1
    total: int | None  # without the filters; None when there are none
    more: str  # the address with fifty more rows; "" at the end
    older: str  # the address of what comes after a page that is full
    newest: str  # back to the top, "" when this is the top
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


def listing(rows: QuerySet[Any], everything: QuerySet[Any], filters: Filters) -> Listing:
    """Newest first, by number; a row that arrives meanwhile moves no other to another page."""
    after, size = whole(filters, "after"), min(whole(filters, "rows") or SIZE, LONGEST)
    page = rows.filter(pk__lt=after) if after else rows
    found = list(page.order_by("-pk")[: size + 1])
    shown, is_more = found[:size], len(found) > size
    return Listing(
        rows=shown,
        count=count_of(rows),
        total=count_of(everything) if filters.active else None,
        more=filters.address(rows=size + SIZE) if is_more and size < LONGEST else "",
        older=filters.address(after=shown[-1].pk, rows=None) if is_more and size >= LONGEST else "",
        newest=filters.address(after=None, rows=None) if after else "",
        filters=filters,
    )


def found_by(words: Q, rows: Rows, filters: Filters, *, prefix: str) -> Rows:
    """The rows with the number that was asked for, or with its words in them.

    Words alone are looked for in the newest REACH rows only, and the page says so."""
    number = filters.one("q").upper().removeprefix(prefix)
    if number.isascii() and number.isdigit() and len(number) < 19:
        return rows.filter(Q(pk=int(number)) | words & reach(rows, filters))
    return rows.filter(words & reach(rows, filters))


def reach(rows: QuerySet[Any], filters: Filters) -> Q:
    narrowed = any(filters.many(name) for name in filters.names if name != "q")
    newest = 0 if narrowed else rows.order_by("-pk").values_list("pk", flat=True).first() or 0
    if newest <= REACH:
        return Q()
    filters.notes.append(f"Looked through the newest {REACH:,}. Choose a source, state or time to look further back.")
    return Q(pk__gt=newest - REACH)


def whole(filters: Filters, name: str) -> int:
    text = filters.query.get(name, "")
    if text.isascii() and text.isdigit() and int(text[:18]) > 0:
        return int(text[:18])
    if text:
        filters.notes.append(f"“{name}” is a whole number above 0; “{text[:40]}” was left out.")
    return 0


def choices(values: Iterable[str], chosen: str) -> list[dict[str, Any]]:
    """Options of a select; a value that is chosen but unknown stays to be seen."""
    known = list(dict.fromkeys(values))
    return [
        {"value": value, "on": value == chosen} for value in known + [chosen] * bool(chosen and chosen not in known)
    ]
