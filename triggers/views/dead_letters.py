"""Dead letters: grouped by cause, run again or dismissed with a note."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.db.models import Count, Max, Min, OuterRef, Q, Subquery
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from project.lib import clock, strict_json
from project.lib.problem import Problem
from project.people.doors import needs, who
from project.people.roles import can
from triggers import redrive
from triggers.models import DeadLetter, Run
from triggers.models.dead_letter import DeadLetterQuerySet
from triggers.views.lists import Filters, listing

FILTERS = ("status", "handler", "kind", "since", "until", "q")
STATUSES = ("open", "redriven", "dismissed")
MOST_GROUPS = 200
RECENT = timedelta(hours=1)  # a cause seen within it is still happening


@require_safe
def dead_letters(request: HttpRequest) -> HttpResponse:
    """One row a cause, the newest first."""
    filters = Filters(request.GET, FILTERS)
    status = filters.one("status") if filters.one("status") in STATUSES else "open"
    rows = wanted(DeadLetter.objects.filter(status=status), filters, payloads=can(request.user, "payloads"))
    groups = groups_of(rows, clock.now())
    counted = DeadLetter.objects.values_list("status").annotate(n=Count("pk"))
    context = {
        "groups": groups,
        "status": status,
        "filters": filters,
        "counts_by": dict(counted),
        "now_open": status == "open",
    }
    return render(request, "triggers/dead_letters.html", context)


def wanted(rows: DeadLetterQuerySet, filters: Filters, *, payloads: bool) -> DeadLetterQuerySet:
    """The rows the filters ask for; words are looked for in messages only for those who may read them."""
    if handlers := filters.many("handler"):
        rows = rows.filter(handler__in=handlers)
    if kinds := filters.many("kind"):
        rows = rows.filter(kind__in=kinds)
    if since := filters.time("since"):
        rows = rows.filter(last_at__gte=since)
    if until := filters.time("until"):
        rows = rows.filter(last_at__lt=until)
    if words := filters.one("q"):
        about = Q(error_type__icontains=words) | Q(handler__icontains=words)
        rows = rows.filter(about | Q(message__icontains=words) if payloads else about)
    return rows


def groups_of(rows: DeadLetterQuerySet, now: datetime) -> list[dict[str, Any]]:
    """`[{fingerprint, count, first, last, recent, newest, still}]`, the one seen last first."""
    counted = rows.values("fingerprint").annotate(
        count=Count("pk"),
        first=Min("first_at"),
        last=Max("last_at"),
        recent=Count("pk", filter=Q(last_at__gte=now - RECENT)),
        newest=Max("pk"),
    )
    groups: list[dict[str, Any]] = [{**group} for group in counted.order_by("-last")[:MOST_GROUPS]]
    worked = Run.objects.filter(handler=OuterRef("handler"), status="succeeded").order_by("-pk").values("finished_at")
    letters = DeadLetter.objects.annotate(worked_at=Subquery(worked[:1]))
    newest = letters.in_bulk([group["newest"] for group in groups])
    for group in groups:
        group["letter"] = letter = newest[group["newest"]]
        group["still"] = still(group["last"], group["recent"], letter.worked_at, now)  # type: ignore[attr-defined]
    return groups


def still(last: datetime, recent: int, worked: datetime | None, now: datetime) -> dict[str, Any]:
    """Is it still happening? `{yes, words, since}`."""
    if worked and worked > last:
        return {"tone": "ok", "icon": "circle-check", "words": "Its handler worked since", "at": worked}
    if now - last < RECENT:
        return {"tone": "fail", "icon": "triangle-alert", "words": f"Yes, {recent} in the last hour", "at": None}
    return {"tone": "skip", "icon": "clock", "words": "Not seen since", "at": last}


@require_safe
def group(request: HttpRequest, fingerprint: str) -> HttpResponse:
    """All letters of one cause."""
    filters = Filters(request.GET, ("status",))
    everything = DeadLetter.objects.filter(fingerprint=fingerprint).select_related("event", "redriven_as", "settled_by")
    everything = everything.defer("event__raw", "event__data_json", "event__headers", "redriven_as__result_json")
    statuses = [status for status in filters.many("status") if status in STATUSES]
    rows = everything.filter(status__in=statuses) if statuses else everything
    found = listing(rows, everything, filters)
    groups = groups_of(DeadLetter.objects.filter(fingerprint=fingerprint), clock.now())
    if not groups:
        raise Http404("There is no dead letter with this cause.")
    counted = dict(DeadLetter.objects.filter(fingerprint=fingerprint).values_list("status").annotate(n=Count("pk")))
    oldest = everything.open().order_by("pk").first()
    context = {"list": found, "group": groups[0], "filters": filters, "counts_by": counted, "oldest": oldest}
    return render(request, "triggers/dead_letter_group.html", context)


@require_safe
def dead_letter(request: HttpRequest, pk: int) -> HttpResponse:
    """One letter: the error, where, how often, and what can be done."""
    found = get_object_or_404(with_run(), pk=pk)
    return render(request, "triggers/dead_letter.html", shown(request, found))


def with_run() -> DeadLetterQuerySet:
    return DeadLetter.objects.select_related("run", "run__event", "run__trigger", "event", "redriven_as", "settled_by")


def shown(request: HttpRequest, letter: DeadLetter, **more: Any) -> dict[str, Any]:
    run = letter.run
    payload = ""
    if run is not None and can(request.user, "payloads"):
        payload = run.data_json if run.data_json is not None else run.event.data_text
    similar = DeadLetter.objects.filter(fingerprint=letter.fingerprint).exclude(pk=letter.pk)
    steps = list(run.steps.filter(status="done").order_by("seq").values_list("name", "kind")) if run else []
    kept = [name for name, kind in steps if kind not in ("log", "now", "random", "uuid")]
    return {
        "letter": letter,
        "run": run,
        "error": (run.error if run else None) or letter.error,
        "payload": payload,
        "kept": kept,
        "similar": similar.count(),
        **more,
    }


@require_POST
@needs("operate")
def redrive_letter(request: HttpRequest, pk: int) -> HttpResponse:
    """Run it again, from the failed step or the start, with the data as it was or as edited."""
    letter = get_object_or_404(with_run(), pk=pk)
    try:
        data = edited_data(request, letter)
        run = redrive.redrive(letter, by=who(request), data=data, from_=request.POST.get("from") or "failed_step")
    except strict_json.NotParsable as refused:
        draft = {"draft": request.POST.get("data", ""), "draft_error": refused.detail}
        return render(request, "triggers/dead_letter.html", shown(request, letter, **draft), status=422)
    except Problem as refused:
        messages.error(request, refused.detail)
        return redirect("dead-letter", pk=pk)
    messages.success(request, f"D-{letter.pk} runs again as R-{run.pk}.")
    return redirect("run", pk=run.pk)


def edited_data(request: HttpRequest, letter: DeadLetter) -> Any:
    """The edited data, or None when nothing was changed. Raises NotParsable."""
    text = request.POST.get("data")
    if text is None or letter.run is None or not can(request.user, "payloads"):
        return None
    before = letter.run.data_json if letter.run.data_json is not None else letter.run.event.data_text
    if text.strip().splitlines() == before.strip().splitlines():
        return None
    return strict_json.loads(text.encode())


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
    messages.success(request, f"D-{letter.pk} is dismissed. The note is kept.")
    return redirect("dead-letters")
