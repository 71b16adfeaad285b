"""What a file source knows of its files, and the one place where a change of them becomes an event, once.

A change is written into the file's row first, told after, and told again if that was cut short; the event's key names
the row and its generation. So nothing is lost by a kill, and nothing doubled by it or by a second listener."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson
from django.db import connection, transaction

from project.lib import clock
from triggers.envelope import LONGEST_NAME, Arrival
from triggers.ingest import ingest
from triggers.models import Source, WatchedFile
from triggers.sources.file import Change, FileWatch, Look, data_of, text_of

BATCH = 100  # changes of one commit
SILENT_BATCH = 2000  # of those that are only remembered
LOOKS = ("size", "mtime_ns", "ctime_ns", "inode", "sha256")
COLUMNS = ("source_id", "key", "name", "generation", *LOOKS, "untold", "came_from")
ADD = 'INSERT INTO "{}" ({}) VALUES ({}) ON CONFLICT DO NOTHING'.format(
    WatchedFile._meta.db_table, ", ".join(f'"{name}"' for name in COLUMNS), ", ".join(["%s"] * len(COLUMNS))
)


@dataclass(frozen=True, slots=True)
class Known:
    """What was last remembered of one name; no look: it went."""

    generation: int
    look: Look | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one row is to become, and what is to be told of it."""

    known: Known
    untold: str = ""
    came_from: bytes = b""


