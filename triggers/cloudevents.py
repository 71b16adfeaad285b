"""CloudEvents 1.0 over HTTP: structured, binary and batch, read into arrivals (CloudEvents HTTP binding 1.0.2)."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_to_bytes

from project.lib.text import is_storable
from triggers.envelope import INNER, LONGEST_NAME, LONGEST_TYPE, Arrival, is_type, key_of
from triggers.errors import BadDelivery
from triggers.reading import clean, media_type, read_body, read_exactly

STRUCTURED, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"
LONGEST = {
    "id": LONGEST_NAME,
    "source": LONGEST_NAME,
    "type": LONGEST_TYPE,
    "subject": LONGEST_NAME,
    "datacontenttype": 200,
    "dataschema": 512,
}
EXTENSIONS = {"idempotencykey": 512, "traceparent": 200, "correlationid": 255}
SEVERITIES = ("info", "warning", "error", "critical")
RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
MOST = 1000  # events of one batch


def is_cloudevent(content_type: str, headers: Mapping[str, str]) -> bool:
    return media_type(content_type)[0] in (STRUCTURED, BATCH) or "ce-specversion" in headers


def read_events(body: bytes, headers: Mapping[str, str]) -> list[Arrival]:
    """The arrivals of one request, without source; `headers` has lower-case names.

    Raises BadDelivery: 400 for what is no JSON, 422 with `errors: [{index, code}]` for bad members, all or nothing."""
    content_type = headers.get("content-type", "")
    kind, charset = media_type(content_type)
    if kind == BATCH:
        return read_batch(read_exactly(body, charset))
    if kind == STRUCTURED:
        arrival = alone(structured, read_exactly(body, charset))
        arrival.raw = body if arrival.raw is None else arrival.raw
        return [arrival]
    if "ce-specversion" in headers:
        return [binary(body, headers, content_type)]
    raise BadDelivery("This is no CloudEvent.", code="unsupported_media_type", http=415)


def read_batch(members: Any) -> list[Arrival]:
    if not isinstance(members, list):
        raise BadDelivery("A batch is a JSON array.", code="not_valid", http=422, errors=[])
    if len(members) > MOST:
        raise BadDelivery(f"A batch has at most {MOST} events.", code="too_large", http=413, limit=MOST)
    arrivals, errors = [], []
    for index, member in enumerate(members):
        try:
            arrivals.append(structured(member))
        except BadDelivery as error:
            errors.append({"index": index, "code": error.code, "detail": error.detail})
    if errors:
        raise BadDelivery("Not one event was stored.", code="not_valid", http=422, errors=errors)
    return arrivals


def alone(read: Callable[..., Arrival], given: Any) -> Arrival:
    """The one event of a request; what is wrong with it is told as of a batch's first member."""
    try:
        return read(given)
    except BadDelivery as error:
        told = {"index": 0, "code": error.code, "detail": error.detail}
        raise BadDelivery(error.detail, code=error.code, http=422, errors=[told]) from error


def structured(member: Any) -> Arrival:
    """One event from its JSON object."""
    if not isinstance(member, dict):
        raise BadDelivery("A CloudEvent is a JSON object.", code="not_valid", http=422)
    if "data" in member and "data_base64" in member:
        raise BadDelivery("`data` and `data_base64` exclude each other.", code="not_valid", http=422)
    arrival = envelope(member)
    if "data_base64" in member:
        arrival.raw, arrival.data_json = unbase64(member["data_base64"]), json.dumps(member["data_base64"])
    elif "data" in member:
        cleaned, count = clean(member["data"])
        arrival.data_json, arrival.sanitized = json.dumps(cleaned, ensure_ascii=False), count
    else:
        arrival.data_json = ""
    return arrival


def unbase64(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise BadDelivery("`data_base64` is no base64.", code="not_valid", http=422) from error


def binary(body: bytes, headers: Mapping[str, str], content_type: str) -> Arrival:
    """One event whose attributes are headers; values may be percent-encoded UTF-8."""
    attributes: dict[str, Any] = {
        name[3:]: unquote_to_bytes(value.encode("latin-1", "replace")).decode("utf-8", "replace")
        for name, value in headers.items()
        if name.startswith("ce-")
    }
    arrival = alone(envelope, attributes | ({"datacontenttype": content_type} if content_type else {}))
    reading = read_body(body, content_type)
    arrival.raw, arrival.data_json, arrival.sanitized = body, reading.text, arrival.sanitized + reading.sanitized
    return arrival


def envelope(given: Mapping[str, Any]) -> Arrival:
    """The attributes, checked; raises BadDelivery 422 naming the attribute."""
    if given.get("specversion") != "1.0":
        raise BadDelivery("`specversion` must be 1.0.", code="not_valid", http=422, field="specversion")
    values: dict[str, Any] = {name: text_of(given, name, longest) for name, longest in (LONGEST | EXTENSIONS).items()}
    for name in ("id", "source", "type"):
        if not values[name]:
            raise BadDelivery(f"`{name}` must not be empty.", code="not_valid", http=422, field=name)
    if not is_type(values["type"]):
        raise BadDelivery(f"`type` is at most {LONGEST_TYPE} bytes in UTF-8.", code="not_valid", http=422, field="type")
    if values["source"].startswith(INNER):
        raise BadDelivery("Only the desk itself speaks in this name.", code="reserved_source", http=422, field="source")
    severity = given.get("severity") or "info"
    if severity not in SEVERITIES:
        raise BadDelivery(
            f"`severity` is one of {', '.join(SEVERITIES)}.", code="not_valid", http=422, field="severity"
        )
    key = f"{values['source']}\x1f{values['id']}"
    own = values.pop("idempotencykey")
    return Arrival(
        source_id=None,
        source="",
        ce_id=values.pop("id"),
        ce_source=values.pop("source"),
        time=time_of(given.get("time")),
        severity=severity,
        hops=hops_of(given.get("hops")),
        idempotencykey=own,
        keys=[(key_of("key", own) if own else key_of("id", key), "duplicate")],
        raw=None,
        **values,
    )


def text_of(given: Mapping[str, Any], name: str, longest: int) -> str:
    value = given.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadDelivery(f"`{name}` must be text.", code="not_valid", http=422, field=name)
    if not is_storable(value):
        raise BadDelivery(f"`{name}` holds a NUL or half a surrogate pair.", code="not_valid", http=422, field=name)
    if len(value) > longest:
        raise BadDelivery(f"`{name}` is over {longest} characters.", code="not_valid", http=422, field=name)
    return value


def time_of(value: Any) -> datetime | None:
    if value in (None, ""):
        return None
    if isinstance(value, str) and RFC3339.fullmatch(value):
        try:
            return datetime.fromisoformat(value.upper().replace(" ", "T")).astimezone(UTC)
        except (ValueError, OverflowError):
            pass  # the 30th of February, or before the year 1 in UTC
    raise BadDelivery("`time` is no RFC 3339 time.", code="not_valid", http=422, field="time")


def hops_of(value: Any) -> int:
    text = str(value or 0)
    if not (text.isascii() and text.isdigit() and len(text) < 4):
        raise BadDelivery("`hops` is a small whole number.", code="not_valid", http=422, field="hops")
    return int(text)
