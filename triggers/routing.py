"""What the door knows without asking: sources and rules, read once for each version of the configuration."""

import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from project.lib.json_schema import Validator
from triggers import registry
from triggers.envelope import INNER, Arrival
from triggers.fitting import misfit, readable
from triggers.keys import keys_of
from triggers.matching import MATCHED, Rule, RuleOutcome, Verdict, match, reads_of
from triggers.models import ConfigVersion, Event, EventType, Source, Trigger
from triggers.viewing import DOOR_BYTES, View, branches, slug_of, too_big_for_door, view_of

KEPT = 10.0  # seconds after which the rows are read again, also when nobody said that they changed
MAX_HOPS = 8  # an event that was handed on more often starts nothing
MOST_ASKED = 5000  # types remembered; a sender may invent them
MOST_SAID = 1000  # sets of values whose verdicts are remembered
UNREADABLE = ("schema", "the schema of its type cannot be read; mend it on the page of the type, then run this again")
LATER = "accepted"  # too large to match at the door


@dataclass(frozen=True, slots=True)
class Table:
    """Sources and rules as they were at `version`; `read_at` is monotonic."""

    version: int
    sources: dict[str, Source]
    rules: tuple[Rule, ...]
    read_at: float
    refusing: dict[str, Validator | None] = field(
        default_factory=dict
    )  # by type: what its data must be; None: unreadable
    asked: dict[tuple[str, str], "Asked"] = field(default_factory=dict)
    said: dict[tuple[Hashable, ...], list[RuleOutcome | None]] = field(
        default_factory=dict
    )  # by what first clauses read

    @property
    def is_old(self) -> bool:
        """Whether it must be read again although its version stands: somebody may have written past the doors."""
        return time.monotonic() - self.read_at > KEPT

    def rules_for(self, slug: str, type: str) -> "Asked":
        """The rules to ask of one source's type; worked out once."""
        found = self.asked.get((slug, type))
        if found is None:
            found = asked_of([rule for rule in self.rules if rule.listens_to(slug, type)])
            if len(self.asked) < MOST_ASKED:
                self.asked[slug, type] = found
        return found

    def outcomes(self, asked: "Asked", view: View, *about: str) -> list[RuleOutcome]:
        """What each rule says. Of most the first clause decides, with the same words whenever it reads the same."""
        key = (*about, *map(view.scalar, asked.opening))
        noes = self.said.get(key)
        if noes is None:
            verdicts = [(rule, match(rule, view)) for rule in asked.rules]
            noes = [told_by(rule, verdict) if rule.says_at_once(verdict) else None for rule, verdict in verdicts]
            if None not in key:
                if len(self.said) >= MOST_SAID:
                    self.said.clear()
                self.said[key] = noes
        return [no or told_by(rule, match(rule, view)) for rule, no in zip(asked.rules, noes, strict=True)]


@dataclass(frozen=True, slots=True)
class Asked:
    """Rules of one type, every path their filters and keys read (as a tree), and those their first clauses read."""

    rules: list[Rule]
    reads: dict[str, Any]
    looks_inside: bool
    opening: tuple[tuple[str, ...], ...]
    has_keys: bool


def asked_of(rules: list[Rule]) -> Asked:
    opening = tuple(sorted({path for rule in rules for path in rule.opening}))
    inside = any(rule.filter_plan or rule.keys for rule in rules)
    return Asked(rules, branches(reads_of(rules)), inside, opening, any(rule.keys for rule in rules))


