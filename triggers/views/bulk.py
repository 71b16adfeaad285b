"""Bulk jobs: what a press would do, the press, and how far it is."""

import re
from dataclasses import dataclass
from typing import Any, get_origin

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from project.lib import clock
from project.lib.language import phrase, spoken, words
from project.lib.problem import Problem
from project.lib.states import IllegalMove
from project.people.doors import needs, who
from project.people.roles import can
from triggers import bulk, schemas_bulk
from triggers.errors import AlreadyAtWork, NotValid
from triggers.models import Bulk, BulkItem, Trigger
from triggers.models.run import ENDED
from triggers.schemas_bulk import FILTERS, OF_A_PAGE
from triggers.views.holds import brief_of
from triggers.views.lists import Filters, as_table, capped, list_page, listing

WORDS = {  # verb -> what is done, to what, the letter before a number, the page of one, the list
    "redrive": (words("Run again"), words("dead letter"), "D", "dead-letter", "dead-letters"),
    "dismiss": (words("Dismiss"), words("dead letter"), "D", "dead-letter", "dead-letters"),
    "cancel": (words("Cancel"), words("run"), "R", "run", "runs"),
    "run_again": (words("Run again"), words("event"), "E", "event", "events"),
}
FIELDS = ("verb", "upto", *bulk.BOUNDS, "reason", "triggers")
PLAIN = re.compile(r"-?[0-9]{1,9}")
MOST_JOBS = 100


@dataclass(frozen=True)
class Wish:
    """What somebody is about to ask for: a verb, and a filter as its list reads it."""

    verb: str
    texts: dict[str, list[str]]
    upto: int | None
    triggers: list[str]
    notes: list[str]  # what of the filter could not be used: then nothing may be pressed

    @property
    def words(self) -> str:
        return filter_words(self.texts)


def filter_words(texts: dict[str, list[str]]) -> str:
    return ", ".join(f"{name} {' or '.join(values)}" for name, values in texts.items()) or phrase("all of them")


def wish_of(query: QueryDict) -> Wish:
    """Read a wish from an address or a form. Raises Http404 for an unknown verb."""
    verb = query.get("verb", "")
    if verb not in FILTERS:
        raise Http404("There is no such bulk job.")
    kinds = {name: field.annotation for name, field in FILTERS[verb].model_fields.items() if name not in OF_A_PAGE}
    filters = Filters(without(query), tuple(kinds))
    lists = [name for name, kind in kinds.items() if get_origin(kind) is list]
    texts = {name: sorted(map(str, filters.usable(name, kinds[name]))) for name in lists}
    moments = {name: filters.time(name) for name in ("since", "until") if name in kinds}
    texts |= {name: [moment.isoformat()] for name, moment in moments.items() if moment}
    texts["q"] = filters.many("q")[:1]
    upto = Filters(query, (*query,)).whole("upto") or None
    chosen = [name for name in dict.fromkeys(query.getlist("triggers")) if name]
    return Wish(verb, {name: texts[name] for name in sorted(texts) if texts[name]}, upto, chosen, filters.notes)


def without(query: QueryDict, *more: str) -> QueryDict:
    """The filter alone: without the fields of the form around it."""
    rest = query.copy()
    for name in (*FIELDS, "csrfmiddlewaretoken", *more):
        rest.pop(name, None)
    return rest


