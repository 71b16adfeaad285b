"""The places where the fault loops strike: each stands once in the product, and nothing in the product arms them."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter

from project.lib import failpoints
from tests import chaos
from tests.house import tree

ASK = "from project.lib import failpoints; print(failpoints.reached)"


def test_each_named_place_is_passed_once():
    passed = [
        ast.literal_eval(node.args[0])
        for path in tree.modules()
        for node in ast.walk(tree.parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "failpoint"
    ]
    assert Counter(passed) == Counter(failpoints.POINTS)


def test_no_module_of_the_product_arms_them():
    arming = [
        tree.named(path)
        for path in tree.modules()
        if "failpoints.reached" in path.read_text() or "NIGHTDESK_FAILPOINTS" in path.read_text()
    ]
    assert arming == []


def test_the_products_settings_pass_by_whatever_the_environment_says():
    assert asked("project.settings") == "None"
    assert "Faults" in asked("tests.chaos.settings")


def asked(settings: str) -> str:
    """What is armed once Django runs with these settings."""
    env = os.environ | {"DJANGO_SETTINGS_MODULE": settings, "NIGHTDESK_FAILPOINTS": "/nowhere"}
    command = [sys.executable, "manage.py", "shell", "--verbosity", "0", "-c", ASK]
    return subprocess.run(command, cwd=tree.ROOT, env=env, capture_output=True, text=True, check=True).stdout.strip()


def test_whatever_must_be_survived_names_the_test_that_shows_it():
    table = chaos.__doc__ or ""
    assert [int(number) for number in re.findall(r"^ *(\d+) ", table, re.M)] == list(range(1, 31))
    named = re.findall(r"(\w+/\w+)::(\w+)", table)
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not re.search(rf"^def {test}\(", (tree.ROOT / "tests" / f"{file}.py").read_text(), re.M)
    ]
    assert missing == []
    assert len(named) >= 30, "every row but the one that says why it has none"
