"""Dead letters grouped by cause: how many, whether it still happens, and all letters of one cause."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from django.contrib import messages
from django.db.models import Count, Max, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST, require_safe

from project.lib import by_time, clock, svg
from project.lib.language import phrase
from project.lib.problem import Problem
from project.people.doors import needs, who
from project.people.models import User
from project.people.roles import can
from triggers import assigning, schemas
from triggers.models import DeadLetter, Run
from triggers.models.dead_letter import NOBODY, DeadLetterQuerySet
from triggers.views.lists import COUNTED, SIZE, Filters, as_table, capped, list_page, listing

FILTERS = ("id", "kind", "fingerprint", "status", "assignee", "since", "until")
STATUSES = ("open", "redriven", "dismissed")
KINDS = ("run", "action", "event")
RECENT = timedelta(hours=1)  # a cause seen within it is still happening
LATELY = timedelta(days=1)  # and within it perhaps
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LIST_LEAVES_OUT = ("event__raw", "event__data_json", "event__headers", "redriven_as__result_json")


@require_safe
def dead_letters(request: HttpRequest) -> HttpResponseBase:
    """One row a cause, the one seen last first."""
    filters = Filters(request.GET, FILTERS)
    statuses = filters.some("status", STATUSES) or ["open"]
    rows = filters.narrow(DeadLetter.objects.all(), schemas.LetterFilters)
    if filters.as_table:
        show = partial(schemas.LetterOut.of, payload=can(request.user, "payloads"))
        shown = rows.filter(status__in=statuses).with_assignee()
        return as_table(request, "dead-letters", schemas.LetterOut, shown, show)
    now = clock.of(request)
    causes = causes_of(rows.filter(status__in=statuses))
    page = list(below(causes, filters).order_by("-last", "fingerprint")[: SIZE + 1])
    groups, more = told(page[:SIZE], now), len(page) > SIZE
    is_all = not more and not filters.query.get("after")
    counted = {one: DeadLetter.objects.filter(status=one)[: COUNTED + 1].count() for one in STATUSES}
    context = {
        "groups": groups,
        "letters": (letters := rows.open()[: COUNTED + 1].count() if "open" in statuses else 0),
        "letters_words": capped(letters),
        "count": capped(len(page) if is_all else causes[: COUNTED + 1].count()),
        "status": statuses[0] if len(statuses) == 1 else "",
        "statuses": statuses,
        "counts_by": {one: capped(count) for one, count in counted.items() if count},
        "everything": sum(counted[one] for one in statuses),
        "tabs": {one: filters.address(status=one, after=None) for one in STATUSES},
        "narrowed": any(filters.many(name) for name in FILTERS if name != "status"),
        "picks": [
            filters.pick("kind", "About", KINDS),
            filters.pick("assignee", "Assigned to", holders(groups, who(request))),
        ],
        "older": filters.address(after=place_of(page[SIZE - 1])) if more else "",
        "newest": filters.address(after=None) if filters.query.get("after") else "",
    }
    return list_page(request, "triggers/dead_letters.html", filters, context)


def holders(groups: list[dict[str, Any]], reader: User) -> list[str]:
    """Who looks after the causes of a page, beside the reader and nobody; other names may stand in the address."""
    return [reader.username, *sorted({one["letter"].assignee for one in groups} - {None, reader.username}), NOBODY]


def causes_of(rows: DeadLetterQuerySet) -> QuerySet[Any, Any]:
    """`{fingerprint, count, first, last, newest}` a cause."""
    return (
        rows.values("fingerprint")
        .annotate(count=Count("pk"), first=Min("first_at"), last=Max("last_at"), newest=Max("pk"))
        .order_by()
    )


def place_of(cause: dict[str, Any]) -> str:
    """Where the next page begins: the time a cause was last seen, in microseconds, and its mark."""
    return f"{(cause['last'] - EPOCH) // timedelta(microseconds=1)}-{cause['fingerprint']}"


def below(causes: QuerySet[Any, Any], filters: Filters) -> QuerySet[Any, Any]:
    text = filters.query.get("after", "")
    moment, _, mark = text.partition("-")
    if not text:
        return causes
    if not (moment.isascii() and moment.isdigit() and len(moment) < 17):
        filters.leave_out(f"“{text[:40]}” is no place in this list")
        return causes
    at = EPOCH + timedelta(microseconds=int(moment))
    return causes.filter(Q(last__lt=at) | Q(last=at, fingerprint__gt=mark))


def told(causes: list[dict[str, Any]], now: datetime) -> list[dict[str, Any]]:
    """The causes with their newest letter and whether it still happens."""
    worked = Run.objects.filter(handler=OuterRef("handler"), status="succeeded").order_by("-pk").values("finished_at")
    same = DeadLetter.objects.filter(fingerprint=OuterRef("fingerprint")).order_by()
    letters = (
        DeadLetter.objects.with_assignee()
        .annotate(worked_at=Subquery(worked[:1]), hour=counted_since(same, now - RECENT))
        .in_bulk([cause["newest"] for cause in causes])
    )
    hours = hourly([cause["fingerprint"] for cause in causes], now)
    return [
        cause
        | {"letter": (row := letters[cause["newest"]]), "still": still(cause["last"], row, sum(seen.values()), now)}
        | {"line": line(seen, now) if seen else ""}
        for cause, seen in [(cause, hours.get(cause["fingerprint"], {})) for cause in causes]
    ]


def hourly(fingerprints: list[str], now: datetime) -> dict[str, dict[str, int]]:
    """For each cause how many of its letters were seen last in each hour of the last 24: `{"2026-11-29 15": 3}`."""
    rows = DeadLetter.objects.filter(fingerprint__in=fingerprints, last_at__gte=now - LATELY).order_by()
    counted = rows.annotate(hour=by_time.hour("last_at")).values_list("fingerprint", "hour")
    found: dict[str, dict[str, int]] = {}
    for fingerprint, hour, count in counted.annotate(n=Count("pk")):
        found.setdefault(fingerprint, {})[hour] = count
    return found


def line(seen: dict[str, int], now: datetime) -> SafeString:
    """That as a small line."""
    begun = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    hours = [f"{begun - timedelta(hours=back):%Y-%m-%d %H}" for back in range(23, -1, -1)]
    return svg.spark([seen.get(hour, 0) for hour in hours], phrase("By the hour, of the last 24"))


def counted_since(letters: DeadLetterQuerySet, since: datetime) -> Any:
    counts = letters.filter(last_at__gte=since).values("fingerprint").annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(counts), 0)


def still(last: datetime, newest: Any, day: int, now: datetime) -> dict[str, Any]:
    """Is it still happening? `{tone, icon, words, at, more, hour, day}`; `newest` is annotated as by `told`, and `day`
    is how many were seen in the last 24 hours."""
    facts = {"hour": newest.hour, "day": day, "more": "", "at": last}
    if newest.handler and newest.worked_at and newest.worked_at > last:
        more = phrase("{n} in the last 24 hours, none since", n=day) if day else ""
        words = phrase("Probably mended: last success")
        return facts | {"tone": "ok", "icon": "circle-check", "words": words, "at": newest.worked_at, "more": more}
    if now - last < RECENT:
        more = phrase("{n} in the last 24 hours", n=day) if day > newest.hour else ""
        words = phrase("Yes, {n} in the last hour", n=newest.hour)
        return facts | {"tone": "fail", "icon": "triangle-alert", "words": words, "at": None, "more": more}
    if now - last < LATELY:
        words = phrase("Perhaps: {n} in the last 24 hours, the last", n=day)
        return facts | {"tone": "retry", "icon": "clock", "words": words}
    return facts | {"tone": "skip", "icon": "clock", "words": phrase("Not seen since")}


@require_safe
def group(request: HttpRequest, fingerprint: str) -> HttpResponse:
    """All letters of one cause."""
    filters = Filters(request.GET, ("status",))
    everything = DeadLetter.objects.filter(fingerprint=fingerprint).select_related("event", "redriven_as", "settled_by")
    everything = everything.defer(*LIST_LEAVES_OUT)
    statuses = filters.some("status", STATUSES)
    rows = everything.filter(status__in=statuses) if statuses else everything
    found = listing(rows, everything, filters)
    causes = told(list(causes_of(DeadLetter.objects.filter(fingerprint=fingerprint))), clock.of(request))
    if not causes:
        raise Http404("There is no dead letter with this cause.")
    counted = dict(DeadLetter.objects.filter(fingerprint=fingerprint).values_list("status").annotate(n=Count("pk")))
    oldest = everything.open().order_by("pk").first()
    redriven = everything.filter(redriven_as__isnull=False).order_by("-settled_at", "-pk").first()
    context = {
        "list": found,
        "group": causes[0],
        "filters": filters,
        "counts_by": counted,
        "oldest": oldest,
        "redriven": redriven,
        "able": assigning.able(),
        "verbs": ["redrive", "dismiss"],
    }
    return render(request, "triggers/dead_letter_group.html", context)


@require_POST
@needs("operate")
def assign_cause(request: HttpRequest, fingerprint: str) -> HttpResponse:
    """Give a cause to a person, or to nobody."""
    try:
        to = assigning.named(request.POST.get("to", ""))
        assigning.assign(fingerprint, to, by=who(request))
    except Problem as refused:
        messages.error(request, refused.detail)
    else:
        words = phrase("{name} looks after this cause.", name=to.username) if to else phrase("Nobody looks after it.")
        messages.success(request, words)
    return redirect("dead-letter-group", fingerprint)
