"""What tests and benchmarks ask of the product is there: a race that stumbles over a name it lacks shows nothing."""

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from tests.house import tree

OURS = (*tree.APPS, "tests")


@cache
def found(module: str) -> ModuleType | None:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        return None


def has(module: str, name: str) -> bool:
    return name == "*" or hasattr(found(module), name) or found(f"{module}.{name}") is not None


def asked(code: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Line, module and name of everything of ours that is imported, or asked of a module that was."""
    modules: dict[str, str] = {}
    for node in ast.walk(code):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OURS:
            for alias in node.names:
                yield node.lineno, node.module, alias.name
                if found(f"{node.module}.{alias.name}"):
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for name, module, line in attributes(code, modules):
        yield line, module, name


def attributes(code: ast.Module, modules: dict[str, str]) -> Iterator[tuple[str, str, int]]:
    own = {name.arg for node in ast.walk(code) if isinstance(node, ast.arguments) for name in every(node)}
    own |= {node.id for node in ast.walk(code) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(code):
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            continue
        if node.value.id in modules and node.value.id not in own:
            yield node.attr, modules[node.value.id], node.lineno


def every(arguments: ast.arguments) -> list[Any]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


@pytest.mark.parametrize("folder", ["tests", "bench"])
def test_every_name_is_there(folder: str) -> None:
    missing = [
        f"{tree.named(path)}:{line}: {module}.{name}"
        for path in tree.modules(folder)
        for line, module, name in asked(tree.parsed(path))
        if not has(module, name)
    ]
    assert missing == []


def test_one_that_is_not_is_named() -> None:
    code = ast.parse("from triggers import dispatch, gone\nfrom triggers.dispatch import tick\ndispatch.walk_away()")
    told = [(line, name) for line, module, name in asked(code) if not has(module, name)]
    assert told == [(1, "gone"), (3, "walk_away")]
