"""What an admin changes holds in every process within seconds, however it was written; and who changed it is known."""

from typing import Any

import pytest

from project.lib import clock
from tests import builders
from tests.deliveries import deliver, github
from triggers import fire, routing
from triggers.door import Door
from triggers.models import Audit, Event, Run, Source, Trigger

pytestmark = pytest.mark.django_db(transaction=True)


def send(number: int) -> int:
    [answer] = deliver(github({"number": number}, id=f"d-{number}"), door=Door())
    return answer.status


def test_rows_written_past_every_door_are_obeyed_after_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """AD-01: an update in a shell says nothing to anybody."""
    builders.source()
    builders.trigger("story", slug="watch")
    assert send(1) == 202
    assert Run.objects.count() == 1
    Trigger.objects.filter(slug="watch").update(enabled=False)
    monkeypatch.setattr(routing, "KEPT", -1.0)  # some seconds later
    assert send(2) == 202
    assert Run.objects.count() == 1
    Source.objects.update(enabled=False)
    assert send(3) == 404


def test_schedules_that_were_switched_off_at_once_ring_no_more(ann: Any) -> None:
    """AD-01: by a person, who is written down, and past the doors."""
    for slug in ("one", "two", "three"):
        builders.source(slug, kind="schedule", provider="", config={"every": 60}, next_fire_at=clock.now())
    Source.objects.get(slug="one").disable(by=ann)
    Source.objects.filter(slug="two").update(enabled=False)
    assert fire.fire_due() == 1
    assert Event.objects.get().source_slug == "three"
    deed = Audit.objects.get(verb="disable", ref="one")
    assert deed.by == ann


def test_what_is_archived_keeps_its_history_and_rings_no_more(ann: Any) -> None:
    """AD-02: nothing is deleted, whatever hangs on it."""
    source, trigger = builders.source(), builders.trigger("story")
    assert send(1) == 202
    source.archive(by=ann)
    trigger.archive(by=ann)
    assert send(2) == 404
    assert (Event.objects.count(), Run.objects.count()) == (1, 1)
    assert Run.objects.get().trigger == trigger
