"""The list of the inbox: which requests, in which order, and who decided those that are done."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.core.paginator import Paginator
from django.db.models import Case, IntegerField, Value, When
from django.http import HttpRequest

from approvals.cards import VERBS
from approvals.models import Action, Decision
from approvals.models.action import ActionQuerySet
from approvals.together import Reader, kinds_for
from project.lib.language import phrase, words
from project.people.doors import who
from project.people.models import User

DECIDED_SHOWN = timedelta(hours=1)  # below the waiting ones, so that people see each other's work
MOST_WAITING = 100  # rows of the list
PAGE = 50
RISKS = Case(
    *(When(tier=tier, then=Value(rank)) for rank, tier in enumerate(("high", "medium", "low"))),
    default=Value(9),
    output_field=IntegerField(),
)
TABS = ("waiting", "mine", "decided", "expired")
SORTS: dict[str, tuple[Any, ...]] = {"": ("expires_at", "id"), "newest": ("-id",), "risk": (RISKS, "expires_at", "id")}
SORT_WORDS = {"": words("Soonest"), "newest": words("Newest"), "risk": words("Riskiest")}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an address asks of the list; what it cannot use is said in `notes`."""

    tab: str = "waiting"
    sort: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> "Wanted":
        tab, sort = asked.get("tab", ""), asked.get("sort", "")
        odd = [
            (name, value) for name, value, known in (("tab", tab, TABS), ("sort", sort, SORTS)) if value not in known
        ]
        notes = [
            phrase("“{value}” is no {name} of this list; it was left out.", value=v[:40], name=n) for n, v in odd if v
        ]
        return cls(tab if tab in TABS else "waiting", sort if sort in SORTS else "", tuple(notes))

    @property
    def shown(self) -> dict[str, str]:
        """The parameters that are not as usual."""
        usual = {"tab": "waiting", "sort": ""}
        return {name: value for name in usual if (value := getattr(self, name)) != usual[name]}

    @property
    def query(self) -> str:
        """`tab=mine&sort=risk`, to go before more."""
        return urlencode(self.shown)

    @property
    def waits(self) -> bool:
        return self.tab in ("waiting", "mine")


def wanted(request: HttpRequest) -> Wanted:
    """Of the address; a form that was sent from the inbox carries the address of its list."""
    carried = request.POST.get("list")
    return Wanted.of(dict(parse_qsl(carried)) if carried else request.GET)


def listed(request: HttpRequest, now: datetime) -> dict[str, Any]:
    """The rows of one tab and what is said around them."""
    asked, reader = wanted(request), who(request)
    waiting = Action.objects.for_pages().waiting_for_people()
    facts: dict[str, Any] = {
        "tab": asked.tab,
        "wanted": asked,
        "sorts": [(name, said, replace(asked, sort=name).query) for name, said in SORT_WORDS.items()],
    }
    if not asked.waits:
        return facts | {**ended(request, asked.tab), "waiting": [], "waiting_count": waiting.count()}
    rows = list(waiting.order_by(*SORTS[asked.sort])[:MOST_WAITING])
    facts["waiting_count"] = len(rows) if len(rows) < MOST_WAITING else waiting.count()
    several = [(kind, VERBS.get(kind, words("request"))) for kind in kinds_for(reader, rows, now)]
    if not rows:
        last = Decision.objects.exclude(verdict="edit").order_by("-pk").first()
        facts["last_said_at"] = last.at if last else None
    shown = mine(reader, rows, now) if asked.tab == "mine" else rows
    decided = asked_a_person().filter(decided_at__gte=now - DECIDED_SHOWN).exclude(status__in=["awaiting", "unknown"])
    return facts | {"waiting": shown, "several": several, "decided": with_people(decided.order_by("-decided_at")[:10])}


def mine(reader: User, rows: Iterable[Action], now: datetime) -> list[Action]:
    """Those this person may decide now."""
    asked = Reader.of(reader)
    return [row for row in rows if row.expires_at > now and not asked.why_not(row)]


def asked_a_person() -> ActionQuerySet:
    return Action.objects.for_pages().filter(tier__in=["medium", "high"])


def ended(request: HttpRequest, tab: str) -> dict[str, Any]:
    rows = asked_a_person()
    found = rows.filter(status="expired") if tab == "expired" else rows.filter(decided_at__isnull=False)
    page = Paginator(found.exclude(status="awaiting").order_by("-id"), PAGE).get_page(request.GET.get("page"))
    return {"page": page, "decided": with_people(page.object_list)}


def with_people(rows: Iterable[Action]) -> list[Action]:
    """Each with `said`, the verdict that ended it, where a person spoke."""
    found = list(rows)
    said = Decision.objects.filter(action__in=found).exclude(verdict="edit").select_related("by").order_by("pk")
    last = {one.action_id: one for one in said}
    for row in found:
        row.said = last.get(row.pk)  # type: ignore[attr-defined]
    return found
