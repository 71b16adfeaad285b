"""Words that would let old habits back in."""

import ast
import re

from tests.house import tree

NO_MODULES = {"utils", "helpers", "common", "services", "managers", "base", "selectors", "misc"}
MAY_CATCH_ALL = {  # around a handler, a delivery, the import of a user file, a middleware, a guard
    "triggers/execute.py",
    "triggers/calls.py",  # a step of it, in a thread of its own
    "approvals/deliver.py",
    "triggers/registry.py",
    "triggers/middleware.py",
    "triggers/machines.py",  # a guard: it says no, and that it broke is told
    "triggers/group_commit.py",  # it is raised again where its delivery is answered, and in no other
}
NO_WORDS = re.compile(r"\b(send_robust|post_save|pre_save|post_delete|pre_delete|m2m_changed|croniter)\b")


def test_no_module_is_named_after_nothing():
    ours = [path for path in tree.modules() if tree.named(path) != "project/lib/sqlite/base.py"]  # as Django asks
    folders = {path.parent.name for path in ours} | {path.stem for path in ours}
    assert folders & NO_MODULES == set()


def test_a_status_is_moved_never_assigned():
    assigned = [
        f"{tree.named(path)}:{node.lineno}"
        for path in tree.modules("triggers", "approvals", "project")
        if tree.named(path) != "project/lib/states.py"
        for node in ast.walk(tree.parsed(path))
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and target.attr == "status"
    ]
    assert assigned == []


def test_everything_is_caught_in_a_few_places_only():
    caught = {
        tree.named(path)
        for path in tree.modules()
        for node in ast.walk(tree.parsed(path))
        if isinstance(node, ast.ExceptHandler) and names(node.type) & {"", "Exception", "BaseException"}
        if not passes_on(node)
    }
    assert caught - MAY_CATCH_ALL == set()


def passes_on(clause: ast.ExceptHandler) -> bool:
    """Whether it ends with a bare `raise`: a roll-back hides nothing."""
    last = clause.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def names(node: ast.expr | None) -> set[str]:
    """What an `except` clause names; a bare one names the empty text."""
    if node is None:
        return {""}
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return {part.id for part in parts if isinstance(part, ast.Name)}


def test_no_signals_and_no_second_cron():
    found = [
        f"{tree.named(path)}: {match.group()}"
        for path in tree.modules()
        if (match := NO_WORDS.search(path.read_text()))
    ]
    assert found == []


def test_settings_are_read_plainly():
    """`getattr(settings, …)` puts a second default beside the first; the environment is read in one place."""
    found = [
        tree.named(path)
        for path in tree.modules()
        if re.search(r"getattr\(settings,|os\.environ\[|os\.environ\.get\(|os\.getenv", path.read_text())
        and tree.named(path) != "project/env.py"
    ]
    assert found == []


def test_time_is_asked_of_the_database():
    found = [
        tree.named(path)
        for path in tree.modules("triggers", "approvals")
        if re.search(r"timezone\.now\(|datetime\.now\(|utcnow\(", path.read_text())
    ]
    assert found == []


def test_a_row_is_held_so_that_others_may_refer_to_it():
    """On PostgreSQL a plain FOR UPDATE stops whoever commits a row that refers to it: two such wait for each other."""
    removing = {"triggers/retention.py", "triggers/blobs.py"}  # what goes may not be referred to meanwhile
    plain = [
        tree.named(path)
        for path in tree.modules()
        if re.search(r"select_for_update\((?![^\n]*no_key=True)|FOR UPDATE", path.read_text())
    ]
    assert set(plain) <= removing
