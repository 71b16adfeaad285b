"""A verified delivery becomes an arrival: its type, subject and keys by what the catalogue says of its provider."""

import hashlib
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from project.lib import crypto
from project.lib.text import REPLACED, is_storable, made_storable
from triggers.cloudevents import read_events, time_of
from triggers.envelope import UNREAD, Arrival, key_of
from triggers.errors import BadDelivery
from triggers.matching import CEL_ERRORS, program, type_matches
from triggers.models import Source
from triggers.reading import read_body
from triggers.sources.custom import custom_scheme
from triggers.sources.verify import catalogue
from triggers.viewing import event_view

CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization", "x-gitlab-token", "x-api-key"})
OWN_TYPES = ("generic", "custom")  # providers whose senders name their own types
LONGEST_TYPE = 255  # characters
LONGEST_HEADER = 2000  # characters of one header that are kept


def scheme_of(source: Source) -> dict[str, Any]:
    """What the catalogue says of this source's provider, or the source's own config of a `custom` one; raises KeyError
    for a provider it does not know."""
    if source.provider == "custom":
        return custom_scheme(source.config)
    return catalogue()["cloudevents" if source.kind == "cloudevents" else source.provider]


def at(value: Any, path: str) -> Any:
    """`at(data, "event.type")`; None where the path ends early."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def every(data: Any, path: str) -> list[str]:
    """All that stands at `path`, also in the items of lists on the way; sorted, since senders do not keep their order.

    `every(data, "alerts.startsAt")`."""
    values = [data]
    for name in path.split("."):
        inside = [item for value in values for item in (value if isinstance(value, list) else [value])]
        values = [item[name] for item in inside if isinstance(item, dict) and name in item]
    return sorted(str(value) for value in values)


def is_ping(scheme: Mapping[str, Any], headers: Mapping[str, str], data: Any) -> bool:
    rule = scheme.get("ping")
    if not rule:
        return False
    value = headers.get(rule["header"].lower()) if "header" in rule else at(data, rule["json"])
    return bool(value == rule["equals"])


def arrivals_of(source: Source, body: bytes, headers: dict[str, str], *, remote: str = "") -> list[Arrival]:
    """The events of one verified delivery; none for a ping. `body` is expanded, `headers` has lower-case names.

    Raises BadDelivery with the code people see."""
    scheme = scheme_of(source)
    if source.kind == "cloudevents":
        arrivals = read_events(body, headers)
    else:
        arrival = delivery(source, scheme, body, headers)
        arrivals = [arrival] if arrival else []
    for arrival in arrivals:
        stamp(arrival, source, headers, remote)
        refuse_type(source, arrival.type)
    return arrivals


def delivery(source: Source, scheme: Mapping[str, Any], body: bytes, headers: dict[str, str]) -> Arrival | None:
    """One webhook delivery as an arrival; None for a ping."""
    reading = read_body(body, headers.get("content-type", ""))
    data = reading.value
    if is_ping(scheme, headers, data):
        return None
    number = told(scheme.get("delivery_id"), headers, data)
    if not is_storable(number) or (reading.sanitized and REPLACED in number):
        raise BadDelivery("The delivery id holds a NUL or half a surrogate pair.")
    subject = at(data, scheme["subject"]) if "subject" in scheme else None
    actor = at(data, scheme["actor"]) if "actor" in scheme and source.actor else None
    arrival = Arrival(
        source_id=source.pk,
        source=source.slug,
        ce_id=number[:512] or str(uuid.uuid4()),
        ce_source=f"/sources/{source.slug}",
        type=type_of(source, scheme, headers, data),
        subject=made_storable(subject)[:512] if isinstance(subject, str) else "",
        time=own_time(scheme, data),
        datacontenttype=type_of_data(headers.get("content-type", ""), body, data)[:200],
        raw=body,
        data_json=reading.text,
        parsed=data if reading.text is None else UNREAD,
        sanitized=reading.sanitized,
        is_own=bool(actor) and actor == source.actor,
    )
    arrival.keys = keys_of(source, scheme, number, body, arrival, headers)
    return arrival


def type_of_data(said: str, body: bytes, data: Any) -> str:
    """What the sender said of its body; a text of which it said nothing is plain text."""
    return said or ("text/plain" if isinstance(data, str) and not body.lstrip().startswith(b'"') else "")


def told(rule: Mapping[str, Any] | None, headers: Mapping[str, str], data: Any) -> str:
    """What the rule's place holds; of a `hash` rule, one text for all its places together."""
    if not rule:
        return ""
    if "hash" in rule:
        found = [every(data, path) for path in rule["hash"]]
        return hashlib.sha256(orjson.dumps(found)).hexdigest() if any(found) else ""
    value = headers.get(rule["header"].lower(), "") if "header" in rule else at(data, rule["json"])
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def type_of(source: Source, scheme: Mapping[str, Any], headers: Mapping[str, str], data: Any) -> str:
    """`github.issues.opened`; a generic sender names its own type; without any, `<slug>.received`."""
    rule = scheme.get("event_type")
    name = made_storable(told(rule, headers, data))
    if not rule or not name:
        return f"{source.slug}.received"
    if "suffix" in rule and isinstance(suffix := at(data, rule["suffix"]), str) and suffix:
        name = f"{name}.{suffix}"
    name = "".join(name.split()) if source.provider in OWN_TYPES else f"{source.provider}.{'_'.join(name.split())}"
    if len(name) > LONGEST_TYPE:
        raise BadDelivery(f"The event type is over {LONGEST_TYPE} characters.", code="not_valid")
    return name


