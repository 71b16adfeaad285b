"""The rows and the migrations say the same, and a migration's name says what it does."""

import re

import pytest
from django.core.management import call_command

from tests.house import tree


@pytest.mark.django_db
def test_no_migration_is_missing():
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_names_are_words():
    files = [path for app in tree.APPS for path in (tree.ROOT / app).rglob("migrations/0*.py")]
    assert files
    bad = [tree.named(path) for path in files if not re.fullmatch(r"\d{4}_[a-z][a-z_]*[a-z]", path.stem)]
    assert bad + [tree.named(path) for path in files if "_auto_" in path.stem] == []


def test_numbers_are_taken_once():
    for app in tree.APPS:
        numbers = [path.stem[:4] for path in (tree.ROOT / app).rglob("migrations/0*.py") if "people" not in path.parts]
        assert len(numbers) == len(set(numbers)), app
