"""What the frame of every page shows: where one can go, what waits, which zone and environment this is."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Count, F, QuerySet, Value
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from approvals.models import Action
from project import trouble
from project.lib import clock
from project.lib.language import words
from project.live import newest_seq
from project.people.roles import can
from project.templatetags.desk import iso, zone_name
from triggers.models import DeadLetter, Rhythm, Switch

# name, icon, words, pages that belong to it; groups by urgency
GROUPS: tuple[tuple[tuple[str, str, str, tuple[str, ...]], ...], ...] = (
    (
        ("home", "house", words("Home"), ()),
        ("approvals", "hand", words("Approvals"), ("action", "action-edit", "done", "together", "decide", "step-up")),
        (
            "dead-letters",
            "skull",
            words("Dead letters"),
            ("dead-letter", "dead-letter-group", "dead-letter-edit", "bulk", "bulk-new", "bulk-job"),
        ),
    ),
    (
        ("events", "inbox", words("Events"), ("event",)),
        ("event-types", "shapes", words("Event types"), ("event-type",)),
        ("runs", "play", words("Runs"), ("run",)),
        ("actions", "zap", words("Actions"), ()),
    ),
    (
        ("triggers", "webhook", words("Triggers"), ("trigger-new", "trigger-edit")),
        ("handlers", "file-code", words("Handlers"), ("handler",)),
        ("agents", "bot", words("Agents"), ("agent",)),
        ("practice", "flask-conical", words("Practice"), ()),
        ("audit", "scroll-text", words("Audit log"), ("habits",)),
    ),
)
SETTINGS = (
    "settings",
    "tokens",
    "token-revoke",
    "authenticator",
    "teams",
    "team",
    "checks",
    "sources",
    "source-new",
    "source-edit",
    "source-secret",
    "connections",
    "connection-new",
    "connection-edit",
    "policies",
    "policy-new",
    "policy-edit",
    "policy-archive",
    "policy-change",
    "freezes",
    "freeze-lift",
)


@dataclass(frozen=True, slots=True)
class Item:
    """One line of the rail."""

    name: str
    icon: str
    words: str
    url: str
    current: bool
    count: int = 0
    tone: str = ""


def frame(request: HttpRequest) -> dict[str, Any]:
    """Context processor. Queries run only when the frame is drawn for somebody who is signed in."""
    user = getattr(request, "user", None)
    now = clock.of(request)
    local = timezone.localtime(now)
    facts: dict[str, Any] = {
        "now": now,
        "now_iso": iso(now),
        "zone": timezone.get_current_timezone_name(),
        "zone_words": zone_name(local),
        "environment": settings.ENVIRONMENT,
    }
    if user is None or not user.is_authenticated:
        return facts
    here = request.resolver_match.url_name if request.resolver_match else ""
    counts = SimpleLazyObject(counted)
    lines = SimpleLazyObject(lambda: rail(here or "", counts))
    return facts | {
        "counts": counts,
        "rail": lines,
        "needing": SimpleLazyObject(lambda: [item for group in lines for item in group if item.count]),
        "in_settings": here in SETTINGS,
        "seq": newest_seq(),  # hints after it are told to the page, so nothing falls between drawing and listening
        "troubles": SimpleLazyObject(trouble.troubles),
        "held": SimpleLazyObject(lambda: Switch.objects.holding().select_related("by").first()),
        "may": {ability: can(user, ability) for ability in ("payloads", "operate", "decide", "configure")},
    }


def counted() -> dict[str, int]:
    """What waits for people now, asked in one question since every page asks it."""
    others: dict[str, QuerySet[Any]] = {"dead-letters": DeadLetter.objects.open(), "triggers": Rhythm.objects.silent()}
    tiers = Action.objects.waiting_for_people().order_by().values(of=F("tier")).annotate(n=Count("pk"))
    named = [rows.order_by().values(of=Value(name)).annotate(n=Count("pk")) for name, rows in others.items()]
    found = dict(tiers.union(*named, all=True).values_list("of", "n"))
    told = {name: found.pop(name, 0) for name in others}
    return told | {"approvals": sum(found.values()), "high": found.get("high", 0)}


TONES = {"approvals": "wait", "dead-letters": "fail", "triggers": "warn"}


def rail(here: str, counts: Any) -> list[list[Item]]:
    """The groups of the rail, without pages this desk does not have."""
    groups = []
    for group in GROUPS:
        items = [
            Item(name, icon, said, url, here == name or here in pages, counts.get(name, 0), TONES.get(name, ""))
            for name, icon, said, pages in group
            if (url := address(name))
        ]
        groups.append(items)
    return groups


def address(name: str) -> str:
    try:
        return reverse(name)
    except NoReverseMatch:
        return ""
