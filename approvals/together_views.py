"""The page on which several of one kind are decided: pick, read every headline, press once, see what became of each."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from approvals.cards import VERBS, card_of
from approvals.errors import NotValid
from approvals.inbox import MOST_JUDGED, first_that
from approvals.looking import looked_for
from approvals.models import Action
from approvals.together import MOST, Reader, Seen, decide_together
from approvals.wording import said
from project.lib import clock
from project.lib.text import made_storable, number
from project.people.doors import origin_of, who
from project.people.models import User

SHOWN = 100  # of those that the reader may decide, the soonest first


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def together(request: HttpRequest) -> HttpResponse:
    """Those of one kind that the reader may decide; with `pick` only these, to read before the press."""
    if request.method == "POST":
        return pressed(request)
    kind = made_storable(request.GET.get("kind", ""))
    now, reader = clock.now(), who(request)
    actions = decidable(reader, kind, now)
    picked = {number(text) for text in request.GET.getlist("pick")}
    chosen = [action for action in actions if action.pk in picked]
    if len(chosen) > MOST:
        return page(request, kind, actions=actions, wrong=f"Pick at most {MOST} of them.", status=422)
    cards = [card_of(action, reader, now) for action in chosen]
    return page(request, kind, chosen=cards) if cards else page(request, kind, actions=actions)


def decidable(person: User, kind: str, now: datetime) -> list[Action]:
    """Those the reader may decide beside each other, the soonest first."""
    waiting = Action.objects.awaiting().filter(kind=kind, expires_at__gt=now).soonest_first()
    reader, chosen = Reader.of(person, now), list(waiting.values_list("pk", flat=True)[:MOST_JUDGED])
    return first_that(reader.may_decide, chosen, SHOWN)


def pressed(request: HttpRequest) -> HttpResponse:
    """One decision for each line that was shown; what changed meanwhile is told and stops no other."""
    asked, reader = clock.now(), who(request)
    verdict, reason = request.POST.get("verdict", ""), request.POST.get("reason", "").strip()
    picked = [number(text) for text in request.POST.getlist("pick")]
    rows = Action.objects.for_pages().in_bulk(picked[: MOST + 1])
    lines = [line_of(request, rows[pk]) for pk in picked if pk in rows]
    kind = next((line.action.kind for line in lines), "")
    if verdict == "reject" and not reason:
        chosen = [card_of(line.action, reader, asked) for line in lines]
        return page(request, kind, chosen=chosen, wrong="Say why, in 1 to 2000 characters.", status=422)
    try:
        found = decide_together(lines, by=reader, verdict=verdict, reason=reason, origin=origin_of(request))
    except NotValid as refused:
        return page(request, kind, actions=decidable(reader, kind, asked), wrong=refused.detail, status=422)
    outcomes = [(one.action, said(one.refused, asked) if one.refused else None) for one in found]
    done = sum(refusal is None for _, refusal in outcomes)
    return page(request, kind, outcomes=outcomes, done=done, verdict=verdict)


def line_of(request: HttpRequest, action: Action) -> Seen:
    """As the form carried it."""
    digest, revision = (request.POST.get(f"{name}-{action.pk}", "") for name in ("digest", "revision"))
    seconds = looked_for(request.POST.get(f"drawn-{action.pk}", ""), action, who(request), clock.now())
    return Seen(action, digest, number(revision), seconds)


def page(request: HttpRequest, kind: str, *, status: int = 200, **shown: Any) -> HttpResponse:
    facts = {"kind": kind, "noun": VERBS.get(kind, "request"), "most": MOST, **shown}
    return render(request, "approvals/together.html", facts, status=status)
