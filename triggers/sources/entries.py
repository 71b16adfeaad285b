"""What listeners read becomes arrivals: stamped with their source, keyed by the place they were read from.

An entry of a stream or a topic is a CloudEvent when it says so, by the bindings of CloudEvents 1.0; else its own type,
when it names one, stands behind the source's name."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from project.lib.text import made_storable
from triggers.cloudevents import STRUCTURED, read_events
from triggers.envelope import LONGEST_NAME, LONGEST_TYPE, Arrival, key_of
from triggers.errors import BadDelivery
from triggers.models import Source
from triggers.reading import media_type, read_body
from triggers.sources.webhook import refuse_type

PREFIXES = ("ce_", "ce-")  # of an attribute among the headers of Kafka, and of HTTP


def told(
    source: Source, place: str, *, kind: str, data: Any, subject: str = "", time: datetime | None = None
) -> Arrival:
    """What was read at `place`, which makes it once, as an event `<source>.<kind>`."""
    body = orjson.dumps(data)
    return stamped(
        Arrival(
            source_id=source.pk,
            source=source.slug,
            ce_id="",
            ce_source="",
            type=f"{source.slug}.{kind}",
            time=time,
            datacontenttype="application/json",
            raw=body,
            subject=subject,
        ),
        source,
        place,
    )


def stamped(arrival: Arrival, source: Source, place: str) -> Arrival:
    """The source is who listened, whatever the entry claims. Raises BadDelivery for a type it may not send."""
    arrival.source_id, arrival.source, arrival.window = source.pk, source.slug, source.dedupe_window
    arrival.ce_id = arrival.ce_id or place[:LONGEST_NAME]
    arrival.ce_source = arrival.ce_source or f"/sources/{source.slug}"
    arrival.subject = made_storable(arrival.subject)[:LONGEST_NAME]
    arrival.keys = [(key_of("at", place), "duplicate"), *arrival.keys]
    refuse_type(source, arrival.type)
    return arrival


def typed(name: str) -> str:
    """The type an entry names, as the last segments of ours; `received` when it names none that can be kept."""
    name = "_".join(made_storable(name).split())
    return name if 0 < len(name.encode()) <= LONGEST_TYPE - 65 else "received"


def message(
    source: Source, place: str, body: bytes, headers: Mapping[str, str], *, kind: str = "", subject: str = ""
) -> Arrival:
    """A body with headers, such as a record of Kafka. Raises BadDelivery for what cannot be read."""
    attributes = {name.lower(): value for name, value in headers.items()}
    for name in [name for name in attributes if name.startswith(PREFIXES)]:
        attributes[f"ce-{name[3:]}"] = attributes[name]
    said = attributes.get("content-type", "")
    if media_type(said)[0] == STRUCTURED or "ce-specversion" in attributes:
        arrivals = read_events(body, attributes)
        if len(arrivals) != 1:
            raise BadDelivery("An entry is one event, never a batch of them.")
        return stamped(arrivals[0], source, place)
    reading = read_body(body, said)
    arrival = told(source, place, kind=kind or "received", data=None, subject=subject)
    arrival.raw, arrival.data_json, arrival.sanitized = body, reading.text, reading.sanitized
    arrival.datacontenttype = made_storable(said)[:200]
    if reading.text is None:
        arrival.parsed = reading.value
    kept = list(headers.items())[:100]
    arrival.headers = {made_storable(name[:200]): made_storable(value[:2000]) for name, value in kept}
    return arrival


def fields(source: Source, place: str, given: Mapping[str, str], *, type_field: str, data_field: str) -> Arrival:
    """An entry of named texts, such as of a Redis stream. Raises BadDelivery for what cannot be read.

    `specversion` among them makes it a CloudEvent with its data in `data`; a single text may be a whole CloudEvent."""
    if "specversion" in given:
        headers = {f"ce-{name}": value for name, value in given.items() if name not in ("data", "datacontenttype")}
        said = {"content-type": given.get("datacontenttype") or "application/json"}
        return message(source, place, given.get("data", "").encode(), headers | said)
    if len(given) == 1 and '"specversion"' in (only := next(iter(given.values()))):
        return message(source, place, only.encode(), {"content-type": STRUCTURED})
    kind = typed(given.get(type_field, "")) if type_field else "received"
    if data_field and data_field in given:
        return message(source, place, given[data_field].encode(), {}, kind=kind)
    return told(source, place, kind=kind, data=given)
