"""Who asked for an action: computed by the desk from its own rows, never taken from what a handler says."""

from collections.abc import Iterable
from contextlib import suppress

from approvals.chats import slack
from approvals.models import Channel
from project.people.models import ApiToken
from triggers.models import Event, Run, Source


def chain(run: Run, *, four_eyes: bool, asked_by: int | None = None) -> list[int]:
    """Ids of the people behind `run`: who rang, wrote what rang, ran it again, edited or cancelled it (what is undone
    then was asked for by that), and who asked for this besides; with `four_eyes` also who owns its trigger and who
    changed it since the trigger's last run.

    Nearest first."""
    before = ancestry(run)
    people = [asked_by, *(row.requester_id for row in before), *(row.event.requester_id for row in before)]
    people += [*writers([row.event for row in before]), who_ended(run)]
    if four_eyes and run.trigger is not None:
        people.append(run.trigger.owner_id)
        if changed_since_last_run(run):
            people.append(run.trigger.changed_by_id)
    return list(dict.fromkeys(person for person in people if person is not None))


def writers(events: Iterable[Event]) -> list[int]:
    """Ids of the people who wrote them in Slack, of those who have linked themselves (docs/security.md)."""
    by_source: dict[int, list[Event]] = {}
    for event in events:
        by_source.setdefault(event.source_id or 0, []).append(event)
    chats = Source.objects.filter(pk__in=by_source, provider="slack").values_list("pk", flat=True)
    names = set()
    for event in (event for pk in chats for event in by_source[pk]):
        with suppress(ValueError, RecursionError):  # a payload nobody can read names nobody
            names.add(slack.author_in(event.data))
    found = Channel.objects.usable().filter(identity__in=names - {""}) if names - {""} else Channel.objects.none()
    return list(found.order_by("pk").values_list("person_id", flat=True))


def behind(token: ApiToken | None) -> list[int]:
    """Ids of the people behind a program outside: whose token it is; of a service's token, who made it."""
    people = [token.user_id or token.made_by_id] if token else []
    return [person for person in people if person is not None]


def who_ended(run: Run) -> int | None:
    """Whoever cancelled it, or asked its worker to; nobody as long as it goes on."""
    return run.ended_by_id if run.has_ended else None


def ancestry(run: Run) -> list[Run]:
    """The run, the one it repeats or by whose event it was woken, and so on."""
    rows = [run]
    while (before := rows[-1].rerun_of or emitter_of(rows[-1])) is not None and len(rows) < 100:
        rows.append(before)
    return rows


def emitter_of(run: Run) -> Run | None:
    """The run that emitted its event: who asked for that one asked for what follows."""
    emitted_by = run.event.emitted_by
    return Run.objects.select_related("event").filter(pk=emitted_by).first() if emitted_by else None


def changed_since_last_run(run: Run) -> bool:
    trigger = run.trigger
    if trigger is None:
        return False
    before = Run.objects.filter(trigger=trigger, pk__lt=run.pk).order_by("-pk").values_list("queued_at", flat=True)
    last = before.first()
    return last is None or trigger.changed_at > last
