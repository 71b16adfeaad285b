"""A folder or a file as a source: what is watched, how a file looks at one moment, what changed between two looks.

Names are bytes, as the file system has them; links are not followed, and nothing but regular files is ever opened."""

import base64
import contextlib
import fnmatch
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from project.lib.faults import first_fault
from project.lib.schema import rfc3339
from triggers.errors import NotValid
from triggers.sources.unlinked import entries, open_file, stat_of

HASHED_TO = 64 * 1024 * 1024  # bytes; of a larger file only size, time and inode are compared
LEAST, MOST = -(2**63), 2**63 - 1  # what a column holds; a time beyond, as of the year 2300, counts as the last one
# What editors, browsers and copy programs write beside the file they mean.
PASSING = re.compile(
    rb".*~|#.*#|\..*\.(?:sw[a-p]|swp?x)|.*\.(?:tmp|temp|part|partial|crdownload|filepart)|~\$.*|4913|___jb_(?:tmp|old)___"
)

Verb = Literal["created", "modified", "deleted", "moved"]
VERBS: tuple[Verb, ...] = ("created", "modified", "deleted", "moved")


class FileWatch(BaseModel):
    """The `config` of a file source; `pattern` is compared with the name, with the path below when it holds a `/`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = Field(min_length=1, max_length=4000)
    pattern: str = Field(default="*", min_length=1, max_length=500)
    recursive: bool = False
    on: tuple[Verb, ...] = Field(default=VERBS, min_length=1)
    settle_seconds: float = Field(default=1, ge=0.1, le=3600)
    mode: Literal["auto", "native", "polling"] = "auto"

    @field_validator("path")
    @classmethod
    def path_is_absolute(cls, value: str) -> str:
        if not os.path.isabs(value) or "\x00" in value:
            raise ValueError("an absolute path, such as /srv/uploads")
        return os.path.normpath(value)

    @field_validator("on")
    @classmethod
    def each_once(cls, value: tuple[Verb, ...]) -> tuple[Verb, ...]:
        return tuple(verb for verb in VERBS if verb in value)


def parse_watch(config: Mapping[str, Any]) -> FileWatch:
    """Raises NotValid, naming the field, when the config makes no sense."""
    try:
        return FileWatch.model_validate(dict(config))
    except ValidationError as error:
        place, said = first_fault(error)
        field = place.partition(".")[0] or "path"
        raise NotValid(f"{field}: {said}", field=field) from error


def checked_watch(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config as it is saved: readable, inside FILE_ROOTS, and there. Raises NotValid."""
    watch = parse_watch(config)
    refuse_outside(watch.path)
    if not os.path.exists(watch.path):
        raise NotValid(f"path: there is no {watch.path}; make it first.", field="path")
    return watch.model_dump(mode="json", exclude_defaults=True)


def refuse_outside(path: str) -> Path:
    """Where `path` leads. Raises NotValid unless that lies inside FILE_ROOTS and shows nothing of DATA_DIR.

    A root that holds DATA_DIR opens nothing inside it; one inside DATA_DIR, such as its inbox, opens itself."""
    place, data = place_of(path), Path(settings.DATA_DIR).resolve()
    shown = text_of(os.fsencode(place))
    roots = [root for root in roots_of(settings.FILE_ROOTS) if place.is_relative_to(root)]
    if not roots:
        named = ", ".join(settings.FILE_ROOTS)
        raise NotValid(f"path: {shown} lies outside FILE_ROOTS ({named}); a folder is opened there.", field="path")
    within = [root for root in roots if root.is_relative_to(data) and root != data]
    if data.is_relative_to(place) or (place.is_relative_to(data) and not within):
        raise NotValid(
            f"path: {shown} shows what the desk itself keeps (DATA_DIR); that is never watched.", field="path"
        )
    return place


def place_of(path: str) -> Path:
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle; what no path can hold
        raise NotValid(f"path: {path!r} leads nowhere: {error}", field="path") from error


def roots_of(names: list[str]) -> list[Path]:
    return [Path(os.path.realpath(os.path.expanduser(name))) for name in names]


@dataclass(frozen=True, slots=True)
class Look:
    """A regular file at one moment; `sha256` is empty for one that is too large or was not read."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: str  # device:inode
    sha256: str = ""

    @classmethod
    def of(cls, found: os.stat_result) -> "Look":
        size, changed, touched = (
            max(LEAST, min(n, MOST)) for n in (found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        )
        return cls(size, changed, touched, f"{found.st_dev}:{found.st_ino}")

    def stands(self, other: "Look | None") -> bool:
        """Whether nothing touched the file between the two looks."""
        return other is not None and self.facts == other.facts

    @property
    def facts(self) -> tuple[int, int, int, str]:
        """All but its content."""
        return self.size, self.mtime_ns, self.ctime_ns, self.inode

    def same_content(self, other: "Look") -> bool:
        """By SHA-256; of files that are too large to be read, by size, time and inode."""
        if self.sha256 and other.sha256:
            return self.sha256 == other.sha256
        return (self.size, self.mtime_ns, self.number) == (other.size, other.mtime_ns, other.number)

    @property
    def number(self) -> str:
        """The inode without its device, which has another number each time it is mounted."""
        return self.inode.rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to the file `name` (bytes below the root); `look` is None once it is gone."""

    verb: Verb
    name: bytes
    look: Look | None
    came_from: bytes = b""  # of a moved one


@dataclass(slots=True)
class Changes:
    """What is worth an event, and what only looks different (a new time, another inode) and is remembered silently."""

    told: list[Change] = field(default_factory=list)
    silent: list[Change] = field(default_factory=list)


