"""What became of earlier requests of the same sort, so that nobody says yes or no as if it were the first one."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from approvals.models import Action, Decision
from approvals.models.action import DONE_OR_UNDER_WAY, Status
from approvals.tiers import WAITING

LOOKED_BACK = timedelta(days=90)
MOST = 500  # of them, the newest; above it the card says so
APPROVED = (*DONE_OR_UNDER_WAY, Status.FAILED)  # somebody said yes, whatever came of it


@dataclass(frozen=True, slots=True)
class Similar:
    """Requests of one kind through one connection that a person was asked about, and how they ended."""

    count: int
    approved: int
    rejected: int
    expired: int  # nobody decided, or it was approved and not carried out in time
    since: datetime
    last_no: Decision | None  # the newest reject that has a note

    @property
    def is_cut(self) -> bool:
        return self.count >= MOST

    @property
    def withdrawn(self) -> int:
        return self.count - self.approved - self.rejected - self.expired


def similar_to(action: Action, now: datetime) -> Similar:
    """Two questions to the database, however many there are."""
    since = now - LOOKED_BACK
    same = Action.objects.filter(kind=action.kind, connection=action.connection_id, tier__in=WAITING)
    ended = same.filter(created_at__gte=since).exclude(pk=action.pk).exclude(status=Status.AWAITING)
    found = dict(ended.order_by("-pk").values_list("pk", "status")[:MOST])
    counted = Counter(found.values())
    noes = [pk for pk, status in found.items() if status == Status.REJECTED]
    said = Decision.objects.filter(action__in=noes, verdict="reject").exclude(reason="").select_related("by")
    return Similar(
        count=len(found),
        approved=sum(counted[status] for status in APPROVED),
        rejected=counted[Status.REJECTED],
        expired=counted[Status.EXPIRED],
        since=since,
        last_no=said.order_by("-pk").first() if noes else None,
    )
