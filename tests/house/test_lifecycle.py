"""The tables in docs/ are the tables in the code: every row that moves has one."""

import re

import pytest
from django.apps import apps

from tests.house import tree

# label of the model -> its page, and the heading its table stands under (none: the top of the page)
PAGES = {
    "triggers.Run": ("lifecycle-of-a-run.md", ""),
    "triggers.Wait": ("lifecycle-of-a-run.md", "Its waits"),
    "triggers.DeadLetter": ("dead-letters.md", ""),
    "triggers.Bulk": ("dead-letters.md", "Moves of a bulk job"),
    "approvals.Action": ("lifecycle-of-an-action.md", ""),
    "approvals.Compensation": ("lifecycle-of-an-action.md", "How an effect is undone"),
    "approvals.Notice": ("notifications.md", "Moves of a message"),
    "approvals.PolicyChange": ("policies.md", "Moves of a change that waits"),
}
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| `(\w+)` \|", re.MULTILINE)
MACHINES = {model._meta.label: model for model in apps.get_models() if hasattr(model, "MOVES")}


def test_every_row_that_moves_has_a_page():
    assert set(PAGES) == set(MACHINES)


@pytest.mark.parametrize("label", PAGES)
def test_the_documented_moves_are_the_moves(label):
    page, heading = PAGES[label]
    told = {verb: (set(re.findall(r"`(\w+)`", starts)), end) for verb, starts, end in ROW.findall(part(page, heading))}
    moves = MACHINES[label].MOVES.items()
    assert told == {verb: (set(map(str, starts)), str(end)) for verb, (starts, end) in moves}


def part(page: str, heading: str) -> str:
    """The text under one heading of a page, or what stands before the first."""
    parts = re.split(r"^## (.+)$", (tree.ROOT / "docs" / page).read_text(), flags=re.MULTILINE)
    return parts[parts.index(heading) + 1] if heading else parts[0]
