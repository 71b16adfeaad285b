"""`on_overload: accept`: a sender that would not come again hears 2xx; what it sent is kept and matched at its rate."""

import time
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from project.lib import clock
from tests import builders
from tests.deliveries import deliver, github
from triggers import configure, dispatch, door, pace
from triggers.errors import NotValid
from triggers.limits import read_limits
from triggers.models import Event, Refusal, Run, Source
from triggers.sources.verify import catalogue

pytestmark = pytest.mark.django_db(transaction=True)
NO_SECOND_CHANCE = {
    "github",
    "gitlab",
    "bitbucket",
    "mailgun",
    "slack",
    "twilio",
    "discord",
    "sentry",
    "dingtalk",
    "wecom",
}


@pytest.fixture
def source() -> Source:
    return builders.source(rate_limit={"limit": 2, "period": 60}, on_overload="accept", actor="desk-bot")


@pytest.fixture
def passes(later: Callable[..., None]) -> Callable[[float], None]:
    """Seconds pass, and the desk looks."""

    def move(seconds: float) -> None:
        later(seconds=seconds)
        dispatch.tick()

    return move


def issue(number: int, **more: Any) -> dict[str, Any]:
    return github({"issue": number, **more}, id=f"d-{number}")


def waiting() -> int:
    return Event.objects.filter(status="accepted").count()


def test_a_burst_is_kept_whole_and_matched_at_the_rate_of_its_source(
    source: Source, passes: Callable[[float], None]
) -> None:
    """BP-02: accepted and delayed, by setting."""
    builders.trigger("story")
    answers = deliver(*[issue(number) for number in range(40)])
    assert {answer.status for answer in answers} == {202}
    assert (Event.objects.count(), waiting(), Run.objects.count()) == (40, 38, 2)
    assert not Refusal.objects.exists()
    passes(0)
    assert waiting() == 38, "the door has let through what was free"
    for _ in range(4):
        passes(30)  # a token
    assert (waiting(), Run.objects.count()) == (34, 6)
    passes(86400)
    assert waiting() == 32, "a pause saves up no more than the limit"
    statuses = list(Event.objects.order_by("pk").values_list("status", flat=True))
    assert statuses == ["routed"] * 8 + ["accepted"] * 32, "in their order"


def test_a_rate_slower_than_a_process_lives_is_kept_up(source: Source) -> None:
    """Nothing of it is in a process: whoever has waited his turn goes."""
    Source.objects.filter(pk=source.pk).update(rate_limit={"limit": 24, "period": 86400})
    turn = timedelta(hours=1)
    old, fresh = (builders.event(status="accepted", received_at=clock.now() - ago) for ago in (2 * turn, turn / 2))
    assert pace.to_match(limit=10) == [old.pk]
    Event.objects.filter(pk=old.pk).update(status="ignored")
    assert pace.to_match(limit=10) == [], "and nobody before it"
    assert fresh.pk


def test_however_many_look_together_they_match_no_more_than_the_rate(
    source: Source, later: Callable[..., None]
) -> None:
    Source.objects.filter(pk=source.pk).update(rate_limit={"limit": 60, "period": 60})
    for _ in range(100):
        builders.event(status="accepted")
    matched = 0
    for _ in range(30):
        later(seconds=2)
        for _ in range(3):
            matched += Event.objects.filter(pk__in=pace.to_match(limit=500)).update(status="ignored")
    assert 55 <= matched <= 61


def test_of_two_who_look_at_once_one_takes_the_turn(source: Source, later: Callable[..., None]) -> None:
    held = builders.event(status="accepted")
    later(seconds=30)
    both = [Source.objects.get(pk=source.pk) for _ in range(2)]
    assert [pace.in_turn(one, [(held.pk, held.received_at)]) for one in both] == [[held.pk], []]


def test_a_clock_that_was_set_back_stops_nothing(source: Source) -> None:
    Source.objects.filter(pk=source.pk).update(paced_at=clock.now() + timedelta(days=1))
    old = builders.event(status="accepted", received_at=clock.now() - timedelta(hours=1))
    assert pace.to_match(limit=10) == [old.pk]


