"""What a trigger would do: its pattern and filter on events, by the same rules as at the door. Nothing runs."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from django.db.models import QuerySet

from project.lib import clock
from triggers import configure, registry, routing
from triggers.cloudevents import STRUCTURED, read_events
from triggers.envelope import Arrival
from triggers.errors import NotValid
from triggers.matching import Rule, Verdict, compile_filter, compile_pattern, match
from triggers.models import Event, Source, Trigger
from triggers.sources import webhook
from triggers.sources.replies import Handshake
from triggers.viewing import DOOR_BYTES, Readable, event_view, slug_of

TRIED = 20  # stored events a rule is tried on unless more are asked for
CAPTURED = 20  # newest arrivals shown while one waits for them
ESTIMATED_FOR = timedelta(days=30)
MOST_ESTIMATED = 2000  # events of an estimate
PATIENCE = 1.0  # seconds of it
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
    return [event for event in readable(source)[:most] if since is None or event.received_at >= since]


def readable(source: str) -> QuerySet[Event]:
    """The events of a source (`*`: of all) that still have their payload, the newest first."""
    rows = Event.objects.filter(pruned_at=None).order_by("-pk")
    return rows if source == "*" else rows.filter(source_slug=source)


def first_taken(rule: Rule, events: Iterable[Event]) -> Event | None:
    """The first whose source and type the rule listens to, whatever its filter says."""
    return next((event for event in events if rule.listens_to(event.source_slug, event.type)), None)


def newest_taken(rule: Rule) -> Event | None:
    """Of the newest MOST_ESTIMATED events of its source the newest that the rule listens to."""
    told = readable(rule.source).values_list("pk", "source_slug", "type")[:MOST_ESTIMATED]
    found = next((pk for pk, slug, type in told if rule.listens_to(slug, type)), None)
    return Event.objects.get(pk=found) if found else None


def sample(given: dict[str, Any], source: str) -> Arrival:
    """An event that did not happen, from its CloudEvents object; it comes from `source`. Raises BadDelivery."""
    (arrival,) = read_events(json.dumps({**SAMPLE, **given}).encode(), {"content-type": STRUCTURED})
    arrival.source = source
    return arrival


def captured(source: str, since: int) -> list[Event]:
    """What came from a source after event number `since`, the newest first; whether a trigger is on does not matter."""
    rows = Event.objects.filter(pk__gt=since).order_by("-pk")
    return list((rows if source == "*" else rows.filter(source_slug=source))[:CAPTURED])


def newest_number() -> int:
    return Event.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a rule would have done with what came lately: of `looked` events since then it would have run `matched`."""

    looked: int
    matched: int
    unclear: int
    since: datetime | None
    asks: float | None  # approvals a run of its handler asked for, so far; None: it never ran
    is_cut: bool  # there is more in the last 30 days than was looked at

    @property
    def approvals(self) -> int | None:
        return None if self.asks is None else round(self.asks * self.matched)


def estimate(rule: Rule, handler: str) -> Estimate:
    """Ask the rule of the events of the last 30 days, the newest MOST_ESTIMATED of them, for PATIENCE at most."""
    until, oldest = time.monotonic() + PATIENCE, clock.now() - ESTIMATED_FOR
    rows = readable(rule.source).filter(received_at__gt=oldest).defer("credentials")
    looked, since, told = 0, None, Counter[str]()
    for event in rows[:MOST_ESTIMATED].iterator(chunk_size=200):
        told[judged(rule, event).outcome] += 1
        looked, since = looked + 1, event.received_at
        if time.monotonic() > until:
            break
    asks = next((asked for ask in registry.asks_of if (asked := ask(handler)) is not None), None)
    is_cut = since is not None and rows.filter(received_at__lt=since).exists()
    return Estimate(looked, told["matched"], told["could_not_evaluate"], since, asks, is_cut)


def sample_of(name: str, source: str) -> Arrival:
    """A delivery of a provider's, made up and read as the door would; it comes from `source`. Raises NotValid."""
    known = samples()
    if name not in known:
        raise NotValid(f"There is no sample `{name}`.", field="sample", known=sorted(known))
    sender, headers, body = known[name]()
    try:
        (arrival, *_) = webhook.arrivals_of(sender, body, {key.lower(): value for key, value in headers.items()})
    except Handshake as greeting:
        raise NotValid(f"`{name}` is a greeting: it is answered and becomes no event.", field="sample") from greeting
    arrival.source = source if source != "*" else sender.slug
    return arrival


def samples() -> dict[str, Callable[[], tuple[Source, dict[str, str], bytes]]]:
    """What far sides would send: by name, what makes its sender, headers and body."""
    return {name: made for give in registry.samples for name, made in give().items()}
