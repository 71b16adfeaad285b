"""Types that every schema of the API uses."""

from datetime import UTC, datetime
from typing import Annotated, Any

from django.core.serializers.json import DjangoJSONEncoder
from pydantic import PlainSerializer, WithJsonSchema

from project.lib.problem import Problem


def rfc3339(moment: datetime) -> str:
    """UTC with milliseconds and `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Moment = Annotated[datetime, PlainSerializer(rfc3339), WithJsonSchema({"type": "string", "format": "date-time"})]


class NotFound(Problem):
    """There is no such thing here, or it is not yours to see."""

    code = "not_found"
    http = 404


class Rfc3339Encoder(DjangoJSONEncoder):
    """JSON of problems: times as everywhere else."""

    def default(self, o: Any) -> Any:
        return rfc3339(o) if isinstance(o, datetime) else super().default(o)
