"""What a run did is undone when it fails or is cancelled: last in, first out, one at a time, each as an action.

The run's last transaction only marks what is owed; tick proposes the next one when the one before has settled. An
effect whose outcome is not known is settled first. What was undone gives its key up: asked for anew it happens anew."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction

from approvals import compensating, policy, propose
from approvals.errors import DeliveryError, Rejected
from approvals.models import Action, Compensation
from approvals.models.action import HOLDS, Status
from approvals.models.compensation import UNDER_WAY, Owed
from approvals.rules import DEFAULT, Ruling
from approvals.settle import DENIED, bury, lock, say, show
from approvals.tiers import Tier
from approvals.wish import Wish
from project.lib import clock, gate
from project.lib.apart import each
from project.lib.crypto import Unreadable
from project.lib.prepared import Select
from project.lib.retrying import retried
from triggers.errors import NotValid, Permanent
from triggers.models import Audit, DeadLetter, Run
from triggers.models.run import Status as RunStatus

if TYPE_CHECKING:
    from project.people.models import User

NOT_UNDONE = "NotUndone"  # the class under which a letter says it
ROUND = 50  # runs a round of tick
ENDED = "undoing_ended"  # the event `approvals.action.undoing_ended`: who waits to ask anew reads the rows again


NOTED = Select(lambda run: Compensation.objects.filter(run=run, status=Owed.NOTED).order_by("pk"), run=int)


class Place:
    """Where this process goes on with the walk over all runs that are being undone."""

    after = 0


def begin(run: Run) -> None:
    """Inside the transaction that ends `run`: all it did is owed, or nothing after a success."""
    verb = "drop" if run.status == RunStatus.SUCCEEDED else "owe"
    for owed in NOTED(run=run.pk):
        owed.move(verb)


def tick() -> int:
    """Go on with what is owed; returns how many entries moved. Safe when two run at once."""
    runs = Compensation.objects.under_way().filter(run__gt=Place.after).order_by("run").values_list("run", flat=True)
    page = list(runs.distinct()[:ROUND])
    Place.after = page[-1] if len(page) == ROUND else 0
    return each(go_on, page)


def go_on(run_id: int) -> int:
    """Take the stack of one run as far as it goes now."""
    moved = 0
    while step(run_id):
        moved += 1
    return moved


@dataclass(frozen=True, slots=True)
class Plan:
    """What would undo the effect that is next, and what the policy says of it: computed before the transaction.

    `effect` is the status of what it would undo: of another one, another plan is made."""

    owed: int
    effect: str = ""
    wish: Wish | None = None
    ruling: Ruling | None = None
    trouble: str = ""  # why it cannot be proposed


@retried
@policy.again_when_moved
def step(run_id: int) -> bool:
    """Move one entry, if one can move: what is under way first, else the newest that is owed."""
    plan = planned(run_id)
    if plan is None:
        return False
    with transaction.atomic():
        gate.shared()
        run = Run.objects.select_for_update(of=("self",), no_key=True).get(pk=run_id)
        owed = next_of(run.pk)
        if owed is None or owed.pk != plan.owed:
            return False  # another round was faster
        effect = lock(owed.act.action_id)
        if owed.status != Owed.ASKED and effect.status != plan.effect:
            return False  # it moved meanwhile: the next round sees how
        now = clock.now()
        moved = finish(owed, effect, now) if owed.status == Owed.ASKED else ask(owed, effect, now, plan)
        if moved:
            show(effect)
    return moved


def next_of(run_id: int) -> Compensation | None:
    rows = Compensation.objects.under_way().filter(run=run_id)
    rows = rows.select_related("act__action", "run", "run__event", "run__trigger")
    return rows.filter(status=Owed.ASKED).first() or rows.order_by("-pk").first()


def planned(run_id: int) -> Plan | None:
    owed = next_of(run_id)
    if owed is None or owed.status == Owed.ASKED:
        return None if owed is None else Plan(owed.pk)
    effect = owed.effect.status
    if effect != Status.DELIVERED:
        return Plan(owed.pk, effect)  # there is nothing to propose, or not yet
    try:
        wish = compensating.wish_of(owed)
        ruling = ruling_on(owed, wish)
        wish = propose.having_looked(owed.run, step_of(owed), wish, ruling)
    except (Permanent, Unreadable) as error:
        return Plan(owed.pk, effect, trouble=str(error))
    except DeliveryError:
        return None  # nobody can look at its target now: the next round does
    return Plan(owed.pk, effect, wish, ruling)


def ask(owed: Compensation, effect: Action, now: datetime, plan: Plan) -> bool:
    """Propose what undoes `effect`; False while its own outcome is open, or somebody is just proposing the same."""
    if not effect.is_settled:
        return False
    if effect.status != Status.DELIVERED:
        if not effect.keeps_key:
            owed.move("drop")
            return True
        return keep(owed, effect, now, "nobody knows whether it happened", letter=False)
    if others := who_relies_on(effect, owed.run):
        return keep(owed, effect, now, f"R-{others} relies on it", letter=False)
    if doer_of(effect) is None:
        if plan.wish is None or plan.ruling is None:
            return keep(owed, effect, now, plan.trouble, letter=True)
        try:
            if not proposed(owed, effect, now, plan.wish, plan.ruling):
                return False
        except Rejected as error:
            return keep(owed, effect, now, str(error), letter=False)
    owed.move("ask")
    return True


def proposed(owed: Compensation, effect: Action, now: datetime, wish: Wish, ruling: Ruling) -> bool:
    """Insert the action that undoes it; False when another one was faster. Raises Rejected, PolicyMoved."""
    policy.check_current(ruling)
    try:
        with transaction.atomic():
            step, key = step_of(owed), wish.key or ""
            by = owed.asked_by_id
            action = propose.insert(owed.run, step, wish, key, now, ruling=ruling, compensates=effect, asked_by=by)
    except IntegrityError:
        return False
    Audit.write("undo", effect, run=owed.run_id, as_action=action.pk)
    return True


def ruling_on(owed: Compensation, wish: Wish) -> Ruling:
    """What the policy says; a person looks at it, whatever its tier, where it does not know what a reviewer changed."""
    if not compensating.edits_unknown_to(owed):
        return propose.ruling_on(owed.run, step_of(owed), wish)
    found = propose.ruling_on(owed.run, step_of(owed), wish, at_least=Tier.MEDIUM)
    return replace(found, name=compensating.EDITED) if found.name == DEFAULT else found


def step_of(owed: Compensation) -> str:
    return f"undo {owed.act.name}"[:200]


def finish(owed: Compensation, effect: Action, now: datetime) -> bool:
    """The action that undoes it has settled: it is undone, or it stays."""
    doer = effect.compensated_by.order_by("-pk").first()
    if doer is None:
        return keep(owed, effect, now, "the action that was to undo it is gone", letter=True)
    if not doer.is_settled:
        return False
    if doer.status == Status.DELIVERED:
        Action.objects.filter(pk=effect.pk).update(gave_key_up=True)
        owed.move("undo", why="")
        say(effect, ENDED)
        return True
    has_a_letter = doer.status == Status.FAILED
    said_no = doer.status == Status.REJECTED and doer.reason_code != DENIED  # a person did, who knows then
    return keep(owed, effect, now, f"A-{doer.pk} was {doer.status}", letter=not (has_a_letter or said_no))


def keep(owed: Compensation, effect: Action, now: datetime, why: str, *, letter: bool) -> bool:
    """The effect stays, and the next one is due; with a `letter` somebody must hear of it."""
    owed.move("keep", why=why)
    if letter:
        bury(effect, now, error={"type": NOT_UNDONE, "message": f"A-{effect.pk} was not undone: {why}"})
    Audit.write("keep the effect", effect, run=owed.run_id, why=why)
    say(effect, ENDED)
    return True


def who_relies_on(effect: Action, run: Run) -> int | None:
    """Another run that stands for the same effect and is at work or has succeeded with it."""
    others = Run.objects.filter(acts__action=effect).exclude(pk=run.pk)
    return others.exclude(status__in=[RunStatus.DEAD, RunStatus.CANCELLED]).values_list("pk", flat=True).first()


def doer_of(effect: Action) -> Action | None:
    """What undoes it now, or has."""
    return effect.compensated_by.filter(HOLDS).first()


# What redriving asks


def undone_steps(run: Run) -> set[str]:
    """Names of the acts of `run` whose effects are undone, or about to be: their memory is of no use any more."""
    gone = Compensation.objects.filter(run=run, status__in=[*UNDER_WAY, Owed.UNDONE])
    return set(gone.values_list("act__name", flat=True))


def take_up_again(letter: DeadLetter, send_again: Sequence[str], by: "User | None") -> Run | None:
    """A letter of what could not be undone: it is owed once more, and its run, which has ended, is returned.

    `by` has asked for it then, like everybody who runs something again. None: the letter is about something else.
    Raises NotValid, and KeyTaken when it may have been undone and `by` may not have that done twice."""
    action = Action.objects.filter(pk=letter.action_id).first() if letter.action_id is not None else None
    about_undoing = action is not None and (action.compensates_id or letter.error_type == NOT_UNDONE)
    if action is None or not about_undoing or letter.status != "open":
        return None
    effect = lock(action.compensates_id or action.pk)
    kept = Compensation.objects.of_effect(effect).filter(run=letter.run_id, status=Owed.KEPT).first()
    if kept is None:
        raise NotValid(f"A-{effect.pk} is undone already, or being undone.")
    if later := Run.objects.filter(origin=kept.run.origin_id, pk__gt=kept.run_id).exclude(status="dead").first():
        raise NotValid(f"R-{later.pk} has taken A-{effect.pk} up; it is not undone any more.")
    doer = doer_of(effect)
    if doer is not None and doer.is_settled:
        if doer.step not in send_again:
            raise NotValid(f"A-{doer.pk} may have undone it all the same. Tick “send again” to ask anew.")
        propose.check_may_repeat(by, doer)
        Action.objects.filter(pk=doer.pk).update(gave_key_up=True)
    kept.move("owe_again", why="", asked_by=by)
    return kept.run
