"""Who must nod. Until policies can be written, the one in force is "default by tier"."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from approvals.kinds import KINDS
from approvals.tiers import Tier, stricter
from project.people import roles

if TYPE_CHECKING:
    from project.people.models import User

NAME = "default by tier"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the policy in force says about one action."""

    tier: Tier
    needed: int  # people who must say yes
    reviewers: tuple[str, ...]  # roles whose members may decide
    four_eyes: bool  # do the trigger's owner and its last editor count as requesters?
    name: str = NAME
    version: int = VERSION


def verdict(kind: str, *, at_least: str = Tier.READ) -> Verdict:
    """The tier of a kind, raised to `at_least`; an unknown kind is high. Never lowers anything."""
    known = KINDS.get(kind)
    tier = stricter(known.tier if known else Tier.HIGH, at_least)
    return Verdict(
        tier=tier,
        needed=1 if tier.waits else 0,
        reviewers=(roles.REVIEWER,) if tier.waits else (),
        four_eyes=tier is Tier.HIGH,
    )


def may_review(user: "User", ruling: Verdict) -> bool:
    """Does `user` hold, now, a role that the policy names? A superuser holds none by that."""
    return user.is_active and bool(roles.roles_of(user) & set(ruling.reviewers))
