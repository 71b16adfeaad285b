"""An act becomes an action: frozen, named by its key, joined when somebody asked for the same before."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.db.models import Max, QuerySet

from approvals import budget, naming, policy, requesters
from approvals.errors import Drifted, KeyTaken, Rejected
from approvals.models import Act, Action, Compensation
from approvals.models.action import EVERYBODY, Status
from approvals.rules import Ruling
from approvals.settle import DENIED, forbid, lock, settle, show
from approvals.starts import EXECUTE_WITHIN
from approvals.tiers import Tier
from approvals.wish import Undo, Wish, version_of
from project.lib import clock, crypto, spans
from triggers import redrive
from triggers.durable import Durable
from triggers.models import Audit, Run

if TYPE_CHECKING:
    from project.people.models import ApiToken, User

ENOUGH = 3  # rejections of one key within a day
OPEN = (Status.AWAITING, Status.APPROVED)


class BeingUndone(Exception):
    """The effect of this key is about to be undone; who asks for it waits, and asks anew after it."""

    def __init__(self, action: int) -> None:
        super().__init__(action)
        self.action = action


# Which action an act stands for


@policy.again_when_moved
def stand_for(run: Durable, step: str, wish: Wish, undo: Undo | None = None) -> Act:
    """The act's row, with its action. A replay finds its own; an equal act of another run is joined.

    `undo` is noted with it, the first time it is asked for: code that comes later changes nothing of it.
    Raises KeyTaken, Drifted, Rejected (`asked_enough`), BeingUndone."""
    ruling = ruling_on(run.row, step, wish)
    wish = having_looked(run.row, step, wish, ruling)

    def stand(now: datetime) -> tuple[Act, str]:
        policy.check_current(ruling)
        own, drift = Act.objects.filter(run=run.row, name=step).select_related("action").first(), ""
        if own is None:
            own, drift = first_time(run.row, step, wish, now, ruling)
            run.journal.begin(step, "act", now)
        elif own.digest != wish.freeze(own.action)[1]:
            own, drift = asked_otherwise(run.row, own, wish, now, ruling)
        if drift:
            Act.objects.filter(pk=own.pk).update(drift=wish.freeze()[1], drifted_at=now)
        elif undo is not None:
            Compensation.objects.get_or_create(act=own, defaults={"run": run.row, "sealed_wish": undo.sealed})
        return own, drift

    own, drift = run.write(stand)
    if drift:
        raise Drifted(drift)
    return own


def proposed_for(run: Durable, step: str) -> Action | None:
    """What this act stands for since a worker before, or since this run left one."""
    own = Act.objects.filter(run=run.row, name=step).select_related("action__connection").first()
    return own.action if own else None


def having_looked(run: Run, step: str, wish: Wish, ruling: Ruling) -> Wish:
    """What becomes a new action is bound to its target as it is; a replay that finds its own looks at nothing."""
    if wish.kind.current is None:
        return wish
    own = Act.objects.filter(run=run, name=step).select_related("action").first()
    if own is not None and own.digest == wish.freeze(own.action)[1]:
        return wish
    return wish.having_looked(run, ruling, partial(check_not_nagging, wish, naming.key_of(run, step, wish)))


def check_not_nagging(wish: Wish, key: str) -> None:
    """What would be refused as a new row is refused before anybody looks. Raises Rejected."""
    before = Action.objects.filter(kind=wish.kind.name, connection=wish.connection, key=key)
    if not Action.objects.all().holding(wish.kind.name, wish.connection, key).exists():
        refuse_nagging(before, key, clock.now())


def first_time(run: Run, step: str, wish: Wish, now: datetime, ruling: Ruling) -> tuple[Act, str]:
    """Join the holder of the key, or become it; the loser of a race joins."""
    for _ in range(5):
        key = naming.key_of(run, step, wish)
        holder = holder_of(wish, key)
        if holder is not None:
            taken = from_holder(run, step, wish, holder, now)
            if taken is not None:
                return taken
        try:
            with transaction.atomic():
                action = insert(run, step, wish, key, now, ruling=ruling)
        except IntegrityError:
            continue  # somebody proposed the same effect in this very moment
        spans.moment(f"propose {action.kind}", action=action.pk, tier=str(action.tier))
        return stand(run, step, wish, action), ""
    raise KeyTaken(f"the key {key!r} is being proposed by somebody else again and again")


def is_to_repeat(run: Run, step: str, wish: Wish, holder: Action) -> bool:
    """Did a person tick this very effect, to have it once more?"""
    if not naming.is_known_by_content(wish):
        return step in run.send_again
    before = redrive.kin_of(run).exclude(pk=run.pk)
    return bool(run.send_again) and holder.acts.filter(run__in=before, name__in=run.send_again).exists()


def holder_of(wish: Wish, key: str) -> Action | None:
    """The action for which the key stands, locked and read again."""
    found = Action.objects.all().holding(wish.kind.name, wish.connection, key).values_list("pk", flat=True).first()
    if found is None:
        return None
    held = lock(found)
    return held if Action.objects.all().holding(held.kind, held.connection, key).filter(pk=held.pk) else None


def from_holder(run: Run, step: str, wish: Wish, holder: Action, now: datetime) -> tuple[Act, str] | None:
    """Join it, or free its key for a new one (None), or refuse."""
    if Compensation.objects.of_effect(holder).under_way().exists():
        raise BeingUndone(holder.pk)
    same_place = holder.origin_run == run.origin_id and holder.step == step
    if holder.is_settled and is_to_repeat(run, step, wish, holder):
        check_may_repeat(run.requester, holder)
        Action.objects.filter(pk=holder.pk).update(gave_key_up=True)
        Audit.write("send once more", holder, by=run.requester, run=run.pk)
        return None
    if naming.is_known_by_content(wish) or wish.is_that_of(holder):
        return stand(run, step, wish, holder), ""
    if same_place and holder.run_id != run.pk and holder.status in OPEN:
        settle(holder, "supersede", now, reason_code="asked_otherwise")
        return None
    if same_place and holder.key_is_implicit:
        return stand(run, step, wish, holder), f"“{step}” was {holder.status} as A-{holder.pk} with other arguments"
    raise KeyTaken(f"the key {holder.key!r} names A-{holder.pk} ({holder.status}) with other arguments")


def check_may_repeat(person: User | None, holder: Action) -> None:
    """On high a second effect is asked for by somebody who may review and did not ask for the first."""
    if holder.tier != Tier.HIGH:
        return
    if person is None or holder.asked_by(person) or not policy.may_review(person, policy.asked_of(holder)):
        raise KeyTaken(f"A-{holder.pk} is high: only a reviewer who did not ask for it may have it sent again")


def asked_otherwise(run: Run, own: Act, wish: Wish, now: datetime, ruling: Ruling) -> tuple[Act, str]:
    """A replay asks for something else: a person is asked. After *continue* what is done stays, the rest is new."""
    action = lock(own.action_id)
    if not (own.drift == wish.freeze()[1] and continued(run, own)):
        return own, f"“{own.name}” asks for something else than A-{action.pk}, which is {action.status}"
    if action.status in OPEN and action.run_id == run.pk:
        wish.check_carrier()
        settle(action, "supersede", now, reason_code="asked_otherwise")
        own.delete()
        return first_time(run, own.name, wish, now, ruling)
    return own, ""


def continued(run: Run, own: Act) -> bool:
    """Did a person choose *continue* after the difference was found?"""
    return bool(own.drifted_at and run.continued_at and run.continued_at >= own.drifted_at)


def stand(run: Run, step: str, wish: Wish, action: Action) -> Act:
    """Write down which action this act is; whoever is behind a joining run has asked for it too."""
    people = requesters.chain(run, four_eyes=action.is_strict)
    added = [person for person in people if person not in action.requester_chain]
    if added and action.status == Status.AWAITING:
        Action.objects.filter(pk=action.pk).update(requester_chain=[*action.requester_chain, *added])
    digest = wish.freeze(action)[1] if naming.is_known_by_content(wish) else action.proposal_digest
    return Act.objects.create(run=run, name=step, action=action, digest=digest)


# A new row


def insert(
    run: Run | None,
    step: str,
    wish: Wish,
    key: str,
    now: datetime,
    *,
    ruling: Ruling,
    compensates: Action | None = None,
    asked_by: int | None = None,
    token: ApiToken | None = None,
) -> Action:
    """A new row of a run, or of the program outside that holds `token`."""
    if run and ruling.tier is Tier.LOW:
        budget.check(run, wish)
    before = Action.objects.filter(kind=wish.kind.name, connection=wish.connection, key=key)
    refuse_nagging(before, key, now)
    hold = policy.take_back_for(wish.kind, ruling)
    expires_at = now + (min(wish.expires, timedelta(seconds=ruling.expires)) if ruling.expires else wish.expires)
    waits = ruling.tier.waits
    action = Action.objects.create(
        kind=wish.kind.name,
        kind_version=wish.kind.version,
        **policy.asked_as(wish.kind, ruling),
        status=Status.AWAITING if waits or ruling.denied_by else Status.APPROVED,
        title=wish.title,
        sealed_arguments=crypto.seal(wish.hidden),
        **frozen(wish),
        reason=wish.reason,
        evidence=wish.evidence,
        **askers(run, token, requesters.chain(run, four_eyes=ruling.four_eyes, asked_by=asked_by) if run else []),
        step=step,
        key=key,
        key_is_implicit=wish.key is None,
        generation=(before.aggregate(last=Max("generation"))["last"] or 0) + 1,
        compensates=compensates,
        created_at=now,
        expires_at=expires_at,
        not_before=None if waits else now + hold,
        execute_by=None if waits else max(expires_at, now + hold + EXECUTE_WITHIN) if hold else expires_at,
    )
    by = run.requester if run else token.user if token else None
    told = {"tier": action.tier, "digest": action.digest, "policy": ruling.version}
    Audit.write("propose", action, by=by, **told, **({"agent": action.agent} if token else {}))
    if ruling.denied_by:
        forbid(action, ruling.denied_by, now)
    show(action)
    return action


def askers(run: Run | None, token: ApiToken | None, people: list[int]) -> dict[str, Any]:
    """Who asked, and so may not nod: people behind a run, or behind the program that holds `token`."""
    if run is not None:
        first = next((person for person in people if person != EVERYBODY), None)
        return {"run": run, "origin_run": run.origin_id, "requested_by_id": first, "requester_chain": people}
    own = token.user_id if token else None
    return {"token": token, "requested_by_id": own, "requester_chain": requesters.behind(token)}


def frozen(wish: Wish) -> dict[str, Any]:
    """What people are shown, and nothing else may be delivered."""
    text, digest = wish.freeze()
    version = version_of(wish.connection)
    return {
        "reversible": wish.kind.reversible,
        "blast_radius": wish.kind.blast_radius,
        "canonical": text,
        "digest": digest,
        "proposal_digest": digest,
        "connection": wish.connection,
        "connection_version": version,
        "proposal_connection_version": version,
        "proposal_preconditions": wish.found.preconditions,
        "state_json": wish.found.state_json,
    }


def refuse_nagging(before: QuerySet[Action], key: str, now: datetime) -> None:
    """Three times no of people within a day is a no."""
    rejected = rejected_by_people(before, now).count()
    if rejected >= ENOUGH:
        raise Rejected(f"{key}: people said no {rejected} times within a day (asked_enough)")


def rejected_by_people(before: QuerySet[Action], now: datetime) -> QuerySet[Action]:
    """What of these people rejected within a day; what a rule denied is no word of theirs."""
    said_no = before.filter(status=Status.REJECTED, settled_at__gt=now - timedelta(days=1))
    return said_no.exclude(reason_code=DENIED)


def ruling_on(run: Run, step: str, wish: Wish, *, at_least: str = Tier.READ) -> Ruling:
    """What the policy says of it; beyond the hourly budget what is low waits for a person. Call it before BEGIN."""
    (slug, config), key = wish.carrier, naming.key_of(run, step, wish)
    asked = policy.Asked(wish.kind.name, wish.arguments, slug, key, wish.title, run, None, config)
    return budget.within(asked, lambda: budget.is_over(run, wish), at_least=at_least)