def own_time(scheme: Mapping[str, Any], data: Any) -> datetime | None:
    """The sender's own time, when it is one; a wrong one is no reason to refuse the delivery."""
    try:
        return time_of(at(data, scheme["time"])) if "time" in scheme else None
    except BadDelivery:
        return None


def keys_of(
    source: Source,
    scheme: Mapping[str, Any],
    number: str,
    body: bytes,
    arrival: Arrival,
    headers: dict[str, str],
) -> list[tuple[str, str]]:
    """What makes this delivery the same again: the source's own expression, or the delivery's id.

    An id the signature does not cover can be replaced by anyone who has seen one delivery: then the body counts too."""
    if own := expression(source, arrival, headers):
        return [(key_of("key", own), "duplicate")]
    if not number:
        return []
    keys = [(key_of("id", number), "duplicate")]
    if not covers_id(scheme):
        keys.append(("body:" + hashlib.sha256(body).hexdigest(), "same_body"))
    return keys


def covers_id(scheme: Mapping[str, Any]) -> bool:
    rule = scheme.get("delivery_id") or {}
    if scheme["scheme"] == "token":
        return False  # it proves who sends, not what
    header = f"{{h:{rule.get('header', '')}}}".lower()
    return "json" in rule or "hash" in rule or header in scheme.get("signed", "").lower()


def expression(source: Source, arrival: Arrival, headers: dict[str, str]) -> str:
    """The value of the source's CEL expression; empty when it has none or it does not hold for this delivery."""
    if not source.idempotency_key:
        return ""
    arrival.headers = headers
    try:
        value = program(source.idempotency_key).execute(event_view(arrival).context)  # type: ignore[arg-type]
    except CEL_ERRORS:
        return ""
    return made_storable(str(value)) if isinstance(value, str | int | float) else ""


def stamp(arrival: Arrival, source: Source, headers: Mapping[str, str], remote: str) -> None:
    """The source is who the door says it is, whatever the body claims."""
    arrival.source_id, arrival.source = source.pk, source.slug
    arrival.window, arrival.remote = source.dedupe_window, remote
    if not arrival.traceparent:
        arrival.traceparent = headers.get("traceparent", headers.get("x-trace-id", ""))[:200]
    if CREDENTIALS.isdisjoint(headers):
        arrival.headers = kept_headers(headers)
        return
    secret = headers.keys() & CREDENTIALS
    arrival.headers = kept_headers({name: value for name, value in headers.items() if name not in secret})
    arrival.credentials = crypto.seal({name: headers[name] for name in secret})


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers as they are stored; one look at all of them, since hardly any must be cleaned or cut."""
    text = "".join(headers.values())
    if len(text) <= LONGEST_HEADER and text.isprintable():
        return dict(headers)
    return {name: kept(value) for name, value in headers.items()}


def kept(value: str) -> str:
    return value if value.isprintable() and len(value) <= LONGEST_HEADER else made_storable(value[:LONGEST_HEADER])


def refuse_type(source: Source, type: str) -> None:
    if source.types and not any(type_matches(pattern, type) for pattern in source.types):
        allowed = ", ".join(source.types)
        raise BadDelivery(f"`{type}` is not one of {allowed}.", code="type_not_allowed", http=422)
