"""Has everything that was done its nod? Asked of the rows afterwards, whatever the doors have checked before."""

from collections.abc import Iterator

from django.db.models import CharField, Count, Exists, F, OuterRef, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce

from approvals.models import Action, Decision
from approvals.models.action import DONE_OR_UNDER_WAY, EVERYBODY, Status
from approvals.policy import is_question
from approvals.tiers import WAITING, Tier
from triggers.models import Audit


def without_a_nod() -> Iterator[Action]:
    """Sent, under way or about to be, with fewer yeses to these bytes than were needed. No door leaves such a row.

    A yes counts when the audit log has it as the same person's; on high none counts of who had asked."""
    done = Action.objects.filter(tier__in=WAITING, status__in=[*DONE_OR_UNDER_WAY, Status.FAILED])
    people = nods().order_by().values("action").annotate(people=Count("by", distinct=True)).values("people")
    counted = done.annotate(yes=Coalesce(Subquery(people), 0))
    few = set(counted.filter(yes__lt=F("needed")).values_list("pk", flat=True))
    few |= {action.pk for action in counted.filter(tier=Tier.HIGH).iterator() if too_few_others(action)}
    return Action.objects.filter(pk__in=few).order_by("pk").iterator()


def nods() -> QuerySet[Decision]:
    """The yeses to the bytes of the action of the query around it, as the log has them."""
    these = {"action": OuterRef("pk"), "revision": OuterRef("revision"), "digest": OuterRef("digest")}
    ref, same = Cast(OuterRef("action_id"), CharField()), {"by": OuterRef("by"), "digest": OuterRef("digest")}
    log = Audit.objects.annotate(digest=KT("detail__digest")).filter(kind="action", verb="approve", ref=ref, **same)
    return Decision.objects.filter(Exists(log), verdict="approve", **these)


def too_few_others(action: Action) -> bool:
    """Fewer people than were needed said yes to what is high, freshly signed in, who had not asked for it. An answer to
    a question grants nothing: whoever asked may give it."""
    asked = [] if is_question(action) else action.requester_chain
    if EVERYBODY in asked:
        return True
    yes = action.decisions.filter(verdict="approve", revision=action.revision, digest=action.digest, stepped_up=True)
    return yes.exclude(by__in=asked).values("by").distinct().count() < action.needed
