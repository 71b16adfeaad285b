"""What people may set, run or meet stands in docs/: each setting, command, error, kind and tier by its name."""

import ast
import re

import pytest
from django.core.management import get_commands

from approvals import errors as approval_errors
from approvals.kinds import KINDS
from approvals.tiers import Tier
from project.lib.problem import Problem
from project.people import roles
from tests.house import tree
from triggers import errors as trigger_errors

LONG_ENOUGH = 40  # letters; a shorter piece (the rule under a table, a label) may well come again
READERS = {"text", "integer", "seconds", "words", "folder", "web_address", "networks", "addresses", "time_zone"}
READERS |= {
    "commands",
    "mail_server",
    "one_of",
    "language",
    "reachable",
    "kept_secret",
    "field_keys",
    "database",
    "redis",
}


def page(name):
    return (tree.ROOT / "docs" / name).read_text()


def settings():
    """The names that project/settings.py reads from the environment."""
    return sorted(
        node.args[0].value
        for node in ast.walk(tree.parsed(tree.ROOT / "project" / "settings.py"))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in READERS
        and node.args
        and isinstance(node.args[0], ast.Constant)
    )


def test_settings_are_found():
    assert {"DATA_DIR", "PORT", "REDIS_URL", "SECRET_KEY"} <= set(settings())


@pytest.mark.parametrize("name", settings())
def test_a_setting_is_documented(name):
    assert f"`{name}`" in page("settings.md")


def test_no_documented_setting_is_gone():
    assert set(re.findall(r"^\| `([A-Z_]+)`", page("settings.md"), re.MULTILINE)) <= set(settings())


@pytest.mark.parametrize("name", sorted(name for name, app in get_commands().items() if app in ("project", "desk")))
def test_a_command_is_documented(name):
    assert f"manage.py {name}" in page("commands.md")


def problems():
    return sorted(
        {
            value.code
            for module in (trigger_errors, approval_errors)
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Problem)
        }
        - {"problem"}
    )


@pytest.mark.parametrize("code", problems())
def test_an_error_code_is_documented(code):
    assert f"`{code}`" in page("api.md")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_kind_is_documented_with_its_tier(kind):
    line = next((line for line in page("actions.md").splitlines() if f"`{kind}`" in line), "")
    assert KINDS[kind].tier.value in line


@pytest.mark.parametrize("tier", [tier.value for tier in Tier])
def test_a_tier_is_documented(tier):
    assert f"`{tier}`" in page("actions.md")


def test_the_version_is_the_newest_one_of_the_changelog():
    version = re.search(r'^version = "(.+)"', (tree.ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    newest = re.search(r"^## (\S+)", (tree.ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert version
    assert newest
    assert version[1] == newest[1]


@pytest.mark.parametrize("path", sorted([*tree.ROOT.glob("*.md"), *(tree.ROOT / "docs").glob("*.md")]), ids=tree.named)
def test_a_link_leads_somewhere(path):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize(
    "file", [*sorted((tree.ROOT / "docs").glob("*.md")), tree.ROOT / "CHANGELOG.md"], ids=lambda file: file.name
)
def test_no_paragraph_stands_twice(file):
    parts = re.split(r"\n\s*\n|\n(?=[-#|] ?)", file.read_text())
    told = [part.strip() for part in parts if len(part.strip()) > LONG_ENOUGH]
    assert sorted({part for part in told if told.count(part) > 1}) == []


WHO = (
    "a stranger",
    "an agent, or a program outside",
    "who asked",
    "an operator",
    "a single admin",
    "a handler's author",
)


def test_the_security_model_says_what_each_may_want_and_what_is_left():
    text = (tree.ROOT / "docs/security.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    told = {cells[0]: cells[1:] for cells in rows if len(cells) == 4}
    assert set(WHO) <= told.keys()
    assert all(len(cell) > 5 for who in WHO for cell in told[who])
    roles_told = text.partition("## Roles")[2]
    assert all(f"*{role}*" in roles_told for role in roles.ROLES)
