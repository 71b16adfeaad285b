"""The door of programs outside: an action that somebody else's agent asks for, under the same policy as any other.

The token is who asks. Its tier, who must nod and who may not are the desk's to say; nothing in the request can.
"""

import hashlib
import json
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q

from approvals import budget, decide, policy, propose, reach
from approvals.errors import (
    AskedEnough,
    CannotLook,
    Changed,
    DeliveryError,
    KeyReused,
    NoConnection,
    NotGranted,
    NotValid,
    PolicyMoved,
    StillRunning,
    TooManyWaiting,
    UnknownKind,
    UsedUp,
)
from approvals.models import Action, CallBack, Proposal
from approvals.models.action import ActionQuerySet, Status
from approvals.rules import Ruling
from approvals.settle import DENIED, lock, settle
from approvals.starts import REVOKED
from approvals.tiers import Tier
from approvals.wish import Wish
from project.lib import clock, crypto, gate
from project.people.auth import NotSignedIn
from project.people.models import ApiToken, User
from triggers.bucket import Buckets
from triggers.errors import Permanent
from triggers.models import Audit

MOST_WAITING = 20  # actions of one token that wait for people
UNSAID_FOR = timedelta(hours=1)  # after which what ended without a person's word makes room
LEAST_EXPIRES = 60  # seconds in which people can be asked at all, as in a rule
FAILING = Buckets()  # looks of each token that failed
MOST_FAILING: dict[str, float] = {"limit": 20, "period": 3600}
LOOK_AGAIN = 10  # seconds after which a target that could not be looked at may be looked at again
ROOM_LATER = 60  # seconds after which a token that has too many waiting may ask again


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the body of a request says. None of it is believed: it is shown to people as what the program says."""

    kind: str
    arguments: dict[str, Any] = field(default_factory=dict)
    connection: str | None = None
    reason: str = ""
    evidence: Iterable[Any] = ()
    expires: float | None = None  # seconds
    callback_url: str | None = None

    @property
    def digest(self) -> str:
        """The same for the same request, whatever the order of its members."""
        text = json.dumps(asdict(self), sort_keys=True)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    def wish(self, key: str) -> Wish:
        """Read and checked; nobody has looked at its target. Raises NotValid."""
        if self.expires is not None and self.expires < LEAST_EXPIRES:
            raise NotValid(f"`expires` is at least {LEAST_EXPIRES} seconds.", field="expires")
        reach.check_web(self.callback_url, "callback_url")
        with in_words_of_a_program():
            return Wish.of(self.kind, self.connection, key, self.reason, self.evidence, self.expires, self.arguments)


@contextmanager
def in_words_of_a_program() -> Iterator[None]:
    """What stops a handler's run is a refusal here: NotValid, CannotLook."""
    try:
        yield
    except UnknownKind as error:
        raise NotValid(str(error), field="kind") from error
    except NoConnection as error:
        raise NotValid(str(error), field="connection") from error
    except Permanent as error:
        raise (error.__cause__ if isinstance(error.__cause__, NotValid) else NotValid(str(error))) from None
    except DeliveryError as error:
        raise CannotLook(retry_after=LOOK_AGAIN) from error


@policy.again_when_moved
def ask(token: ApiToken, key: str, wanted: Wanted) -> tuple[Action, bool]:
    """The action that stands for this request, and whether it is new: under one key a token asks once.

    Raises KeyReused, StillRunning, TooManyWaiting, AskedEnough, NotValid, CannotLook."""
    before = stands_for(token, key, wanted, clock.now())
    if before is not None:
        return before, False
    number = number_of(token, key, wanted.kind)
    wish = wanted.wish(action_key(token, key, number))
    ruling = ruling_on(token, wish)
    wish = looked(token, wish, ruling)
    with transaction.atomic():
        gate.shared()
        take_turn(token, key)
        now = clock.now()
        policy.check_current(ruling)
        before = stands_for(token, key, wanted, now)
        if before is not None:
            return before, False
        check_room(token, now)
        if ruling.tier is Tier.LOW and budget.is_spent(mine(token), wish):
            raise PolicyMoved  # another request of this token was faster: this one is judged again
        refuse_nagging(token, wish, now)
        action = propose.insert(None, "", wish, wish.key or "", now, ruling=ruling, token=token)
        Proposal.objects.create(action=action, key=key, body_digest=wanted.digest, number=number)
        if wanted.callback_url:
            CallBack.objects.create(action=action, sealed_url=crypto.seal(wanted.callback_url), due_at=now)
        if action.status == Status.APPROVED:
            decide.ring_on_commit(action.pk)
    return action, True


def looked(token: ApiToken, wish: Wish, ruling: Ruling) -> Wish:
    """The wish, bound to its target. A look that fails leaves no row, so that the room of a token would not bound how
    often it has a far side called: such looks are counted here, by each process for itself. Raises as `ask`."""
    taken: list[int] = []

    def may() -> None:
        check_may_ask(token, wish)
        if wait := FAILING.take(token.pk, MOST_FAILING, time.monotonic()):
            raise CannotLook(retry_after=math.ceil(wait))
        taken.append(token.pk)

    with in_words_of_a_program():
        bound = wish.having_looked(None, ruling, may)
    for pk in taken:
        FAILING.give_back(pk, MOST_FAILING)
    return bound


