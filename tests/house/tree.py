"""The files of the product, parsed once, for the house tests."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPS = ("project", "triggers", "approvals")


def modules(*folders: str, tests: bool = False) -> list[Path]:
    """Python files of the given folders (default: all apps), without migrations."""
    chosen = folders or (*APPS, *(("tests", "bench") if tests else ()))
    found = [path for folder in chosen for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in found if "migrations" not in path.parts and "__pycache__" not in path.parts)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def named(path: Path) -> str:
    """How a path is called in a message."""
    return str(path.relative_to(ROOT))


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def templates() -> list[Path]:
    return sorted((ROOT / "templates").rglob("*.html"))


def scripts() -> list[Path]:
    return sorted((ROOT / "project" / "static").rglob("*.js"))
