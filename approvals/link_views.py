"""Where a link of a message leads."""

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from approvals import links
from approvals.asking import still_asks
from approvals.letters import outcome_of
from project.people.doors import who


@never_cache
@require_safe
def go(request: HttpRequest, slug: str) -> HttpResponse:
    """Open what a message was about, or say that it is over. Nothing changes by it."""
    notice = links.read(slug, who(request))
    if notice is None:
        raise PermissionDenied("This link was made for somebody else, or it is not whole.")
    asking, action = notice.asking, notice.asking.action
    if still_asks(asking, action):
        return redirect("action", pk=action.pk)
    return render(request, "approvals/link.html", {"action": action, "outcome": outcome_of(asking, action)})
