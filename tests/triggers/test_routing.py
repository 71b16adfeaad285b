"""What first clauses said of the same values is remembered, and every event still hears what its own values give."""

from itertools import product
from typing import Any

import pytest

from triggers import routing
from triggers.envelope import Arrival
from triggers.matching import Rule, compile_filter
from triggers.routing import Table

FILTERS = (
    'event.data.action == "opened" && event.data.number > 5',
    'event.data.action == "closed" && event.data.number > 5',
    "event.data.number > event.data.least",
    'event.data.number > 5 && event.data.action == "opened"',
    'event.data.action == "opened" && event.data.size > 5',  # nobody's first clause reads the size
    "",
)
IN_A_LIST = 'event.data.labels.exists(label, label == "bug")'  # what it reads is no key
ACTIONS: tuple[Any, ...] = ("opened", "closed", None, 1, 1.0, True, "x" * 5000)


def table(*more: str) -> Table:
    rules = [
        Rule(place, f"rule-{place}", "github", "**", compile_filter(text) if text else None, "triage-issue")
        for place, text in enumerate((*FILTERS, *more))
    ]
    return Table(version=1, sources={}, rules=tuple(rules), read_at=0.0)


def told(known: Table, data: dict[str, Any]) -> list[dict[str, Any]]:
    arrival = Arrival(1, "github", "d-1", "/sources/github", "github.issues", parsed=data)
    return routing.ask(arrival, known, at_door=True).outcomes


@pytest.mark.parametrize("more", [(), (IN_A_LIST,)])
def test_a_table_that_was_asked_before_says_what_a_fresh_one_says(more):
    asked_before = table(*more)
    deliveries = [
        {"action": action, "number": number, "labels": labels, "least": 7, "size": size}
        for action, number, labels, size in product(ACTIONS, (3, 9), ([], ["bug"]), (2, 6))
    ]
    for data in (*deliveries, {}, *deliveries):
        assert told(asked_before, data) == told(table(*more), data)
    assert bool(asked_before.said) is (more == ())


def test_a_sender_with_ever_new_values_fills_no_memory(monkeypatch):
    monkeypatch.setattr(routing, "MOST_SAID", 10)
    known = table()
    for number in range(100):
        told(known, {"action": "opened", "number": number, "least": 7})
    assert 0 < len(known.said) <= 10
