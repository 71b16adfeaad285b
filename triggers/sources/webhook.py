"""A verified delivery becomes an arrival: its type, subject and keys by what the catalogue says of its provider."""

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from project.lib import crypto
from project.lib.text import REPLACED, is_storable, made_storable
from triggers.cloudevents import MOST, read_events, time_of
from triggers.envelope import LONGEST_NAME, UNREAD, Arrival, key_of
from triggers.errors import BadDelivery
from triggers.matching import CEL_ERRORS, program, type_matches
from triggers.models import Source
from triggers.reading import Reading, read_body
from triggers.sources.details import scheme_of
from triggers.sources.forged import Forged
from triggers.sources.places import at, first_of
from triggers.sources.replies import Handshake, Heard, Reply, acknowledgement, handshake
from triggers.sources.scheme import CREDENTIALS, Scheme
from triggers.sources.signed_text import form_text
from triggers.sources.xml_body import read_xml
from triggers.viewing import event_view

OWN_TYPES = ("generic", "custom")  # providers whose senders name their own types
LONGEST_TYPE = 255  # characters
LONGEST_HEADER = 2000  # characters of one header that are kept


@dataclass(slots=True)
class Proven:
    """A delivery that proved its sender: by which secret, what it says in clear, and the body as it came, unpacked.

    `greets`: it proves no more than a greeting. `reply` is what its provider wants to hear when it is taken."""

    secret: str = ""
    body: bytes = b""
    raw: bytes = b""
    greets: bool = False
    now: float = 0.0
    reply: Reply | None = None


def arrivals_of(
    source: Source, body: bytes, headers: dict[str, str], *, remote: str = "", proven: Proven | None = None
) -> list[Arrival]:
    """The events of one verified delivery. `body` is expanded, `headers` has lower-case names; `proven` is what the
    verifier made of it, where that is more than the body. Raises BadDelivery with the code people see, Handshake for a
    greeting."""
    scheme = scheme_of(source)
    if source.kind == "cloudevents":
        arrivals = read_events(body, headers)
    else:
        arrivals = deliveries(source, scheme, headers, proven or Proven(body=body, raw=body))
    for arrival in arrivals:
        stamp(arrival, source, headers, remote, scheme.credentials)
        refuse_type(source, arrival.type)
    return arrivals


def deliveries(source: Source, scheme: Scheme, headers: dict[str, str], proven: Proven) -> list[Arrival]:
    """One webhook delivery as arrivals: one, or of a provider that sends in batches one for each item of its list."""
    reading = read_plain(scheme, proven.body, headers)
    if scheme.answers or proven.greets:
        heard = Heard(headers, reading.value, proven.body, proven.secret)
        greet(scheme, heard, proven.now, greets=proven.greets)
        if proven.secret:  # a made-up delivery hears no answer
            proven.reply = acknowledgement(scheme, heard, proven.now)
    if "batch" not in scheme or not isinstance(reading.value, list):
        return [delivery(source, scheme, headers, reading, proven)]
    if len(reading.value) > MOST:
        raise BadDelivery(f"A batch has at most {MOST} events.", code="too_large", http=413, limit=MOST)
    return [delivery(source, scheme, headers, *item_of(item, proven)) for item in reading.value]


def read_plain(scheme: Mapping[str, Any], plain: bytes, headers: Mapping[str, str]) -> Reading:
    if scheme.get("reads") == "xml" and plain.lstrip().startswith(b"<"):
        return read_xml(plain)
    return read_body(plain, headers.get("content-type", "") if "reads" not in scheme else "")


def item_of(item: Any, proven: Proven) -> tuple[Reading, Proven]:
    """One item of a batch as a delivery of its own: kept, and known again, is the item and not the whole list."""
    raw = json.dumps(item, ensure_ascii=False).encode()
    return Reading(item, None), replace(proven, body=raw, raw=raw)


def greet(scheme: Mapping[str, Any], heard: Heard, now: float, *, greets: bool) -> None:
    """Raises Handshake; Forged when what proves no more than a greeting is none."""
    if reply := handshake(scheme, heard, now):
        raise Handshake(reply)
    if greets:
        raise Forged("no_signature", "it carries no signature, as only a greeting may")


def delivery(source: Source, scheme: Scheme, headers: dict[str, str], reading: Reading, proven: Proven) -> Arrival:
    data = reading.value
    number = scheme.number(headers, data) or number_inside(scheme, headers, reading, proven.raw)
    if not is_storable(number) or (reading.sanitized and REPLACED in number):
        raise BadDelivery("The delivery id holds a NUL or half a surrogate pair.")
    subject = first_of(scheme["subject"], data) if "subject" in scheme else ""
    is_sealed = proven.body is not proven.raw
    arrival = Arrival(
        source_id=source.id,
        source=source.slug,
        ce_id=number[:LONGEST_NAME] or str(uuid.uuid4()),
        ce_source=f"/sources/{source.slug}",
        type=type_of(source, scheme, headers, data),
        subject=made_storable(subject)[:LONGEST_NAME],
        time=own_time(scheme, data) if "time" in scheme else None,
        datacontenttype=(headers.get("content-type") or type_of_data(proven.raw, data))[:200],
        raw=proven.raw,
        data_json=proven.body.decode() if is_sealed and reading.text is None else reading.text,
        parsed=data if reading.text is None and not is_sealed else UNREAD,
        sanitized=reading.sanitized,
        is_own=bool(source.actor) and "actor" in scheme and acts(scheme["actor"], data, source.actor),
    )
    again = scheme.repeats(headers, data) or number
    arrival.keys = keys_of(source, scheme, again, proven.raw, arrival, headers)
    if number and (same := scheme.same(headers, data)):
        arrival.keys.append((key_of("same", same), "duplicate"))
    return arrival


