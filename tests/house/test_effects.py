"""An effect has one door, and so has a look at a target: what a kind does is called there and nowhere else."""

import ast

from approvals.models import Action
from approvals.models.action import Status
from tests.house import tree

CALLS = [  # everything of that name, and what it is
    ("approvals/act.py", "deliver.deliver"),  # the door, asked by a run
    ("approvals/carriers.py", "notify.deliver"),  # a message to our own people, no effect of a run
    ("approvals/deliver.py", "PracticeItem.objects.all().deliver"),  # the door's own: in place of the far side
    ("approvals/deliver.py", "kind.deliver"),
    ("approvals/tasks.py", "deliver.deliver"),  # the door, asked by a message
]


LOOKS = [  # who has the desk call a far side to see what is there; each says by `may` who may not
    ("approvals/current.py", "kind.current"),  # the door
    ("approvals/current.py", "looked_at"),
    ("approvals/deliver.py", "current.looked_at_again"),
    ("approvals/clearing.py", "current.looked_at_again"),
    ("approvals/editing.py", "current.looked_at"),
    ("approvals/wish.py", "looked_at"),
]


def calls_of(*names: str) -> list[tuple[str, str]]:
    """Every call of something of one of these names: where, and how it is written."""
    return [
        (tree.named(path), ast.unparse(node.func))
        for path in tree.modules()
        for node in ast.walk(tree.parsed(path))
        if isinstance(node, ast.Call) and last_name(node.func) in names
    ]


def last_name(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def test_what_a_kind_does_is_called_in_one_place():
    assert sorted(call for call in calls_of("deliver") if "." in call[1]) == CALLS


def test_the_ways_to_approved_are_few():
    """A decision that counted, a try that surely sent nothing, and what is proposed, by its tier: each in one place."""
    to_approved = {verb for verb, (_, end) in Action.MOVES.items() if end == Status.APPROVED}
    assert to_approved == {"approve", "put_back"}
    spoken = [call for call in words_of_moves() if call[1] in to_approved]
    message = ("approvals/telling.py", "put_back")  # a message has a move of that name, too
    assert sorted(spoken) == [("approvals/decide.py", "approve"), ("approvals/outcomes.py", "put_back"), message]
    born = [tree.named(path) for path in tree.modules() if "approvals/" in tree.named(path) for _ in creations(path)]
    assert born == ["approvals/propose.py"]


def words_of_moves() -> list[tuple[str, str]]:
    """Every `….move("verb", …)` of the desk."""
    return [
        (tree.named(path), each.value)
        for path in tree.modules()
        for node in ast.walk(tree.parsed(path))
        if isinstance(node, ast.Call) and last_name(node.func) == "move" and node.args
        for each in ast.walk(node.args[0])
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]


def creations(path):
    """Where rows of actions are made."""
    made = ("create", "bulk_create", "get_or_create", "update_or_create")
    for node in ast.walk(tree.parsed(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {
            "Action",
            *(f"Action.objects.{one}" for one in made),
        }:
            yield node


def test_a_target_is_looked_at_in_one_place():
    calls = [call for call in calls_of("current", "looked_at", "looked_at_again") if call[0].startswith("approvals/")]
    assert sorted(calls) == sorted(LOOKS)
