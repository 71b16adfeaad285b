"""What a trigger would do: its pattern and filter on events, by the same rules as at the door. Nothing runs."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from triggers.cloudevents import STRUCTURED, read_events
from triggers.envelope import Arrival
from triggers.errors import BadFilter
from triggers.matching import Rule, Verdict, compile_filter, compile_pattern, match, type_matches
from triggers.models import Event, Trigger
from triggers.viewing import Readable, event_view

TRIED = 20  # stored events a rule is tried on unless more are asked for
LARGEST = 256 * 1024  # bytes; the worker, who may take its time, matches larger ones
SAMPLE = {"specversion": "1.0", "id": "sample", "source": "/sample"}  # what a sample need not say


@dataclass(frozen=True, slots=True)
class Trial:
    """What a rule says of one event, which is stored or only a sample."""

    event: Event | Arrival
    verdict: Verdict


def rule_of(source: str, type_pattern: str, filter: str) -> Rule:
    """A rule as it would be saved. Raises BadFilter with the `field` that does not compile."""
    try:
        pattern = compile_pattern(type_pattern or "**")
    except BadFilter as refused:
        raise BadFilter(refused.detail, field="type_pattern") from refused
    try:
        plan = compile_filter(filter.strip()) if filter.strip() else None
    except BadFilter as refused:
        raise BadFilter(refused.detail, field="filter") from refused
    return Rule(0, "", source, pattern, plan, "")


def rule_of_trigger(trigger: Trigger) -> Rule:
    return rule_of(trigger.source, trigger.type_pattern, trigger.filter)


def try_on(rule: Rule, events: Iterable[Event | Arrival]) -> list[Trial]:
    return [Trial(event, judged(rule, event)) for event in events]


def judged(rule: Rule, event: Event | Arrival) -> Verdict:
    source = event.source_slug if isinstance(event, Event) else event.source
    if rule.source not in ("*", source):
        return Verdict("not_matched", "", f"the source is {source}, not {rule.source}")
    if not type_matches(rule.type_pattern, event.type):
        return Verdict("not_matched", "", f"the type is not {rule.type_pattern}")
    if isinstance(event, Event) and event.pruned_at is not None:
        return Verdict("could_not_evaluate", "", "its payload was removed by the rule of retention")
    if len(event.raw or b"") > LARGEST:
        return Verdict("could_not_evaluate", "", "too large to try here")
    return match(rule, event_view(cast(Readable, event)))


def newest_events(source: str, *, most: int = TRIED, since: datetime | None = None) -> list[Event]:
    """The newest events of a source (`*`: of all) that still have their payload, received since then."""
    rows = Event.objects.filter(pruned_at=None).order_by("-pk")
    if source != "*":
        rows = rows.filter(source_slug=source)
    return [event for event in rows[:most] if since is None or event.received_at >= since]


def sample(given: dict[str, Any], source: str) -> Arrival:
    """An event that did not happen, from its CloudEvents object; it comes from `source`. Raises BadDelivery."""
    (arrival,) = read_events(json.dumps({**SAMPLE, **given}).encode(), {"content-type": STRUCTURED})
    arrival.source = source
    return arrival
