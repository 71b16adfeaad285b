"""The part of an event that filters read. Pure: no database, no clock, no network."""

import operator
from codecs import BOM_UTF8
from collections.abc import Callable, Hashable, Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any, Protocol

import cel
import orjson

from project.lib.schema import rfc3339
from triggers.envelope import UNREAD
from triggers.filters import EACH, Path

DOOR_BYTES = 256 * 1024  # data larger than this is matched by the worker
DOOR_ITEMS = 1000  # so is a list longer than this, when a filter reads it
ATTRIBUTES = (
    *("ce_source", "type", "subject", "datacontenttype", "dataschema"),
    *("severity", "traceparent", "correlationid", "hops", "idempotencykey"),
)


class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()


SCALARS = (str, int, bool, float, type(None), _Missing)
LONGEST_SCALAR = 200  # characters of a value a verdict is remembered by
JudgedKey = tuple[Hashable, ...]


class Readable(Protocol):
    """What an arrival and a stored event have in common."""

    ce_id: str
    ce_source: str
    type: str
    subject: str
    time: datetime | None
    headers: dict[str, str]
    raw: bytes
    data_json: str | None


class View:
    """The part of an event that filters read, handed to the Rust side once for all rules, and only when asked."""

    __slots__ = ("_context", "_found", "_scalars", "_tree", "values")

    def __init__(self, values: dict[str, Any], tree: dict[str, Any] | None = None) -> None:
        self.values = values
        self._tree = tree or {}
        self._context: cel.Context | None = None
        self._found: dict[Path, tuple[Path, Any]] = {}
        self._scalars: dict[Path, JudgedKey | None] = {}

    def at(self, path: Path) -> tuple[Path, Any]:
        """What stands at `path`, as `resolve` says it; looked up once for all rules."""
        found = self._found.get(path)
        if found is None:
            found = self._found[path] = resolve(path, self.values)
        return found

    @property
    def context(self) -> cel.Context:
        if self._context is None:
            self._context = cel.Context(self.part)
        return self._context

    @property
    def part(self) -> dict[str, Any]:
        """The values cut to what is read."""
        return cut(self._tree, self.values)  # type: ignore[no-any-return]

    def scalar(self, path: Path) -> JudgedKey | None:
        """How far `path` goes and what stands there; None when that is no short scalar."""
        if path not in self._scalars:
            found, value = self.at(path)
            kind = type(value)
            short = kind in SCALARS and (kind is not str or len(value) <= LONGEST_SCALAR)
            key: JudgedKey | None = (len(found), kind.__name__, value) if short and EACH not in path else None
            self._scalars[path] = key
        return self._scalars[path]


def event_view(event: Readable, reads: tuple[Path, ...] | None = None) -> View:
    """What filters see of an arrival or a stored event, cut to the paths in `reads` (None: everything).

    `event.source` is the slug of the source row, `event.ce_source` the CloudEvents attribute. Attributes the
    sender left out are missing, not empty. Names of headers are compared without regard to case.
    """
    return view_of(event, branches(reads) if reads is not None else {"event": {}, "headers": {}})


def view_of(event: Readable, tree: dict[str, Any]) -> View:
    """The same, cut to the `branches` of paths."""
    values: dict[str, Any] = {}
    if "event" in tree:
        values["event"] = attributes(event, tree["event"])
    if "headers" in tree:
        headers = {key.lower(): value for key, value in event.headers.items()}
        wanted = tree["headers"]
        values["headers"] = {key: headers[key.lower()] for key in wanted or headers if key.lower() in headers}
    return View(values, tree)


def attributes(event: Readable, wanted: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in wanted or EVERYTHING:
        value = READ[key](event) if key in READ else getattr(event, key, None) if key in ATTRIBUTES else MISSING
        if value is not MISSING and value is not None and value != "":
            found[key] = value
    if (not wanted or "data" in wanted) and (data := data_of(event)) is not MISSING:
        found["data"] = data
    return found


def slug_of(event: Any) -> str:
    return str(getattr(event, "source_slug", None) or getattr(event, "source", ""))  # a stored event, an arrival


def time_of(event: Readable) -> str:
    return rfc3339(event.time) if event.time else ""


def data_of(event: Readable) -> Any:
    if (known := getattr(event, "parsed", UNREAD)) is not UNREAD:
        return known
    text = bytes(event.raw or b"").removeprefix(BOM_UTF8) if event.data_json is None else event.data_json
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return MISSING


READ: dict[str, Callable[[Any], Any]] = {
    "specversion": lambda event: "1.0",
    "id": operator.attrgetter("ce_id"),
    "source": slug_of,
    "time": time_of,
}
EVERYTHING = dict.fromkeys((*READ, *ATTRIBUTES))


def cut(tree: dict[str, Any], value: Any) -> Any:
    if not tree or not isinstance(value, dict):
        return value
    return {key: cut(branch, value[key]) for key, branch in tree.items() if key in value}


def too_big_for_door(view: View, size: int) -> bool:
    """Whether filters wait for the worker; `size` is that of the data in bytes, `view` is cut to what they read."""
    return size > DOOR_BYTES or (size > 2 * DOOR_ITEMS and is_heavy(view.part.get("event")))


def is_heavy(value: Any) -> bool:
    """A list too long for the door, or too many objects: handing one over costs some microseconds."""
    stack, containers = [value], 0
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            if len(item) > DOOR_ITEMS:
                return True
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(item.values())
        else:
            continue
        containers += 1
        if containers > DOOR_ITEMS:
            return True
    return False


@lru_cache(maxsize=1024)
def branches(paths: tuple[Path, ...]) -> dict[str, Any]:
    """The paths as a tree; an empty branch means: everything below."""
    tree: dict[str, Any] = {}
    for path in sorted(paths, key=len):
        node = tree
        keys = path[: path.index(EACH)] if EACH in path else path
        for key in keys:
            if key in node and not node[key]:
                break  # a shorter path wants all of this already
            node = node.setdefault(key, {})
    return tree


def resolve(path: Path, values: Any) -> tuple[Path, Any]:
    """The value at `path`; or the path as far as it goes with MISSING or None where it breaks off."""
    value = values
    for depth, segment in enumerate(path, 1):
        if segment == EACH:
            return resolve_each(path, depth, value)
        value = value.get(segment, MISSING) if isinstance(value, dict) else MISSING
        if value is MISSING or value is None:
            return path[:depth], value
    return path, value


def resolve_each(path: Path, depth: int, items: Any) -> tuple[Path, Any]:
    """The first item of the list in which the rest of `path` breaks off, else the items."""
    for item in items if isinstance(items, Iterable) else ():
        found, value = resolve(path[depth:], item)
        if value is MISSING or value is None:
            return (*path[:depth], *found), value
    return path, items


@lru_cache(maxsize=4096)
def name(path: Path) -> str:
    """("event", "data", "a b") as `event.data["a b"]`, in backticks."""
    parts = (f".{part}" if part == EACH or part.isidentifier() else f'["{part}"]' for part in path)
    return f"`{''.join(parts).removeprefix('.').replace('.*', '[]')}`"
