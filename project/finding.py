"""`/find`: rows by their number, things by their name, events and actions by their words. Who may read a page finds it
here too, and nobody finds by what is hidden from him: words of payloads count for those who may see payloads."""

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.db.models import CharField, Model, Q, QuerySet, Subquery, Value
from django.db.models.functions import Cast, Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from approvals.models import Action, Connection
from project.context import GROUPS
from project.lib.text import made_storable
from project.people.doors import who
from project.people.models import User
from project.people.roles import can
from project.templatetags.desk import LOOKS, Look
from triggers import registry, search
from triggers.models import Agent, Bulk, DeadLetter, Event, Run, Source, Trigger
from triggers.views.events import story_of
from triggers.views.lists import as_number

LONGEST = 200  # characters of a question
MOST = 10  # hits of each kind
OF_ACTION = ("title", "status", "kind", "groups", "requester_chain")
REACH = 10_000  # newest actions whose titles are read
SETTINGS = ("settings", "notifications", "tokens", "teams", "sources", "connections", "policies", "freezes")


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing that was found."""

    icon: str
    url: str
    name: str
    what: str = ""
    look: Look | None = None  # of its badge


@dataclass(frozen=True, slots=True)
class Found:
    """Hits of one kind; `more` is the list that has all of them."""

    title: str
    hits: list[Hit]
    more: str = ""


@require_safe
def find(request: HttpRequest) -> HttpResponse:
    """What carries this number, this name or these words; a number with its letter opens the row itself."""
    words = made_storable(request.GET.get("q", "")).strip()[:LONGEST]
    reader = who(request)
    numbered = by_number(words, reader)
    if len(numbered) == 1 and not words.isdigit():
        return redirect(numbered[0].url)
    groups = [Found("With this number", numbered), *by_words(words, reader)]
    return render(request, "find.html", {"words": words, "groups": [group for group in groups if group.hits]})


def by_number(words: str, reader: User) -> list[Hit]:
    """`R-17` is one row, `17` may be one of each kind: one question for all of them."""
    asked = [(kind, as_number(words, f"{kind.letter}-")) for kind in NUMBERED]
    rows = [kind.told().filter(pk=number) for kind, number in asked if number is not None]
    if not rows:
        return []
    told = rows[0].union(*rows[1:], all=True) if rows[1:] else rows[0]
    kinds = {kind.letter: kind for kind in NUMBERED}
    return [
        kinds[letter].hit(number, headline(number, what, reader) if letter == ACTION.letter else what, more, status)
        for letter, number, what, more, status in told
    ]


def headline(number: int, title: str, reader: User) -> str:
    """Of an action, for who may read it; for others its kind."""
    if reads_all(reader):
        return title
    action: Action = Action.objects.only(*OF_ACTION).get(pk=number)
    return action.shown_to(reader).title


def reads_all(reader: User) -> bool:
    return can(reader, "payloads") or can(reader, "decide")


def by_words(words: str, reader: User) -> list[Found]:
    payloads = can(reader, "payloads")
    if not words:
        return []
    return [
        Found("Pages", pages(words)),
        Found("Triggers, sources, handlers, connections", things(words)),
        Found("Agents", agents(words)),
        Found("Actions", actions(words, reader)),
        Found("Events", events(words, payloads=payloads), f"{reverse('events')}?{urlencode({'q': words})}"),
    ]


def pages(words: str) -> list[Hit]:
    """Pages of the desk whose name begins with these words, or holds them as a word does."""
    rail = [(icon, name, title) for group in GROUPS for name, icon, title, _ in group]
    settings = [("settings", name, name.capitalize()) for name in SETTINGS]
    return [
        Hit(icon, reverse(name), title)
        for icon, name, title in (*rail, *settings)
        if f" {words.casefold()}" in f" {title.casefold()}"
    ]


def things(words: str) -> list[Hit]:
    """What people name: few rows each, so any part of the name or slug will do."""
    named = Q(slug__icontains=words) | Q(name__icontains=words)
    triggers = Trigger.objects.kept().filter(named | Q(handler__icontains=words)).order_by("slug")[:MOST]
    sources = Source.objects.kept().filter(named).order_by("slug")[:MOST]
    handlers = sorted(name for name in registry.HANDLERS if words.casefold() in name.casefold())
    ways_out = Connection.objects.kept().filter(Q(slug__icontains=words) | Q(system__icontains=words)).order_by("slug")
    return [
        *(
            Hit("webhook", reverse("trigger-edit", args=[row.slug]), row.slug, f"wakes {row.handler}")
            for row in triggers
        ),
        *(Hit("bell-ring", reverse("source-edit", args=[row.slug]), row.slug, "source") for row in sources),
        *(Hit("file-code", reverse("handler", args=[name]), name, "handler") for name in handlers[:MOST]),
        *(Hit("plug", reverse("connection-edit", args=[row.slug]), row.slug, "connection") for row in ways_out[:MOST]),
    ]


def agents(words: str) -> list[Hit]:
    rows = Agent.objects.kept().filter(slug__icontains=words).order_by("slug")[:MOST]
    return [Hit("bot", reverse("agent", args=[row.slug]), row.slug, f"{row.machine}, {row.status}") for row in rows]


def actions(words: str, reader: User) -> list[Hit]:
    """By what stands above them, for who may read that of all of them."""
    last = Action.objects.order_by("-pk").values("pk")[REACH - 1 : REACH]
    near = Action.objects.filter(pk__gte=Coalesce(Subquery(last), 0))  # a number: of a set PostgreSQL reads all titles
    said = Q(title__icontains=words) if reads_all(reader) else Q(kind__icontains=words)
    rows = near.filter(said | Q(key=words)).order_by("-pk").only(*OF_ACTION)
    return [ACTION.hit(row.pk, row.shown_to(reader).title, "", row.status) for row in rows[:MOST]]


def events(words: str, *, payloads: bool) -> list[Hit]:
    rows = Event.objects.without_payload().filter(search.matching(words, payloads=payloads)).order_by("-pk")
    return [replace(EVENT.hit(row.pk, row.type, row.subject, row.status), look=look_of(row)) for row in rows[:MOST]]


def look_of(row: Event) -> Look:
    return story_of(row) or LOOKS[row.status]


@dataclass(frozen=True, slots=True)
class Numbered:
    """Rows that people call by a letter and a number; `what` and `more` are the columns that tell of one."""

    letter: str
    page: str
    icon: str
    model: type[Model]
    what: str
    more: str = ""

    def told(self) -> QuerySet[Any, Any]:
        """`(letter, number, what, more, status)` of each row, the same for every kind."""
        more = Cast(self.more, CharField()) if self.more else Value("", CharField())
        what = Cast(self.what, CharField())
        everything: QuerySet[Any, Any] = self.model._default_manager.order_by()
        rows = everything.annotate(of=Value(self.letter), told=what, rest=more)
        told: QuerySet[Any, Any] = rows.values_list("of", "pk", "told", "rest", "status")
        return told

    def hit(self, number: int, what: str, more: str, status: str) -> Hit:
        words = ", ".join(text for text in (what.replace("_", " ") if self.letter == "B" else what, more) if text)
        return Hit(self.icon, reverse(self.page, args=[number]), f"{self.letter}-{number}", words, LOOKS.get(status))


EVENT = Numbered("E", "event", "zap", Event, "type", "subject")
ACTION = Numbered("A", "action", "hand", Action, "title")
NUMBERED = (
    EVENT,
    Numbered("R", "run", "play", Run, "handler"),
    ACTION,
    Numbered("D", "dead-letter", "skull", DeadLetter, "handler", "error_type"),
    Numbered("B", "bulk-job", "layers", Bulk, "verb"),
)
