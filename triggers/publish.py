"""CloudEvents over the API: structured, binary or a batch, taken in all together or not at all."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from triggers.bucket import BUCKETS
from triggers.cloudevents import read_events
from triggers.envelope import Arrival
from triggers.errors import BadDelivery, TooMany, TriggerFull
from triggers.ingest import Outcome, ingest
from triggers.models import Source
from triggers.sources.proof import most_of
from triggers.sources.scheme import CREDENTIALS
from triggers.sources.webhook import refuse_type, stamp


def publish(
    source: Source, body: bytes, headers: Mapping[str, str], *, requester_id: int | None, remote: str = ""
) -> list[tuple[Arrival, Outcome]]:
    """Store the events of one request as coming from `source`; `headers` has lower-case names.

    Raises BadDelivery (400, 413, 415; 422 with `errors: [{index, code, detail}]`), TooMany or QueueFull."""
    most = most_of(source)
    if len(body) > most:
        raise BadDelivery(f"The body is over {most} bytes.", code="too_large", http=413, limit=most)
    arrivals = read_events(body, headers)
    kept = {name: value for name, value in headers.items() if name not in CREDENTIALS}  # a token opens the API
    for arrival in arrivals:
        stamp(arrival, source, kept, remote, frozenset())
        arrival.requester_id = requester_id
    refuse_types(source, arrivals)
    wait = BUCKETS.take(source.pk, source.rate_limit, time.monotonic())
    if wait and source.on_overload == "refuse":
        raise TooMany(retry_after=max(1, round(wait)))
    taken = len(arrivals) if wait else 1
    if wait:
        BUCKETS.owe(source.pk, source.rate_limit, taken)
    outcomes = stored(source, arrivals, overload="rate" if wait else "") if arrivals else []
    if all(outcome.status == "duplicate" for outcome in outcomes):
        BUCKETS.give_back(source.pk, source.rate_limit, taken)
    return list(zip(arrivals, outcomes, strict=True))


def stored(source: Source, arrivals: Sequence[Arrival], *, overload: str) -> list[Outcome]:
    """Also where a trigger has no room, if the source is refused nothing: then its rules are asked inside."""
    try:
        return ingest(arrivals, overload=overload)
    except TriggerFull:
        if source.on_overload == "refuse":
            raise
        return ingest(arrivals, overload="room")


def refuse_types(source: Source, arrivals: Sequence[Arrival]) -> None:
    """Name every member whose type the source may not send."""
    errors: list[dict[str, Any]] = []
    for index, arrival in enumerate(arrivals):
        try:
            refuse_type(source, arrival.type)
        except BadDelivery as bad:
            errors.append({"index": index, "code": bad.code, "detail": bad.detail})
    if errors:
        raise BadDelivery(errors[0]["detail"], code=errors[0]["code"], http=422, errors=errors)
