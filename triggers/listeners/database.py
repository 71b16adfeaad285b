"""Listens to a table of another database: every few seconds it is asked for rows that are new or changed.

The place that was read moves after the events are stored. Rows of the window behind it are read again each time; what
was told of them is known by the row's key and content, for as long as they are read, and is not told twice."""

import json
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from django.db.models import QuerySet

from project.lib import clock
from triggers.envelope import Arrival, key_of
from triggers.errors import BadDelivery
from triggers.listeners.link import FAULTS, Link, Row, link_to
from triggers.listeners.thread import Listener, Trouble
from triggers.models import Seen, Source, Watch
from triggers.reading import Reading, read_json
from triggers.retention import remove
from triggers.sources import entries
from triggers.sources.cursors import back, is_after, is_placed, kept, max_of, moment_of, plain, restored
from triggers.sources.database import digest, parse_table
from triggers.unreadable import bury

BATCH = 100  # rows of one commit
COUNTED = 10_001  # rows that are counted as waiting, at most
GRACE = timedelta(seconds=30)  # for which a row that was acknowledged stays told, to whoever read it before
FREED = 3600.0  # seconds between two times that keys are freed


class TableListener(Listener):
    """Reads its table by a cursor, or as an outbox."""

    faults: ClassVar[tuple[type[Exception], ...]] = FAULTS

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.table = parse_table(source.config)
        self.rest = self.table.every
        self.link: Link | None = None
        self.next_freed = 0.0
        self.reached = datetime.min.replace(tzinfo=UTC)  # as far as our clock has been

    @property
    def mode(self) -> str:
        return self.table.mode if self.link else ""

    @property
    def where(self) -> str:
        return f"{self.table.place} {self.table.cursor}"

    def let_go(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link = None

    def hold(self) -> None:
        """The place that was read has not moved, and no row was acknowledged."""

    def turn(self, now: float) -> None:
        if self.link is None:
            self.link = link_to(self.source, self.table)
        read = self.read_outbox if self.table.mode == "outbox" else self.read_cursor
        read(self.link)
        self.note(Watch.WATCHING, "")

    # By a cursor

    def read_cursor(self, link: Link) -> None:
        latest = link.clock() + timedelta(seconds=self.table.overlap)
        place = self.known(self.table.table) or self.first_place(link, latest)
        place |= self.set_back(link, place, latest)
        high, ahead = restored(place.get("high")), 0
        waiting = link.behind(high, COUNTED)
        where, values = self.beginning(link, high, restored(place.get("floor")))
        while not self.stopped.is_set():
            rows = link.page(where, values, BATCH)
            self.tell([row for row in rows if row[self.table.cursor] is not None])
            if rows:
                last, cursors = rows[-1], [row[self.table.cursor] for row in rows]
                placed = [one for one in cursors if is_placed(one, latest)]
                ahead += len(cursors) - len(placed)
                waiting -= len(cursors) - len(placed) + sum(is_after(one, high) for one in placed)
                high = max_of(high, placed[-1] if placed else None)
                self.move(self.table.table, **{**place, "high": kept(high)})
                where, values = link.after(), [last[name] for name in (self.table.cursor, *self.table.key)]
            self.counted = {"behind": max(0, waiting), "position": str(high) if high is not None else None}
            if ahead:
                self.counted["ahead"] = ahead
            if len(rows) < BATCH:
                self.free_keys()
                return
            self.note(Watch.WATCHING, "")

    def first_place(self, link: Link, latest: datetime) -> dict[str, Any]:
        """What is there when the listening begins is not told, unless that is asked for."""
        newest = link.newest(latest) if self.table.start == "new" else None
        place = {"high": kept(newest), "floor": kept(newest)}
        if self.table.start == "new":
            self.pass_over(link, newest, latest)
        self.begin(self.table.table, **place)
        return place

    def set_back(self, link: Link, place: dict[str, Any], latest: datetime) -> dict[str, Any]:
        """A place noted of a time to come stands where the newest row is: the clock over there was set back, and all
        that comes would lie before it. The window behind it is read again; what was told of it is known."""
        high = restored(place.get("high"))
        newest = link.newest(latest) if high is not None and not is_placed(high, latest) else None
        return {} if newest is None else {"high": kept(newest), "floor": None}

    def pass_over(self, link: Link, newest: Any, latest: datetime) -> None:
        """Of what is there, what lies behind every place: known as it stands, and not told."""
        where, values = self.beginning(link, newest, newest)
        until = clock.now() + timedelta(seconds=self.source.dedupe_window)
        while rows := link.page(where, values, BATCH):
            odd = [row for row in rows if not is_placed(row[self.table.cursor], latest)]
            keys = keys_of(map(self.place_of, odd))
            Seen.objects.bulk_create(
                [Seen(source_id=self.source.pk, key=key, event=0, until=until) for key in keys], ignore_conflicts=True
            )
            where, values = link.after(), [rows[-1][name] for name in (self.table.cursor, *self.table.key)]

    def beginning(self, link: Link, high: Any, floor: Any) -> tuple[str, list[Any]]:
        """From where a look begins: the window behind the place that was read, nothing from before the first look."""
        by = link.order[0]
        if high is None:
            return f"{by} IS NOT NULL", []
        try:
            low = back(high, timedelta(seconds=self.table.overlap), self.table.overlap)
        except (ArithmeticError, TypeError, ValueError):
            low = high  # a text that is no time has no window
        if floor is not None and not is_after(low, floor):
            return f"{by} > {link.mark}", [floor]
        return f"{by} >= {link.mark}", [low]

    def tell(self, rows: Sequence[Row]) -> None:
        """Make events of the rows that were not told as they stand."""
        places = {self.place_of(row): row for row in rows}
        for place in self.told_of(places):
            del places[place]
        self.take_in(places)

    # What is known

    def told_of(self, places: Iterable[str]) -> list[str]:
        """Those that were told; they stay known for as long as they are read, however long nothing else happens."""
        keys, now, window = keys_of(places), clock.now(), timedelta(seconds=self.source.dedupe_window)
        known = dict(self.claims(keys).values_list("key", "until"))
        if old := [key for key, until in known.items() if until < now + window / 2]:
            self.claims(old).update(until=now + window)
        return [keys[key] for key in known]

    def claims(self, keys: Iterable[str]) -> QuerySet[Seen]:
        return Seen.objects.filter(source_id=self.source.pk, key__in=list(keys))

    def free_keys(self) -> None:
        """After a whole look: whatever is still read was renewed in it. Nobody else frees keys of a table, since rows
        may lie in the window for years while nobody looks."""
        if (now := time.monotonic()) >= self.next_freed:
            self.next_freed = now + FREED
            remove(Seen.objects.filter(source_id=self.source.pk, until__lt=clock.now()))

    # As an outbox

    def read_outbox(self, link: Link) -> None:
        before: set[str] = set()
        while not self.stopped.is_set():
            asked = self.latest()
            rows = link.unacknowledged(BATCH)
            places = {self.place_of(row): row for row in rows}
            if not before.isdisjoint(places):
                raise Trouble(f"rows of {self.table.table} stay although they were acknowledged: is their key empty?")
            before = set(places)
            self.claims(keys_of(places)).filter(until__lte=asked + GRACE).delete()  # of rows before, by the same keys
            self.tell(rows)
            if rows:
                self.acknowledge(link, rows)
            self.counted = {"behind": link.count_waiting(COUNTED) if len(rows) == BATCH else 0}
            if len(rows) < BATCH:
                self.free_keys()
                return
            self.note(Watch.WATCHING, "")

    def acknowledge(self, link: Link, rows: Sequence[Row]) -> None:
        """A row that is acknowledged is over: its key may name another. Whoever read it before that knows it still."""
        touched = link.acknowledge([[row[name] for name in self.table.key] for row in rows])
        over = [self.place_of(row) for row, many in zip(rows, touched, strict=True) if many]
        self.claims(keys_of(over)).update(until=self.latest() + GRACE)

    def latest(self) -> datetime:
        """The time, or as far as the clock had come before it was set back: what was acknowledged then is over now."""
        self.reached = max(self.reached, clock.now())
        return self.reached

    # Both

    def take_in(self, places: dict[str, Row]) -> None:
        arrivals = []
        for place, row in places.items():
            try:
                arrivals.append(self.arrival(place, row))
            except BadDelivery as refused:
                bury(self.source, place, text_of(row).encode(), refused.detail)
        if arrivals:
            self.store(arrivals)

    def place_of(self, row: Row) -> str:
        key = "/".join(str(plain(row[name])) for name in self.table.key)
        return f"{self.table.table}:{key}:{digest(text_of(row).encode())}"

    def arrival(self, place: str, row: Row) -> Arrival:
        table = self.table
        named = str(row.get(table.type_column) or "") if table.type_column else ""
        usual = "received" if table.mode == "outbox" else "changed"
        data = (
            plain(row[table.data_column]) if table.data_column else {name: plain(value) for name, value in row.items()}
        )
        arrival = entries.told(
            self.source,
            place,
            kind=entries.typed(named) if named else usual,
            data=None,
            subject="/".join(str(plain(row[name])) for name in table.key),
            time=moment_of(row.get(table.cursor)),
        )
        if table.data_column and isinstance(data, str):
            reading = inside(data)
            arrival.raw, arrival.data_json, arrival.sanitized = data.encode(), reading.text, reading.sanitized
        else:
            arrival.raw = json.dumps(data, ensure_ascii=False).encode()
        return arrival


def keys_of(places: Iterable[str]) -> dict[str, str]:
    """By the key that is claimed, the place it stands for."""
    return {key_of("at", place): place for place in places}


def inside(text: str) -> Reading:
    """The JSON that a column holds as text. Raises BadDelivery for a text that is none."""
    try:
        if not text:
            raise BadDelivery("it is empty")
        return read_json(text.encode())
    except BadDelivery as refused:
        raise BadDelivery(f"The column holds no JSON: {refused.detail}", code=refused.code) from refused


def text_of(row: Row) -> str:
    return json.dumps({name: plain(value) for name, value in row.items()}, sort_keys=True)


def try_out(source: Source) -> str:
    """Connect as the listener does; what was found, in words. Raises what that raises."""
    table = parse_table(source.config)
    link = link_to(source, table)
    try:
        if table.mode == "outbox":
            return f"Connected: {link.count_waiting(COUNTED):,} rows of {table.table} wait."
        newest = link.newest(link.clock() + timedelta(seconds=table.overlap))
        return f"Connected: the newest {table.cursor} of {table.table} is {newest}."
    finally:
        link.close()
