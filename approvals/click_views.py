"""The address to which a chat calls back when somebody presses a button there."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from approvals import clicks
from approvals.models import Connection
from approvals.pressing import Call
from project.lib.crypto import Unreadable
from triggers.answers import PROBLEM_401
from triggers.sources.forged import Forged


@csrf_exempt
@require_POST
def pressed(request: HttpRequest, slug: str) -> HttpResponse:
    """Whatever is wrong with the proof, the answer is the same."""
    connection = Connection.objects.kept().filter(slug=slug).first()
    call = Call(request.body, {name.lower(): value for name, value in request.headers.items()})
    try:
        answer = clicks.hear(connection, call, remote=request.META.get("REMOTE_ADDR", ""))
    except (Forged, Unreadable):
        return HttpResponse(PROBLEM_401, status=401, content_type="application/problem+json")
    return JsonResponse(answer) if answer else HttpResponse(status=200)
