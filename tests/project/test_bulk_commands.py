"""`manage.py redrive` and `replay`: what the buttons do, from a shell, also where no desk is running."""

import io
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from project.management import in_bulk
from tests import builders
from tests.handlers import registered, work
from triggers import bulk
from triggers.durable import Durable
from triggers.errors import Permanent
from triggers.models import Bulk, DeadLetter, Run

pytestmark = pytest.mark.django_db(transaction=True)


def told(name: str, **given: Any) -> str:
    out = io.StringIO()
    call_command(name, stdout=out, stderr=io.StringIO(), **given)
    return out.getvalue()


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bool]]:
    monkeypatch.setattr(in_bulk, "REST", 0)
    far = {"broken": True}

    def story(run: Durable) -> str:
        if far["broken"]:
            raise Permanent("down")
        return "sent"

    with registered("story", story, breaker=0):
        for _ in range(3):
            builders.run("story")
        work()
        far["broken"] = False
        yield far


def test_letters_are_counted_first_and_run_again_then(far: dict[str, bool]) -> None:
    cause = DeadLetter.objects.first()
    assert cause is not None
    assert "3 would be taken, first " in told("redrive", fingerprint=[cause.fingerprint], dry_run=True)
    assert "0 would be taken" in told("redrive", fingerprint=["none"], dry_run=True)
    assert not Bulk.objects.exists()
    said = told("redrive", fingerprint=[cause.fingerprint], canary=0, reason="mended")
    job = Bulk.objects.get()
    assert f"B-{job.pk}  " in said
    assert "done: 3 started" in said
    work()
    assert set(DeadLetter.objects.values_list("status", flat=True)) == {"redriven"}


def test_a_job_that_stops_by_itself_fails_the_command(far: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    far["broken"] = True
    goes_on = bulk.go_on_with

    def with_a_worker_beside(*given: Any, **named: Any) -> int:
        taken = goes_on(*given, **named)
        work()
        return taken

    monkeypatch.setattr(bulk, "go_on_with", with_a_worker_beside)
    with pytest.raises(CommandError, match="stopped by itself"):
        told("redrive")
    assert DeadLetter.objects.open().count() == 3


def test_cut_short_it_says_where_it_goes_on(far: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: Any, **named: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(bulk, "go_on_with", interrupted)
    assert "goes on in the desk" in told("redrive")
    assert Bulk.objects.get().status == "running"


def test_stored_events_run_again_with_named_triggers(far: dict[str, bool]) -> None:
    builders.trigger("story", slug="mended")
    events = [builders.event("shop.paid", data={"n": number}) for number in range(2)]
    assert "2 would be taken" in told("replay", trigger=["mended"], type=["shop.*"], dry_run=True)
    assert "done: 2 started" in told("replay", trigger=["mended"], type=["shop.*"], canary=0)
    assert Run.objects.filter(event__in=events).count() == 2
    with pytest.raises(CommandError, match="no trigger `nobody`"):
        told("replay", trigger=["nobody"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"since": "yesterday"}, "since"),
        ({"fingerprint": ["none"]}, "nothing to do"),
        ({"reason": "x" * 2001}, "at most 2,000 characters"),
        ({"canary": 50}, "`canary` is 0 to 10, not 50"),
        ({"canary": -1}, "`canary`"),
        ({"rate": 0}, "`rate` is 1 to 100, not 0"),
        ({"rate": -1}, "`rate`"),
        ({"rate": 101}, "`rate`"),
        ({"stop_after": 0}, "`stop_after` is 1 to 100, not 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(far: dict[str, bool], given: dict[str, Any], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        told("redrive", **given)
    assert not Bulk.objects.exists()
