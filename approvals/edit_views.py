"""Edit and approve: the arguments as a form, what differs from those shown, and a yes to what was made of them."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from approvals import decide
from approvals.argument_forms import Form
from approvals.cards import Card
from approvals.changes import changes
from approvals.decide import Said
from approvals.editing import drafted
from approvals.errors import ApprovalProblem, Changed, NotValid, ReasonRequired, StepUpRequired
from approvals.models import Action
from approvals.views import card_for, one, onwards
from approvals.wording import said
from project.lib import clock
from project.lib.language import phrase
from project.lib.text import number
from project.people import doors
from project.people.doors import who

STAYS = (NotValid, ReasonRequired, StepUpRequired, Changed)  # refusals after which the form is still of use


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, pk: int) -> HttpResponse:
    """The form. A POST shows what was changed and changes nothing, unless it says `save`."""
    action = get_object_or_404(Action.objects.for_pages(), pk=pk)
    card = card_for(request, action, clock.now())
    is_save = request.method == "POST" and request.POST.get("do") == "save"
    if card.kind is None or not (card.can_edit or is_save):
        if "HX-Request" in request.headers:  # the part that shows what differs, a moment after it was decided
            return HttpResponse(status=204)
        messages.error(request, card.barred or "This cannot be edited any more.")
        return redirect("action", pk=pk)
    if card.needs_step_up and request.method != "POST":
        return doors.to_step_up(reverse("action-edit", args=[pk]))
    form = Form(card.kind, action.shown_arguments, request.POST if request.method == "POST" else None)
    return save(request, card, form) if is_save else editor(request, card, form)


def save(request: HttpRequest, card: Card, form: Form) -> HttpResponse:
    """A yes to what is in the form; whatever is refused stands beside its field, and nothing typed is lost.

    Who may not edit it is told so by the door, whatever he sent, and sees no form."""
    action, asked = card.action, clock.now()
    arguments = form.read()
    if form.errors and card.can_edit:
        return editor(request, card, form, status=422)
    seen = "" if form.errors else request.POST.get("digest", "")  # what cannot be read is not what anybody saw
    try:
        done = decide.decide(
            action,
            by=who(request),
            verdict="approve",
            digest=seen,
            revision=number(request.POST.get("revision", "")),
            reason=request.POST.get("reason", ""),
            arguments=arguments,
            proof=lambda: doors.use_up(request),
            origin=doors.origin_of(request),
        )
    except STAYS as problem:
        fresh = card_for(request, Action.objects.for_pages().get(pk=action.pk), clock.now())
        return editor(request, fresh, form, problem=problem, asked=asked, status=problem.http)
    except ApprovalProblem as problem:
        action.refresh_from_db()
        return one(request, action, refusal=said(problem, asked), status=problem.http)
    return after(request, action, done)


def after(request: HttpRequest, action: Action, done: Said) -> HttpResponse:
    if done.status != "awaiting":
        return redirect(onwards(request, action.pk))
    messages.success(
        request,
        phrase("Saved as revision {revision}. It waits for somebody else to approve it.", revision=done.revision),
    )
    return redirect("action", pk=action.pk)


def editor(
    request: HttpRequest,
    card: Card,
    form: Form,
    *,
    problem: ApprovalProblem | None = None,
    asked: Any = None,
    status: int = 200,
) -> HttpResponse:
    """The form with whatever was typed so far, beside what differs from the arguments as they are now."""
    differs, unfit = difference(card.action, form)
    told = problem or unfit
    field = str(told.facts.get("field", "")) if told else ""
    shown_there = form.blame(field, told.detail) if isinstance(told, NotValid) else False
    context = {
        "card": card,
        "form": form,
        "differs": differs,
        "unfit": unfit,
        "refusal": said(problem, asked) if problem and not shown_there else None,
        "reason": request.POST.get("reason", ""),
        "from": request.POST.get("from") or request.GET.get("from", ""),
        "confirm": isinstance(problem, StepUpRequired),
    }
    return render(request, "approvals/edit.html", context, status=status)


def difference(action: Action, form: Form) -> tuple[list[Any], NotValid | None]:
    """What the kind makes of the form, compared with what is asked now; or why it takes none of it."""
    try:
        arguments = form.read()
        if form.errors:
            return [], None
        return list(changes(action.arguments, drafted(action, arguments).arguments)), None
    except NotValid as problem:
        return [], problem
