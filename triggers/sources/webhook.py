"""A verified delivery becomes an arrival: its type, subject and keys by what the catalogue says of its provider."""

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from project.lib import crypto
from project.lib.text import REPLACED, is_storable, made_storable
from triggers.cloudevents import MOST, read_events, time_of
from triggers.envelope import LONGEST_NAME, LONGEST_TYPE, UNREAD, Arrival, Signed, is_type, key_of
from triggers.errors import BadDelivery
from triggers.matching import CEL_ERRORS, program, type_matches
from triggers.models import Source
from triggers.reading import Reading, looks_like_json, read_body, read_exactly, read_form, read_json, unzip
from triggers.sources import inside
from triggers.sources.details import scheme_of, trusts_headers
from triggers.sources.forged import Forged
from triggers.sources.places import at, first_of
from triggers.sources.replies import Handshake, Heard, Reply, acknowledgement, handshake
from triggers.sources.scheme import CREDENTIALS, Scheme
from triggers.sources.signed_text import digest_of
from triggers.sources.xml_body import read_xml
from triggers.viewing import event_view

BODY = "body:"  # a key: the digest of what was signed, or of the whole body
OWN_TYPES = ("generic", "custom")  # providers whose senders name their own types
MOST_LISTED = 4 * 1024 * 1024  # bytes to which a packed body that is only listed is looked into
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
    taken: inside.Taken = field(default_factory=list)  # credentials out of `raw`
    whole: str = ""  # what was read with them, where there are some
    signed: str = ""  # the digest of what the signature is over, where that covers the body
    is_packed: bool = False  # it is over the packed bytes


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
    arrivals = read_deliveries(source, scheme, headers, proven)
    seal = signed_by(source, scheme, proven, arrivals)
    for arrival in arrivals:
        arrival.signed = seal
    return arrivals


def read_deliveries(source: Source, scheme: Scheme, headers: dict[str, str], proven: Proven) -> list[Arrival]:
    reading = read_plain(scheme, proven.body, headers)
    if scheme.answers or proven.greets:
        heard = Heard(headers, reading.value, proven.body, proven.secret)
        greet(scheme, heard, proven.now, greets=proven.greets)
        if proven.secret:  # a made-up delivery hears no answer
            proven.reply = acknowledgement(scheme, heard, proven.now)
    if "batch" not in scheme or not isinstance(reading.value, list):
        return [delivery(source, scheme, headers, *parted(source, scheme, headers, reading, proven))]
    if len(reading.value) > MOST:
        raise BadDelivery(f"A batch has at most {MOST} events.", code="too_large", http=413, limit=MOST)
    items = read_exactly(proven.body if reading.text is None else reading.text.encode())
    apart = (parted(source, scheme, headers, *item_of(item, reading, proven)) for item in items)
    return [delivery(source, scheme, headers, *one) for one in apart]


def read_plain(scheme: Mapping[str, Any], plain: bytes, headers: Mapping[str, str]) -> Reading:
    if scheme.get("reads") == "xml" and plain.lstrip().startswith(b"<"):
        return read_xml(plain)
    return read_body(plain, headers.get("content-type", "") if "reads" not in scheme else "")


def item_of(item: Any, whole: Reading, proven: Proven) -> tuple[Reading, Proven]:
    """One item of a batch as a delivery of its own: kept, and known again, is the item and not the whole list."""
    text = json.dumps(item, ensure_ascii=False)
    raw = text.encode()
    return Reading(item, None, text.count(REPLACED) if whole.sanitized else 0), replace(proven, body=raw, raw=raw)


def parted(
    source: Source, scheme: Scheme, headers: Mapping[str, str], reading: Reading, proven: Proven
) -> tuple[Reading, Proven]:
    """The same without the credentials inside: who reads an event could ring as its sender with them.

    What came encrypted stays as it came; in clear is only what was read of it, and for a key of the source's own
    the whole of it."""
    paths = scheme.inside_of(reading.value)
    found = inside.found_in(paths, reading.value)
    if not found:
        return reading, proven
    if source.idempotency_key:
        proven = replace(proven, whole=json.dumps(reading.value))
    inside.hide_in(paths, reading.value)
    if reading.text is not None:
        reading = reading._replace(text=inside.without(found, reading.text.encode(), reading.value)[0].decode())
    if proven.body is not proven.raw:
        return reading, replace(proven, body=inside.without(found, proven.body, reading.value)[0])
    raw, taken = inside.without(found, proven.raw, reading.value, headers.get("content-type", ""))
    return reading, replace(proven, body=raw, raw=raw, taken=taken)


