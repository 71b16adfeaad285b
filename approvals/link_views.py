"""Where a link of a message leads."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from approvals import links
from approvals.asking import still_asks
from approvals.letters import outcome_of
from approvals.models import Notice
from project.people.doors import who


@never_cache
@require_safe
def go(request: HttpRequest, slug: str) -> HttpResponse:
    """Open what a message was about, or say that it is over. Nothing changes by it; its address is told to nobody."""
    answer = answered(request, links.read(slug, who(request)))
    answer.headers["Referrer-Policy"] = "no-referrer"
    return answer


def answered(request: HttpRequest, notice: Notice | None) -> HttpResponse:
    """Without a form: a browser that sends no referrer sends no origin either, and its POST would be refused."""
    if notice is None:
        return render(request, "approvals/link.html", status=404)
    asking, action = notice.asking, notice.asking.action
    if still_asks(asking, action):
        return redirect("action", pk=action.pk)
    return render(request, "approvals/link.html", {"action": action, "outcome": outcome_of(asking, action)})
