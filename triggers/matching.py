"""Which trigger an event wakes, and in words why not. Pure: no database, no clock, no network."""

import operator
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NotRequired, TypedDict

import cel

from triggers.errors import BadFilter
from triggers.filters import EACH, Clause, FilterPlan, Path, compile_filter, show
from triggers.limits import Limits
from triggers.viewing import LONGEST_SCALAR, MISSING, JudgedKey, View, name, resolve

__all__ = ["Rule", "Verdict", "compile_filter", "compile_pattern", "match"]

PATTERN = re.compile(r"(?:\*\*?|[^\s*.]+)(?:\.(?:\*\*?|[^\s*.]+))*")
LONGEST_PATTERN = 255  # characters
CEL_ERRORS = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)  # all the Rust library raises

Outcome = Literal["matched", "not_matched", "could_not_evaluate"]


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
    flow: Limits | None = field(init=False, repr=False)  # None: whatever matches starts a run at once
    keys: dict[str, str] = field(init=False, repr=False)  # CEL by which it counts apart, by the name of the limit

    def __post_init__(self) -> None:
        limits = Limits.model_validate(self.limits)
        self.flow, self.keys = limits if limits.hold_back else None, limits.keys
        self.questions = tuple(map(question_of, self.filter_plan["clauses"])) if self.filter_plan else ()

    @property
    def reads(self) -> Iterator[Path]:
        """Every path of an event that it must see."""
        plans = [self.filter_plan, *map(compile_filter, self.keys.values())]
        return (tuple(path) for plan in plans if plan for path in plan["paths"])

    @property
    def opening(self) -> tuple[Path, ...]:
        """The paths its first clause reads."""
        return self.questions[0].paths if self.questions else ()

    def says_at_once(self, verdict: "Verdict") -> bool:
        """Whether the first clause alone gave this verdict, and will again for whatever has the same values there."""
        return verdict.outcome == "not_matched" and verdict.clause == self.questions[0].clause["text"]

    def listens_to(self, slug: str, type: str) -> bool:
        return self.source in (slug, "*") and type_matches(self.type_pattern, type)


@dataclass(frozen=True, slots=True)
class Question:
    """A clause as it is asked: what it reads, and how its two sides are compared without the evaluator, if at all."""

    clause: Clause
    paths: tuple[Path, ...]
    compared: Callable[[Any, Any], bool] | None = None
    wanted: Any = None


class RuleOutcome(TypedDict):
    """What became of one rule, as it is stored with the event."""

    trigger: str  # its slug; empty: of no rule
    outcome: str
    clause: NotRequired[str]  # the first part of its filter that did not hold
    detail: NotRequired[str]
    run: NotRequired[int]


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
MOST_JUDGED = 10_000  # verdicts
JUDGED: dict[JudgedKey | None, Verdict] = {}  # a clause is pure: the same values give the same verdict


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
    key = (question.clause["text"], value) if type(value) is int or len(value) <= LONGEST_SCALAR else None
    return JUDGED.get(key) or remember(key, differs(question.clause, path, value))


def differs(clause: Clause, path: Path, value: Any) -> Verdict:
    return Verdict("not_matched", clause["text"], f"{name(path)} was {show(value)}, wanted {clause['wanted']}")


def judge(question: Question, view: View) -> Verdict:
    """What one clause says; remembered by the values it reads, of which most senders have few."""
    key = values_key(question, view)
    return JUDGED.get(key) or remember(key, evaluate(question.clause, view))


def remember(key: JudgedKey | None, verdict: Verdict) -> Verdict:
    if key:
        if len(JUDGED) >= MOST_JUDGED:
            JUDGED.clear()
        JUDGED[key] = verdict
    return verdict


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


def reads_of(rules: Iterable[Rule]) -> tuple[Path, ...]:
    """Every path the filters and keys of `rules` read, for `event_view`."""
    return tuple(sorted({path for rule in rules for path in rule.reads}))
