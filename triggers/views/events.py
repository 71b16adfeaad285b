"""Events: what came in, what it woke, and why not."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from project.lib.language import phrase
from project.lib.problem import Problem
from project.people.doors import needs, who
from project.people.roles import can
from project.templatetags.desk import LOOKS, Look
from triggers import pinning, redrive, schemas, search
from triggers.envelope import INNER
from triggers.models import AgentEvent, Event, Refusal, Run, Seen, Source, Trigger
from triggers.views.lists import Filters, as_number, as_table, list_page, listing

FILTERS = ("q", "id", "source", "type", "subject", "status", "since", "until")
MOST_INLINE = 512 * 1024  # bytes of a payload drawn on the page; above it is a download
MOST_DUPLICATES = 100
LED_TO = ("gathered", "dropped", "skipped")  # outcomes of matches that started no run, the one to say first
WANTED = ("dropped", "ignored", "skipped", "could_not_evaluate")  # outcomes a person most likely wants otherwise


@require_safe
def events(request: HttpRequest) -> HttpResponseBase:
    """The list, newest first."""
    filters = Filters(request.GET, FILTERS)
    everything = Event.objects.without_payload()
    rows = filters.narrow(everything, schemas.EventFilters)
    if words := filters.one("q"):
        rows = rows.filter(found_by(words, filters, payloads=can(request.user, "payloads")))
    if filters.as_table:
        return as_table(request, "events", schemas.EventRow, rows, schemas.EventRow.facts)
    found = listing(rows, everything, filters)
    for event in found.rows:
        event.story = story_of(event)
    picks = [
        filters.pick("source", "Source", source_names()),
        filters.pick("status", "State", Event.STATUSES),
    ]
    return list_page(request, "triggers/events.html", filters, {"list": found, "picks": picks, "verbs": ["run_again"]})


def found_by(words: str, filters: Filters, *, payloads: bool) -> Q:
    """The event with this number, or those with these words; how far was looked is said."""
    if search.newest() > search.REACH:
        filters.notes.append(
            f"Whole words were looked for everywhere, parts of words in the newest {search.REACH:,} events."
        )
    matching = search.matching(words, payloads=payloads)
    number = as_number(words, "E-")
    return matching if number is None else Q(pk=number) | matching


def source_names() -> list[str]:
    return [*Source.objects.kept().order_by("slug").values_list("slug", flat=True), *INNER]


def story_of(event: Event) -> Look | None:
    """What an event led to, for the badge of its row; None: its status says all."""
    if event.status != "routed":
        return None
    if runs := sum(1 for outcome in event.outcomes if outcome.get("run")):
        return LOOKS["routed"]._replace(word=f"Woke {runs} run{'' if runs == 1 else 's'}")
    told = {str(outcome.get("outcome", "")) for outcome in event.outcomes}
    word = next((word for word in LED_TO if word in told), None)
    return LOOKS[word]._replace(tone="retry" if word == "dropped" else LOOKS[word].tone) if word else None


@dataclass(frozen=True)
class Line:
    """What one trigger said of the event, and the runs it led to."""

    slug: str
    trigger: Trigger | None
    outcome: str
    clause: str
    detail: str
    runs: list[Run]


@require_safe
def event(request: HttpRequest, seq: int) -> HttpResponse:
    """One event: what came in, what it woke, its payload."""
    rows = Event.objects.select_related("source", "requester", "pin__by")
    found = get_object_or_404(rows if can(request.user, "payloads") else rows.defer("raw", "data_json"), pk=seq)
    runs = list(Run.objects.working_on(found).select_related("trigger").order_by("pk"))
    moves = AgentEvent.objects.taken_up().told().select_related("agent").filter(event=found)
    moved = moves.first() if found.correlationid else None  # an event that names nothing moves nothing
    context = {
        "event": found,
        "story": story_of(found),
        "moved": moved,
        "lines": lines_of(found, [run for run in runs if not (moved and run in moved.runs)]),
        "others": other_triggers(found, runs),
        "woken": found.ended_waits.select_related("run").order_by("pk"),
        "duplicates": Refusal.objects.repeats().filter(event=found.pk).order_by("-pk")[:MOST_DUPLICATES],
        "keys": keys_of(found, request),
        "pin": getattr(found, "pin", None),
        "retention_days": settings.RETENTION_DAYS,
        "letters": found.letters.order_by("pk"),
        **(payload_of(found) if can(request.user, "payloads") else {}),
    }
    return render(request, "triggers/event.html", context)


def lines_of(event: Event, runs: list[Run]) -> list[Line]:
    """One line a trigger, matched ones first; a run that was started by hand has a line of its own."""
    slugs = [str(outcome.get("trigger", "")) for outcome in event.outcomes]
    triggers = {row.slug: row for row in Trigger.objects.filter(slug__in=slugs)}
    mine: dict[str, list[Run]] = {}
    for run in runs:
        mine.setdefault(run.trigger.slug if run.trigger else "", []).append(run)
    lines = [
        Line(
            slug=(slug := str(outcome.get("trigger", ""))),
            trigger=triggers.get(slug),
            outcome=str(outcome.get("outcome", "")),
            clause=str(outcome.get("clause") or ""),
            detail=str(outcome.get("detail") or ""),
            runs=mine.pop(slug, []),
        )
        for outcome in event.outcomes
    ]
    by_hand = [Line(slug, left[0].trigger, "by_hand", "", "", left) for slug, left in mine.items()]
    return sorted(lines, key=lambda line: line.outcome not in ("matched", "routed")) + by_hand


def other_triggers(event: Event, runs: list[Run]) -> list[Trigger]:
    """Triggers a person may start for this event: any that listens to its source."""
    rows = Trigger.objects.kept().filter(Q(source=event.source_slug) | Q(source="*"))
    started = {run.trigger_id for run in runs}
    told = {str(outcome.get("trigger", "")): str(outcome.get("outcome", "")) for outcome in event.outcomes}
    return sorted(rows, key=lambda row: (rank_of(told.get(row.slug, "")), row.pk not in started, row.slug))


def rank_of(outcome: str) -> int:
    """How likely it is that a trigger with this outcome is the one to run again; none comes last."""
    if outcome in WANTED:
        return WANTED.index(outcome)
    return len(WANTED) + (1 if outcome in ("", "not_matched") else 0)


def payload_of(event: Event) -> dict[str, Any]:
    """The payload as text for the tree, or only its size when it is too big to draw."""
    try:
        text = event.data_text
    except UnicodeDecodeError:
        text = ""
    size = len(event.raw) if event.raw is not None else len(text)
    return {
        "payload": text if size <= MOST_INLINE else "",
        "payload_size": size,
        "too_big": size > MOST_INLINE,
        "headers": sorted(event.headers.items()),
    }


@require_safe
@needs("payloads")
def event_raw(request: HttpRequest, seq: int) -> HttpResponse:
    """The exact bytes that came in, as a download: never shown by a browser, whatever they are."""
    found = get_object_or_404(Event, pk=seq)
    if found.raw is None and not found.data_json:
        raise Http404("This event carries no payload, or it was removed by the rule of retention.")
    body = bytes(found.raw) if found.raw is not None else (found.data_json or "").encode()
    answer = HttpResponse(body, content_type="application/octet-stream")
    answer["Content-Disposition"] = f'attachment; filename="event-{found.pk}.bin"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


@require_POST
@needs("operate")
def run_event_again(request: HttpRequest, seq: int) -> HttpResponse:
    """Start a trigger's handler for this event, also one it did not match."""
    found = get_object_or_404(Event, pk=seq)
    trigger = get_object_or_404(Trigger.objects.kept(), slug=request.POST.get("trigger", ""))
    try:
        run = redrive.run_event_again(found, trigger, by=who(request))
    except Problem as refused:
        messages.error(request, refused.detail)
        return redirect("event", seq=seq)
    messages.success(request, phrase("R-{id} runs {handler} again for this event.", id=run.pk, handler=trigger.handler))
    return redirect("run", pk=run.pk)


@require_POST
@needs("operate")
def pin_event(request: HttpRequest, seq: int) -> HttpResponse:
    """Keep its payload whatever its age, with the reason."""
    found = get_object_or_404(Event, pk=seq)
    try:
        pinning.pin(found, by=who(request), reason=request.POST.get("reason", ""))
    except Problem as refused:
        messages.error(request, refused.detail)
    return redirect("event", seq=seq)


@require_POST
@needs("operate")
def unpin_event(request: HttpRequest, seq: int) -> HttpResponse:
    """Leave it to retention again."""
    pinning.unpin(get_object_or_404(Event, pk=seq), by=who(request))
    return redirect("event", seq=seq)


def keys_of(event: Event, request: HttpRequest) -> QuerySet[Seen]:
    """What makes it one event. A key by an expression of the source is made of the payload."""
    keys = Seen.objects.filter(event=event.pk).order_by("pk")
    return keys if can(request.user, "payloads") else keys.exclude(key__startswith="key:")
