"""What happened last on this desk: runs, events that started nothing, and what people said, newest first."""

from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from approvals.models import Action, Decision
from project.lib.language import phrase, words
from project.people.models import User
from project.templatetags.desk import LOOKS, Look, took
from triggers.models import Audit, Event, Run

LENGTH = 14


@dataclass(frozen=True, slots=True)
class Line:
    """One line; `key` and `version` let the page leave it alone until it changes."""

    key: str
    at: datetime
    icon: str
    tone: str
    url: str
    what: str
    more: str
    look: Look  # of the badge

    @property
    def version(self) -> str:
        return f"{self.look.icon}.{self.look.word}"


def lines(reader: User) -> list[Line]:
    newest = [*runs(), *events(), *decisions(reader), *taken_back(reader)]
    return sorted(newest, key=lambda line: line.at, reverse=True)[:LENGTH]


def runs() -> list[Line]:
    rows = Run.objects.select_related("event").defer("event__raw", "event__data_json", "data_json", "result_json")
    return [line_of_run(run) for run in rows.order_by("-id")[:LENGTH]]


def line_of_run(run: Run) -> Line:
    waits = run.status == "waiting" and run.waiting_for.startswith("approvals.")
    return Line(
        key=f"R-{run.pk}",
        at=run.finished_at or run.started_at or run.queued_at,
        icon="hand" if waits else "skull" if run.status == "dead" else "play",
        tone="wait" if waits else "fail" if run.status == "dead" else "dim",
        url=reverse("run", args=[run.pk]),
        what=run.handler,
        more=f"R-{run.pk}, {run.event.type}",
        look=look_of_run(run, waits),
    )


def look_of_run(run: Run, waits: bool) -> Look:
    look = LOOKS[run.status]
    if waits:
        return look._replace(icon="hand")
    if run.status == "succeeded" and run.finished_at:
        return look._replace(word=took(run.finished_at - run.queued_at))
    return look


def events() -> list[Line]:
    rows = Event.objects.without_payload().filter(source__isnull=False).exclude(status="routed").order_by("-id")
    return [
        Line(
            key=f"E-{event.pk}",
            at=event.received_at,
            icon="zap",
            tone="dim",
            url=reverse("event", args=[event.pk]),
            what=event.type,
            more=f"E-{event.pk}, {event.source_slug}"
            + (phrase(", no trigger matched") if event.status == "ignored" else ""),
            look=LOOKS[event.status],
        )
        for event in rows[:LENGTH]
    ]


DONE = {"approve": words("{by} approved"), "reject": words("{by} rejected"), "edit": words("{by} edited")}


def decisions(reader: User) -> list[Line]:
    rows = Decision.objects.select_related("by", "action").defer("before", "after").order_by("-id")[:LENGTH]
    return [
        Line(
            key=f"S-{said.pk}",
            at=said.at,
            icon="user-round-check",
            tone="dim",
            url=reverse("action", args=[said.action_id]),
            what=phrase(DONE[said.verdict], by=said.by),
            more=f"A-{said.action_id}, {said.action.shown_to(reader).title}",
            look=LOOKS[said.action.status],
        )
        for said in rows
    ]


def taken_back(reader: User) -> list[Line]:
    rows = Audit.objects.taken_back().order_by("-id")[:LENGTH]
    actions = Action.objects.only("title", "status", "kind", "groups", "requester_chain").in_bulk(
        [int(row.ref) for row in rows]
    )
    return [
        Line(
            key=f"U-{row.pk}",
            at=row.at,
            icon="undo-2",
            tone="dim",
            url=reverse("action", args=[action.pk]),
            what=phrase("{by} took back", by=row.by),
            more=f"A-{action.pk}, {action.shown_to(reader).title}",
            look=LOOKS[action.status],
        )
        for row in rows
        if (action := actions.get(int(row.ref)))
    ]
