"""The tables in docs/ are the tables in the code."""

import re

import pytest

from approvals.models import Action
from tests.house import tree
from triggers.models import DeadLetter, Run

PAGES = {Run: "lifecycle-of-a-run.md", Action: "lifecycle-of-an-action.md", DeadLetter: "dead-letters.md"}
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| `(\w+)` \|", re.MULTILINE)


@pytest.mark.parametrize("model", PAGES, ids=lambda model: model.__name__)
def test_the_documented_moves_are_the_moves(model):
    text = (tree.ROOT / "docs" / PAGES[model]).read_text()
    told = {verb: (set(re.findall(r"`(\w+)`", starts)), end) for verb, starts, end in ROW.findall(text)}
    assert told == {verb: (set(map(str, starts)), str(end)) for verb, (starts, end) in model.MOVES.items()}
