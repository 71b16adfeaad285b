"""Layers point down (import-linter), and nobody imports inside a function to get around them."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.house import tree


def test_the_contracts_hold():
    lint = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tree.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert lint.returncode == 0, lint.stdout[-4000:]


def test_no_import_inside_a_function():
    hidden = [
        f"{tree.named(path)}:{node.lineno}"
        for path in tree.modules()
        for function in tree.functions(path)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert hidden == []


def test_nobody_imports_by_a_text():
    """`import_module` is the same thing in disguise; only the registry loads user files, and `deferred` libraries."""
    disguised = [
        tree.named(path)
        for path in tree.modules()
        if path.name not in ("registry.py", "deferred.py")
        if "import_module(" in path.read_text() or "__import__(" in path.read_text()
    ]
    assert disguised == []
    put_off = {name for path in tree.modules() for name in re.findall(r"\bdeferred\(\"(\w+)", path.read_text())}
    assert put_off
    assert put_off.isdisjoint({"project", "triggers", "approvals"})


def test_every_module_stands_in_a_layer():
    """One that stands in none is held by nothing."""
    contracts = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = {one["containers"][0]: " : ".join(one["layers"]) for one in contracts if "containers" in one}
    loose = [
        tree.named(path)
        for app, named in layers.items()
        for path in sorted((tree.ROOT / app.replace(".", "/")).iterdir())
        if path.suffix == ".py" or (path / "__init__.py").exists()
        if path.stem not in {"__init__", "apps", "migrations", *named.replace("(", " ").replace(")", " ").split()}
    ]
    assert loose == []


def test_the_libraries_of_models_are_loaded_only_to_ask_one():
    """They take seconds, which no other process of the desk pays: the loop of an agent is imported when one runs."""
    loading = {
        tree.named(path)
        for path in tree.modules()
        for node in ast.walk(tree.parsed(path))
        if isinstance(node, ast.ImportFrom)
        for name in (node.module or "", *(f"{node.module}.{each.name}" for each in node.names))
        if name.split(".")[0] in ("pydantic_ai", "openai") or name in ("project.agent.provider", "project.agent.work")
    }
    assert loading == {"project/agent/provider.py", "project/agent/work.py", "project/graph_spending.py"}
