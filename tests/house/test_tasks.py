"""A queue outlives a rename: task names and arguments are an API."""

import ast
import inspect
import json

import pytest

from project.celery import app
from tests.house import tree

FROZEN = {
    *("project.tasks.tick", "project.tasks.prune", "project.tasks.audit"),
    *("triggers.tasks.advance", "approvals.tasks.deliver_action"),
}
LONGEST = 5  # lines of a body


def ours():
    app.loader.import_default_modules()
    return {name: task for name, task in app.tasks.items() if name.startswith(tree.APPS)}


def test_no_task_is_renamed_or_added_unseen():
    assert set(ours()) == FROZEN


@pytest.mark.parametrize("name", sorted(FROZEN))
def test_a_task_takes_ids_by_keyword_and_forgives_later_ones(name):
    """AD-05: old code, old tasks and a new database do not meet unseen."""
    parameters = inspect.signature(ours()[name].run).parameters.values()
    kinds = {parameter.kind for parameter in parameters}
    assert kinds <= {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}
    assert inspect.Parameter.VAR_KEYWORD in kinds, "an older worker must survive a newer message"
    given = [parameter for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    assert all(parameter.annotation is int for parameter in given)
    assert json.loads(json.dumps({parameter.name: 7 for parameter in given})) == {p.name: 7 for p in given}


def test_a_task_calls_one_verb():
    long = {
        f"{tree.named(path)}:{function.name}": (function.end_lineno or 0) - function.body[0].lineno + 1
        for path in tree.modules()
        if path.name == "tasks.py"
        for function in tree.functions(path)
        if any("shared_task" in ast.unparse(decorator) for decorator in function.decorator_list)
    }
    assert long, "no task was found at all"
    assert {name: length for name, length in long.items() if length > LONGEST} == {}


def test_time_is_kept_in_rows_never_in_the_broker():
    """Celery's `eta` and `countdown` are lost or multiplied when messages are given out again."""
    kept = [
        f"{tree.named(path)}:{node.value.lineno}"
        for path in tree.modules()
        for node in ast.walk(tree.parsed(path))
        if isinstance(node, ast.keyword) and node.arg in ("eta", "countdown")
    ]
    assert kept == []
