"""Home, one's password, and the button that rings the desk with a test delivery."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.db.models import Count, F, Max, OuterRef, Q, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.html import format_html
from django.views.decorators.http import require_POST, require_safe

from approvals.models import Action, PracticeItem, Review
from project import feed, figures, measures, samples
from project.lib import clock
from project.people import views as people
from project.people.doors import needs, who
from project.people.roles import can
from triggers.models import Audit, DeadLetter, Event, Pulse, Rhythm, Run, Source, Trigger
from triggers.vitals import next_expected

TEST = "github-issue"  # the sample that the button sends
SHOWN = 8  # triggers on the home page
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
    now = clock.now()
    busy = figures.from_outside().filter(received_at__gte=now - figures.HOUR)[: figures.BUSY].count() >= figures.BUSY
    bars = figures.kept("bars", lambda: figures.per_minute(now), busy=busy)
    people = figures.kept("people", measures.of_last_day, busy=busy)
    total = measures.together(people)
    facts = {
        "people": list(people.items())[:SHOWN],
        "needs": needed(now, payloads=can(request.user, "payloads")),
        "figures": figures.kept("figures", lambda: figures.figures(now, bars, total), busy=busy),
        "chart": figures.chart(bars),
        "triggers": triggers_shown(now),
        "trigger_count": Trigger.objects.kept().count(),
        "feed": feed.lines(),
        "health": health(now),
        "first": first_minutes(),
    }
    return render(request, "home.html", facts)


def needed(now: datetime, *, payloads: bool) -> list[Need]:
    found = (approvals_waiting(), letters_open(payloads=payloads), sources_silent(), done_alone(now))
    return [need for need in found if need]


def approvals_waiting() -> Need | None:
    waiting = Action.objects.waiting_for_people()
    count = waiting.count()
    if not count:
        return None
    high, unknown = waiting.filter(tier="high").count(), waiting.filter(status="unknown").count()
    first = Action.objects.awaiting().soonest_first().first()
    words = [f"{high} high risk."] * bool(high) + [f"{unknown} in doubt: did it happen?"] * bool(unknown)
    title = f"{count} approval{'s' * (count > 1)} waiting"
    said = " ".join([*words, *(["Next one expires in"] if first else [])])
    return Need("wait", "hand", "approvals", title, said, "Review", first.expires_at if first else None)


def done_alone(now: datetime) -> Need | None:
    """What can still be undone, and what was drawn to be looked at afterwards."""
    held = Action.objects.filter(status="approved", tier="low", not_before__gt=now)
    drawn, first = Review.objects.waiting().count(), held.order_by("not_before").first()
    if not drawn and first is None:
        return None
    words = (
        f"{held.count()} can still be undone. The next one goes out in" if first else "Drawn at random: was it right?"
    )
    title = f"{drawn} done without a nod to look at" if drawn else "Low risk goes out soon"
    return Need("run", "eye", "done", title, words, "Look", first.not_before if first else None)


def letters_open(*, payloads: bool) -> Need | None:
    """Messages quote values of the payload: without the right to see those only the type is told."""
    letters = DeadLetter.objects.open()
    count = letters.count()
    if not count:
        return None
    causes = letters.values("fingerprint").annotate(n=Count("id"), newest=Max("id")).order_by("-n", "fingerprint")
    biggest, others = causes[0], causes.count() - 1
    one = DeadLetter.objects.get(pk=biggest["newest"])
    words = f"{biggest['n']} × {one.error_type}" + (f": {one.message[:80]}" if payloads else "")
    words += f", and {others} more cause{'s' * (others > 1)}" if others else ""
    return Need("fail", "skull", "dead-letters", f"{count} dead letter{'s' * (count > 1)}", words, "Open")


def sources_silent() -> Need | None:
    silent = list(Rhythm.objects.silent().order_by("silent_at").values_list("source_id__slug", flat=True)[:MOST_SILENT])
    if not silent:
        return None
    names = ", ".join(silent[:3]) + (", …" if len(silent) > 3 else "")
    title = f"{len(silent)} source{'s' * (len(silent) > 1)} silent"
    words = f"{names}: nothing for three times as long as usual"
    return Need("warn", "triangle-alert", "sources", title, words, "Check")


def triggers_shown(now: datetime) -> list[dict[str, Any]]:
    newest = Run.objects.filter(trigger=OuterRef("pk")).order_by("-id").values("queued_at")[:1]
    rows = (
        Trigger.objects.kept().annotate(last=Subquery(newest)).order_by(F("last").desc(nulls_last=True), "slug")[:SHOWN]
    )
    beats = figures.heartbeats(now, [row.pk for row in rows])
    sources = {
        source.slug: source
        for source in Source.objects.select_related("rhythm").filter(slug__in=[row.source for row in rows])
    }
    return [
        {
            "trigger": row,
            "beat": beats[row.pk],
            "source": sources.get(row.source),
            "state": state_of(row, sources),
            "next": next_of(sources.get(row.source)),
        }
        for row in rows
    ]


def state_of(trigger: Trigger, sources: dict[str, Source]) -> str:
    source = sources.get(trigger.source)
    if not trigger.enabled or (source and not source.enabled):
        return "disabled"
    if trigger.mode == "paused":
        return "paused"
    rhythm: Rhythm | None = getattr(source, "rhythm", None)
    return "silent" if rhythm and rhythm.silent_at else "live"


def next_of(source: Source | None) -> datetime | None:
    return next_expected(source, getattr(source, "rhythm", None)) if source else None


def health(now: datetime) -> dict[str, Any]:
    """Queue and tick in numbers people can judge."""
    due = Run.objects.due(now)
    oldest = due.order_by("due_at").values_list("due_at", flat=True).first()
    counted = due.aggregate(all=Count("pk"), queued=Count("pk", filter=Q(status="queued")))
    held = Run.objects.filter(status="queued").count() - counted["queued"]
    return {
        "due": counted["all"],
        "held": max(held, 0),
        "oldest": now - oldest if oldest else None,
        "tick": Pulse.age("tick"),
    }


def first_minutes() -> dict[str, Any] | None:
    """How far a new desk has come; None once something was delivered."""
    if Action.objects.filter(status="delivered", tier__in=["medium", "high"]).exists() or PracticeItem.objects.exists():
        return None
    rang = Event.objects.filter(source__isnull=False).exists()
    asks = Action.objects.awaiting().soonest_first().first()
    return {"rang": rang, "action": asks}


@require_POST
@needs("operate")
def send_test(request: HttpRequest) -> HttpResponse:
    """Ring the desk's own door with a real, signed GitHub delivery."""
    try:
        sent = samples.send(TEST)
    except samples.NotSent as problem:
        messages.error(request, f"The test delivery did not arrive: {problem}")
        return redirect("home")
    rung = Source.objects.get(slug=samples.SAMPLES[TEST].source)
    Audit.write("send test", rung, by=who(request), event=sent.seq)
    link = format_html('<a href="/events/{}">E-{}</a>', sent.seq, sent.seq) if sent.seq else ""
    messages.success(request, format_html("Delivered and accepted as {}. Watch it work.", link))
    return redirect("home")


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
