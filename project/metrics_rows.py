"""Counting rows without counting them all again: what is older than a minute is added up once, by the desk's tick.

A scrape then reads the tallies and counts only the rows of the last minute, at most `PIECE` of them, whatever the
desk has behind it. A minute is kept back because a transaction may become visible after younger ones. Events are
counted when they were matched (an hour at most is waited for it), runs and actions when they ended."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count, Min, Model, OuterRef, QuerySet, Subquery, Sum

from approvals.models import Action
from approvals.tiers import WAITING
from project.agent.models import MICRO, Spending
from project.lib import clock
from triggers import tallies
from triggers.models import Counted, Event, Run, Step, Tally, Wait
from triggers.models.tally import BEGINNING
from triggers.tallies import SUM, Key

LAG = timedelta(seconds=60)  # rows younger than this are not added up yet
STRIDE = timedelta(seconds=10)  # less than this is not worth a transaction
LOOKS = 5  # times a reader begins anew
PIECE = 20_000  # rows looked at in one go
UNMATCHED_FOR = timedelta(hours=1)  # after which an event counts as `accepted` for good
OTHER = "other"
MODELS = 50  # names of models that are told apart; whatever a server calls itself beyond them is `other`
WENT_ON = ("wait", "sleep", "act")  # kinds of steps with which a woken run goes on


@dataclass(frozen=True)
class Flow:
    """Rows that come to an end in time: by which field, and what each adds to the tallies."""

    name: str
    rows: Callable[[], "QuerySet[Model]"]
    field: str
    count: Callable[["QuerySet[Model]"], Counter[Key]]
    until: Callable[[datetime], datetime] = lambda horizon: horizon
    unsure: str = ""  # the status of rows that may yet become something else, and are counted later

    def between(self, after: datetime, until: datetime) -> "QuerySet[Model]":
        return self.rows().filter(**{f"{self.field}__gt": after, f"{self.field}__lte": until})

    def reach(self, after: datetime, until: datetime) -> datetime:
        """`until`, or the earlier moment at which PIECE rows are full."""
        edge = self.between(after, until).order_by(self.field).values_list(self.field, flat=True)
        return edge[PIECE : PIECE + 1].first() or until


def events(rows: "QuerySet[Model]") -> Counter[Key]:
    counted = rows.values_list("source_slug", "status").annotate(n=Count("pk")).order_by()
    return Counter({("events", (source, status)): n for source, status, n in counted})


def matched_until(horizon: datetime) -> datetime:
    """Just before the oldest event that may still be matched."""
    waiting = Event.objects.unmatched().filter(received_at__gt=horizon - UNMATCHED_FOR)
    oldest = waiting.order_by("received_at").values_list("received_at", flat=True).first()
    return min(horizon, oldest - timedelta(microseconds=1)) if oldest else horizon


def runs(rows: "QuerySet[Model]") -> Counter[Key]:
    fields = ("handler", "status", "queued_at", "started_at", "finished_at", "event__received_at", "rerun_of")
    counts: Counter[Key] = Counter()
    for handler, status, queued, started, finished, received, rerun_of in rows.values_list(*fields):
        counts["runs", (handler, status)] += 1
        if started:
            observe_time(counts, "start", started - queued)
        if status == "succeeded" and rerun_of is None:
            observe_time(counts, "result", finished - received)
    for woken, went_on in resumed(rows):
        observe_time(counts, "resume", went_on - woken)
    priced = Spending.objects.filter(run__in=rows.values("pk")).order_by().values("run").annotate(price=Sum("micros"))
    for price in priced.filter(price__isnull=False).values_list("price", flat=True):
        observe(counts, "run_cost", price / MICRO)
    return counts


def resumed(rows: "QuerySet[Model]") -> Iterator[tuple[datetime, datetime]]:
    """Of every wait of these runs: when it ended, and when the run had gone on."""
    after = Step.objects.filter(run=OuterRef("run"), kind__in=WENT_ON, finished_at__gte=OuterRef("ended_at"))
    first = Subquery(after.order_by("seq").values("finished_at")[:1])
    waits = Wait.objects.filter(run__in=rows.values("pk"), status__in=["resolved", "expired"], ended_at__isnull=False)
    for woken, went_on in waits.annotate(on=first).filter(on__isnull=False).values_list("ended_at", "on"):
        assert woken is not None
        yield woken, went_on


def actions(rows: "QuerySet[Model]") -> Counter[Key]:
    counts: Counter[Key] = Counter()
    for kind, tier, status, made, decided in rows.values_list("kind", "tier", "status", "created_at", "decided_at"):
        counts["actions", (kind, tier, status)] += 1
        if decided and tier in WAITING:
            observe_time(counts, "approval", decided - made)
    return counts


def spendings(rows: "QuerySet[Model]") -> Counter[Key]:
    """Requests, tokens and dollars by model and handler. A model that is new here gets a name of its own while there
    are some left."""
    sums = {"n": Count("pk"), "went_in": Sum("tokens_in"), "came_out": Sum("tokens_out"), "price": Sum("micros")}
    counted = rows.values_list("model", "run__handler").annotate(**sums, first=Min("pk")).order_by("first")
    names = {
        json.loads(labels)[0] for labels in Tally.objects.filter(name="llm_requests").values_list("labels", flat=True)
    }
    counts: Counter[Key] = Counter()
    for model, handler, requests, went_in, came_out, price, _ in counted:
        if model not in names and len(names - {OTHER}) >= MODELS:
            model = OTHER
        names.add(model)
        counts["llm_requests", (model, handler)] += requests
        counts["llm_tokens", (model, handler, "in")] += went_in
        counts["llm_tokens", (model, handler, "out")] += came_out
        counts["llm_cost", (model, handler)] += (price or 0) / MICRO  # type: ignore[assignment]
    return counts


def observe_time(counts: Counter[Key], name: str, took: timedelta) -> None:
    observe(counts, name, max(0.0, took.total_seconds()))


def observe(counts: Counter[Key], name: str, value: float) -> None:
    counts[name, (tallies.bucket(name, value),)] += 1
    counts[name, (SUM,)] += value  # type: ignore[assignment]


FLOWS = (
    Flow("events", Event.objects.all, "received_at", events, matched_until, "accepted"),
    Flow("runs", Run.objects.all, "finished_at", runs),
    Flow("actions", Action.objects.all, "settled_at", actions),
    Flow("spendings", Spending.objects.all, "at", spendings),
)


def add_up() -> int:
    """Move what is older than a minute into the tallies; how many kinds of rows moved. Safe when two do it at once."""
    now = clock.now()
    return sum(add_up_one(flow, flow.until(now - LAG)) for flow in FLOWS)


def add_up_one(flow: Flow, horizon: datetime) -> bool:
    after = counted_until(flow.name)
    if horizon - after < STRIDE:
        return False
    until = flow.reach(after, horizon)
    counts = flow.count(flow.between(after, until))
    with transaction.atomic():
        if not Counted.objects.filter(name=flow.name, until=after).update(until=until):
            return False  # another round was faster
        tallies.add(counts)
    return True


def counted_until(name: str) -> datetime:
    row, _ = Counted.objects.get_or_create(name=name, defaults={"until": BEGINNING})
    return row.until


def known() -> Counter[Key]:
    """Every number up to now. Rows move into the tallies every ten seconds: if that happened meanwhile, look again."""
    for _ in range(LOOKS):
        begun = untils()
        counts = tallies.known()
        for flow in FLOWS:
            counts.update(since(flow, begun.get(flow.name, BEGINNING)))
        if untils() == begun:
            break
    return counts


def untils() -> dict[str, datetime]:
    mine = [flow.name for flow in FLOWS]
    return dict(Counted.objects.filter(name__in=mine).values_list("name", "until"))


def since(flow: Flow, after: datetime) -> Counter[Key]:
    """What the rows say that are not added up yet; an event that is not matched yet counts later."""
    rows = flow.between(after, flow.reach(after, clock.now()))
    return flow.count(rows.exclude(status=flow.unsure) if flow.unsure else rows)
