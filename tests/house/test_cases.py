"""Faults that others have had, by their numbers: each has a test that shows it is not ours, or a reason why not yet.

tests/data/cases.json is the list: number -> the tests, or the reason in words. tests/data/approval_reports.json is what
others report of approvals: number -> where, what happened, and the tests that show that it does not happen here, or why
it cannot."""

import ast
import json
import re
from typing import Any

import pytest

from tests.house import tree


def once(pairs):
    """The object, if none of its names stands there twice."""
    assert len(pairs) == len(dict(pairs)), [name for name, _ in pairs]
    return dict(pairs)


CASES: dict[str, list[str] | str] = json.loads((tree.ROOT / "tests" / "data" / "cases.json").read_text())
NUMBER = re.compile(r"\b[A-Z]{2}-\d{2}\b")
REPORTS: dict[str, dict[str, Any]] = json.loads(
    (tree.ROOT / "tests" / "data" / "approval_reports.json").read_text(), object_pairs_hook=once
)
PROVEN = {case: nodes for case, nodes in CASES.items() if isinstance(nodes, list)}


def named_in(path):
    """Every test of a file, as `name` or `Class::name`."""
    for node in ast.parse((tree.ROOT / path).read_text()).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        before = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        yield from (before + each.name for each in inside if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


def test_no_case_is_left_out():
    assert len(CASES) == 102
    assert [case for case, told in CASES.items() if not NUMBER.fullmatch(case) or not told] == []


@pytest.mark.parametrize("case", PROVEN)
def test_the_tests_of_a_case_exist(case):
    exist(PROVEN[case])


def test_no_report_is_left_out():
    assert list(REPORTS) == [str(number) for number in range(1, 59)]
    short = [number for number, told in REPORTS.items() if not (told["reported"] and told["symptom"])]
    bare = [number for number, told in REPORTS.items() if bool(told.get("tests")) == bool(told.get("does_not_apply"))]
    assert (short, bare) == ([], [])


@pytest.mark.parametrize("number", REPORTS)
def test_the_tests_of_a_report_exist(number):
    nodes = REPORTS[number].get("tests", [])
    assert len(nodes) == len(set(nodes))
    exist(nodes)


def exist(nodes):
    for node in nodes:
        path, _, name = node.partition("::")
        assert name.rpartition("::")[2].startswith("test_"), node
        assert name in set(named_in(path)), f"{path} has no test {name}"


def test_what_is_not_proven_yet_says_what_it_needs():
    assert [case for case, told in CASES.items() if isinstance(told, str) and not told.startswith("needs ")] == []


def test_a_number_in_a_test_stands_in_the_list_with_its_file():
    """So that the list stays the place to look."""
    files = [path for path in (tree.ROOT / "tests").rglob("test_*.py") if path.name != "test_cases.py"]
    named = {(case, tree.named(path)) for path in files for case in NUMBER.findall(path.read_text()) if case in CASES}
    listed = {(case, node.partition("::")[0]) for case, nodes in PROVEN.items() for node in nodes}
    assert named - listed == set()