def compare(known: Mapping[bytes, Look | None], seen: Mapping[bytes, Look | None], *, moves: bool) -> Changes:
    """What changed among the names in `seen`. With `moves`, one that went and one that came as the same inode are one
    `moved`; without, they are a `deleted` and a `created`."""
    changes = Changes()
    gone = {name: before for name, now in seen.items() if now is None and (before := known.get(name)) is not None}
    came = {name: now for name, now in seen.items() if now is not None and known.get(name) is None}
    if moves:
        by_inode = {before.inode: name for name, before in gone.items() if before.inode}
        for name, now in list(came.items()):
            old = by_inode.pop(now.inode, None)
            if old is not None and (gone[old].size, gone[old].mtime_ns) == (now.size, now.mtime_ns):
                changes.told.append(Change("moved", name, now, came_from=old))
                del came[name], gone[old]
    changes.told += [Change("created", name, now) for name, now in came.items()]
    for name, look in seen.items():
        before = known.get(name)
        if look is not None and before is not None and not before.stands(look):
            where = changes.silent if before.same_content(look) else changes.told
            where.append(Change("modified", name, look))
    changes.told += [Change("deleted", name, None) for name in gone]
    return changes


def is_wanted(name: bytes, watch: FileWatch) -> bool:
    """Whether a file of this name below the root is watched: no hidden one, no editor's leftover, unless asked for."""
    *folders, last = name.split(b"/")
    asked = watch.pattern.rpartition("/")[2]
    asks_hidden = asked.startswith(".")
    if any(folder.startswith(b".") for folder in folders) or (last.startswith(b".") and not asks_hidden):
        return False
    if folders and not watch.recursive:
        return False
    if PASSING.fullmatch(last) and not PASSING.fullmatch(asked.encode()):  # `*.part` is itself such a name
        return False
    compared = name if "/" in watch.pattern else last
    return fnmatch.fnmatchcase(os.fsdecode(compared), watch.pattern)


@dataclass(slots=True)
class Skipped:
    """What one look passed over: links, pipes and devices are never followed or opened."""

    count: int = 0
    first: bytes = b""

    def note(self, name: bytes) -> None:
        self.count, self.first = self.count + 1, self.first or name

    def __str__(self) -> str:
        """In words; nothing where there was none."""
        told = f"{self.count:,} skipped, as a link, pipe or device is never opened, {text_of(self.first)} first"
        return told if self.count else ""


def walk(root: bytes, watch: FileWatch, skipped: Skipped) -> Iterator[tuple[bytes, Look]]:
    """Every watched file below `root` as it stands; raises OSError when the root itself cannot be read."""
    folders = [b""]
    while folders:
        below = folders.pop()
        try:
            further, files = listed(root, below, watch, skipped)
        except OSError:
            if not below:
                raise
            continue  # it went while we looked
        folders += further
        yield from files


def listed(
    root: bytes, below: bytes, watch: FileWatch, skipped: Skipped
) -> tuple[list[bytes], list[tuple[bytes, Look]]]:
    """The folders to go on with, and the watched files, that lie in one folder."""
    folders: list[bytes] = []
    files: list[tuple[bytes, Look]] = []
    with entries(os.path.join(root, below)) as found:
        for entry in found:
            name = os.path.join(below, os.fsencode(entry.name))
            if entry.is_dir(follow_symlinks=False):
                if watch.recursive and not entry.name.startswith("."):
                    folders.append(name)
            elif not is_wanted(name, watch):
                continue
            elif not entry.is_file(follow_symlinks=False):
                skipped.note(name)
            else:
                with contextlib.suppress(OSError):  # it went while we looked
                    files.append((name, Look.of(entry.stat(follow_symlinks=False))))
    return folders, files


def look_at(path: bytes) -> Look | None:
    """The file as it stands; None for what is not there or no regular file. Raises OSError when nobody can tell."""
    try:
        found = stat_of(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Look.of(found) if stat.S_ISREG(found.st_mode) else None


def read(path: bytes, look: Look) -> Look | None:
    """The same with its SHA-256, when it is the same file still and small enough; None when it changed meanwhile."""
    if look.size > HASHED_TO:
        return look
    try:
        with open_file(path) as file:
            digest = hashlib.file_digest(file, "sha256")
            after = Look.of(os.fstat(file.fileno()))
    except OSError:
        return None if not look.stands(look_at(path)) else look  # not readable for us: known by its looks alone
    return replace(look, sha256=digest.hexdigest()) if look.stands(after) else None


def text_of(name: bytes) -> str:
    r"""A name for people and JSON: UTF-8 as it is, any other byte as `\xff`."""
    return name.decode("utf-8", "backslashreplace")


def data_of(root: bytes, change: Change) -> dict[str, Any]:
    """What an event says of a file; `path_base64` holds the exact bytes of a path that is not UTF-8."""
    path, look = os.path.join(root, change.name), change.look
    data: dict[str, Any] = {"kind": change.verb, "path": text_of(path), "name": text_of(os.path.basename(path))}
    if text_of(path).encode() != path:
        data["path_base64"] = base64.b64encode(path).decode()
    if change.came_from:
        data["from"] = text_of(os.path.join(root, change.came_from))
    if look is not None:
        data |= {"size": look.size, "sha256": look.sha256 or None, "mtime": moment(look.mtime_ns)}
    return data


def moment(nanoseconds: int) -> str | None:
    if not LEAST < nanoseconds < MOST:
        return None
    try:
        return rfc3339(datetime.fromtimestamp(nanoseconds / 1e9, UTC))
    except (OverflowError, ValueError, OSError):
        return None  # a file may carry any time