@require_safe
@needs("operate")
def new(request: HttpRequest) -> HttpResponse:
    """What a press would do, counted; nothing is done."""
    wish = wish_of(request.GET)
    deed, noun, letter, page, back = WORDS[wish.verb]
    try:
        rows = schemas_bulk.rows_of(wish.verb, wish.texts, payloads=can(request.user, "payloads"))
    except NotValid as refused:
        wish.notes.append(refused.detail)
        rows = schemas_bulk.ROWS[wish.verb].objects.none()
    seen = bulk.look(wish.verb, rows, upto=wish.upto)
    triggers = Trigger.objects.kept().order_by("slug") if wish.verb == "run_again" else ()
    context = {
        "wish": wish,
        "deed": deed,
        "noun": noun,
        "letter": letter,
        "page": page,
        "back": f"{reverse(back)}?{without(request.GET, 'id').urlencode()}",
        "count": seen["count"],
        "count_words": capped(seen["count"]),
        "too_many": seen["count"] > bulk.MOST,
        "most": bulk.MOST,
        "first": seen["first"],
        "upto": seen["upto"],
        "starts_runs": wish.verb in ("redrive", "run_again"),
        "triggers": triggers,
        "hidden": [(name, value) for name, values in wish.texts.items() for value in values],
    }
    return render(request, "triggers/bulk_new.html", context, status=400 if wish.notes else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def jobs(request: HttpRequest) -> HttpResponseBase:
    """All bulk jobs, the newest first; a POST begins one."""
    if request.method == "POST":
        return press(request)
    filters, everything = Filters(request.GET, ()), Bulk.objects.select_related("by")
    if filters.as_table:
        return as_table(request, "bulk-jobs", schemas_bulk.BulkOut, everything, schemas_bulk.BulkOut.of)
    rows = list(everything.order_by("-pk")[:MOST_JOBS])
    left = BulkItem.objects.left_of(rows)
    under_way = BulkItem.objects.under_way_of([job for job in rows if job.starts_runs and job.counts is None])
    for job in rows:
        untaken = job.counts.get("waiting", 0) if job.counts is not None else left.get(job.pk, 0)
        going = under_way_words(*under_way.get(job.pk, (0, 0)))
        job.shown = {**words_of(job), "taken": job.total - untaken, "under_way": going}  # type: ignore[attr-defined]
    return list_page(request, "triggers/bulk_jobs.html", filters, {"jobs": rows})


@needs("operate")
def press(request: HttpRequest) -> HttpResponse:
    wish = wish_of(request.POST)
    address = f"{reverse('bulk-new')}?verb={wish.verb}&{without(request.POST).urlencode()}"
    try:
        refuse(wish)
        rows = schemas_bulk.rows_of(wish.verb, wish.texts, payloads=can(request.user, "payloads"))
        job = bulk.press(
            wish.verb,
            rows,
            by=who(request),
            filter=wish.texts,
            triggers=Trigger.objects.named(wish.triggers),
            reason=request.POST.get("reason", ""),
            upto=wish.upto,
            **numbers_of(request.POST),
        )
    except AlreadyAtWork as other:
        messages.error(request, phrase("{detail} Nothing was started a second time.", detail=spoken(other.detail)))
        return redirect("bulk-job", pk=other.facts["bulk"])
    except Problem as refused:
        messages.error(request, refused.detail)
        return redirect(address)
    return redirect("bulk-job", pk=job.pk)


def numbers_of(form: QueryDict) -> dict[str, int]:
    """Its pace, as far as the form says it. Raises NotValid for what is no number."""
    given = {name: form.get(name, "") for name in bulk.BOUNDS if name in form}
    for name, text in given.items():
        if not PLAIN.fullmatch(text):
            raise NotValid(f"“{name}” is a whole number, not “{text[:40]}”.", field=name)
    return {name: int(text) for name, text in given.items()}


def refuse(wish: Wish) -> None:
    """A filter that was not read whole would take other rows than those that were meant."""
    if wish.notes:
        raise NotValid(f"{wish.notes[0]} Nothing was started.")


@require_safe
def job(request: HttpRequest, pk: int) -> HttpResponseBase:
    """One job: how far it is, and what became of each row."""
    found = get_object_or_404(Bulk.objects.select_related("by"), pk=pk)
    filters = Filters(request.GET, ("status",))
    everything = found.items.select_related("run", "trigger").defer("run__result_json", "run__data_json", "run__error")
    statuses = filters.some("status", BulkItem.STATUSES)
    rows = everything.filter(status__in=statuses) if statuses else everything
    taken = everything.exclude(status="waiting")
    if filters.as_table:
        return as_table(request, f"B-{pk}", schemas_bulk.ItemOut, rows, schemas_bulk.ItemOut.of)
    return render(
        request,
        "triggers/bulk.html",
        {
            "job": found,
            "list": listing(rows if statuses else taken, everything, filters),
            "filters": filters,
            **shown(found),
        },
    )


def words_of(job: Bulk) -> dict[str, str]:
    """What a job does, to what, and where the pages of its rows are."""
    deed, noun, letter, page, back = WORDS[job.verb]
    told = {"deed": spoken(deed), "count_words": f"{job.total:,}", "noun": spoken(noun)}
    title = phrase("{deed}: {count_words} {noun}{s}", s="s" if job.total != 1 else "", **told)
    said = {"title": title, "filter_words": filter_words(job.filter), "noun": noun, "letter": letter, "page": page}
    return said | {"back": reverse(back)}


def shown(job: Bulk) -> dict[str, Any]:
    """A job in words and numbers."""
    tally = job.tally
    counts = schemas_bulk.told(tally)
    under_way = counts["started"] - sum(tally.get(end, 0) for end in ENDED)
    watched = job.status == "running" and job.starts_runs and job.waits_for_canary
    return {
        **words_of(job),
        "counts": counts,
        "taken": job.total - counts["left"],
        "watched": watched,
        "judged_until": bulk.watched_until(job) if watched else None,
        "to_begin": held_words(job) if watched else "",
        "under_way": under_way_words(tally.get("queued", 0), under_way),
    }


def under_way_words(queued: int, under_way: int) -> str:
    """Of runs that have not ended, how many wait for a worker and how many have begun: `12 queued, 3 at work`."""
    return ", ".join(
        phrase(told, n=n)
        for n, told in ((queued, words("{n} queued")), (under_way - queued, words("{n} at work")))
        if n
    )


def held_words(job: Bulk) -> str:
    """Which of those that went first has not begun, and what holds it."""
    item = job.items.to_begin().select_related("run__trigger", "run__event").order_by("pk").first()
    if item is None or item.run is None:
        return ""
    return f"waits for {WORDS[job.verb][2]}-{item.ref}'s run to begin: {brief_of(item.run, clock.now())}"


@require_POST
@needs("operate")
def turn(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Pause it, let it go on, or leave the rest as it is."""
    found = get_object_or_404(Bulk, pk=pk)
    try:
        TURNS[verb](found, by=who(request))
    except IllegalMove:
        found.refresh_from_db()
        messages.error(request, phrase("B-{pk} is {status} by now.", pk=pk, status=found.status))
    return redirect("bulk-job", pk=pk)


TURNS = {"pause": bulk.pause, "resume": bulk.resume, "cancel": bulk.cancel}