@dataclass(slots=True)
class Route:
    """What an arrival wakes: the rules that matched, what every asked rule said, and the status that follows.

    What a rule said that did not match may be shared with other arrivals: nobody changes it. `keys`: by the number
    of a trigger, the values by which it counts apart."""

    matched: list[Rule]
    outcomes: list[RuleOutcome]
    status: str
    keys: dict[int, dict[str, str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # {type, message, place, handler} of what makes it invalid
    is_held: bool = False  # its source sends too fast: it is matched when its turn comes


class Cache:
    """This process's table; one attribute, swapped whole."""

    table: Table | None = None


def table(*, version: int | None = None) -> Table:
    """The table of `version` (None: whatever is current in the database)."""
    wanted = ConfigVersion.current() if version is None else version
    known = Cache.table
    if known is None or known.version != wanted or known.is_old:
        known = Cache.table = read()
    return known


def cached() -> Table:
    """The table this process holds, possibly a little old: whoever writes with it compares the version again."""
    return cached_or_none() or table()


def cached_or_none() -> Table | None:
    """The same without asking the database, None when it is old: the door calls it on the loop."""
    return Cache.table if Cache.table and not Cache.table.is_old else None


def forget() -> None:
    Cache.table = None


def read() -> Table:
    version = ConfigVersion.current()  # read first: a change that comes between is noticed at the write
    sources = {source.slug: source for source in Source.objects.open()}
    rules = tuple(rule_of(trigger) for trigger in Trigger.objects.armed().order_by("priority", "pk"))
    types = EventType.objects.filter(mode="refuse").values_list("type", "schema")
    refusing = {type: readable(type, schema) for type, schema in types}
    return Table(version, sources, rules, time.monotonic(), refusing)


def rule_of(trigger: Trigger) -> Rule:
    code = registry.HANDLERS.get(trigger.handler)
    return Rule(
        trigger_id=trigger.pk,
        slug=trigger.slug,
        source=trigger.source,
        type_pattern=trigger.type_pattern,
        filter_plan=trigger.filter_plan,
        handler=trigger.handler,
        limits=trigger.limits,
        mode=trigger.mode,
        priority=trigger.priority,
        handler_version=code.version if code else "",
    )


def route(arrival: Arrival | Event, known: Table, *, at_door: bool) -> Route:
    """What becomes of the arrival: turned away, or what its rules say; at the door some is left for the worker."""
    return turned_away(arrival, known, at_door=at_door) or ask(arrival, known, at_door=at_door)


def kept(arrival: Arrival, *, is_held: bool) -> Route:
    """What there is no room for at the moment, of a source that is refused nothing: stored, and matched later."""
    if why := suppressed_by(arrival):
        return suppressed(why)
    return Route([], [], LATER, is_held=is_held)


def turned_away(arrival: Arrival | Event, known: Table, *, at_door: bool) -> Route | None:
    """Before any rule is asked: suppressed, refused by its type's schema, or left for those who take their time.

    What the schema refuses is stored as it is, and becomes invalid, with its dead letter, when it is matched."""
    if why := suppressed_by(arrival):
        return suppressed(why)
    if (not known.refusing and not registry.MIDDLEWARE) or slug_of(arrival) in INNER:
        return None
    if arrival.type in known.refusing:
        if at_door and size_of(arrival) > DOOR_BYTES:
            return Route([], [], LATER)
        check = known.refusing[arrival.type]
        fault = misfit(check, arrival) if check else UNREADABLE  # type: ignore[arg-type]
        if fault:
            return refused(*fault, at_door=at_door)
    return Route([], [], LATER) if at_door and registry.MIDDLEWARE else None


def refused(place: str, words: str, *, at_door: bool) -> Route:
    why = {"type": "SchemaRefused", "message": f"{place}: {words}", "place": place, "handler": ""}
    told: RuleOutcome = {"trigger": "", "outcome": "invalid", "clause": place, "detail": words}
    return Route([], [] if at_door else [told], LATER if at_door else "invalid", refused=why)


def ask(arrival: Arrival | Event, known: Table, *, at_door: bool) -> Route:
    """Ask every rule of the arrival's source and type; large data is left for the worker when `at_door`."""
    slug = slug_of(arrival)
    asked = known.rules_for(slug, arrival.type)
    if not asked.looks_inside:
        return sort_out(asked.rules, [told_by(rule, MATCHED) for rule in asked.rules])
    size = size_of(arrival) if at_door else 0
    if size > DOOR_BYTES:
        return Route([], [], LATER)
    view = view_of(arrival, asked.reads)  # type: ignore[arg-type]
    if at_door and too_big_for_door(view, size):
        return Route([], [], LATER)
    found = sort_out(asked.rules, known.outcomes(asked, view, slug, arrival.type))
    if asked.has_keys:
        found.keys = {rule.trigger_id: keys_of(rule, view) for rule in found.matched if rule.keys}
    return found


def suppressed_by(arrival: Arrival | Event) -> str:
    """Why it starts nothing, whatever the rules say; empty when they are asked."""
    if arrival.hops > MAX_HOPS:
        return f"it was handed on {arrival.hops} times; the most is {MAX_HOPS}"
    if not isinstance(arrival, Arrival):
        return ""
    if arrival.is_own:
        return "the desk itself did this over there"
    if arrival.automatic:
        return f"a program sent it ({arrival.automatic}): no two programs answer each other for ever"
    return ""


def size_of(arrival: Arrival | Event) -> int:
    return arrival.size if isinstance(arrival, Arrival) else len(arrival.data_text)


def told_by(rule: Rule, verdict: Verdict) -> RuleOutcome:
    told: RuleOutcome = {"trigger": rule.slug, "outcome": verdict.outcome}
    return {**told, "clause": verdict.clause, "detail": verdict.detail} if verdict.clause else told


def sort_out(rules: list[Rule], outcomes: list[RuleOutcome]) -> Route:
    matched = [rule for rule, told in zip(rules, outcomes, strict=True) if told["outcome"] == "matched"]
    return Route(matched, outcomes, "routed" if matched else "ignored")


def suppressed(why: str) -> Route:
    return Route([], [{"trigger": "", "outcome": "suppressed", "detail": why}], "suppressed")
