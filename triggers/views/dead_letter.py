"""One dead letter: what failed, and what can be done: run it again as it was, edit its data first, or dismiss it."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from project.lib import strict_json
from project.lib.jsontext import difference, is_same, pretty
from project.lib.language import phrase
from project.lib.problem import Problem
from project.people.doors import needs, who
from project.people.roles import can
from triggers import redrive, registry
from triggers.models import Audit, Cause, DeadLetter, Event, Run
from triggers.models.dead_letter import DeadLetterQuerySet
from triggers.views.steps import SMALL

MOST_HISTORY = 50
MOST_EDITED = 512 * 1024  # bytes of JSON an editor takes


@require_safe
def dead_letter(request: HttpRequest, pk: int) -> HttpResponse:
    """One letter: the error, where, how often, and what can be done."""
    letter = get_object_or_404(with_run(), pk=pk)
    run = letter.run
    work = run or letter.event
    payload = work.data_text if work is not None and can(request.user, "payloads") else ""
    similar = DeadLetter.objects.filter(fingerprint=letter.fingerprint).exclude(pk=letter.pk)
    context = {
        "letter": letter,
        "run": run,
        "error": (run.error if run else None) or letter.error,
        "payload": payload,
        "worked_on": work,
        "history": history_of(letter),
        "similar": similar.count(),
        "assignee": Cause.objects.filter(pk=letter.fingerprint).values_list("assignee__username", flat=True).first(),
        **choices_of(run),
    }
    return render(request, "triggers/dead_letter.html", context)


def history_of(letter: DeadLetter) -> list[dict[str, Any]]:
    """What people did with it, the first first: who, when, why, and the run it led to."""
    deeds = list(Audit.objects.about([f"deadletter/{letter.pk}"]).select_related("by").order_by("pk")[:MOST_HISTORY])
    runs = Run.objects.in_bulk([deed.detail["as_run"] for deed in deeds if "as_run" in deed.detail])
    return [
        {
            "deed": "Run again" if deed.verb == "redrive" else deed.verb.capitalize(),
            "by": deed.actor,
            "at": deed.at,
            "why": deed.detail.get("reason", ""),
            "edited": deed.detail.get("edited", False),
            "run": runs.get(deed.detail.get("as_run", 0)),
        }
        for deed in deeds
    ]


def with_run() -> DeadLetterQuerySet:
    return DeadLetter.objects.select_related("run", "run__event", "run__trigger", "event", "redriven_as", "settled_by")


def choices_of(run: Run | None) -> dict[str, Any]:
    """The steps that are kept when it goes on where it failed, and those whose effect can happen once more."""
    if run is None:
        return {"kept": [], "sent": []}
    steps = list(run.steps.filter(status="done").order_by("seq").values_list("name", "kind"))
    sent = [effect for effects in registry.sent_by for effect in effects(run)]
    return {"kept": [name for name, kind in steps if kind not in SMALL], "sent": sent}


@require_http_methods(["GET", "HEAD", "POST"])
@needs("operate")
def edit_letter(request: HttpRequest, pk: int) -> HttpResponse:
    """Its data in an editor. A POST shows what was changed, and changes nothing."""
    letter = get_object_or_404(with_run(), pk=pk)
    if letter.status != "open" or worked_on(letter) is None:
        messages.error(request, phrase("D-{pk} cannot be run again: it is {status}.", pk=pk, status=letter.status))
        return redirect("dead-letter", pk=pk)
    return editor(request, letter)


def editor(request: HttpRequest, letter: DeadLetter, *, refusal: str = "") -> HttpResponse:
    """The editor with whatever was typed so far, and where it is no JSON."""
    work = worked_on(letter)
    assert work is not None
    before = work.data_text
    laid_out = pretty(before)
    draft = request.POST.get("data", laid_out)
    error = ""
    try:
        if "data" in request.POST:
            edited(draft, before)
    except strict_json.NotParsable as refused:
        error = where(refused)
    context = {
        "letter": letter,
        "run": letter.run,
        "event": letter.event if letter.run is None else letter.run.event,
        "draft": draft,
        "error": error,
        "refusal": refusal,
        "too_big": len(as_bytes(laid_out)) > MOST_EDITED,
        "gone": is_gone(work),
        "difference": [] if error else difference(before, draft),
        "from_": request.POST.get("from", "start"),
        "reason": request.POST.get("reason", ""),
        "again": request.POST.getlist("send_again"),
        **choices_of(letter.run),
    }
    return render(request, "triggers/dead_letter_edit.html", context, status=422 if error or refusal else 200)


def worked_on(letter: DeadLetter) -> Run | Event | None:
    """What holds the data that can be edited: its run, or the event that was refused."""
    return letter.run or (letter.event if letter.kind == "event" else None)


def is_gone(work: Run | Event) -> bool:
    """Whether retention removed the data."""
    if isinstance(work, Event):
        return work.pruned_at is not None
    return work.data_json is None and work.event.pruned_at is not None


def edited(text: str, before: str) -> Any:
    """The edited data, or UNCHANGED when it says what it said before. Raises NotParsable."""
    body = as_bytes(text)
    if len(body) > MOST_EDITED:
        raise strict_json.NotParsable(f"This is over {MOST_EDITED // 1024} KB; the API takes larger data.")
    try:
        data = strict_json.loads(body)
    except strict_json.NotParsable:
        if text.split() == pretty(before).split():  # data that was removed is an empty text
            return redrive.UNCHANGED
        raise
    return redrive.UNCHANGED if is_same(before, text) else data


def as_bytes(text: str) -> bytes:
    """A text as it would be sent, without the second character a browser ends its lines with."""
    return text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")


def where(refused: strict_json.NotParsable) -> str:
    """A refusal for the person who types: the place first."""
    if "line" not in refused.facts:
        return refused.detail
    return f"Line {refused.facts['line']}, column {refused.facts['column']}: {refused.detail}"


@require_POST
@needs("operate")
def redrive_letter(request: HttpRequest, pk: int) -> HttpResponse:
    """Run it again, from the failed step or the start, with the data as it was or as edited."""
    letter = get_object_or_404(with_run(), pk=pk)
    work = worked_on(letter)
    edits = "data" in request.POST and work is not None and can(request.user, "payloads")
    try:
        data = edited(request.POST["data"], work.data_text) if edits and work else redrive.UNCHANGED
        run = redrive.redrive(
            letter,
            by=who(request),
            data=data,
            from_=request.POST.get("from") or "failed_step",
            send_again=request.POST.getlist("send_again"),
            reason=request.POST.get("reason", ""),
        )
    except strict_json.NotParsable:
        return editor(request, letter)
    except Problem as refused:
        if edits and letter.status == "open" and refused.code == "not_valid":
            return editor(request, letter, refusal=refused.detail)
        messages.error(request, refused.detail)
        return redirect("dead-letter", pk=pk)
    if run is None:
        how = "" if data is redrive.UNCHANGED else " with the edited data"
        messages.success(
            request,
            phrase("E-{event_id} is matched again{how}, by the rules of now.", event_id=letter.event_id, how=how),
        )
        return redirect("event", seq=letter.event_id)
    with_edits = "" if data is redrive.UNCHANGED else " with the edited data"
    messages.success(
        request, phrase("D-{id} runs again as R-{id2}{with_edits}.", id=letter.pk, id2=run.pk, with_edits=with_edits)
    )
    return redirect("run", pk=run.pk)


@require_POST
@needs("operate")
def dismiss_letter(request: HttpRequest, pk: int) -> HttpResponse:
    """Close it with a note."""
    letter = get_object_or_404(DeadLetter, pk=pk)
    try:
        redrive.dismiss(letter, by=who(request), reason=request.POST.get("reason", ""))
    except Problem as refused:
        messages.error(request, refused.detail)
        return redirect("dead-letter", pk=pk)
    messages.success(request, phrase("D-{id} is dismissed. The note is kept.", id=letter.pk))
    return redirect("dead-letters")
