"""The bench beside a trigger's form: what it would do with past events, with the next ones, with made-up ones."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

from project.lib.text import number
from triggers import picking, trying
from triggers.envelope import Arrival
from triggers.matching import Rule
from triggers.models import Event, Trigger
from triggers.trying import Estimate, Trial
from triggers.viewing import Readable

SHOWN = 50  # past events
MOST_VERSIONS = 20


@dataclass(frozen=True)
class Bench:
    """What is shown under the filter; `since` is the number after which arrivals are waited for."""

    trials: list[Trial]
    since: int | None = None
    sample: str = ""
    estimate: Estimate | None = None
    clicked: Event | Arrival | None = None  # whose fields can be clicked: one that the type pattern takes

    @property
    def fields(self) -> list[picking.Field]:
        return [] if self.clicked is None else picking.fields_of(cast(Readable, self.clicked))

    @property
    def would(self) -> int:
        return sum(trial.verdict.matched for trial in self.trials)

    @classmethod
    def of(cls, typed: Mapping[str, str], rule: Rule, handler: str) -> "Bench":
        """By the button that was pressed. Raises NotValid for a sample nobody knows, BadDelivery."""
        if typed.get("sample") and typed.get("try") == "sample":
            arrival = trying.sample_of(typed["sample"], rule.source)
            return cls(trying.try_on(rule, [arrival]), sample=typed["sample"], clicked=arrival)
        if typed.get("capture") or (typed.get("waiting_since") and typed.get("try") != "past"):
            told = typed.get("waiting_since", "") if typed.get("capture") != "now" else ""
            since = number(told) if told else trying.newest_number()
            events = trying.captured(rule.source, since)
            return cls(trying.try_on(rule, events), since=since, clicked=trying.first_taken(rule, events))
        events = trying.newest_events(rule.source, most=SHOWN)
        lately = trying.estimate(rule, handler) if events and typed.get("try") == "past" else None  # not at every key
        clicked = trying.first_taken(rule, events) or trying.newest_taken(rule)
        return cls(trying.try_on(rule, events), estimate=lately, clicked=clicked)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What of a trigger differs: `{name, before, after}`."""
    names = [name for name in after if before.get(name) != after[name]]
    return [{"name": name.replace("_", " "), "before": before.get(name), "after": after[name]} for name in names]


def as_of(row: Trigger, version: int) -> Trigger | None:
    """The trigger as it was in that version, not to be saved; None for a version that is not kept."""
    found = row.versions.filter(version=version).first() if version else None
    if found is None:
        return None
    before = copy(row)
    for name, value in found.facts.items():
        setattr(before, name, value)
    return before


def versions_of(row: Trigger) -> list[dict[str, Any]]:
    """The newest versions, each with what it changed of the one before."""
    if row.version == 1:
        return []  # nobody has changed it
    found = list(row.versions.select_related("by").order_by("-version")[: MOST_VERSIONS + 1])
    older = [*found, None][1:]
    told = [
        {"row": one, "changes": differences(before.facts, one.facts) if before else []}
        for one, before in zip(found, older, strict=True)
    ]
    return told[:MOST_VERSIONS]