def body_without(body: bytes, headers: Mapping[str, str], scheme: Scheme | None) -> tuple[bytes, inside.Taken]:
    """A body that is listed and became no event: without the credentials inside, and what was taken out of it.

    What cannot be read holds none where we would know it. Of a packed one all is taken, since its bytes tell them."""
    if scheme is None or not scheme.inside:
        return body, []
    try:
        plain = unzip(body, MOST_LISTED)
        value = read_plain(scheme, plain, headers).value
    except BadDelivery:
        return body, []
    paths = scheme.inside_of(value)
    found = inside.found_in(paths, value)
    inside.hide_in(paths, value)
    kept, taken = inside.without(found, plain, value, headers.get("content-type", ""))
    return (kept, inside.all_of(body)) if taken and plain is not body else (kept if taken else body, taken)


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
        taken=proven.taken,
        data_json=proven.body.decode() if is_sealed and reading.text is None else reading.text,
        parsed=data if reading.text is None and not is_sealed else UNREAD,
        sanitized=reading.sanitized,
        is_own=bool(source.actor) and "actor" in scheme and acts(scheme["actor"], data, source.actor),
    )
    again = scheme.repeats(headers, data) or number
    arrival.keys = keys_of(source, scheme, again, proven, arrival, headers)
    if number and (same := scheme.same(headers, data)):
        arrival.keys.append((key_of("same", same), "duplicate"))
    return arrival


def number_inside(scheme: Scheme, headers: dict[str, str], reading: Reading, raw: bytes) -> str:
    """The id in a body that is JSON, or a form, and was said to be something else: a word that nobody signs takes no id
    away."""
    if reading.text is None:
        return ""
    read = read_json if looks_like_json(raw) else read_form
    try:
        return scheme.number(headers, read(raw).value)
    except BadDelivery:
        return ""


def acts(paths: str | list[str], data: Any, actor: str) -> bool:
    """Whether one of the places where this provider names who did it names the desk itself, in whatever case."""
    own = actor.casefold()
    return any(first_of(path, data).casefold() == own for path in ([paths] if isinstance(paths, str) else paths))


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
    if not is_type(name):
        raise BadDelivery(f"The event type is over {LONGEST_TYPE} bytes in UTF-8.", code="not_valid")
    return name


def own_time(scheme: Mapping[str, Any], data: Any) -> datetime | None:
    """The sender's own time, when it is one; a wrong one is no reason to refuse the delivery."""
    try:
        return time_of(at(data, scheme["time"]))
    except BadDelivery:
        return None


def keys_of(
    source: Source, scheme: Scheme, number: str, proven: Proven, arrival: Arrival, headers: dict[str, str]
) -> list[tuple[str, str]]:
    """What makes this delivery the same again: the source's own expression, or the delivery's id, and beside an id that
    nothing covers the body, also where what was signed are its packed bytes, which differ each time."""
    if source.idempotency_key and (own := own_key(source, scheme, proven, arrival, headers)):
        return [(key_of("key", own), "duplicate")]
    if not number:
        return []
    keys = [(key_of("id", number), "duplicate")]
    if not (scheme.covers_body or proven.signed) or (proven.is_packed and not scheme.covers_id):
        keys.append((BODY + digest_of(proven.raw), "same_body"))
    return keys


def signed_by(source: Source, scheme: Scheme, proven: Proven, arrivals: list[Arrival]) -> Signed | None:
    """What was signed counts beside every key: whoever saw a delivery can change all that is not, its headers, its
    media type, where one part ends and the next begins, and would ring anew with it.

    Of a sender whose deliveries need no id, one without any claims nothing: two equal ones are two events. So are two
    that differ in a header by which their source says what makes them the same."""
    if "delivery_id" not in scheme and not source.idempotency_key:
        return None
    digest = proven.signed or (digest_of(proven.raw) if scheme.covers_body else "")
    always = bool(scheme.id_headers) or (source.provider or source.kind) not in OWN_TYPES
    claims = any(arrival.keys for arrival in arrivals) or ("delivery_id" in scheme and always)
    is_told = any(key.startswith("key:") for arrival in arrivals for key, _ in arrival.keys)
    return Signed(BODY + digest, claims, not (is_told and trusts_headers(source, scheme))) if digest else None


def own_key(source: Source, scheme: Scheme, proven: Proven, arrival: Arrival, headers: dict[str, str]) -> str:
    """What the source's own expression finds; what rests on a credential is told by its digest alone."""
    secret = credentials_in(headers, scheme)
    shown = expression(source, arrival, {name: value for name, value in headers.items() if name not in secret})
    if not secret and not proven.whole:
        return shown
    clear = replace(arrival, data_json=proven.whole, parsed=UNREAD) if proven.whole else arrival
    told = expression(source, clear, headers)
    return told if told == shown or not told else "sha256:" + hashlib.sha256(told.encode()).hexdigest()


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
    """The source is who the door says it is, whatever the body claims; headers named in `secrets` are sealed, and with
    them what was taken out of the body."""
    arrival.source_id, arrival.source = source.id, source.slug
    arrival.window, arrival.remote = source.dedupe_window, remote
    if not arrival.traceparent:
        arrival.traceparent = headers.get("traceparent", headers.get("x-trace-id", ""))[:200]
    if secrets.isdisjoint(headers) and not arrival.taken:
        arrival.headers = kept_headers(headers)
        return
    arrival.headers = kept_headers({name: value for name, value in headers.items() if name not in secrets})
    arrival.credentials = sealed({name: headers[name] for name in secrets if name in headers}, arrival.taken)


def sealed(headers: Mapping[str, str], taken: inside.Taken) -> str:
    """What proved a sender, as it is kept for a second look: nobody reads it."""
    return crypto.seal({**headers, **({inside.TAKEN: taken} if taken else {})})


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
