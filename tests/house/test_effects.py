"""An effect has one door: what a kind does is called there and nowhere else: no other way of running passes it."""

import ast

from tests.house import tree

CALLS = [  # everything of that name, and what it is
    ("approvals/act.py", "deliver.deliver"),  # the door, asked by a run
    ("approvals/carriers.py", "notify.deliver"),  # a message to our own people, no effect of a run
    ("approvals/deliver.py", "PracticeItem.objects.all().deliver"),  # the door's own: in place of the far side
    ("approvals/deliver.py", "kind.deliver"),
    ("approvals/tasks.py", "deliver.deliver"),  # the door, asked by a message
]


def test_what_a_kind_does_is_called_in_one_place():
    calls = [
        (tree.named(path), ast.unparse(node.func))
        for path in tree.modules()
        for node in ast.walk(tree.parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "deliver"
    ]
    assert sorted(calls) == CALLS
