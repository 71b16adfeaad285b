"""A transaction of a handler's own may be rolled back: what it did would be forgotten, and a wait never begin."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from approvals.act import act
from tests import builders
from tests.handlers import fresh, registered, work
from tests.nodding import serving
from triggers.durable import Durable
from triggers.models import Event, Step

pytestmark = pytest.mark.django_db(transaction=True)
Ask = Callable[[Durable], Any]
WAYS: dict[str, Ask] = {
    "step": lambda run: run.step("count", CALLS.append, 1),
    "sleep": lambda run: run.sleep("nap", timedelta(days=1)),
    "wait": lambda run: run.wait_for("pay", type="paid", source="*"),
    "emit": lambda run: run.emit(type="counted"),
    "now": lambda run: run.now(),
    "log": lambda run: run.log("here"),
    "patched": lambda run: run.patched("new"),
    "branch": lambda run: run.parallel({"one": lambda: run.sleep("nap", timedelta(days=1))}),
    "act": lambda run: act(run, "order", kind="shop.order", item="tea"),
}
CALLS: list[int] = []


@pytest.mark.usefixtures("connection")
@pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS)
def test_whoever_asks_there_is_told_so_at_once(ask: Ask) -> None:
    def careless(run: Durable) -> None:
        with transaction.atomic():
            ask(run)

    CALLS.clear()
    with serving(), registered("careless", careless):
        run = builders.run("careless")
        events = Event.objects.count()
        work()
    run = fresh(run)
    assert (run.status, run.attempt, (run.error or {}).get("type")) == ("dead", 1, "AskedInTransaction")
    assert "ask before or after it" in str(run.error["message"])
    assert (CALLS, Step.objects.filter(run=run).exists()) == ([], False)
    assert not Event.objects.filter(pk__gt=events, type="counted").exists()


def test_what_is_remembered_already_may_be_read_there() -> None:
    def careful(run: Durable) -> Any:
        if run.row.attempt == 1:
            run.step("count", lambda: 1)
            raise ValueError
        with transaction.atomic():
            return run.step("count", lambda: 2)

    with registered("careful", careful):
        run = builders.run("careful")
        work()
        type(run).objects.filter(pk=run.pk).update(due_at=run.due_at)
        work()
    assert (fresh(run).status, fresh(run).result) == ("succeeded", 1)
