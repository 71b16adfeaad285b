"""Who asked for an action: computed by the desk from its own rows, never taken from what a handler says.

Whoever gave a run something to work on has asked for what it does: its event and those that were gathered into it or
ended its waits, the answers to its questions, and the word to go on."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from django.db.models import Q

from approvals.chats import slack
from approvals.kinds import ASKED_BY
from approvals.models import Action, Channel, Decision
from approvals.models.action import EVERYBODY
from project.lib import tester
from project.lib.text import number
from project.people.models import ApiToken
from triggers.bulk import WENT_ON
from triggers.configure import PUBLISHED
from triggers.envelope import APPROVALS
from triggers.errors import PayloadGone
from triggers.models import Audit, Event, Run, Source, TriggerVersion

MOST_RUNS = 1_000  # of those behind one; beyond it everybody counts as behind it
CONTINUED = "unblock: continue"  # the verb in the audit
QUESTION = "human.question"
HEAVY = ("raw", "data_json", "credentials", "outcomes")  # read of the few events alone that name their writer


def chain(run: Run, *, four_eyes: bool, asked_by: int | None = None) -> list[int]:
    """Ids of the people behind `run`, nearest first: who rang, wrote what rang, ran it again, edited or cancelled it
    (what is undone then was asked for by that), answered it or let it go on, resumed the job that did so, who was
    behind the action that rang, and who asked for this besides; with `four_eyes` also who owns its trigger and who
    changed it since the trigger's last run. EVERYBODY stands at its end where more runs are behind it than are looked
    through."""
    runs, events = behind_run(run)
    people = [asked_by, *(row.requester_id for row in runs), *(event.requester_id for event in events)]
    people += [
        *writers(events),
        *testers(events),
        *behind_actions(events),
        *speakers(runs),
        *resumers(runs, events),
        who_ended(run),
    ]
    if four_eyes and run.trigger is not None:
        people += [run.trigger.owner_id, *changers(run)]
    people += [EVERYBODY] if len(runs) >= MOST_RUNS else []
    return list(dict.fromkeys(person for person in people if person is not None))


def behind(token: ApiToken | None) -> list[int]:
    """Ids of the people behind a program outside: whose token it is; of a service's token, who made it."""
    return [token.answered_for_by] if token and token.answered_for_by else []


def behind_run(run: Run) -> tuple[list[Run], list[Event]]:
    """The run, those it repeats or by whose events it was woken or went on, and so on; and all these events."""
    runs, events = {run.pk: run}, dict[int, Event]()
    waiting = [run]
    while waiting and len(runs) < MOST_RUNS:
        one = waiting.pop(0)
        found = read_by(one)
        events |= {event.pk: event for event in found}
        further = {pk for pk in (one.rerun_of_id, *(event.emitted_by for event in found)) if pk} - runs.keys()
        rows = Run.objects.select_related("event").defer(*(f"event__{name}" for name in HEAVY)).filter(pk__in=further)
        fresh = {row.pk: row for row in rows.order_by("-pk")}
        runs |= fresh
        waiting += fresh.values()
    return list(runs.values()), list(events.values())


def read_by(run: Run) -> list[Event]:
    """What it works on: its own event, those gathered into it, and those that ended its waits."""
    more = set(run.waits.exclude(event=None).values_list("event", flat=True))
    if run.gather_key is not None:
        more |= set(Event.objects.filter(gathered__run=run.pk).values_list("pk", flat=True))
    more.discard(run.event_id)
    return [run.event, *(Event.objects.filter(pk__in=more).defer(*HEAVY).order_by("-pk") if more else [])]


def writers(events: Iterable[Event]) -> list[int]:
    """Ids of the people who wrote them in Slack, of those who have linked themselves (docs/security.md)."""
    by_source: dict[int, list[Event]] = {}
    for event in events:
        by_source.setdefault(event.source_id or 0, []).append(event)
    chats = Source.objects.filter(pk__in=by_source, provider="slack").values_list("pk", flat=True)
    names = set()
    for event in (event for pk in chats for event in by_source[pk]):
        with suppress(ValueError, RecursionError, PayloadGone):  # a payload nobody can read names nobody
            names.add(slack.author_in(event.data))
    found = Channel.objects.usable().filter(identity__in=names - {""}) if names - {""} else Channel.objects.none()
    return list(found.order_by("pk").values_list("person_id", flat=True))


def testers(events: Iterable[Event]) -> list[int]:
    """Who pressed *Send a test delivery* for them."""
    return [person for event in events if (person := tester.sender_of(event.headers))]


def behind_actions(events: Iterable[Event]) -> list[int]:
    """Who asked for the actions that published these events, or whose moves they tell; an edit asks as well."""
    numbers = {found for event in events if (found := action_of(event))}
    if not numbers:
        return []
    chains = Action.objects.filter(pk__in=numbers).order_by("pk").values_list("requester_chain", flat=True)
    edits = Decision.objects.filter(action__in=numbers, verdict="edit").order_by("pk").values_list("by", flat=True)
    return [*(person for people in chains for person in people), *edits]


def action_of(event: Event) -> int:
    """The number of the action this event comes from; 0 where it comes from none."""
    if event.source_slug == APPROVALS:
        return number(event.subject.removeprefix("actions/"))
    return number(str(event.headers.get(ASKED_BY, ""))) if event.source_slug == PUBLISHED else 0


def speakers(runs: Iterable[Run]) -> list[int]:
    """Who answered their questions, and who let them go on with other code than they began with."""
    numbers = [run.pk for run in runs]
    answers = Decision.objects.filter(action__acts__run__in=numbers, action__kind=QUESTION, verdict="approve")
    refs = [str(run.pk) for run in runs if run.continued_at is not None]
    words: list[Any] = list(Audit.objects.filter(kind="run", ref__in=refs, verb=CONTINUED).values_list("by", flat=True))
    return [*answers.order_by("pk").values_list("by", flat=True), *words]


def resumers(runs: Iterable[Run], events: Iterable[Event]) -> list[int]:
    """Who let a job of somebody else go on, which then started or cancelled one of the runs or admitted an event."""
    mine = Q(kind="run", ref__in=[str(run.pk) for run in runs])
    mine |= Q(kind="event", ref__in=[str(event.pk) for event in events])
    rows = Audit.objects.filter(mine, verb=WENT_ON).exclude(by=None)
    return list(rows.order_by("pk").values_list("by_id", flat=True))


def who_ended(run: Run) -> int | None:
    """Whoever cancelled it, or asked its worker to; nobody as long as it goes on."""
    return run.ended_by_id if run.has_ended else None


def changers(run: Run) -> list[int | None]:
    """Who changed its trigger since the trigger's last run, the latest first."""
    trigger = run.trigger
    if trigger is None:
        return []
    before = Run.objects.filter(trigger=trigger, pk__lt=run.pk).order_by("-pk").values_list("queued_at", flat=True)
    last = before.first()
    since = Q(at__gt=last) if last else Q()
    versions = TriggerVersion.objects.filter(since, trigger=trigger).order_by("-version").values_list("by", flat=True)
    own = [trigger.changed_by_id] if last is None or trigger.changed_at > last else []
    return [*own, *versions]
