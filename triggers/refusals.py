"""Deliveries that became no event of their own are kept for a while, with the reason."""

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from project.lib import clock, crypto
from project.lib.live import changed
from project.lib.text import made_storable
from triggers import tallies
from triggers.envelope import Arrival
from triggers.errors import BadDelivery, NotValid
from triggers.ingest import Outcome, ingest
from triggers.models import Audit, Refusal, Source
from triggers.retention import prune_refusals_of
from triggers.sources import inside, webhook
from triggers.sources.details import scheme_of
from triggers.sources.forged import Forged
from triggers.sources.proof import prove
from triggers.sources.replies import Handshake
from triggers.sources.sns import confirm

if TYPE_CHECKING:
    from project.people.models import User

logger = logging.getLogger("nightdesk.door")
A_SECOND = 10  # refusals of one source and reason that one process stores; the rest is only counted
KEPT_BODY = 64 * 1024  # bytes; of a larger body only the digest stays
PRUNE_AFTER = 50  # refusals of one cause: then its oldest go, however far the next round of retention is
AN_EVENT = 100  # repeats listed on one event, the newest
NOT_AGAIN = "This one cannot be taken in again."


Cause = tuple[int | None, str]  # a source, None for addresses nobody has, and the reason


class Valve:
    """Lets `A_SECOND` refusals of each cause a second through: an attacker fills no disk, and hides no other cause."""

    def __init__(self) -> None:
        self.second = 0
        self.counts: Counter[Cause] = Counter()
        self.uncounted = 0

    def opens(self, cause: Cause) -> bool:
        second = int(time.monotonic())
        if second != self.second:
            self.second, self.counts = second, Counter()
        self.counts[cause] += 1
        self.uncounted += self.counts[cause] > A_SECOND
        return self.counts[cause] <= A_SECOND


valve = Valve()
stored: Counter[Cause] = Counter()  # refusals by this process


def keep(
    source: Source | None,
    slug: str,
    *,
    reason: str,
    answered: int,
    detail: str = "",
    headers: Mapping[str, str],
    body: bytes,
    remote: str = "",
    event: int | None = None,
) -> Refusal | None:
    """Store one refused delivery; None when too many came this second."""
    cause = (source.pk if source else None, reason)
    if event is None:
        tallies.note("refused", source.slug if source else "", reason)
    if not valve.opens(cause):
        return None
    scheme = scheme_of(source) if source and source.kind in Source.DOORS else None
    names = webhook.credentials_in(headers, scheme)
    secret = {name: value for name, value in headers.items() if name in names}
    open_headers = {name: made_storable(value[:2000]) for name, value in headers.items() if name not in secret}
    digest = hashlib.sha256(body).hexdigest()
    stored_body, taken = webhook.body_without(body, headers, scheme) if len(body) <= KEPT_BODY else (None, [])
    refusal = Refusal.objects.create(
        source=source,
        slug=made_storable(slug[:200]),
        at=clock.now(),
        reason=reason,
        answered=answered,
        detail=made_storable(detail[:1000]),
        headers=open_headers,
        credentials=webhook.sealed(secret, taken),
        body=stored_body,
        digest=digest,
        size=len(body),
        remote=remote,
        event=event,
    )
    if event is None:
        logger.info("Refused a delivery: %s", reason, extra={"source": refusal.slug, "answered": answered})
    stored[cause] += 1
    if stored[cause] % PRUNE_AFTER == 0:
        prune_refusals_of(*cause)
    changed("sources")
    return refusal


def keep_duplicate(
    source: Source, outcome: Outcome, *, headers: Mapping[str, str], body: bytes, remote: str, answered: int = 200
) -> None:
    """List a repeat on the first event; only the newest hundred stay. `answered` 0: it was read, nobody asked."""
    kept = keep(
        source,
        source.slug,
        reason=outcome.reason,
        answered=answered,
        headers=headers,
        body=body,
        remote=remote,
        event=outcome.seq,
    )
    if kept is None:
        return
    older = Refusal.objects.repeats().filter(event=outcome.seq).order_by("-pk")
    Refusal.objects.filter(pk__in=list(older.values_list("pk", flat=True)[AN_EVENT:])).delete()
    changed("events", id=outcome.seq)


def admit(refusal: Refusal, *, by: "User | None") -> list[Outcome]:
    """Check a refused delivery again, by the time it came and the secrets of now, and take it in, once.

    Raises NotValid in words when it still does not prove its sender, its body was not kept or somebody was first."""
    visit = ""
    try:
        arrivals = arrivals_of(refusal)
    except Handshake as hello:
        arrivals, visit = [], hello.reply.visit
        if refusal.source:
            refusal.source.greet()
    outcomes = ingest(arrivals, along=partial(take_in, refusal, by))
    if visit:
        confirm(visit)
    return outcomes


def take_in(refusal: Refusal, by: "User | None", outcomes: list[Outcome]) -> None:
    """In the commit of its events, so that whatever fails in it leaves the refusal as it was. Raises NotValid."""
    first = outcomes[0].seq if outcomes else None
    if not Refusal.objects.filter(pk=refusal.pk, admitted_at=None).update(admitted_at=clock.now(), event=first):
        raise NotValid(NOT_AGAIN)
    Audit.write("admit", refusal, by=by, event=first)
    changed("sources", id=refusal.slug)


def arrivals_of(refusal: Refusal) -> list[Arrival]:
    """What a refused delivery holds, judged as the door does. Raises NotValid, Handshake."""
    source = refusal.source
    if source is None or refusal.admitted_at or refusal.reason in Refusal.REPEATS:
        raise NotValid(NOT_AGAIN)
    if refusal.body is None:
        raise NotValid("Its body was too large to keep; ask the sender for another delivery.")
    kept = crypto.unseal(refusal.credentials) or {}
    body = inside.put_back(bytes(refusal.body), kept.pop(inside.TAKEN, []))
    headers = {**refusal.headers, **kept}
    if refusal.digest != hashlib.sha256(body).hexdigest():
        raise NotValid("What proves it was kept for a day only; ask the sender for another delivery.")
    try:
        proven = prove(source, body, headers, now=clock.now().timestamp(), came=refusal.at.timestamp())
        return webhook.arrivals_of(source, proven.raw, headers, remote=refusal.remote, proven=proven)
    except Forged as error:
        raise NotValid(f"It still does not prove its sender: {error}.") from error
    except BadDelivery as error:
        raise NotValid(f"It still cannot be read: {error.detail}") from error
