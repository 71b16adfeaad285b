"""What the rows of actions say and the audit log does not: a row that was taken out of it before it was sealed leaves
no hole in the chain, so the deeds are held against the log."""

from collections.abc import Iterator
from datetime import UTC, datetime

from django.db.models import CharField, Count, Exists, OuterRef, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce

from approvals.models import Action, Attempt, Decision
from approvals.models.action import SETTLED
from triggers.models import Audit

STARTS = ("start", "send again")  # what each try has in the log
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)  # older than any action


def unlogged() -> Iterator[str]:
    """`the end of A-7`, of every action but those from before the log told of starts (migration 0019)."""
    marks = Audit.objects.filter(kind="audit", ref="actions", verb="begin").order_by("pk")
    since = marks.values_list("at", flat=True).first() or BEGINNING
    asked = Action.objects.filter(created_at__gt=since).order_by("pk")
    log = of(Cast(OuterRef("pk"), CharField()))
    ends = log.annotate(became=KT("detail__status")).filter(became=OuterRef("status"))
    for lacking, said in (
        (asked.exclude(Exists(log.filter(verb="propose"))), "the proposal of"),
        (asked.filter(status__in=SETTLED).exclude(Exists(ends)), "the end of"),
        (asked.filter(pk__in=untold_tries(since)), "a try of"),
        (asked.filter(pk__in=untold_verdicts(since)), "a verdict on"),
    ):
        yield from (f"{said} A-{pk}" for pk in lacking.values_list("pk", flat=True).iterator())


def of(ref: Cast) -> QuerySet[Audit]:
    """What the log has about the action of the query around it."""
    return Audit.objects.filter(kind="action", ref=ref)


def untold_tries(since: datetime) -> list[int]:
    """Actions with more tries than the log has starts."""
    starts = of(Cast(OuterRef("action"), CharField())).filter(verb__in=STARTS).order_by().values("ref")
    tries = Attempt.objects.filter(action__created_at__gt=since).order_by().values("action").annotate(tries=Count("pk"))
    told = tries.annotate(told=Coalesce(Subquery(starts.annotate(n=Count("pk")).values("n")), 0))
    return [row["action"] for row in told if row["tries"] > row["told"]]


def untold_verdicts(since: datetime) -> QuerySet[Decision, int]:
    """Actions with a verdict that the log does not have of the same person, to the same revision."""
    same = of(Cast(OuterRef("action"), CharField())).filter(verb=OuterRef("verdict"), by=OuterRef("by"))
    seen = same.filter(detail__has_key="saw")  # the end that a no brings about has a row of its own
    exact = seen.annotate(revision=KT("detail__revision")).filter(revision=Cast(OuterRef("revision"), CharField()))
    said = Decision.objects.filter(action__created_at__gt=since)
    edits = said.filter(verdict="edit").exclude(Exists(same)).values_list("action", flat=True)
    return edits.union(said.exclude(verdict="edit").exclude(Exists(exact)).values_list("action", flat=True))
