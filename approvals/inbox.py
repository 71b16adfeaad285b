"""The list of the inbox: which requests, in which order, and who decided those that are done."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.contrib.auth.models import Group
from django.core.paginator import Paginator
from django.db.models import Case, Count, IntegerField, Value, When, Window
from django.http import HttpRequest

from approvals.cards import VERBS
from approvals.models import Action, Decision
from approvals.models.action import ActionQuerySet
from approvals.tiers import WAITING
from approvals.together import Reader, kinds_for
from project.lib.language import phrase, words
from project.lib.text import made_storable
from project.people.doors import who
from project.people.models import User

DECIDED_SHOWN = timedelta(hours=1)  # below the waiting ones, so that people see each other's work
MOST_WAITING = 100  # rows of the list
MOST_LOOKED_AT = 10_000  # that wait, for those of one team
MOST_JUDGED = 2_000  # of those that wait, for those of one person
PIECE = 100  # rows read at a time
CUT = words("So much waits for others that not all of it was looked at. Pick a team, or another order.")
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
class InboxQuery:
    """What an address asks of the list; what it cannot use is said in `notes`."""

    tab: str = "waiting"
    sort: str = ""
    team: str = ""  # only what this role or team is asked for
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> "InboxQuery":
        tab, sort, team = (asked.get(name, "") for name in ("tab", "sort", "team"))
        odd = [
            (name, value) for name, value, known in (("tab", tab, TABS), ("sort", sort, SORTS)) if value not in known
        ]
        if team and not Group.objects.filter(name=made_storable(team)).exists():
            odd.append(("team", team))
            team = ""
        notes = [
            phrase("“{value}” is no {name} of this list; it was left out.", value=v[:40], name=n) for n, v in odd if v
        ]
        return cls(tab if tab in TABS else "waiting", sort if sort in SORTS else "", team, tuple(notes))

    @property
    def shown(self) -> dict[str, str]:
        """The parameters that are not as usual."""
        usual = {"tab": "waiting", "sort": "", "team": ""}
        return {name: value for name in usual if (value := getattr(self, name)) != usual[name]}

    @property
    def query(self) -> str:
        """`tab=mine&sort=risk`, to go before more."""
        return urlencode(self.shown)

    @property
    def waits(self) -> bool:
        return self.tab in ("waiting", "mine")


def wanted(request: HttpRequest) -> InboxQuery:
    """Of the address; a form that was sent from the inbox carries the address of its list."""
    carried = request.POST.get("list")
    return InboxQuery.of(dict(parse_qsl(carried)) if carried else request.GET)


def listed(request: HttpRequest, now: datetime) -> dict[str, Any]:
    """The rows of one tab and what is said around them."""
    asked, reader = wanted(request), who(request)
    waiting = Action.objects.waiting_for_people()
    facts: dict[str, Any] = {
        "tab": asked.tab,
        "wanted": asked,
        "sorts": [(name, said, replace(asked, sort=name).query) for name, said in SORT_WORDS.items()],
    }
    if not asked.waits:
        return facts | {**ended(request, asked.tab), "waiting": [], "waiting_count": waiting.count()}
    chosen, count = first_of(waiting, asked)
    if asked.tab == "mine":
        rows = first_that(for_this(reader, now), chosen, MOST_WAITING)
        if len(rows) < MOST_WAITING and len(chosen) > MOST_JUDGED:
            facts["wanted"] = replace(asked, notes=(*asked.notes, phrase(CUT)))
    else:
        rows = in_order(chosen)
    facts["waiting_count"] = waiting.count() if asked.team else count
    asking = asked_groups(rows, waiting, facts["waiting_count"])
    facts["teams"] = [(name, replace(asked, team=name).query) for name in teams_of(asking, asked.team)]
    facts["all_teams"] = replace(asked, team="").query
    several = [(kind, VERBS.get(kind, words("request"))) for kind in kinds_for(reader, rows, now)]
    if not rows:
        last = Decision.objects.exclude(verdict="edit").order_by("-pk").first()
        facts["last_said_at"] = last.at if last else None
    decided = asked_a_person().filter(decided_at__gte=now - DECIDED_SHOWN).exclude(status__in=["awaiting", "unknown"])
    return facts | {
        "waiting": [row.shown_to(reader) for row in rows],
        "several": several,
        "decided": with_people(decided.order_by("-decided_at")[:10], reader),
    }


def first_of(waiting: ActionQuerySet, asked: InboxQuery) -> tuple[list[int], int]:
    """Which of them the list looks at, in its order, and how many there are. An index tells that: where thousands wait,
    a hundred are read, or for `mine` as many as it takes to find those."""
    ordered = waiting.order_by(*SORTS[asked.sort])
    most = MOST_JUDGED + 1 if asked.tab == "mine" else MOST_WAITING
    if asked.team:
        rows = ordered.values_list("pk", "groups")[:MOST_LOOKED_AT]
        found = [pk for pk, groups in rows if asked.team in named(groups)]
        return found[:most], len(found)
    some = list(ordered.values_list("pk", Window(Count("pk")))[:most])
    return [pk for pk, _ in some], some[0][1] if some else 0


def in_order(chosen: Sequence[int]) -> list[Action]:
    """These rows, whole."""
    rows = Action.objects.for_pages().in_bulk(chosen)
    return [rows[pk] for pk in chosen if pk in rows]


def first_that(suits: Callable[[Action], bool], chosen: Sequence[int], most: int) -> list[Action]:
    """The first `most` of these that suit, in their order; of MOST_JUDGED of them at most."""
    found: list[Action] = []
    piece = min(PIECE, 10 * most)
    for start in range(0, min(len(chosen), MOST_JUDGED), piece):
        found += filter(suits, in_order(chosen[start : start + piece]))
        if len(found) >= most:
            break
    return found[:most]


def for_this(person: User, now: datetime) -> Callable[[Action], bool]:
    """May this person decide it now?"""
    reader = Reader.of(person, now)
    return lambda row: row.expires_at > now and not reader.why_not(row)


def after(request: HttpRequest, decided: int, now: datetime) -> Action | None:
    """What to open after this one was decided: the first of the same list that the reader may decide."""
    asked = wanted(request)
    waiting = Action.objects.awaiting().filter(expires_at__gt=now).exclude(pk=decided)
    chosen, _ = first_of(waiting, replace(asked, tab="mine"))
    return next(iter(first_that(for_this(who(request), now), chosen, 1)), None)


def named(groups: Iterable[dict[str, Any]]) -> set[str]:
    return {name for group in groups for name in group["reviewers"]}


def asked_groups(rows: Sequence[Action], waiting: ActionQuerySet, count: int) -> Iterable[list[dict[str, Any]]]:
    """Of all that wait, not only of those that the list shows."""
    if len(rows) == count:
        return (row.groups for row in rows)
    return waiting.order_by().values_list("groups", flat=True).distinct()


def teams_of(asked: Iterable[list[dict[str, Any]]], chosen: str) -> list[str]:
    """Whom those that wait ask, when there is anything to choose."""
    found = {name for groups in asked for name in named(groups)}
    return sorted({*found, chosen} - {""}) if chosen or len(found) > 1 else []


def asked_a_person() -> ActionQuerySet:
    return Action.objects.for_pages().filter(tier__in=WAITING)


def ended(request: HttpRequest, tab: str) -> dict[str, Any]:
    rows = asked_a_person()
    found = rows.filter(status="expired") if tab == "expired" else rows.filter(decided_at__isnull=False)
    page = Paginator(found.exclude(status="awaiting").order_by("-id"), PAGE).get_page(request.GET.get("page"))
    return {"page": page, "decided": with_people(page.object_list, who(request))}


def with_people(rows: Iterable[Action], reader: User) -> list[Action]:
    """Each with `said`, the verdict that ended it, where a person spoke."""
    found = [row.shown_to(reader) for row in rows]
    said = Decision.objects.filter(action__in=found).exclude(verdict="edit").select_related("by").order_by("pk")
    last = {one.action_id: one for one in said}
    for row in found:
        row.said = last.get(row.pk)  # type: ignore[attr-defined]
    return found
