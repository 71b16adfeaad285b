"""What a file source knows of its files, and the one place where a change of them becomes an event, once.

A change is told first and remembered after; its key names the file and its generation. Whoever is cut short between
the two tells it again and is answered with the event that exists; so is a second listener of the same source."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson
from django.db import transaction

from project.lib import clock
from triggers.envelope import Arrival
from triggers.ingest import Outcome, ingest
from triggers.models import Event, Source, WatchedFile
from triggers.sources.file import Change, FileWatch, Look, data_of, text_of

BATCH = 100  # changes of one commit


@dataclass(frozen=True, slots=True)
class Known:
    """What was last remembered of one name; no look: it went."""

    generation: int
    look: Look | None


class Snapshot:
    """The known files of one source, in memory as in the database, when nobody else listens."""

    def __init__(self, source: Source, watch: FileWatch, root: bytes) -> None:
        self.source, self.watch, self.root = source, watch, root
        self.known: dict[bytes, Known] = {}

    def load(self) -> None:
        """Read what was remembered; forget what went so long ago that its keys are free again."""
        rows = WatchedFile.objects.filter(source=self.source)
        rows.filter(gone_at__lt=clock.now() - timedelta(seconds=self.source.dedupe_window)).delete()
        self.known = {bytes(row.name): known_of(row) for row in rows.iterator()}

    def looks(self, names: Iterable[bytes]) -> dict[bytes, Look | None]:
        return {name: known.look for name in names if (known := self.known.get(name)) is not None}

    @property
    def present(self) -> list[bytes]:
        return [name for name, known in self.known.items() if known.look is not None]

    def tell(self, changes: Sequence[Change], *, silent: bool = False) -> list[bytes]:
        """Make an event of each change the source is asked to tell, and remember all of them.

        Returns the names that must be looked at again: somebody else was there first, or had been cut short.
        Raises QueueFull when the database takes nothing; then nothing is remembered and telling again is right."""
        again: list[bytes] = []
        for start in range(0, len(changes), BATCH):
            batch = changes[start : start + BATCH]
            told = [] if silent else [change for change in batch if change.verb in self.watch.on]
            outcomes = (
                dict(zip(map(id, told), ingest([self.arrival(one) for one in told]), strict=True)) if told else {}
            )
            adopted = [self.as_first_told(one, outcomes.get(id(one))) for one in batch]
            again += self.remember(adopted)
            again += [one.name for one, ours in zip(adopted, batch, strict=True) if one is not ours]
        return again

    def arrival(self, change: Change) -> Arrival:
        names = [change.name, change.came_from] if change.came_from else [change.name]
        keys = [f"file:{self.source.pk}:{self.generation(name) + 1}:{key_of(name)}" for name in names]
        return Arrival(
            source_id=self.source.pk,
            source=self.source.slug,
            ce_id=keys[0],
            ce_source=f"/sources/{self.source.slug}",
            type=f"{self.source.slug}.{change.verb}",
            subject=text_of(change.name)[:512],
            datacontenttype="application/json",
            raw=orjson.dumps(data_of(self.root, change)),
            keys=[(key, "duplicate") for key in keys],
            window=self.source.dedupe_window,
        )

    def generation(self, name: bytes) -> int:
        known = self.known.get(name)
        return known.generation if known else 0

    def as_first_told(self, change: Change, outcome: Outcome | None) -> Change:
        """The change itself, or, when its event existed already, what that event had told of the file."""
        if outcome is None or outcome.status != "duplicate":
            return change
        told = Event.objects.get(pk=outcome.seq).data
        ours = data_of(self.root, change)
        if not isinstance(told, dict) or all(told.get(name) == ours.get(name) for name in ("size", "sha256", "mtime")):
            return change  # the same, or pruned meanwhile
        if told.get("kind") == "deleted":
            return Change("deleted", change.name, None, change.came_from)
        size, digest = told.get("size"), told.get("sha256")
        look = Look(size if isinstance(size, int) else 0, 0, 0, "", digest if isinstance(digest, str) else "")
        return Change(change.verb, change.name, look, change.came_from)

    def remember(self, changes: Sequence[Change]) -> list[bytes]:
        """Write each change over the generation it was compared with; returns the names somebody else wrote first."""
        wanted: dict[bytes, Known] = {}
        for change in changes:
            wanted[change.name] = Known(self.generation(change.name) + 1, change.look)
            if change.came_from:
                wanted[change.came_from] = Known(self.generation(change.came_from) + 1, None)
        now = clock.now()
        with transaction.atomic():
            fresh = [self.row(name, known) for name, known in wanted.items() if known.generation == 1]
            WatchedFile.objects.bulk_create(fresh, ignore_conflicts=True)
            for name, known in wanted.items():
                if known.generation > 1:
                    held = WatchedFile.objects.filter(source=self.source, key=key_of(name))
                    gone = now if known.look is None else None
                    held.filter(generation=known.generation - 1).update(
                        generation=known.generation, gone_at=gone, **facts(known.look)
                    )
            rows = WatchedFile.objects.filter(source=self.source, key__in=[key_of(name) for name in wanted])
            found = {bytes(row.name): known_of(row) for row in rows}
        self.known |= found
        for name in wanted.keys() - found.keys():
            self.known.pop(name, None)
        return [name for name, known in wanted.items() if found.get(name) != known]

    def row(self, name: bytes, known: Known) -> WatchedFile:
        return WatchedFile(source=self.source, key=key_of(name), name=name, **facts(known.look))


def known_of(row: WatchedFile) -> Known:
    look = Look(row.size, row.mtime_ns, row.ctime_ns, row.inode, row.sha256)
    return Known(row.generation, None if row.gone_at else look)


def facts(look: Look | None) -> dict[str, Any]:
    if look is None:
        return {}
    names = ("size", "mtime_ns", "ctime_ns", "inode", "sha256")
    return {name: getattr(look, name) for name in names}


def key_of(name: bytes) -> str:
    return hashlib.sha256(name).hexdigest()
