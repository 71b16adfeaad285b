"""`/metrics` in the text format of Prometheus, for this machine and for tokens with scope `read`.

Counters and the histograms of runs and approvals are asked of rows, so they are the same in whichever process answers
and go on after a restart (project/metrics_rows.py). What no row keeps (repeats, refusals, the door's own time) is
counted in memory and added to rows every five seconds (triggers/tallies.py). Gauges are asked of the rows at every
scrape, each with an end: docs/metrics.md says how each number is meant."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from approvals.models import Action
from project import measures, metrics_rows
from project.health import is_local, listeners, may_read
from project.lib import clock
from project.lib.schema import answer
from project.measures import Measures
from project.people.auth import NotSignedIn
from triggers.models import DeadLetter, Pulse, Run
from triggers.models.run import CLAIMABLE
from triggers.tallies import BUCKETS, SLOW, SUM, Key

MOST_QUEUED = 20_000  # runs that are looked at for `queue_depth`
MOST_LETTERS = 100_000
PRIORITIES = range(10)

# name: (tally, labels, what people read)
COUNTERS = {
    "nightdesk_events": ("events", ("source", "status"), "Events stored, by what became of them."),
    "nightdesk_duplicates": ("duplicates", ("source",), "Deliveries that had come before."),
    "nightdesk_refused": ("refused", ("source", "reason"), "Deliveries that became no event; no source: unknown."),
    "nightdesk_runs": ("runs", ("handler", "status"), "Runs that ended."),
    "nightdesk_dropped": ("dropped", ("trigger", "strategy"), "Runs that found no place in their trigger's queue."),
    "nightdesk_skipped": ("skipped", ("trigger",), "Runs that were not started because one was still at work."),
    "nightdesk_middleware": ("middleware", ("middleware", "outcome"), "What each middleware did with events."),
    "nightdesk_actions": ("actions", ("kind", "tier", "status"), "Actions that were settled."),
    "nightdesk_llm_requests": ("llm_requests", ("model", "handler"), "Answers of models."),
    "nightdesk_llm_tokens": ("llm_tokens", ("model", "handler", "direction"), "Tokens of models, in and out."),
    "nightdesk_llm_cost_usd": ("llm_cost", ("model", "handler"), "Dollars for answers whose price is known."),
}
HISTOGRAMS = {
    "nightdesk_door_seconds": ("door", "From a delivery's headers to the end of the answer."),
    "nightdesk_run_start_delay_seconds": ("start", "From queued to the first try, of runs that ended."),
    "nightdesk_event_to_result_seconds": ("result", "From received to succeeded, without re-runs."),
    "nightdesk_event_cost_usd": ("run_cost", "Dollars for models of one run that ended, where a price is known."),
    "nightdesk_approval_wait_seconds": ("approval", "From proposed to decided, medium and high."),
    "nightdesk_resume_delay_seconds": (
        "resume",
        "From the end of a wait until the run had gone on, of runs that ended.",
    ),
}


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """200 with the numbers; who is neither here nor holds a token reads 401."""
    if not (is_local(request) or may_read(request)):
        return answer(NotSignedIn("Send a token with the scope read."))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Desk())
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_PLAIN_0_0_4)


class Desk:
    """What the client library asks for all numbers."""

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        counts = metrics_rows.known()
        yield from (counter(name, *told, counts) for name, told in COUNTERS.items())
        yield from (histogram(name, *told, counts) for name, told in HISTOGRAMS.items())
        yield from gauges()


def counter(name: str, tally: str, labels: tuple[str, ...], words: str, counts: Counter[Key]) -> Metric:
    family = CounterMetricFamily(name, words, labels=labels)
    for (of, values), number in sorted(counts.items()):
        if of == tally and len(values) == len(labels):
            family.add_metric(values, number)
    return family


def histogram(name: str, tally: str, words: str, counts: Counter[Key]) -> Metric:
    family = HistogramMetricFamily(name, words)
    total, rungs = 0.0, []
    for end in (*map(str, BUCKETS.get(tally, SLOW)), "+Inf"):
        total += counts[tally, (end,)]
        rungs.append((end, total))
    family.add_metric((), rungs, counts[tally, (SUM,)])
    return family


def gauges() -> Iterator[Metric]:
    queue = GaugeMetricFamily("nightdesk_queue_depth", "Runs that wait for a worker.", labels=("trigger",))
    for slug, number in queued():
        queue.add_metric((slug or "",), number)
    yield queue
    alive = GaugeMetricFamily("nightdesk_listener_alive", "1: the source is listened to.", labels=("source",))
    for slug, fault in listeners().items():
        alive.add_metric((slug,), float(not fault))
    yield alive
    yield gauge("nightdesk_oldest_due_seconds", "How long the oldest due run has waited for a worker.", oldest_due())
    yield gauge(
        "nightdesk_expired_lease_seconds", "How long the oldest lost run has waited to be taken back.", expired()
    )
    yield gauge(
        "nightdesk_oldest_approved_seconds", "How long the oldest approved action could have started.", unstarted()
    )
    doubts = Action.objects.filter(status="unknown").values("pk")[:MOST_LETTERS].count()
    yield gauge("nightdesk_actions_unknown", "Effects of which nobody knows whether they happened.", doubts)
    letters = DeadLetter.objects.open().values("pk")[:MOST_LETTERS].count()
    yield gauge("nightdesk_dead_letters_open", "Dead letters nobody has looked after.", letters)
    age = Pulse.age("tick")
    if age is not None:
        yield gauge("nightdesk_tick_age_seconds", "Since the last round of the desk.", age)
    yield from of_people()


OF_PEOPLE: dict[str, tuple[str, Callable[[Measures], float | None]]] = {
    "nightdesk_actions_asked": ("Actions asked for in the last 24 hours.", lambda each: each.asked),
    "nightdesk_actions_auto_share": ("Share of these that asked nobody.", lambda each: each.share),
    "nightdesk_approval_wait_median_seconds": ("From proposed to decided, in 24 hours.", lambda each: each.median),
    "nightdesk_approval_wait_p95_seconds": ("The same; one of twenty took longer.", lambda each: each.p95),
    "nightdesk_approvals_expired": ("Nobody decided in time, in 24 hours.", lambda each: each.expired),
    "nightdesk_approvals_edited": ("Edits of what was asked in 24 hours.", lambda each: each.edited),
    "nightdesk_approvals_taken_back": ("Yeses of these that were taken back.", lambda each: each.taken_back),
}


def of_people() -> Iterator[Metric]:
    """What people were spared and asked, by kind and handler."""
    rows = measures.of_last_day()
    share = measures.together(rows).share
    if share is not None:
        yield gauge("nightdesk_auto_share", "Share of the actions of the last 24 hours that asked nobody.", share)
    for name, (words, value_of) in OF_PEOPLE.items():
        family = GaugeMetricFamily(name, words, labels=("kind", "handler"))
        for labels, each in rows.items():
            if (value := value_of(each)) is not None:
                family.add_metric(labels, value)
        yield family


def gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=value)


def queued() -> "Iterable[tuple[str, int]]":
    some = Run.objects.filter(status__one_of=CLAIMABLE).order_by("priority", "due_at", "id").values("pk")[:MOST_QUEUED]
    return Run.objects.filter(pk__in=some).values_list("trigger__slug").annotate(n=Count("pk")).order_by()


def oldest_due() -> float:
    """One look at the index for each priority: a long queue costs no more than a short one."""
    now = clock.now()
    due = Run.objects.due(now)
    firsts = (
        due.filter(priority=one).order_by("due_at").values_list("due_at", flat=True).first() for one in PRIORITIES
    )
    return max((now - first for first in firsts if first), default=timedelta(0)).total_seconds()


def unstarted() -> float:
    """Approved and past its take-back window, held back by no switch, freeze or change window, and not begun."""
    return Action.objects.all().unstarted_for(clock.now()).total_seconds()


def expired() -> float:
    now = clock.now()
    oldest = Run.objects.lost(now).order_by("leased_until").values_list("leased_until", flat=True).first()
    return (now - oldest).total_seconds() if oldest else 0.0
