"""What a trigger would do: its pattern and filter on events, by the same rules as at the door. Nothing runs."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from triggers import configure, routing
from triggers.cloudevents import STRUCTURED, read_events
from triggers.envelope import Arrival
from triggers.matching import Rule, Verdict, compile_filter, compile_pattern, match
from triggers.models import Event, Trigger
from triggers.viewing import DOOR_BYTES, Readable, event_view, slug_of

TRIED = 20  # stored events a rule is tried on unless more are asked for
SAMPLE = {"specversion": "1.0", "id": "sample", "source": "/sample"}  # what a sample need not say


@dataclass(frozen=True, slots=True)
class Trial:
    """What a rule says of one event, which is stored or only a sample."""

    event: Event | Arrival
    verdict: Verdict


def rule_of(source: str, type_pattern: str, filter: str) -> Rule:
    """A rule as it would be saved. Raises BadFilter with the `field` that does not compile."""
    pattern = configure.named("type_pattern", compile_pattern, type_pattern or "**")
    plan = configure.named("filter", compile_filter, filter)
    kept = plan if plan["clauses"] else None
    return routing.rule_of(Trigger(source=source, type_pattern=pattern, filter_plan=kept))


def try_on(rule: Rule, events: Iterable[Event | Arrival]) -> list[Trial]:
    return [Trial(event, judged(rule, event)) for event in events]


def judged(rule: Rule, event: Event | Arrival) -> Verdict:
    slug = slug_of(event)
    if why := routing.suppressed_by(event):
        return Verdict("not_matched", "", why)
    if not rule.listens_to(slug, event.type):
        foreign = rule.source not in ("*", slug)
        why = f"the source is {slug}, not {rule.source}" if foreign else f"the type is not {rule.type_pattern}"
        return Verdict("not_matched", "", why)
    if isinstance(event, Event) and event.pruned_at is not None:
        return Verdict("could_not_evaluate", "", "its payload was removed by the rule of retention")
    if routing.size_of(event) > DOOR_BYTES:  # the worker, who may take its time, matches larger ones
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
