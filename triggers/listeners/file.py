"""Listens to one file source in a thread of its own: hints say where to look, a file that has settled is compared with
what was remembered, and what changed is told.

Everything is looked at when the listening begins, when hints were lost, and every minute (a large tree less often, so
that looking costs next to nothing): hints only make it quick."""

import itertools
import math
import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from django.db.models import F

from triggers.listeners.ground import Ground
from triggers.listeners.hints import Hints, NoHints, gives_hints
from triggers.listeners.snapshot import Snapshot
from triggers.listeners.thread import Listener, Trouble
from triggers.models import Source, Watch
from triggers.sources.file import (
    Change,
    FileWatch,
    Look,
    Skipped,
    compare,
    is_wanted,
    look_at,
    parse_watch,
    read,
    refuse_outside,
    text_of,
    walk,
)

POLL = 5.0  # seconds between two looks at everything without hints
SWEEP = 60.0  # the same with them, at least
REST = 500  # times the processor time a look took, until the next one: 0.2 % of a core
ROOT = 1.0  # seconds between two looks at the root itself
RETRY = 60.0  # seconds until hints are asked for again
MOST_POLLED = 10_000  # files
SLICE = 2_000  # files walked in one turn: what settles meanwhile is told some 20 ms later at most
SHORTEST = 0.01  # seconds between two turns while something settles


class RootMissing(Trouble):
    """The watched folder is not there."""

    status: ClassVar[str] = Watch.MISSING


@dataclass(slots=True)
class Pending:
    """A name that may have changed: how it looked at `since` (monotonic), and whether anybody had hinted at it."""

    look: Look | None
    since: float
    hinted: bool


@dataclass(slots=True)
class Sweep:
    """One look at everything, under way: what is still to be walked, what was seen, and what that cost so far."""

    rest: Iterator[tuple[bytes, Look]]
    seen: dict[bytes, Look] = field(default_factory=dict)
    cost: float = 0.0  # seconds of processor time

    def go_on(self) -> bool:
        """Walk one slice; False when that was the last one."""
        began = time.thread_time()
        found = list(itertools.islice(self.rest, SLICE))
        self.seen.update(found)
        self.cost += time.thread_time() - began
        return len(found) == SLICE


