"""Home and one's password."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, Exists, Min, OuterRef, Q, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from approvals.models import Action, PracticeItem, Review
from approvals.tiers import WAITING
from project import chart, feed, figures, measures, rollcall
from project.lib import clock
from project.lib.language import phrase
from project.people import views as people
from project.people.doors import who
from project.people.models import User
from project.people.roles import can
from triggers.models import Audit, DeadLetter, Event, Pulse, Rhythm, Run, Source, Trigger
from triggers.unusable import broken_sources
from triggers.views.beats import heartbeats
from triggers.views.ranges import LAST_HOUR, Range, range_of
from triggers.views.triggers import sources_of, state_of
from triggers.vitals import next_expected

SHOWN = 8  # triggers on the home page
CAUSES = 100  # of dead letters that are counted there
MOST_SILENT = 100  # sources counted on the card


@dataclass(frozen=True, slots=True)
class Need:
    """A card of the first row: what waits for a person."""

    tone: str
    icon: str
    url: str
    title: str
    words: str
    button: str
    until: datetime | None = None


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """What waits for people is asked anew; what is counted from many rows may be a few seconds old, and then the page
    looks again by itself."""
    now = clock.of(request)
    counted = figures.kept("home", now, lambda: facts_of_the_day(now))
    span, ranges = range_of(request)
    facts = {
        **counted.value,
        **(chart_of(now, span) if span is not LAST_HOUR else {}),
        **ranges,
        "look_again": counted.until if counted.is_old else None,
        "needs": needed(now, counted.value["broken"], payloads=can(request.user, "payloads")),
        "feed": feed.lines(who(request)),
        "first": first_minutes(who(request)),
    }
    return render(request, "home.html", facts)


def facts_of_the_day(now: datetime) -> dict[str, Any]:
    bars, people = chart.columns(now, LAST_HOUR), measures.of_last_day()
    total = measures.together(people)
    kept = sorted(Trigger.objects.kept().annotate(last=newest_run()), key=last_first)
    return {
        "people": list(people.items())[:SHOWN],
        "cut": measures.MOST if total.is_cut else None,
        "figures": figures.figures(now, bars, total),
        **chart.drawn(now, LAST_HOUR, bars),
        "pace": chart.rate_words(bars),
        "triggers": triggers_shown(now, kept[:SHOWN]),
        "trigger_count": len(kept),
        "health": health(now),
        "broken": [source.slug for source in broken_sources()],
    }


def chart_of(now: datetime, span: Range) -> dict[str, Any]:
    """The chart of a longer span: more rows are counted for it, and less often."""

    def draw() -> dict[str, Any]:
        return chart.drawn(now, span, chart.columns(now, span))

    drawn: dict[str, Any] = figures.kept(f"chart of {span.name}", now, draw, span.keep).value
    return drawn


def newest_run() -> Subquery:
    return Subquery(Run.objects.filter(trigger=OuterRef("pk")).order_by("-queued_at").values("queued_at")[:1])


def last_first(row: Trigger) -> tuple[float, str]:
    last: datetime | None = row.last  # type: ignore[attr-defined]
    return -last.timestamp() if last else 0.0, row.slug


def needed(now: datetime, broken: list[str], *, payloads: bool) -> list[Need]:
    waiting, alone = acting(now)
    found = (waiting, letters_open(payloads=payloads), sources_broken(broken), sources_silent(), alone)
    return [need for need in found if need]


def acting(now: datetime) -> tuple[Need | None, Need | None]:
    """What waits for a person; and what was done without one and can still be undone, or was drawn to be looked at."""
    waiting, held = Q(status__in=("awaiting", "unknown")), Q(status="approved", tier="low", not_before__gt=now)
    found = Action.objects.filter(waiting | held).aggregate(
        all=Count("pk", filter=waiting),
        high=Count("pk", filter=waiting & Q(tier="high")),
        unknown=Count("pk", filter=Q(status="unknown")),
        soonest=Min("expires_at", filter=Q(status="awaiting")),
        held=Count("pk", filter=held),
        goes_out=Min("not_before", filter=held),
    )
    return approvals_waiting(found), done_alone(found)


def approvals_waiting(found: dict[str, Any]) -> Need | None:
    count, high, unknown = found["all"], found["high"], found["unknown"]
    if not count:
        return None
    words = [phrase("{high} high risk.", high=high)] * bool(high) + [
        phrase("{unknown} in doubt: did it happen?", unknown=unknown)
    ] * bool(unknown)
    title = phrase("{count} approval{s} waiting", count=count, s="s" * (count > 1))
    said = " ".join([*words, *([phrase("Next one expires in")] if found["soonest"] else [])])
    return Need("wait", "hand", "approvals", title, said, "Review", found["soonest"])


def done_alone(found: dict[str, Any]) -> Need | None:
    drawn, held, first = Review.objects.waiting().count(), found["held"], found["goes_out"]
    if not drawn and not held:
        return None
    words = (
        phrase("{held} can still be undone. The next one goes out in", held=held)
        if held
        else phrase("Drawn at random: was it right?")
    )
    title = phrase("{drawn} done without a nod to look at", drawn=drawn) if drawn else phrase("Low risk goes out soon")
    return Need("run", "eye", "done", title, words, "Look", first)


def letters_open(*, payloads: bool) -> Need | None:
    """Messages quote values of the payload: without the right to see those only the type is told."""
    causes = list(DeadLetter.objects.causes(CAUSES + 1))
    if not causes:
        return None
    count, biggest, others = sum(cause.n for cause in causes), causes[0], len(causes) - 1
    words = f"{biggest.n} × {biggest.error_type}" + (f": {biggest.message[:80]}" if payloads else "")
    words += (
        phrase(
            ", and {n}{more} more cause{s}",
            n=min(others, CAUSES),
            more="+" * (others > CAUSES),
            s="s" * (others > 1),
        )
        if others
        else ""
    )
    more = "+" * (others >= CAUSES)
    return Need(
        "fail",
        "skull",
        "dead-letters",
        phrase("{count}{more} dead letter{s}", count=f"{count:,}", more=more, s="s" * (count > 1)),
        words,
        "See them",
    )


def sources_broken(broken: list[str]) -> Need | None:
    if not broken:
        return None
    title = phrase("{n} source{s} cannot be used", n=len(broken), s="s" * (len(broken) > 1))
    words = phrase("{names}: its page says why; what comes is not taken in", names=named(broken))
    return Need("bad", "key-round", "sources", title, words, "Mend")


def named(slugs: list[str]) -> str:
    return ", ".join(slugs[:3]) + (", …" if len(slugs) > 3 else "")


def sources_silent() -> Need | None:
    silent = list(Rhythm.objects.silent().order_by("silent_at").values_list("source_id__slug", flat=True)[:MOST_SILENT])
    if not silent:
        return None
    title = phrase("{n} source{s} silent", n=len(silent), s="s" * (len(silent) > 1))
    words = phrase("{names}: nothing for three times as long as usual", names=named(silent))
    return Need("warn", "triangle-alert", "sources", title, words, "Check")


def triggers_shown(now: datetime, rows: list[Trigger]) -> list[dict[str, Any]]:
    beats = heartbeats(now, [row.pk for row in rows])
    sources = sources_of(rows)
    return [
        {
            "trigger": row,
            "beat": beats[row.pk],
            "source": sources.get(row.source),
            "state": state_of(row, sources.get(row.source)),
            "next": next_of(sources.get(row.source)),
        }
        for row in rows
    ]


def next_of(source: Source | None) -> datetime | None:
    return next_expected(source, getattr(source, "rhythm", None)) if source else None


def health(now: datetime) -> dict[str, Any]:
    """Workers, queue and tick in numbers people can judge."""
    due = Run.objects.due(now).aggregate(
        all=Count("pk"), queued=Count("pk", filter=Q(status="queued")), oldest=Min("due_at")
    )
    held = Run.objects.filter(status="queued").count() - due["queued"]
    return {
        "due": due["all"],
        "held": max(held, 0),
        "oldest": now - due["oldest"] if due["oldest"] else None,
        "tick": Pulse.age("tick"),
        "roll": rollcall.roll(),
    }


def first_minutes(user: User) -> dict[str, Any] | None:
    """How far a new desk has come; None once something was delivered. One question for all three."""
    delivered = Action.objects.filter(status="delivered", tier__in=WAITING)
    practised = PracticeItem.objects.exclude(kind="notify.send")  # the desk's own alarms end nobody's first minutes
    so_far = User.objects.filter(pk=user.pk).values_list(
        Exists(delivered), Exists(practised), Exists(Event.objects.filter(source__isnull=False))
    )
    is_delivered, is_practised, rang = so_far.get()
    if is_delivered or is_practised:
        return None
    first = Action.objects.awaiting().soonest_first().first()
    return {"rang": rang, "action": first.shown_to(user) if first else None}


def password_change(request: HttpRequest) -> HttpResponse:
    """One's own new password; the ground knows no audit log, so it is written here."""
    person = who(request)
    with transaction.atomic():
        answer = people.password_change(request)
        if answer.status_code == 302:
            Audit.write("change password", person, by=person)
    return answer


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return render(request, "errors/400.html", status=400)


def not_allowed(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return render(request, "errors/403.html", {"detail": str(exception or "")}, status=403)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return render(request, "errors/404.html", status=404)


def stale_form(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without its CSRF mark (CSRF_FAILURE_VIEW)."""
    return render(request, "errors/csrf.html", status=403)


def broken(request: HttpRequest) -> HttpResponse:
    return render(request, "errors/500.html", status=500)