def test_what_comes_while_others_wait_their_turn_waits_behind_them(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the door and the desk would let twice the rate through, and the newest first."""
    now = [1000.0]
    monkeypatch.setattr(door, "time", SimpleNamespace(monotonic=lambda: now[0], time=time.time))
    deliver(*[issue(number) for number in range(4)])
    assert waiting() == 2
    now[0] += 60  # two tokens: of the two that wait
    deliver(issue(5))
    assert waiting() == 3
    deliver(issue(5))
    now[0] += 60
    deliver(issue(6))
    assert waiting() == 3, "all that came before have had their turn, and a repeat took none"


def test_what_is_held_back_holds_back_nobody_else(source: Source, passes: Callable[[float], None]) -> None:
    builders.source("other")
    deliver(*[issue(number) for number in range(9)])
    late = builders.event(source_slug="other", status="accepted")
    assert late.pk in pace.to_match(limit=3)
    passes(0)
    late.refresh_from_db()
    assert (late.status, waiting()) == ("ignored", 7)


def test_a_repeat_is_one_and_frees_no_place(source: Source) -> None:
    deliver(*[issue(number) for number in range(4)])
    again = deliver(*[issue(number) for number in range(4)])
    assert {answer.status for answer in again} == {200}
    deliver(issue(9))
    assert waiting() == 3


def test_what_the_desk_did_itself_starts_nothing_however_much_comes(source: Source) -> None:
    builders.trigger("story")
    deliver(*[issue(number, sender={"login": "desk-bot"}) for number in range(4)])
    assert set(Event.objects.values_list("status", flat=True)) == {"suppressed"}


def test_a_trigger_without_room_is_given_its_runs_inside() -> None:
    source = builders.source(rate_limit=None, on_overload="accept")
    builders.trigger("story", limits=read_limits({"queue": {"limit": 1, "when_full": "block"}}))
    answers = deliver(*[issue(number) for number in range(3)])
    assert {answer.status for answer in answers} == {202}
    assert (Event.objects.filter(source=source).count(), waiting(), Run.objects.count()) == (3, 0, 3)
    dispatch.tick()
    assert Event.objects.filter(type="nightdesk.queue.full").count() == 1


def test_the_door_of_programs_keeps_the_same_promise(with_token: Callable[..., Client]) -> None:
    builders.source("api", kind="cloudevents", provider="", rate_limit={"limit": 1, "period": 60}, on_overload="accept")
    builders.trigger("story", source="api", limits=read_limits({"queue": {"limit": 1, "when_full": "block"}}))
    program = with_token("the-shop", "ingest")
    for number in range(3):
        told = {"specversion": "1.0", "id": str(number), "source": "/shop", "type": "order.created"}
        assert program.post("/api/v1/events", told, content_type="application/cloudevents+json").status_code == 202
    assert (Event.objects.count(), waiting()) == (3, 2)
    Source.objects.update(rate_limit=None)
    builders.ConfigVersion.bump()
    assert (
        program.post("/api/v1/events", told | {"id": "n"}, content_type="application/cloudevents+json").status_code
        == 202
    )
    assert Run.objects.count() == 2, "there was room for one"


def test_without_it_a_sender_that_comes_again_is_told_when() -> None:
    builders.source(rate_limit={"limit": 2, "period": 60})
    assert sorted(answer.status for answer in deliver(*[issue(number) for number in range(4)])) == [202, 202, 429, 429]


def test_it_is_set_by_how_the_provider_comes_again_unless_somebody_says() -> None:
    assert {name for name, scheme in catalogue().items() if scheme.get("on_overload") == "accept"} == NO_SECOND_CHANCE
    for slug, said, kept in (("github", None, "accept"), ("stripe", None, "refuse"), ("github", "refuse", "refuse")):
        made = configure.unsaved_source(slug, kind="webhook", provider=slug, on_overload=said)
        assert made.on_overload == kept
    with pytest.raises(NotValid, match="on_overload"):
        configure.unsaved_source("daily", kind="schedule", config={"every": 60}, on_overload="accept")
