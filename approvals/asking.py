"""Who is asked to decide, when they are reminded, when the next group is asked, and when it must be said that nobody
was reached. All of it is rows; tick makes each step once, however many rounds run.

The reviewers a rule names are asked in their order: the first at once, each next one after the rule's
`escalate_after`. All of them may decide from the start; time only says who is told."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet

from approvals import policy
from approvals.carriers import carrier_of
from approvals.letters import outcome_of
from approvals.models import Action, Asking, Channel, Hours, Notice
from approvals.models.action import Status
from approvals.rules import Ruling
from approvals.settle import lock
from approvals.windows import Window, next_opening
from project.lib import clock
from project.lib.live import changed
from project.people.models import User
from triggers.endings import is_own
from triggers.ingest import store_internal
from triggers.models import Audit

UNREACHED = "nightdesk.approval.unreached"
UNREACHED_AFTER = timedelta(minutes=5)  # somebody must have been told by then
REMINDERS = (0.5, 0.9)  # of the time people have
MOST_PEOPLE = 50  # that are told of one request
ROUND = 50  # rows of each kind a round of tick at most


@dataclass(frozen=True, slots=True)
class Step:
    """One row with what is needed to go on with it; the action is held."""

    asking: Asking
    action: Action
    ruling: Ruling
    now: datetime

    @property
    def last_level(self) -> int:
        ladder = bool(self.ruling.escalate_after)
        return max([len(panel.names) for panel in self.ruling.groups] or [1]) - 1 if ladder else 0

    @property
    def names(self) -> set[str]:
        """Roles and teams that are asked by now."""
        if not self.ruling.escalate_after or not self.ruling.groups:
            return set(self.ruling.reviewers)
        return {name for panel in self.ruling.groups for name in panel.names[: self.asking.level + 1]}

    @property
    def goes_on_at(self) -> datetime | None:
        """When the next group is asked."""
        if self.asking.level >= self.last_level:
            return None
        return self.asking.asked_at + timedelta(seconds=self.ruling.escalate_after) * (self.asking.level + 1)

    @property
    def reminds_at(self) -> list[datetime]:
        whole = self.action.expires_at - self.asking.asked_at
        return [self.asking.asked_at + whole * part for part in REMINDERS]

    @property
    def next_at(self) -> datetime | None:
        alarm = None if self.asking.unreached_at else self.asking.asked_at + UNREACHED_AFTER
        left = [at for at in (self.goes_on_at, *self.reminds_at[self.asking.reminders :], alarm) if at]
        return min((at for at in left if at > self.now), default=None)


# What a round does; safe when two run at once.


def missing() -> list[int]:
    return list(Asking.missing().order_by("pk").values_list("pk", flat=True)[:ROUND])


def due(now: datetime) -> list[int]:
    return list(Asking.objects.due(now).order_by("next_at").values_list("pk", flat=True)[:ROUND])


def over() -> list[int]:
    return list(Asking.objects.over().order_by("pk").values_list("pk", flat=True)[:ROUND])


def begin(action_id: int) -> bool:
    """Ask whoever is first about what an action is now."""
    ruling = policy.ruling_of(Action.objects.for_pages().get(pk=action_id))
    with transaction.atomic():
        action = lock(action_id)
        now = clock.now()
        seen = {"revision": action.revision, "digest": action.digest}
        if action.status != Status.AWAITING or action.askings.filter(revision=action.revision).exists():
            return False
        step = Step(Asking.objects.create(action=action, asked_at=now, **seen), action, ruling, now)
        ask(step)
        sound(step)
        note(step)
    return True


def go_on(asking_id: int) -> bool:
    """Whatever is due now: the next group, a reminder, the alarm."""
    row = Asking.objects.get(pk=asking_id)
    ruling = policy.ruling_of(Action.objects.for_pages().get(pk=row.action_id))
    with transaction.atomic():
        action = lock(row.action_id)
        now = clock.now()
        asking = Asking.objects.due(now).filter(pk=asking_id).first()
        if asking is None or not still_asks(asking, action):
            return False
        step = Step(asking, action, ruling, now)
        climb(step)
        remind(step)
        if asking.notices.filter(what="ask", status="skipped").exists():
            tell(step, reachable(step))  # who it was for may decide no more: others of that group read it too
        sound(step)
        note(step)
    return True


def close(asking_id: int) -> bool:
    """There is nothing left to ask: what was not sent is not sent, what was sent is brought up to date."""
    row = Asking.objects.get(pk=asking_id)
    with transaction.atomic():
        action = lock(row.action_id)
        now = clock.now()
        asking = Asking.objects.over().filter(pk=asking_id).first()
        if asking is None:
            return False
        waiting = asking.notices.exclude(what="end").filter(status="due")
        Notice.move_all("skip", list(waiting.values_list("pk", flat=True)))
        if asking.notices.filter(status="sending").exists():
            return False  # under way: what becomes of it must be known first
        Asking.objects.filter(pk=asking.pk).update(closed_at=now, outcome=outcome_of(asking, action))
        bring_up(asking, action, now)
        changed("actions", id=action.pk)
    return True


def still_asks(asking: Asking, action: Action) -> bool:
    return action.status == Status.AWAITING and action.revision == asking.revision


def note(step: Step) -> None:
    """When to come back."""
    given = {name: getattr(step.asking, name) for name in ("level", "reminders", "unreached_at")}
    Asking.objects.filter(pk=step.asking.pk).update(next_at=step.next_at, **given)
    changed("actions", id=step.action.pk)


# The steps


def ask(step: Step) -> None:
    """Everybody who may decide by now; when none of them can be told, the next group at once."""
    tell(step, reachable(step))
    while step.asking.level < step.last_level and not step.asking.notices.exists():
        step.asking.level += 1
        tell(step, reachable(step))


def climb(step: Step) -> None:
    while (at := step.goes_on_at) is not None and at <= step.now:
        step.asking.level += 1
        Audit.write("escalate", step.action, by=None, level=step.asking.level, to=sorted(step.names))
        ask(step)


def remind(step: Step) -> None:
    """Those who were asked and may still decide; who has come to them since is asked now. After an outage one reminder
    stands for all that were missed."""
    number = sum(at <= step.now for at in step.reminds_at)
    if number <= step.asking.reminders:
        return
    step.asking.reminders = number
    told = step.asking.notices.filter(what="ask").values_list("channel_id", flat=True)
    said = step.action.decisions.filter(revision=step.asking.revision).values_list("by_id", flat=True)
    channels, before = reachable(step), set(told)
    again = [channel for channel in channels if channel.pk in before and channel.person_id not in set(said)]
    tell(step, channels)
    tell(step, again, what="remind", number=number)


def sound(step: Step) -> None:
    """Say once that nobody who may decide was told; at once where nobody may, or not as many as it needs. What is asked
    because the desk said so says nothing more."""
    asking, lacks = step.asking, lacking(step)
    if asking.unreached_at or (not lacks and asking.notices.reached().exists()):
        return
    may_come = asking.notices.exists() or people(step).exists()
    if step.now < asking.asked_at + UNREACHED_AFTER and may_come and not lacks:
        return
    asking.unreached_at = step.now
    origin = step.action.run.event if step.action.run else None
    if origin is not None and is_own(origin):
        return
    why = {"why": "too_few_may_decide", "of": lacks} if lacks else {"why": why_nobody(step)}
    facts = {**step.action.facts, **why, "link": f"/actions/{step.action.pk}"}
    subject = f"actions/{step.action.pk}"
    store_internal(source="/nightdesk", type=UNREACHED, subject=subject, data=facts, severity="error")


def lacking(step: Step) -> list[str]:
    """The roles and teams of whose members more are needed than may say yes, although somebody may."""
    able = policy.able(step.action, step.ruling)
    if not able.exists():
        return []
    short = [
        panel.names
        for panel in step.ruling.groups
        if able.filter(groups__name__in=panel.names).distinct().count() < panel.quorum
    ]
    if not short and able.count() < step.ruling.needed:
        short = [step.ruling.reviewers]
    return list(dict.fromkeys(name for names in short for name in names))


def why_nobody(step: Step) -> str:
    notices = step.asking.notices.all()
    if notices.open().filter(due_at__gt=step.now, tries=0).exists():
        return "outside_hours"
    if notices.exists():
        return "not_taken"
    return "no_channel" if people(step).exists() else "nobody_may_decide"


# People


def people(step: Step) -> QuerySet[User]:
    """Who may say yes now and is asked by now."""
    return policy.able(step.action, step.ruling).filter(groups__name__in=step.names)


def may_decide(step: Step, person: User) -> bool:
    return policy.able(step.action, step.ruling).filter(pk=person.pk).exists()


def reachable(step: Step) -> list[Channel]:
    """Their channels; of so many people at most who have one that can be used."""
    usable = Channel.objects.usable().filter(person__in=people(step).values("pk"))
    first = usable.order_by("person_id").values_list("person_id", flat=True).distinct()[:MOST_PEOPLE]
    return list(usable.filter(person_id__in=list(first)).select_related("person").order_by("pk"))


def tell(step: Step, channels: Iterable[Channel], *, what: str = "ask", number: int = 0) -> None:
    """One message a channel, and one a group, however many people read it there; at their hours."""
    hours = dict(
        Hours.objects.filter(person__in=[each.person_id for each in channels]).values_list("person", "windows")
    )
    same = step.asking.notices.filter(what=what, number=number).exclude(status="skipped").select_related("channel")
    groups = {row.channel.connection_id for row in same if is_group(row.channel)}
    for channel in channels:
        if is_group(channel) and channel.connection_id in groups:
            continue
        groups |= {channel.connection_id} if is_group(channel) else set()
        opens = opening(channel.person, hours.get(channel.person_id, []), step.now)
        mark = {"channel": channel, "what": what, "number": number}
        step.asking.notices.get_or_create(**mark, defaults={"person": channel.person, "due_at": opens})


def is_group(channel: Channel) -> bool:
    return not carrier_of(channel.connection.system, channel.address).asks


def opening(person: User, windows: list[dict[str, object]], now: datetime) -> datetime:
    """When this person may be written to: now, or when their hours begin."""
    return next_opening([(str(person.zone), [Window.of(each) for each in windows])], now) or now


def bring_up(asking: Asking, action: Action, now: datetime) -> None:
    """Every message is brought up to date where it stands; where that cannot be, a second one says how it ended, but
    not to the one who decided."""
    last = action.decisions.filter(revision=asking.revision).order_by("-pk").values_list("by_id", flat=True).first()
    for first in asking.notices.reached().select_related("channel__connection", "person"):
        carrier = carrier_of(first.channel.connection.system, first.channel.address)
        in_place = carrier.replace is not None and bool(first.ref)
        if not in_place and (first.what != "ask" or first.person_id == last):
            continue
        windows = [] if in_place else Hours.of(first.person)
        opens = opening(first.person, windows, now)
        given = {"asking": asking, "channel": first.channel, "person": first.person, "due_at": opens}
        Notice.objects.get_or_create(follows=first, what="end", defaults=given)
