"""The API: who is let in, how refusals are told, and where each app's operations hang."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.urls import URLPattern, URLResolver
from ninja import NinjaAPI, Schema, Status
from ninja.errors import HttpError, ValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.parser import Parser
from ninja.types import DictStrAny

from approvals.freeze_api import router as freeze_router
from approvals.outside_api import router as approvals_router  # of api.py, and what programs outside ask
from approvals.policy_api import router as policy_router
from project.lib import stream, strict_json
from project.lib.faults import read_faults
from project.lib.problem import Problem
from project.lib.schema import NotFound, answer
from project.lib.states import IllegalMove
from project.people.auth import SIGNED_IN, Forbidden, NotSignedIn, caller
from project.people.models import Authenticator
from project.proving import prove
from triggers.api import router as machine_router
from triggers.api_agents import router as agents_router
from triggers.api_audit import router as audit_router
from triggers.api_bulk import router as bulk_router
from triggers.api_config import router as config_router
from triggers.api_types import router as types_router
from triggers.errors import NotValid

MOST_ERRORS = 20  # named in one answer


class BadValue(Problem):
    """A value in the address makes no sense."""

    code = "bad_value"
    http = 400


class TooBig(Problem):
    """The body is too large."""

    code = "too_large"
    http = 413


class NoSuchMethod(Problem):
    """This address does not know this method."""

    code = "method_not_allowed"
    http = 405


class Moved(Problem):
    """Somebody else was first; load it again."""

    code = "moved"
    http = 409


class StrictParser(Parser):
    """Bodies that every database can store."""

    def parse_body(self, request: HttpRequest) -> DictStrAny:
        body: DictStrAny = strict_json.loads(request.body)
        return body


class ProblemOut(Schema):
    """RFC 9457; each code has facts of its own beside these (docs/api.md)."""

    type: str
    title: str
    status: int
    code: str
    detail: str


class DeskAPI(NinjaAPI):
    """Says in its OpenAPI page, once for all operations, how a refusal looks."""

    def get_openapi_schema(self, **place: Any) -> OpenAPISchema:
        page = super().get_openapi_schema(**place)
        page["components"]["schemas"]["Problem"] = ProblemOut.model_json_schema()
        shape = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        for operations in page["paths"].values():
            for operation in operations.values():
                operation["responses"]["default"] = {"description": "Refused", "content": shape}
        return page


api = DeskAPI(
    title="Nightdesk",
    version="1",
    description="Events in, durable runs, actions that wait for a nod. Refusals are RFC 9457 problems.",
    auth=SIGNED_IN,
    parser=StrictParser(),
    docs_url="/docs",
    openapi_url="/openapi.json",
    urls_namespace="api",
)
api.add_router("", machine_router)
api.add_router("", config_router)
api.add_router("", types_router)
api.add_router("", agents_router)
api.add_router("", bulk_router)
api.add_router("", audit_router)
api.add_router("", approvals_router)
api.add_router("", policy_router)
api.add_router("", freeze_router)


class LiveOut(Schema):
    seq: str
    changes: list[dict[str, Any]]
    resync: bool


class StepUpIn(Schema):
    password: str = ""
    code: str = ""


@api.get("/live", response=LiveOut, tags=["live"])
def live(request: HttpRequest, since: str = "") -> Any:
    """What changed after `since`, by topic and id; `resync` means: load everything again."""
    caller(request).need("view")
    news = stream.news(since)
    return {"seq": news.seq, "changes": news.changes, "resync": news.resync}


@api.post("/step-up", response={204: None}, tags=["people"])
def step_up(request: HttpRequest, body: StepUpIn) -> Any:
    """Prove again who you are: good for five minutes and one decision on a high action."""
    who = caller(request)
    if who.token is not None or who.user is None:
        raise Forbidden("A token cannot step up; a person in a browser can.")
    if body.code and not Authenticator.of(who.user):
        raise NotValid("No authenticator app is enrolled; send the password.", field="code")
    if not body.code and Authenticator.of(who.user):
        raise NotValid("An authenticator app is enrolled; send its code.", field="code")
    prove(request, password=body.password, code=body.code)
    return Status(204, None)


@api.exception_handler(Problem)
def told(request: HttpRequest, problem: Problem) -> HttpResponse:
    response = answer(problem)
    if "retry_after" in problem.facts:
        response["Retry-After"] = str(problem.facts["retry_after"])
    return response


@api.exception_handler(IllegalMove)
def moved(request: HttpRequest, error: IllegalMove) -> HttpResponse:
    return answer(Moved())


@api.exception_handler(Http404)
def missing(request: HttpRequest, error: Http404) -> HttpResponse:
    return answer(NotFound())


@api.exception_handler(PermissionDenied)
def denied(request: HttpRequest, error: PermissionDenied) -> HttpResponse:
    return answer(Forbidden())


@api.exception_handler(RequestDataTooBig)
def too_big(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    return answer(TooBig(limit=settings.DATA_UPLOAD_MAX_MEMORY_SIZE))


@api.exception_handler(HttpError)
def refused(request: HttpRequest, error: HttpError) -> HttpResponse:
    if isinstance(error.__cause__, Problem):  # our parser's own words
        return answer(error.__cause__)
    kinds: dict[int, type[Problem]] = {401: NotSignedIn, 403: Forbidden, 404: NotFound}
    kind = kinds.get(error.status_code, strict_json.NotParsable)
    return answer(kind() if error.status_code in kinds else kind(str(error)))


@api.exception_handler(ValidationError)
def invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """What pydantic found: in the address 400, in the body 422; each with the name of the member."""
    found = list(read_faults(error.errors))
    in_body = any(place and place[0] in ("body", "form", "file") for place, _ in found)
    errors = [{"field": ".".join(map(str, place[2:] or place[1:])), "message": said} for place, said in found]
    first = errors[0]
    problem = (NotValid if in_body else BadValue)(f"{first['field']}: {first['message']}", field=first["field"])
    return answer(problem, errors=errors[:MOST_ERRORS])


def only_problems(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """A method that an address does not know is refused like everything else; `Allow` still names those it does."""

    @wraps(view)
    def told_alike(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response = view(request, *args, **kwargs)
        if response.status_code != 405:
            return response
        problem = answer(NoSuchMethod())
        problem["Allow"] = response["Allow"]
        return problem

    return told_alike


def addresses() -> tuple[list[URLResolver | URLPattern], str, str]:
    """What project/urls.py includes under /api/v1/."""
    patterns, app, namespace = api.urls
    for pattern in patterns:
        if isinstance(pattern, URLPattern) and pattern.callback is not None:
            pattern.callback = only_problems(pattern.callback)
    return patterns, app, namespace


def no_such_address(request: HttpRequest, rest: str = "") -> HttpResponse:
    """Whatever else is asked for under /api/."""
    return answer(NotFound("There is no such address in the API."))