def number_inside(scheme: Scheme, headers: dict[str, str], reading: Reading, raw: bytes) -> str:
    """The id in a body that is JSON and was said to be something else: a word of the sender's takes no id away."""
    if reading.text is None or not raw.lstrip().startswith(b"{"):
        return ""
    try:
        return scheme.number(headers, orjson.loads(raw))
    except orjson.JSONDecodeError:
        return ""


def acts(paths: str | list[str], data: Any, actor: str) -> bool:
    """Whether one of the places where this provider names who did it names the desk itself."""
    return any(first_of(path, data) == actor for path in ([paths] if isinstance(paths, str) else paths))


def type_of_data(body: bytes, data: Any) -> str:
    """Of a body of which the sender said nothing: a text that is no JSON is plain text."""
    return "text/plain" if isinstance(data, str) and not body.lstrip().startswith(b'"') else ""


def type_of(source: Source, scheme: Scheme, headers: Mapping[str, str], data: Any) -> str:
    """`github.issues.opened`; a generic sender names its own type; without any, `<slug>.received`."""
    name = made_storable(scheme.kind_of_event(headers, data))
    if not name:
        return f"{source.slug}.received"
    provider = source.provider or source.kind
    name = "".join(name.split()) if provider in OWN_TYPES else f"{provider}.{'_'.join(name.split())}"
    if len(name) > LONGEST_TYPE:
        raise BadDelivery(f"The event type is over {LONGEST_TYPE} characters.", code="not_valid")
    return name


def own_time(scheme: Mapping[str, Any], data: Any) -> datetime | None:
    """The sender's own time, when it is one; a wrong one is no reason to refuse the delivery."""
    try:
        return time_of(at(data, scheme["time"]))
    except BadDelivery:
        return None


def keys_of(
    source: Source, scheme: Scheme, number: str, body: bytes, arrival: Arrival, headers: dict[str, str]
) -> list[tuple[str, str]]:
    """What makes this delivery the same again: the source's own expression, or the delivery's id.

    An id the signature does not cover can be replaced by anyone who has seen one delivery: then what was signed counts
    too. It can be taken away as well, by leaving out its header: of a provider that always sends one, and of a source
    that says in which header, what was signed counts too, unless that header is signed."""
    if source.idempotency_key and (own := expression(source, arrival, headers)):
        return [(key_of("key", own), "duplicate")]
    keys = [(key_of("id", number), "duplicate")] if number else []
    always = scheme.id_may_go and (bool(scheme.id_headers) or (source.provider or source.kind) not in OWN_TYPES)
    if always or (number and not scheme.covers_id):
        signed = (form_text(body, headers) if scheme.signs_form else b"") or body
        keys.append(("body:" + hashlib.sha256(signed).hexdigest(), "same_body"))
    return keys


def expression(source: Source, arrival: Arrival, headers: dict[str, str]) -> str:
    """The value of the source's CEL expression; empty when it does not hold for this delivery."""
    arrival.headers = headers
    try:
        value = program(source.idempotency_key).execute(event_view(arrival).context)  # type: ignore[arg-type]
    except CEL_ERRORS:
        return ""
    return made_storable(str(value)) if isinstance(value, str | int | float) else ""


def credentials_in(headers: Mapping[str, str], scheme: Scheme | None) -> set[str]:
    """The names of the headers in which a secret travels."""
    return headers.keys() & (scheme.credentials if scheme else CREDENTIALS)


def stamp(arrival: Arrival, source: Source, headers: dict[str, str], remote: str, secrets: frozenset[str]) -> None:
    """The source is who the door says it is, whatever the body claims; headers named in `secrets` are sealed."""
    arrival.source_id, arrival.source = source.id, source.slug
    arrival.window, arrival.remote = source.dedupe_window, remote
    if not arrival.traceparent:
        arrival.traceparent = headers.get("traceparent", headers.get("x-trace-id", ""))[:200]
    if secrets.isdisjoint(headers):
        arrival.headers = kept_headers(headers)
        return
    arrival.headers = kept_headers({name: value for name, value in headers.items() if name not in secrets})
    arrival.credentials = crypto.seal({name: headers[name] for name in secrets if name in headers})


def kept_headers(headers: dict[str, str]) -> dict[str, str]:
    """The headers as they are stored; one look at all of them, since hardly any must be cleaned or cut."""
    text = "".join(headers.values())
    if len(text) <= LONGEST_HEADER and text.isprintable():
        return headers
    return {name: kept(value) for name, value in headers.items()}


def kept(value: str) -> str:
    return value if value.isprintable() and len(value) <= LONGEST_HEADER else made_storable(value[:LONGEST_HEADER])


def refuse_type(source: Source, type: str) -> None:
    for pattern in source.types:
        if type_matches(pattern, type):
            return
    if source.types:
        allowed = ", ".join(source.types)
        raise BadDelivery(f"`{type}` is not one of {allowed}.", code="type_not_allowed", http=422)