class FileListener(Listener):
    """Watches the files of its source."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.watch: FileWatch = parse_watch(source.config)
        self.path = ""  # where the source's path leads
        self.root = b""
        self.only = b""  # the one file that is watched, below its folder
        self.inode: tuple[int, int] | None = None
        self.hints: Hints | None = None
        self.pending: dict[bytes, Pending] = {}
        self.sweep: Sweep | None = None
        self.why = ""  # no hints are given, or a file cannot be looked at
        self.skipped = Skipped()  # by the last look at everything
        self.is_new = True  # nothing was looked at since the listening began
        self.is_deaf = False  # hints were missed: they are asked for anew
        self.is_held = False  # what is written down found no room yet
        self.next_look = self.next_root = self.next_hints = 0.0

    def turn(self, now: float) -> None:
        if self.inode is None:
            self.settle_in()
        elif now >= self.next_root:
            self.next_root = now + ROOT
            self.check_root()
        if self.is_held:
            self.snapshot.tell_cut_short()
            self.is_held = False
        self.hear()
        self.look_around(now)
        self.tell_settled(now)
        self.note(Watch.WATCHING, self.why or str(self.skipped))

    def pause(self) -> float:
        """Until something has settled, where that is sooner than the next turn; none while there is more to walk."""
        usual = super().pause()
        if not self.failures and self.sweep:
            return SHORTEST
        if self.failures or not self.pending:
            return usual
        first = min(one.since for one in self.pending.values()) + self.watch.settle_seconds
        return min(usual, max(first - time.monotonic(), SHORTEST))

    # Where, and by which means

    @property
    def mode(self) -> str:
        if self.inode is None:
            return ""
        return "native" if self.hints else "polling"

    def settle_in(self) -> None:
        """Find the root, remember what was known of it, and listen. Raises Trouble."""
        self.find_root()
        found = os.stat(self.root)
        self.snapshot = Snapshot(self.source, self.watch, self.root)
        self.snapshot.load()
        self.ground = Ground(self.source, self.root, below=self.watch.recursive and not self.only)
        self.refuse_unmounted()
        self.pending.clear()
        self.sweep, self.is_held = None, False
        self.listen()
        self.first_look()
        self.ground.note()
        self.inode = (found.st_dev, found.st_ino)
        self.is_new, self.next_look = True, 0.0

    def find_root(self) -> None:
        """The folder that is watched: of a single file the one around it, since editors replace files."""
        self.path = path = str(refuse_outside(self.watch.path))  # links may lead elsewhere today
        is_file = os.path.isfile(path) or (not os.path.exists(path) and self.scope_of("file") == self.stored_scope())
        self.root = os.fsencode(os.path.dirname(path) if is_file else path)
        self.only = os.fsencode(os.path.basename(path)) if is_file else b""
        if not os.path.isdir(self.root):
            raise RootMissing(f"{os.fsdecode(self.root)} is not there")

    def refuse_unmounted(self) -> None:
        """What was on a file system that is not mounted now is not deleted. Raises RootMissing."""
        is_known = self.stored_scope() == self.scope_of("file" if self.only else "folder")
        if is_known and (place := self.ground.lost(self.snapshot.present)):
            raise RootMissing(f"{place} is not mounted; to go on without it, turn the source off and on")

    def scope_of(self, kind: str) -> str:
        return f"{kind} {self.watch.path} {self.watch.pattern} {'and below' if self.watch.recursive else ''}".strip()

    def stored_scope(self) -> str:
        return Watch.objects.filter(source=self.source).values_list("scope", flat=True).first() or ""

    def listen(self) -> None:
        """Ask for hints where they are wanted and given; `why` says why there are none. Raises Trouble."""
        self.drop_hints()
        self.why, self.is_deaf = "", False
        self.next_hints = time.monotonic() + RETRY
        if self.watch.mode == "polling":
            return
        if self.watch.mode == "auto" and not gives_hints(self.root):
            self.why = "its file system tells of no changes"
            return
        try:
            self.hints = Hints(self.root, recursive=self.watch.recursive and not self.only).start()
        except NoHints as none:
            if self.watch.mode == "native":
                raise Trouble(str(none)) from none
            self.why = str(none)

    def drop_hints(self) -> None:
        if self.hints:
            self.hints.stop()
            self.hints = None

    def hold(self) -> None:
        """What is written down is told once there is room; then all is looked at, since nobody knows what was due."""
        self.is_held = self.is_new = True
        self.next_look = 0.0

    def let_go(self) -> None:
        self.drop_hints()
        self.inode = self.sweep = None

    def check_root(self) -> None:
        """Begin again when the root is another one or hints were missed; ask for hints again where they are wanted."""
        if not self.root_stands():
            self.settle_in()
        elif self.hints is not None and (self.is_deaf or not self.hints.is_alive()):
            self.listen()
            self.next_look = 0.0
        elif self.hints is None and self.watch.mode == "auto" and time.monotonic() >= self.next_hints:
            self.listen()

    # Looking

    def first_look(self) -> None:
        """Under a new path or pattern, what is there already is remembered and not told."""
        scope = self.scope_of("file" if self.only else "folder")
        if self.stored_scope() == scope:
            return
        seen: dict[bytes, Look | None] = dict.fromkeys(self.snapshot.present)
        for name, look in self.files():
            seen[name] = read(os.path.join(self.root, name), look) or look
        changes = compare(self.snapshot.looks(seen), seen, moves=False)
        self.snapshot.tell([*changes.told, *changes.silent], silent=True)
        Watch.objects.update_or_create(source=self.source, defaults={"scope": scope})

    def files(self) -> Iterator[tuple[bytes, Look]]:
        """What is there; raises Trouble for more than may be polled."""
        skipped = Skipped()
        for number, entry in enumerate(self.walked(skipped), start=1):
            if self.hints is None and number > MOST_POLLED:
                many = f"over {MOST_POLLED:,} files are too many to be looked at every {POLL:.0f} s"
                raise Trouble(f"{self.why}; {many}" if self.why else many)
            if self.stopped.is_set():
                raise Trouble("stopped")
            yield entry
        self.skipped = skipped

    def walked(self, skipped: Skipped) -> Iterable[tuple[bytes, Look]]:
        if not self.only:
            return walk(self.root, self.watch, skipped)
        look = look_at(os.path.join(self.root, self.only))
        return [(self.only, look)] if look else []

    def hear(self) -> None:
        if self.hints is None:
            return
        names, everything = self.hints.take()
        for name, heard in names.items():
            if name == self.only or (not self.only and is_wanted(name, self.watch)):
                self.expect(name, heard, hinted=True)
        if everything:
            self.next_look = 0.0

    def look_around(self, now: float) -> None:
        """Look at everything when it is time, a slice each turn."""
        if self.sweep is None:
            if now < self.next_look:
                return
            self.snapshot.tell_cut_short()
            self.sweep, self.next_look = Sweep(self.files()), math.inf  # unless hints are lost before its end
        if not self.sweep.go_on():
            done, self.sweep = self.sweep, None
            self.expect_news(done.seen, now)
            self.next_look = min(self.next_look, now + (max(SWEEP, REST * done.cost) if self.hints else POLL))

    def expect_news(self, seen: dict[bytes, Look], now: float) -> None:
        """All at once, when everything was walked: what went here and came there is one move."""
        if self.ground.stands():
            self.ground.note()
        known = self.snapshot.known
        for name, look in seen.items():
            remembered = known[name].look if name in known else None
            if not look.stands(remembered):
                self.expect(name, now, hinted=self.is_new)
        for name in self.snapshot.present:
            if name not in seen:
                self.expect(name, now, hinted=self.is_new)
        self.is_new = False

    def expect(self, name: bytes, since: float, *, hinted: bool) -> None:
        """Look at `name` once it has been left alone for the time to settle, which began at `since` or when it was
        touched after that."""
        try:
            look = look_at(os.path.join(self.root, name))
        except OSError as error:
            self.why = f"{text_of(name)} cannot be looked at: {error.strerror}"
            self.pending.pop(name, None)
            return
        waiting = self.pending.get(name)
        if waiting is None or waiting.look != look:
            since = max(since, touched_at(look)) if look else since
            self.pending[name] = Pending(look, since, hinted or (waiting is not None and waiting.hinted))
        else:
            waiting.hinted = waiting.hinted or hinted

    # Telling

    def tell_settled(self, now: float) -> None:
        """Compare the files that were left alone long enough, and tell what changed of them."""
        due = [name for name, one in self.pending.items() if now - one.since >= self.watch.settle_seconds]
        if not due:
            return
        seen: dict[bytes, Look | None] = {}
        hinted: dict[bytes, bool] = {}
        for name in due:
            waited = self.pending.pop(name)
            settled, look = self.as_it_stands(name, waited.look)
            if settled:
                seen[name], hinted[name] = look, waited.hinted
            else:
                self.expect(name, now, hinted=waited.hinted)
        if self.root_stands():
            self.tell(seen, hinted, now)
        else:
            self.settle_in()  # all of it is looked at again, there

    def as_it_stands(self, name: bytes, expected: Look | None) -> tuple[bool, Look | None]:
        """Whether the file still is as `expected`, and its looks; it is read when they are news."""
        path = os.path.join(self.root, name)
        try:
            look = look_at(path)
        except OSError:
            return False, None
        remembered = self.snapshot.looks([name]).get(name)
        if look is not None and look.stands(expected) and not look.stands(remembered):
            content = read(path, look)
            return content is not None, content
        return look == expected, remembered if look else None

    def root_stands(self) -> bool:
        """Whether the path leads to the same folder, on the same file systems. Raises NotValid when it leads out."""
        if str(refuse_outside(self.watch.path)) != self.path or (self.only and os.path.isdir(self.path)):
            return False
        try:
            found = os.stat(self.root)
        except OSError:
            return False
        is_same = stat.S_ISDIR(found.st_mode) and (found.st_dev, found.st_ino) == self.inode
        return is_same and self.ground.stands()

    def tell(self, seen: dict[bytes, Look | None], hinted: dict[bytes, bool], now: float) -> None:
        changes = compare(self.snapshot.looks(seen), seen, moves="moved" in self.watch.on)
        again = self.snapshot.tell(changes.told)
        again += self.snapshot.tell(changes.silent, silent=True)
        self.count_recovered(changes.told, hinted)
        for name in again:
            self.expect(name, now, hinted=True)

    def count_recovered(self, told: list[Change], hinted: dict[bytes, bool]) -> None:
        lost = sum(not hinted[change.name] for change in told) if self.hints else 0
        if lost:
            Watch.objects.filter(source=self.source).update(recovered=F("recovered") + lost)
            self.is_deaf = True

    # Saying how it goes

    def figures(self) -> dict[str, Any]:
        return {"files": len(self.snapshot.present) if self.inode else 0}


def touched_at(look: Look) -> float:
    """When the file was last touched by its own times, as monotonic time; a time to come is now."""
    return time.monotonic() - max(0.0, time.time() - look.ctime_ns / 1e9)
