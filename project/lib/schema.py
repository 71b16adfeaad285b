"""Types that every schema of the API uses, and how a refusal is answered."""

from datetime import UTC, datetime
from typing import Annotated, Any

from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpResponse, JsonResponse
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


def answer(problem: Problem, **more: Any) -> HttpResponse:
    """A refusal as it goes out (RFC 9457)."""
    headers = {"WWW-Authenticate": 'Bearer realm="nightdesk"'} if problem.http == 401 else None
    return JsonResponse(
        {**problem.body(), **more},
        encoder=Rfc3339Encoder,
        status=problem.http,
        content_type="application/problem+json",
        headers=headers,
    )