def stands_for(token: ApiToken, key: str, wanted: Wanted, now: datetime) -> Action | None:
    """What was asked for under this key within a day, or has not ended yet. Raises KeyReused."""
    known = Proposal.objects.all().under(token, key).remembered(now).order_by("-pk").first()
    if known is None:
        return None
    if known.body_digest != wanted.digest:
        raise KeyReused(action=known.action_id)
    return Action.objects.for_pages().get(pk=known.action_id)


def number_of(token: ApiToken, key: str, kind: str) -> int:
    """How often, with this time, a token has asked under this key. Requests go after their time; keys stay taken."""
    before = Proposal.objects.all().under(token, key)
    last = before.order_by("-pk").values_list("number", flat=True).first()
    number = (last or before.count()) + 1
    while Action.objects.filter(kind=kind, key=action_key(token, key, number)).exists():
        number += 1
    return number


def action_key(token: ApiToken, key: str, number: int) -> str:
    """The key that goes to the far side: one effect a token and key, and another one once the key is free again."""
    return f"T-{token.pk}{f'.{number}' if number > 1 else ''}/{key}"


def ruling_on(token: ApiToken, wish: Wish) -> Ruling:
    """What the policy says, before BEGIN; beyond the hourly budget of a token what is low waits for a person."""
    slug, config = wish.carrier
    asked = policy.Asked(wish.kind.name, wish.arguments, slug, wish.key or "", wish.title, None, token.user_id, config)
    return budget.within(asked, lambda: budget.is_spent(mine(token), wish))


def take_turn(token: ApiToken, key: str) -> None:
    """One request of a token after the other; of one key at a time. Raises StillRunning; NotSignedIn when it was
    revoked meanwhile."""
    if not gate.is_alone(f"key {token.pk}/{key}"):
        raise StillRunning(retry_after=1)
    live = ApiToken.objects.live().filter(pk=token.pk)
    if live.select_for_update(of=("self",), no_key=True).first() is None:
        raise NotSignedIn


def check_may_ask(token: ApiToken, wish: Wish) -> None:
    """What would be refused is refused before anybody looks at a far side. Raises TooManyWaiting, AskedEnough."""
    now = clock.now()
    check_room(token, now)
    refuse_nagging(token, wish, now)


def check_room(token: ApiToken, now: datetime) -> None:
    """What ended within the hour without a person's word counts too, withdrawn, expired or denied by a rule: people
    were told of it, or a row is kept of it, and asking anew does so again."""
    unsaid = Q(status__in=[Status.CANCELLED, Status.EXPIRED]) | Q(status=Status.REJECTED, reason_code=DENIED)
    counted = Q(status=Status.AWAITING) | unsaid & Q(settled_at__gt=now - UNSAID_FOR)
    if mine(token).filter(counted).count() >= MOST_WAITING:
        raise TooManyWaiting(most=MOST_WAITING, retry_after=ROOM_LATER)


def refuse_nagging(token: ApiToken, wish: Wish, now: datetime) -> None:
    """A new key does not make a new wish: three times no of people within a day is a no."""
    rejected = propose.rejected_by_people(mine(token).filter(kind=wish.kind.name), now)
    if sum(wish.is_that_of(action) for action in rejected) >= propose.ENOUGH:
        raise AskedEnough


def mine(token: ApiToken) -> ActionQuerySet:
    return Action.objects.all().filter(token=token)


def consume(action: Action, token: ApiToken, *, digest: str, under: str) -> Action:
    """Take up a yes, once: whoever asked does it itself now. Asked again `under` the same name it is the same taking,
    for an answer that was lost on its way. Raises NotGranted, Changed for other bytes, UsedUp."""
    with transaction.atomic():
        held = lock(action.pk)
        if held.status != Status.DELIVERED:
            raise NotGranted(state=held.status)
        if digest != held.digest:
            raise Changed(digest=held.digest, revision=held.revision)
        if held.used_at is None:
            Action.objects.filter(pk=held.pk).update(used_at=clock.now(), used_under=under)
            Audit.write("consume", held, by=token.user, digest=held.digest, agent=str(token))
            held.refresh_from_db(fields=["used_at", "used_under"])
        elif held.used_under != under:
            raise UsedUp(at=held.used_at)
    return held


def withdraw(action: Action, token: ApiToken, reason: str = "") -> Action:
    """Whoever asked for it wants it no more. Raises TooLate once it is under way, AlreadyDecided when it has ended."""
    with transaction.atomic():
        held = lock(action.pk)
        decide.call_off(held, clock.now(), by=token.user, reason=reason)
    return held


def withdraw_all(token: ApiToken, by: User | None) -> None:
    """Inside the transaction that revokes it: what it asked for and has not begun begins no more."""
    for number in mine(token).filter(status__in=propose.OPEN).order_by("pk").values_list("pk", flat=True):
        held = lock(number)
        if held.status in propose.OPEN:
            settle(held, "cancel", clock.now(), by=by, ended_by=by, reason_code=REVOKED)
