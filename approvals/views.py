"""The pages on which people decide: the inbox, one action, and what practice connections delivered."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from approvals import clearing, decide
from approvals.answer_forms import read_answer
from approvals.cards import Card, card_of
from approvals.errors import ApprovalProblem, StepUpRequired
from approvals.inbox import PAGE, after, listed, wanted
from approvals.looking import looked_for
from approvals.models import Action, PracticeItem
from approvals.refusals import VERDICTS
from approvals.tiers import Tier
from approvals.wording import said
from project.lib import clock
from project.lib.language import words
from project.lib.text import made_storable, number
from project.people import doors
from project.people.doors import who

DRAFT = "draft:{}"  # in the session: [note, verdict] of what was typed before the password was asked for


def card_for(request: HttpRequest, action: Action, now: datetime) -> Card:
    posted = request.POST if "digest" in request.POST else None
    card = card_of(action, who(request), now, posted=posted)
    return replace(card, fresh=doors.is_fresh(request)) if card.tier is Tier.HIGH else card


@require_safe
def inbox(request: HttpRequest) -> HttpResponse:
    """What waits, soonest first, beside the one that is open."""
    now = clock.of(request)
    found = listed(request, now)
    return render(request, "approvals/inbox.html", found | opened(request, now, found["waiting"]))


def opened(request: HttpRequest, now: datetime, waiting: list[Action]) -> dict[str, Any]:
    """The card on the right, the soonest one unless another is named; and the one that was just approved and can still
    be taken back."""
    wanted = number(request.GET.get("sel", ""))
    action = Action.objects.for_pages().filter(pk=wanted).first() if wanted else None
    action = action or next(iter(waiting), None)
    card = card_for(request, action, now) if action else None
    return {"card": card, "just": just_decided(request, now, action), **draft(request, action)}


def just_decided(request: HttpRequest, now: datetime, shown: Action | None) -> Card | None:
    """The decision the reader came from; not said twice when its own card is open."""
    done = number(request.GET.get("done", ""))
    if not done or (shown and shown.pk == done):
        return None
    action = Action.objects.for_pages().filter(pk=done).first()
    return card_for(request, action, now) if action else None


def draft(request: HttpRequest, action: Action | None) -> dict[str, str]:
    """The note that was typed before, and the verdict it was for: it goes with no other."""
    verdict = request.POST.get("verdict", "")
    if verdict in VERDICTS and request.POST.get("reason"):
        return {"draft": request.POST["reason"], "begun": verdict}
    kept = request.session.get(DRAFT.format(action.pk), "") if action else ""
    note, verdict = kept if isinstance(kept, list) else (kept, "")  # desks kept the note alone before
    return {"draft": note, "begun": verdict if note and verdict in VERDICTS else ""}


@require_safe
def page(request: HttpRequest, pk: int) -> HttpResponse:
    """One action, in every state it can be in."""
    return one(request, get_object_or_404(Action.objects.for_pages(), pk=pk))


def one(
    request: HttpRequest, action: Action, *, refusal: Any = None, field: str = "", status: int = 200
) -> HttpResponse:
    """The page of one action, with what was refused said on top of it, and beside the field of an answer."""
    now = clock.now()
    card = card_for(request, action, now)
    if field and card.answer_form:
        card.answer_form.blame(field, refusal.headline)
    just = just_decided(request, now, action)
    facts: dict[str, Any] = {
        "card": card,
        "just": just,
        **draft(request, action),
        "refusal": refusal,
        # A reload asks for the card, not for the address the form was sent to, and still says what was decided before.
        "here": where(request, action.pk) + (f"?done={just.action.pk}" if just else ""),
    }
    if request.POST.get("from") == "inbox":
        answer = render(request, "approvals/inbox.html", listed(request, now) | facts, status=status)
    else:
        answer = render(request, "approvals/action.html", facts, status=status)
    answer["HX-Push-Url"] = facts["here"]
    return answer


@require_POST
def say(request: HttpRequest, pk: int) -> HttpResponse:
    """Yes or no about exactly the bytes that were shown."""
    action = get_object_or_404(Action.objects.for_pages(), pk=pk)
    asked = clock.now()
    note = request.POST.get("reason", "").strip()
    verdict = request.POST.get("verdict", "")
    try:
        decide.decide(
            action,
            by=who(request),
            verdict=verdict,
            digest=request.POST.get("digest", ""),
            revision=number(request.POST.get("revision", "")),
            reason=note,
            answer=answered(request, action) if verdict == "approve" else None,
            proof=lambda: doors.use_up(request),
            looked_for=looked_for(request.POST.get("drawn", ""), action, who(request), asked),
            origin=doors.origin_of(request),
        )
    except StepUpRequired:
        request.session[DRAFT.format(pk)] = [note[:2000], verdict]
        answer = doors.to_step_up(where(request, pk))
        is_part = "HX-Request" in request.headers  # that page is no part of this one
        return HttpResponse(headers={"HX-Redirect": answer.url}) if is_part else answer
    except ApprovalProblem as problem:
        action.refresh_from_db()
        field = str(problem.facts.get("field", ""))
        return one(request, action, refusal=said(problem, asked), field=field, status=problem.http)
    request.session.pop(DRAFT.format(pk), None)
    return redirect(onwards(request, pk))


def answered(request: HttpRequest, action: Action) -> Any:
    """What was typed into the form of a question; None for everything else. Raises NotValid naming the field."""
    form = card_for(request, action, clock.now()).answer_form
    return read_answer(form) if form else None


def where(request: HttpRequest, pk: int) -> str:
    """The page this form was on."""
    if request.POST.get("from") == "inbox":
        return f"{reverse('approvals')}?{urlencode({**wanted(request).shown, 'sel': pk})}"
    return reverse("action", args=[pk])


def onwards(request: HttpRequest, pk: int) -> str:
    """After a decision the next waiting one opens; when there is none, the one that was decided stays."""
    asked = wanted(request)
    following = after(request, pk, clock.now())
    if request.POST.get("from") == "inbox":
        there = {**asked.shown, "sel": following.pk if following else pk, "done": pk}
        return f"{reverse('approvals')}?{urlencode(there)}"
    return f"{reverse('action', args=[following.pk])}?done={pk}" if following else reverse("action", args=[pk])


def attempted(request: HttpRequest, pk: int, verb: Callable[[Action], object], done: str) -> HttpResponse:
    """Call a door; say what happened, or on the card why not."""
    action = get_object_or_404(Action.objects.for_pages(), pk=pk)
    asked = clock.now()
    try:
        verb(action)
    except StepUpRequired:
        return doors.to_step_up(where(request, pk))
    except ApprovalProblem as problem:
        action.refresh_from_db()
        return one(request, action, refusal=said(problem, asked), status=problem.http)
    messages.success(request, done)
    return redirect(where(request, pk))


@require_POST
def take_it_back(request: HttpRequest, pk: int) -> HttpResponse:
    """The yes is withdrawn; it waits again under a new revision."""
    done = words("Taken back. Nothing was sent. It is waiting again.")
    return attempted(request, pk, lambda action: decide.take_back(action, by=who(request)), done)


@require_POST
def withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    """The request itself is withdrawn."""
    done, why = words("Withdrawn. Nothing was sent."), request.POST.get("reason", "")
    return attempted(request, pk, lambda action: decide.cancel(action, by=who(request), reason=why), done)


@require_POST
def settle(request: HttpRequest, pk: int) -> HttpResponse:
    """A person answers "did it happen?"."""
    status, note = request.POST.get("status", ""), request.POST.get("note", "").strip()
    done = {
        "delivered": words("Noted: it happened. The run goes on."),
        "not_sent": words("Noted: it did not happen. It is sent again now."),
        "failed": words("Given up. It stands under dead letters."),
    }.get(status, words("Noted."))
    return attempted(
        request,
        pk,
        lambda action: clearing.settle_unknown(
            action, by=who(request), status=status, note=note, proof=lambda: doors.use_up(request)
        ),
        done,
    )


@require_safe
def practice(request: HttpRequest) -> HttpResponse:
    """What practice connections delivered: the small world inside the desk."""
    kind = made_storable(request.GET.get("kind", ""))
    items = PracticeItem.objects.select_related("connection").order_by("-id")
    page = Paginator(items.filter(kind=kind) if kind else items, PAGE).get_page(request.GET.get("page"))
    kinds = PracticeItem.objects.order_by("kind").values_list("kind", flat=True).distinct()
    return render(request, "practice.html", {"page": page, "kinds": list(kinds), "kind": kind})
