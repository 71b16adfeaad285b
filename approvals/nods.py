"""Has everything that was done its nod? Asked of the rows afterwards, whatever the doors have checked before."""

from django.db.models import Exists, OuterRef, QuerySet

from approvals.models import Action, Decision
from approvals.models.action import DONE_OR_UNDER_WAY, Status
from approvals.tiers import Tier

PEOPLE = [tier for tier in Tier if tier.waits]  # tiers for which somebody must have said yes


def without_a_nod() -> QuerySet[Action]:
    """Sent, under way or about to be, although nobody said yes to these bytes. No door leaves such a row."""
    these = {"action": OuterRef("pk"), "revision": OuterRef("revision"), "digest": OuterRef("digest")}
    nodded = Decision.objects.filter(verdict="approve", **these)
    done = Action.objects.filter(tier__in=PEOPLE, status__in=[*DONE_OR_UNDER_WAY, Status.FAILED])
    return done.exclude(Exists(nodded)).order_by("pk")
