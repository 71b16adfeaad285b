"""The samples of `ring` as deliveries a trigger can be tried on: nothing is sent, no number is used up."""

import json
from collections.abc import Callable
from functools import partial

from project import tour
from project.provider_bodies import SAMPLES
from project.sample_bodies import Sample
from triggers.models import Source
from triggers.sources.verify import catalogue

Delivery = tuple[Source, dict[str, str], bytes]  # its sender, a row that is not saved; headers; body
NUMBER = 1


def deliveries() -> dict[str, Callable[[], Delivery]]:
    """Each sample of a webhook, by name."""
    return {name: partial(delivery, sample, by) for name, sample in SAMPLES.items() if (by := provider_of(sample))}


def provider_of(sample: Sample) -> str:
    """Who sends it, by the tour's source or by its own name; empty for what is no webhook."""
    known = tour.SOURCES.get(sample.source, {"provider": sample.source})
    provider = str(known.get("provider", ""))
    return provider if provider in catalogue() else ""


def delivery(sample: Sample, provider: str) -> Delivery:
    headers, value = sample.make(NUMBER)
    body = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    sender = Source(slug=sample.source, kind="webhook", provider=provider, types=["**"])
    return sender, {"Content-Type": "application/json", **headers}, body.encode()
