"""Whether a delivery proves its sender, packed or not, and how large it may be."""

from collections.abc import Mapping

from django.conf import settings

from triggers.errors import BadDelivery
from triggers.models import Source
from triggers.reading import unzip
from triggers.sources.details import scheme_of
from triggers.sources.forged import Forged
from triggers.sources.sns import is_at_hand
from triggers.sources.verify import verify
from triggers.sources.webhook import Proven

ENCODINGS = ("gzip", "x-gzip", "identity", "")
EXPANDS_TO = 4  # times the general cap a gzip body may always expand


def most_of(source: Source) -> int:
    """The cap of a body in bytes: the source's own, its provider's, or the general one."""
    most: int = source.max_body or scheme_of(source).get("max_body") or settings.MAX_BODY_BYTES
    return most


def expanded_body(source: Source, body: bytes, headers: Mapping[str, str]) -> bytes:
    """The body without its gzip; raises BadDelivery when it is broken or grows beyond what the source may send."""
    if "content-encoding" not in headers:
        return body
    refuse_encoding(headers["content-encoding"], body)
    return unzip(body, max(most_of(source), EXPANDS_TO * settings.MAX_BODY_BYTES))


def refuse_encoding(said: str, body: bytes) -> None:
    """Raises BadDelivery, 415, for a way to pack a body that is not undone here: what it holds would be lost.

    Some senders write a charset there, or what never happened: what is text was not packed."""
    unknown = [name for name in said.lower().replace(" ", "").split(",") if name not in ENCODINGS]
    if unknown and not is_text(body):
        words = f"Bodies packed by {unknown[0][:40]} are not read here; gzip is."
        raise BadDelivery(words, code="unsupported_encoding", http=415, accepted="gzip")


def is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def prove(source: Source, body: bytes, headers: Mapping[str, str], *, now: float, came: float) -> Proven:
    """By which secret it fits and what it says, unpacked and in clear; raises Forged, BadDelivery, QueueFull.

    Unix times: the secrets valid at `now` count, the delivery's own timestamp is judged by when it `came`."""
    scheme = scheme_of(source)
    if scheme["scheme"] == "none":
        plain = expanded_body(source, body, headers)
        return Proven("", plain, plain, now=now)
    secrets = source.valid_secrets(now)
    keys = [secret["value"].encode() for secret in secrets]
    expanded = body
    try:
        proof = verify(scheme, body, headers, keys, now=came)
    except Forged as forged:
        try:
            expanded = expanded_body(source, body, headers)
        except BadDelivery:  # a stranger learns nothing of what he packed
            raise forged from None
        if expanded is body or expanded == body:
            raise
        proof = verify(scheme, expanded, headers, keys, now=came)  # signed first, then packed on the way
    else:
        expanded = expanded_body(source, body, headers)
    plain = expanded if proof.body is body else proof.body
    told = Proven(secrets[proof.secret]["value"], plain, expanded, proof.greets, now, signed=proof.signed)
    told.is_packed = proof.body is body and expanded is not body
    return told


def asks_elsewhere(source: Source, body: bytes) -> bool:
    """Whether this delivery may have to wait for something that lies elsewhere before it can be judged."""
    scheme = scheme_of(source)
    return scheme["scheme"] == "sns" and not is_at_hand(scheme, body)