class Snapshot:
    """The known files of one source, in memory as in the database, when nobody else listens."""

    def __init__(self, source: Source, watch: FileWatch, root: bytes) -> None:
        self.source, self.watch, self.root = source, watch, root
        self.known: dict[bytes, Known] = {}

    def load(self) -> None:
        """Read what was remembered; forget what went so long ago that its keys are free again."""
        rows = WatchedFile.objects.filter(source=self.source)
        rows.filter(gone_at__lt=clock.now() - timedelta(seconds=self.source.dedupe_window), untold="").delete()
        self.known = {bytes(row.name): known_of(row) for row in rows.iterator()}

    def looks(self, names: Iterable[bytes]) -> dict[bytes, Look | None]:
        return {name: known.look for name in names if (known := self.known.get(name)) is not None}

    @property
    def present(self) -> list[bytes]:
        return [name for name, known in self.known.items() if known.look is not None]

    def tell(self, changes: Sequence[Change], *, silent: bool = False) -> list[bytes]:
        """Write all changes down, and make an event of each the source is asked to tell.

        Returns the names that must be looked at again, since somebody else wrote them first. Raises QueueFull when the
        database takes no event; what is untold then is told later."""
        again: list[bytes] = []
        size = SILENT_BATCH if silent else BATCH
        for start in range(0, len(changes), size):
            rows, lost = self.take(changes[start : start + size], silent=silent)
            self.ring(rows)
            again += lost
        if again:
            self.tell_cut_short()  # what is not told yet is not written over
        return again

    def tell_cut_short(self) -> None:
        """Tell what was written down by somebody who did not live to tell it."""
        rows = list(WatchedFile.objects.filter(source=self.source).untold().order_by("pk"))
        for start in range(0, len(rows), BATCH):
            self.ring(rows[start : start + BATCH])

    def take(self, changes: Sequence[Change], *, silent: bool) -> tuple[list[WatchedFile], list[bytes]]:
        """Write each change over the generation it was compared with, in one transaction.

        Returns the rows to tell of, and the names whose rows somebody else wrote meanwhile."""
        wanted: dict[bytes, Wanted] = {}
        for change in changes:
            untold = "" if silent or change.verb not in self.watch.on else change.verb
            wanted[change.name] = Wanted(self.next(change.name, change.look), untold, change.came_from)
            if change.came_from:
                wanted[change.came_from] = Wanted(self.next(change.came_from, None))
        if silent and self.add(wanted):
            return [], []
        rows = {bytes(row.name): row for row in self.write(wanted)}
        self.known |= {name: known_of(row) for name, row in rows.items()}
        lost = [name for name, one in wanted.items() if self.known.get(name) != one.known]
        return [row for name, row in rows.items() if row.untold and name not in lost], lost

    def next(self, name: bytes, look: Look | None) -> Known:
        before = self.known.get(name)
        return Known(before.generation + 1 if before else 1, look)

    def add(self, wanted: dict[bytes, Wanted]) -> bool:
        """Write down what nobody knew, ten thousands of files at a first look; False when any of it was known."""
        if any(one.known.generation > 1 or one.known.look is None for one in wanted.values()):
            return False
        rows = []
        for name, one in wanted.items():
            looks = [getattr(one.known.look, fact) for fact in LOOKS]
            rows.append((self.source.pk, key_of(name), name, one.known.generation, *looks, one.untold, one.came_from))
        rows.sort()  # along the index, not across it
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(ADD, rows)
            all_new: bool = cursor.rowcount == len(rows)
        if all_new:
            self.known |= {name: one.known for name, one in wanted.items()}
        return all_new

    def write(self, wanted: dict[bytes, Wanted]) -> list[WatchedFile]:
        now = clock.now()
        held = WatchedFile.objects.filter(source=self.source)
        with transaction.atomic():
            fresh = {name: one for name, one in wanted.items() if one.known.generation == 1}
            WatchedFile.objects.bulk_create(
                [
                    WatchedFile(source=self.source, key=key_of(name), name=name, **facts(one))
                    for name, one in fresh.items()
                ],
                ignore_conflicts=True,
            )
            for name, one in wanted.items():
                if name not in fresh:
                    gone_at = now if one.known.look is None else None
                    before = held.filter(key=key_of(name), generation=one.known.generation - 1, untold="")
                    before.update(generation=one.known.generation, gone_at=gone_at, **facts(one))
            return list(held.filter(key__in=[key_of(name) for name in wanted]).order_by("pk"))

    def ring(self, rows: Sequence[WatchedFile]) -> None:
        """Ingest what the rows have to tell; a second telling is a duplicate by its key."""
        if not rows:
            return
        ingest([self.arrival(row) for row in rows])
        told: dict[int, list[int]] = {}
        for row in rows:
            told.setdefault(row.generation, []).append(row.pk)
        with transaction.atomic():
            for generation, numbers in told.items():  # one that went on meanwhile has something else to tell
                WatchedFile.objects.filter(pk__in=numbers, generation=generation).update(untold="", came_from=b"")

    def arrival(self, row: WatchedFile) -> Arrival:
        # The row's own number is new when the name was forgotten and came again, however long its old keys are held.
        key = f"file:{self.source.pk}:{row.pk}:{row.generation}"
        change = Change(row.untold, bytes(row.name), known_of(row).look, bytes(row.came_from))  # type: ignore[arg-type]
        return Arrival(
            source_id=self.source.pk,
            source=self.source.slug,
            ce_id=key,
            ce_source=f"/sources/{self.source.slug}",
            type=f"{self.source.slug}.{change.verb}",
            subject=text_of(change.name)[:LONGEST_NAME],
            datacontenttype="application/json",
            raw=orjson.dumps(data_of(self.root, change)),
            keys=[(key, "duplicate")],
            window=self.source.dedupe_window,
        )


def known_of(row: WatchedFile) -> Known:
    look = Look(row.size, row.mtime_ns, row.ctime_ns, row.inode, row.sha256)
    return Known(row.generation, None if row.gone_at else look)


def facts(wanted: Wanted) -> dict[str, Any]:
    told = {"untold": wanted.untold, "came_from": wanted.came_from}
    look = wanted.known.look
    if look is None:
        return told
    return {**told, **{name: getattr(look, name) for name in LOOKS}}


def key_of(name: bytes) -> str:
    return hashlib.sha256(name).hexdigest()
