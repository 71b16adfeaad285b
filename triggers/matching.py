"""Which trigger an event wakes, and in words why not. Pure: no database, no clock, no network."""

import operator
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, Protocol

import cel
import orjson

from triggers.envelope import UNREAD
from triggers.errors import BadFilter
from triggers.filters import EACH, Clause, FilterPlan, Path, compile_filter, show

__all__ = ["Rule", "Verdict", "compile_filter", "compile_pattern", "event_view", "match", "too_big_for_door"]

DOOR_BYTES = 256 * 1024  # data larger than this is matched by the worker
DOOR_ITEMS = 1000  # so is a list longer than this, when a filter reads it
PATTERN = re.compile(r"(?:\*\*?|[^\s*.]+)(?:\.(?:\*\*?|[^\s*.]+))*")
LONGEST_PATTERN = 255  # characters
CEL_ERRORS = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)  # all the Rust library raises
ATTRIBUTES = (
    *("ce_source", "type", "subject", "datacontenttype", "dataschema"),
    *("severity", "traceparent", "correlationid", "hops", "idempotencykey"),
)

Outcome = Literal["matched", "not_matched", "could_not_evaluate"]


class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()


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


@dataclass(slots=True)
class Rule:
    """A trigger as the door holds it: nothing here touches the database."""

    trigger_id: int
    slug: str
    source: str  # a source's slug, `/approvals`, `/nightdesk` or `*`
    type_pattern: str
    filter_plan: FilterPlan | None
    handler: str
    limits: dict[str, Any] = field(default_factory=dict)
    mode: str = "live"
    priority: int = 5
    handler_version: str = ""
    questions: tuple["Question", ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.questions = tuple(map(question_of, self.filter_plan["clauses"])) if self.filter_plan else ()


@dataclass(frozen=True, slots=True)
class Question:
    """A clause as it is asked: what it reads, and how its two sides are compared without the evaluator, if at all."""

    clause: Clause
    paths: tuple[Path, ...]
    compared: Callable[[Any, Any], bool] | None = None
    wanted: Any = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule said of one event; `clause` is the CEL text that decided, `detail` says why in words."""

    outcome: Outcome
    clause: str = ""
    detail: str = ""

    @property
    def matched(self) -> bool:
        return self.outcome == "matched"


MATCHED = Verdict("matched")


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "relation_eq": operator.eq,
    "relation_ne": operator.ne,
    "relation_lt": operator.lt,
    "relation_le": operator.le,
    "relation_gt": operator.gt,
    "relation_ge": operator.ge,
}
SAFE = 2**63  # CEL's whole numbers have 64 bits; beyond them the evaluator says what it thinks
SCALARS = (str, int, bool, float, type(None), _Missing)
LONGEST_SCALAR = 200  # characters of a value a verdict is remembered by
MOST_JUDGED = 10_000  # verdicts
JudgedKey = tuple[Hashable, ...]
JUDGED: dict[JudgedKey, Verdict] = {}  # a clause is pure: the same values give the same verdict


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


def compile_pattern(pattern: str) -> str:
    """The pattern, trimmed; raises BadFilter when it is no dot-separated list of words, `*` and `**`."""
    pattern = pattern.strip()
    if len(pattern) > LONGEST_PATTERN or not PATTERN.fullmatch(pattern):
        raise BadFilter("A type pattern is words, `*` and `**` between dots, as in `github.issues.*`.")
    return pattern


@lru_cache(maxsize=8192)
def type_matches(pattern: str, type: str) -> bool:
    """Case-sensitive; `*` is exactly one segment, `**` zero or more."""
    wanted, given = pattern.split("."), type.split(".")
    at = now = 0
    star, resume = -1, 0
    while now < len(given):
        if at < len(wanted) and wanted[at] == "**":
            star, resume = at, now
            at += 1
        elif at < len(wanted) and wanted[at] in ("*", given[now]):
            at, now = at + 1, now + 1
        elif star >= 0:  # let the last `**` swallow one segment more
            resume += 1
            at, now = star + 1, resume
        else:
            return False
    return all(segment == "**" for segment in wanted[at:])


def match(rule: Rule, view: View) -> Verdict:
    """What `rule`'s filter says of the event: the first clause that is false or missing decides.

    An error counts only when no clause says no. The caller has compared source and type."""
    broken: Verdict | None = None
    for question in rule.questions:
        verdict = compare(question, view) if question.compared else None
        if verdict is None:
            verdict = judge(question, view)
        if verdict.outcome == "not_matched":
            return verdict
        if verdict is not MATCHED:
            broken = broken or verdict
    return broken or MATCHED


def question_of(clause: Clause) -> Question:
    relation, wanted = clause.get("simple", ("", None))
    compared = COMPARISONS.get(relation) if type(wanted) in (str, int) else None
    return Question(clause, tuple(map(tuple, clause["paths"])), compared, wanted)


def compare(question: Question, view: View) -> Verdict | None:
    """A comparison of two texts or two whole numbers, as CEL defines it; None for anything else."""
    path = question.paths[0]
    value = view.at(path)[1]
    if type(value) is not type(question.wanted) or (type(value) is int and not -SAFE <= value < SAFE):
        return None
    assert question.compared is not None
    if question.compared(value, question.wanted):
        return MATCHED
    text = question.clause["text"]
    return remembered(
        (text, value) if type(value) is int or len(value) <= LONGEST_SCALAR else None,
        lambda: Verdict("not_matched", text, f"{name(path)} was {show(value)}, wanted {question.clause['wanted']}"),
    )


def judge(question: Question, view: View) -> Verdict:
    """What one clause says; remembered by the values it reads, of which most senders have few."""
    return remembered(values_key(question, view), lambda: evaluate(question.clause, view))


def remembered(key: JudgedKey | None, verdict: Callable[[], Verdict]) -> Verdict:
    found = JUDGED.get(key) if key else None
    if found is None:
        found = verdict()
        if key:
            if len(JUDGED) >= MOST_JUDGED:
                JUDGED.clear()
            JUDGED[key] = found
    return found


def values_key(question: Question, view: View) -> JudgedKey | None:
    """The clause with every value it reads; None when one of them cannot be remembered."""
    key: list[Hashable] = [question.clause["text"]]
    for path in question.paths:
        scalar = view.scalar(path)
        if scalar is None:
            return None
        key.append(scalar)
    return tuple(key)


def evaluate(clause: Clause, view: View) -> Verdict:
    text = clause["text"]
    try:
        value = program(text).execute(view.context)
    except CEL_ERRORS as error:
        if gone := gone_from(clause, view.values, error):
            return Verdict("not_matched", text, gone)
        return Verdict("could_not_evaluate", text, f"{reason(error)}: {readings(clause, view.values)}".rstrip(": "))
    if value is True:
        return MATCHED
    if value is False:
        return Verdict("not_matched", text, refusal(clause, view.values))
    return Verdict("could_not_evaluate", text, f"it gave {show(value)}, neither true nor false")


def refusal(clause: Clause, values: Mapping[str, Any]) -> str:
    """ "`event.data.ref` was 'dev', wanted 'main'"."""
    said = readings(clause, values) or "it is always false"
    wanted = clause.get("wanted")
    return f"{said}, wanted {wanted}" if wanted and not said.endswith("missing") else said


def readings(clause: Clause, values: Mapping[str, Any]) -> str:
    return ", ".join(reading(tuple(path), values) for path in clause["paths"] if EACH not in path)


def reading(path: Path, values: Mapping[str, Any]) -> str:
    found, value = resolve(path, values)
    return f"{name(found)} is missing" if value is MISSING else f"{name(found)} was {show(value)}"


def gone_from(clause: Clause, values: Mapping[str, Any], error: Exception) -> str:
    """The path without which the clause could not be evaluated, in words; "" when nothing is missing."""
    for path in map(tuple, clause["paths"]):
        found, value = resolve(path, values)
        if value is MISSING:
            return f"{name(found)} is missing"
        if value is None:
            return f"{name(found)} is missing (null)"
    if isinstance(error, KeyError):
        return f"`{error.args[0]}` is missing"
    return "an item of the list is missing" if isinstance(error, IndexError) else ""


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


def reason(error: Exception) -> str:
    if isinstance(error, TypeError):
        return "the types do not fit"
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    if isinstance(error, OverflowError):
        return "the number is too large"
    return str(error).splitlines()[0][:200]


@lru_cache(maxsize=4096)
def program(text: str) -> cel.Program:
    return cel.compile(text)


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


def reads_of(rules: Iterable[Rule]) -> tuple[Path, ...]:
    """Every path the filters of `rules` read, for `event_view`."""
    return tuple(sorted({tuple(path) for rule in rules if rule.filter_plan for path in rule.filter_plan["paths"]}))


def event_view(event: Readable, reads: tuple[Path, ...] | None = None) -> View:
    """What filters see of an arrival or a stored event, cut to the paths in `reads` (None: everything).

    `event.source` is the slug of the source row, `event.ce_source` the CloudEvents attribute. Attributes the
    sender left out are missing, not empty. Names of headers are compared without regard to case.
    """
    tree = branches(reads) if reads is not None else {"event": {}, "headers": {}}
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
    return event.time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if event.time else ""


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
