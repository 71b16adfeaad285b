"""`event.publish`: an event that triggers may listen to, taken in by the same door as those of any program.

It comes from a source of its own, `published`: what an action says is never taken for what a provider sent, or for what
the desk says of itself. The action's key is the event's id, so publishing twice stores it once.
"""

import json
from typing import Any, Literal

from django.db import transaction
from pydantic import Field, JsonValue, field_validator

from approvals.errors import NotSent, Refused
from approvals.kinds import ASKED_BY, Arguments, Far, Kind, Result, facts, register
from approvals.tiers import Tier
from project.lib.language import spoken
from triggers.cloudevents import STRUCTURED
from triggers.configure import PUBLISHED
from triggers.envelope import RESERVED
from triggers.errors import BadDelivery, QueueFull, TooMany
from triggers.models import Audit, ConfigVersion, Source
from triggers.publish import publish


class Publish(Arguments):
    type: str = Field(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=255)
    subject: str = Field(default="", max_length=512)
    data: JsonValue = None
    severity: Literal["info", "warning", "error", "critical"] = "info"

    @field_validator("type")
    @classmethod
    def is_free(cls, type: str) -> str:
        if type.startswith(RESERVED):
            raise ValueError("is a type only the desk itself may emit")
        return type


def own_source() -> Source:
    """The row that actions publish through; made when the first one does."""
    with transaction.atomic():
        given = {"name": "Published by actions", "kind": "cloudevents", "types": ["**"]}
        row, is_new = Source.objects.get_or_create(slug=PUBLISHED, defaults=given)
        if is_new:
            ConfigVersion.bump()
            Audit.write("create", row)
    if row.kind != "cloudevents":
        raise Refused(f"the source {PUBLISHED} is a {row.kind}; actions publish through one of kind cloudevents only")
    if not row.enabled or row.archived_at:
        raise Refused(f"the source {PUBLISHED} is switched off")
    return row


def deliver(far: Far, wish: Publish, key: str) -> Result:
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": key,
        "source": f"/{PUBLISHED}",
        **wish.model_dump(exclude_none=True, exclude_defaults=True),
        **{name: value for name, value in far.trace.items() if value},
    }
    try:
        headers = {"content-type": STRUCTURED, ASKED_BY: str(far.action)}
        [(_, told)] = publish(own_source(), json.dumps(event).encode(), headers, requester_id=None)
    except (TooMany, QueueFull) as error:
        raise NotSent(error.detail) from None
    except BadDelivery as error:
        raise Refused(error.detail) from None
    return {"id": told.ce_id, "seq": told.seq, "url": f"/events/{told.seq}", "status": told.status}


def preview(wish: Publish) -> list[dict[str, str]]:
    rows = [(spoken("Type"), wish.type), (spoken("Subject"), wish.subject), (spoken("Severity"), wish.severity)]
    data = json.dumps(wish.data, indent=2, ensure_ascii=False)
    return [*facts(rows), {"label": spoken("Data"), "text": data, "form": "json"}]


EVENT_PUBLISH = register(
    Kind(
        name="event.publish",
        system="",
        tier=Tier.LOW,
        safety="keyed",
        arguments=Publish,
        deliver=deliver,
        title=lambda wish: f"Publish {wish.type}{f' about {wish.subject}' if wish.subject else ''}",
        preview=preview,
        pretend=lambda wish, number: {},
        reversible="An event cannot be unsaid; the runs it starts can be cancelled.",
        blast_radius="every trigger that listens to it",
    )
)
