"""Where a link of a message leads."""

import contextlib

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from approvals import links
from approvals.asking import still_asks
from approvals.letters import outcome_of
from approvals.models import Notice
from project.people.doors import who

MOST_WRONG = 20  # links a person may get wrong while one remembers the first, in each process that serves pages
REMEMBERED = 60  # seconds


@never_cache
@require_safe
def go(request: HttpRequest, slug: str) -> HttpResponse:
    """Open what a message was about, or say that it is over. Nothing changes by it; its address is told to nobody."""
    wrong = f"wrong-links:{who(request).pk}"
    if (cache.get_or_set(wrong, 0, REMEMBERED) or 0) >= MOST_WRONG:
        answer = render(request, "approvals/link.html", {"tried": MOST_WRONG}, status=429)
        answer.headers["Retry-After"] = str(REMEMBERED)
    else:
        answer = answered(request, links.read(slug, who(request)))
        count_wrong(wrong, answer)
    answer.headers["Referrer-Policy"] = "no-referrer"
    return answer


def count_wrong(name: str, answer: HttpResponse) -> None:
    """In this process's memory: opening an address changes no row."""
    if answer.status_code == 404:
        with contextlib.suppress(ValueError):  # its minute is over
            cache.incr(name)


def answered(request: HttpRequest, notice: Notice | None) -> HttpResponse:
    """Without a form: a browser that sends no referrer sends no origin either, and its POST would be refused."""
    if notice is None:
        return render(request, "approvals/link.html", status=404)
    asking, action = notice.asking, notice.asking.action
    if still_asks(asking, action):
        return redirect("action", pk=action.pk)
    return render(request, "approvals/link.html", {"action": action, "outcome": outcome_of(asking, action)})
