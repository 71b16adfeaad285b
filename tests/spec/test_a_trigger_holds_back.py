"""A trigger starts no more than its limits allow, and whatever came has its run or a named outcome."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from project.lib import clock
from project.people.models import User
from tests import builders
from tests.handlers import fresh, registered, work
from triggers import claims, configure, dispatch, redrive
from triggers.durable import Durable
from triggers.envelope import Arrival
from triggers.errors import TriggerFull
from triggers.execute import execute, reclaim
from triggers.ingest import Outcome, ingest
from triggers.limits import read_limits
from triggers.models import Event, Run, Slot, Source, Tally, Trigger

pytestmark = pytest.mark.django_db
Rings = Callable[..., Outcome]


def trigger(**limits: Any) -> Trigger:
    return builders.trigger("story", slug="orders", source="shop", limits=read_limits(limits))


@pytest.fixture
def ring() -> Rings:
    source = builders.source("shop", provider="generic")

    def one(number: int, customer: str = "anna", key: str = "") -> Outcome:
        return ingest([arrival(source, number, customer, key)])[0]

    return one


def arrival(source: Source, number: int, customer: str = "anna", key: str = "") -> Arrival:
    raw = b'{"number": %d, "customer": "%s"}' % (number, customer.encode())
    return Arrival(
        source_id=source.pk,
        source=source.slug,
        ce_id=f"order-{number}",
        ce_source="/shop",
        type="shop.order",
        datacontenttype="application/json",
        raw=raw,
        keys=[(key or f"order-{number}", "duplicate")],
        window=60,
    )


@pytest.fixture(autouse=True)
def story() -> Iterator[list[int]]:
    """The handler notes which orders it saw."""
    seen: list[int] = []

    def handler(run: Durable) -> None:
        seen.extend(event.data["number"] for event in run.events)

    with registered("story", handler):
        yield seen


def runs(status: str = "") -> list[Run]:
    rows = Run.objects.order_by("pk")
    return list(rows.filter(status=status) if status else rows)


def told(outcome: Outcome) -> tuple[str, str]:
    [said] = Event.objects.get(pk=outcome.seq).outcomes
    return said["outcome"], said.get("detail", "")


def claimed(run: Run) -> bool:
    """Whether a worker may take it; it then stays at work."""
    from_queue = Run.objects.select_related("event", "trigger").get(pk=run.pk)
    return claims.claim(from_queue, owner="test")


# Slots


def test_no_more_runs_work_at_a_time_than_the_limit_says(ring: Rings) -> None:
    trigger(concurrency={"limit": 2})
    for number in range(4):
        ring(number)
    first, second, third, _ = runs()
    assert [claimed(run) for run in runs()] == [True, True, False, False]
    assert dispatch.next_due() is None, "who has no slot is not due"
    finish(first)
    assert dispatch.next_due() == third.pk
    assert fresh(second).status == "running"


def finish(run: Run) -> None:
    fresh(run).move("succeed", finished_at=clock.now(), leased_until=None)
