"""On SQLite a claim, and nothing else, waits for no disk; whatever is written after it takes it along."""

import pytest
from django.db import connection, transaction

from project.lib import clock, wal
from project.lib.hasty import hasty
from tests import builders
from triggers import claims
from triggers.models import Run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    if connection.vendor != "sqlite":
        pytest.skip("about SQLite")
    asked: list[int] = []
    monkeypatch.setattr(wal, "synchronize", asked.append)
    return asked


def test_a_claim_waits_for_no_disk_and_what_follows_does(flushed: list[int]) -> None:
    run = builders.run("story")
    [run] = Run.objects.filter(pk=run.pk)
    before = len(flushed)
    assert claims.claim(run, owner="me")
    assert len(flushed) == before
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(reason="at work")
    assert len(flushed) == before + 1


def test_nobody_stays_hasty_after_an_error(flushed: list[int]) -> None:
    with pytest.raises(ZeroDivisionError), hasty():
        raise ZeroDivisionError
    with transaction.atomic():
        builders.run("story")
    assert flushed


def test_on_postgresql_a_claim_waits_for_the_disk() -> None:
    """A server that crashes alone would forget it while its worker lives on, and give the same fence to another."""
    if connection.vendor != "postgresql":
        pytest.skip("about PostgreSQL")

    def said() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            return str(cursor.fetchone()[0])

    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")  # the tests' own server has it off
    run = builders.run("story")
    [run] = Run.objects.filter(pk=run.pk)
    with transaction.atomic():
        assert run.claim(clock.now(), owner="me")
        assert said() == "on"
