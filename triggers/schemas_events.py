"""What the API takes and answers where events come in."""

from typing import Any, Literal

from ninja import Schema

from triggers.envelope import Arrival
from triggers.ingest import Outcome


class EventTold(Schema):
    """What became of one event; a duplicate carries the numbers of the first."""

    id: str
    source: str
    seq: int
    status: Literal["accepted", "duplicate", "invalid"]

    @classmethod
    def of(cls, arrival: Arrival, outcome: Outcome) -> dict[str, Any]:
        return {"id": outcome.ce_id, "source": arrival.source, "seq": outcome.seq, "status": outcome.status}


class Published(Schema):
    """In the order of the request."""

    events: list[EventTold]


EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"type": "string", "const": "1.0"},
        **{key: {"type": "string", "minLength": 1} for key in ("id", "source", "type")},
        **{key: {"type": "string"} for key in ("subject", "datacontenttype", "dataschema", "idempotencykey")},
        **{key: {"type": "string"} for key in ("traceparent", "correlationid", "data_base64")},
        "time": {"type": "string", "format": "date-time"},
        "severity": {"enum": ["info", "warning", "error", "critical"]},
        "data": {},
    },
}
CLOUD_EVENTS: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/cloudevents+json": {"schema": EVENT},
            "application/cloudevents-batch+json": {"schema": {"type": "array", "maxItems": 1000, "items": EVENT}},
        },
    }
}
