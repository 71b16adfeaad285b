"""A source that rings no more is told once, by what its admin expects or by its own rhythm, until it speaks again."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from project import desk, tour
from project.lib import clock
from project.people.models import User
from tests import builders
from tests.deliveries import deliver, github
from tests.handlers import registered, work
from triggers import silence, upkeep
from triggers.models import Event, Rhythm, Run, Source
from triggers.silence import DISABLED, SILENT, listen_for_silence, typical, usual_pause

pytestmark = pytest.mark.django_db


def rings(source: Source, *minutes_ago: float) -> None:
    for ago in sorted(minutes_ago, reverse=True):
        builders.event(source_slug=source.slug, received_at=clock.now() - timedelta(minutes=ago))


def rings_by_day(source: Source, *, days: int = 4, every: int = 60) -> None:
    """From nine to five, up to now: the nights are quiet."""
    rings(source, *(day * 1440 + minute for day in range(days) for minute in range(0, 480, every)))


def told(type: str = SILENT) -> list[Any]:
    return [event.data for event in Event.objects.filter(type=type).order_by("pk")]


def test_what_an_admin_expects_is_told_once_when_it_is_three_times_over(later: Callable[..., None]) -> None:
    source = builders.source("pager", expect_every=600)
    rings(source, 1)
    later(minutes=28)
    desk.tick()
    assert told() == []
    later(minutes=2)
    desk.tick()
    [alarm] = told()
    assert (alarm["source"], alarm["expect_every"], alarm["learnt"], alarm["link"]) == (
        "pager",
        600,
        False,
        "/sources/pager",
    )
    assert alarm["silent_for"] > 1800
    for _ in range(2):
        later(hours=3)
        desk.tick()
    assert len(told()) == 1, "once, until it speaks"
    rings(source, 0)
    later(minutes=1)
    desk.tick()
    assert Rhythm.objects.get(source=source).silent_at is None
    later(minutes=40)
    desk.tick()
    assert len(told()) == 2


@pytest.mark.django_db(transaction=True)
def test_what_comes_again_and_again_under_one_key_is_no_silence(later: Callable[..., None]) -> None:
    """As the *Watchdog* of an Alertmanager: it rings for as long as all is well, and is one alert."""
    source = builders.source("github", expect_every=300)
    for _ in range(8):
        [answer] = deliver(github({"zen": "well"}, id="always the same"))
        assert answer.status < 300
        later(minutes=5)
        listen_for_silence()
    assert (Event.objects.filter(source=source).count(), told()) == (1, [])
    rhythm = Rhythm.objects.get(source=source)
    assert rhythm.heard_at is not None
    assert clock.now() - rhythm.heard_at < timedelta(minutes=6)
    later(minutes=15)
    listen_for_silence()
    assert len(told()) == 1, "then nothing came"


def test_a_source_that_never_rang_is_silent_too(later: Callable[..., None]) -> None:
    builders.source("pager", expect_every=60)
    later(minutes=4)
    desk.tick()
    assert [alarm["last_at"] for alarm in told()] == [None]


def test_the_rhythm_is_learnt_with_its_nights(later: Callable[..., None]) -> None:
    source = builders.source()
    rings_by_day(source)
    desk.tick()
    rhythm = Rhythm.objects.get(source=source)
    assert rhythm.words == "about every 1 h, with pauses up to 17 h"
    later(hours=16)
    desk.tick()
    assert told() == [], "every night is like that"
    later(hours=40)
    desk.tick()
    [alarm] = told()
    assert (alarm["learnt"], alarm["rhythm"]) == (True, rhythm.words)


def test_a_steady_one_says_its_rhythm_in_words_and_when_it_should_ring_next() -> None:
    source = builders.source()
    rings(source, *range(0, 3 * 1440, 30))
    desk.tick()
    rhythm = Rhythm.objects.get(source=source)
    assert rhythm.words == "about every 30 min"
    expected = rhythm.next_expected(source.expect_every)
    assert expected is not None
    assert timedelta(minutes=29) < expected - clock.now() < timedelta(minutes=31)


def test_the_rhythm_of_a_source_that_rings_seldom_is_learnt_event_by_event(later: Callable[..., None]) -> None:
    source = builders.source()
    for _ in range(12):
        rings(source, 0)
        listen_for_silence()
        later(hours=4)
    assert Rhythm.objects.get(source=source).words == "about every 4 h"


def test_nothing_is_believed_before_a_night_was_seen(later: Callable[..., None]) -> None:
    source = builders.source()
    at = clock.now().replace(hour=12, minute=0)
    for minute in range(20):
        builders.event(source_slug=source.slug, received_at=at + timedelta(minutes=minute))
    later(days=30)
    desk.tick()
    assert (Rhythm.objects.get(source=source).words, told()) == ("", [])


def test_a_burst_and_an_outage_change_no_rhythm() -> None:
    assert typical([0.01] * 500 + [240.0] * 20) == 240.0
    assert usual_pause([250.0] * 9 + [3 * 86400.0]) == 250.0


def test_what_comes_later_is_worked_in_without_reading_the_past_again(later: Callable[..., None]) -> None:
    source = builders.source()
    rings_by_day(source)
    desk.tick()
    before = Rhythm.objects.get(source=source)
    later(minutes=30)
    rings(source, 0)
    later(minutes=1)
    desk.tick()
    after = Rhythm.objects.get(source=source)
    assert after.newest > before.newest
    assert after.last_at
    assert before.last_at
    assert after.last_at - before.last_at > timedelta(minutes=29)


def test_schedules_disabled_ones_and_those_that_may_be_silent_are_left_out(later: Callable[..., None]) -> None:
    builders.source("morning", kind="schedule", provider="", expect_every=60, config={"cron": "0 8 1 1 *"})
    builders.source("off", expect_every=60, enabled=False)
    builders.source("gone", expect_every=60, enabled=False, archived_at=clock.now())
    quiet = builders.source("quiet", expect_every=0)
    rings_by_day(quiet)
    later(days=20)
    desk.tick()
    assert told() == []


def test_a_source_that_is_switched_off_is_told_and_begins_anew_when_it_is_on_again(
    ann: User, later: Callable[..., None]
) -> None:
    source = builders.source("pager", expect_every=60)
    rings(source, 0)
    desk.tick()
    upkeep.switch(source, on=False, by=ann)
    upkeep.switch(source, on=False, by=ann)
    assert [(row["source"], row["by"]) for row in told(DISABLED)] == [("pager", "ann")]
    later(hours=5)
    upkeep.switch(source, on=True, by=ann)
    later(minutes=2)
    desk.tick()
    assert told() == [], "the hours in which it was off do not count"
    later(minutes=2)
    desk.tick()
    assert len(told()) == 1


def test_a_switch_that_comes_during_a_look_is_not_overwritten(
    ann: User, later: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, is_over = builders.source("pager", expect_every=60), silence.is_over
    rings(source, 0)
    desk.tick()
    later(hours=5)

    def meanwhile(*given: Any) -> bool:
        upkeep.switch(source, on=False, by=ann)
        upkeep.switch(source, on=True, by=ann)
        return is_over(*given)

    monkeypatch.setattr(silence, "is_over", meanwhile)
    desk.tick()
    assert told() == []


def test_the_api_switches_it_off_with_the_same_word(owner: User, sign_in: Callable[[User], Client]) -> None:
    source = builders.source("pager")
    body = {"version": source.version, "enabled": False, "expect_every": 60}
    answer = sign_in(owner).patch("/api/v1/sources/pager", body, content_type="application/json")
    assert answer.status_code == 200, answer.content
    assert [row["source"] for row in told(DISABLED)] == ["pager"]


@pytest.mark.django_db(transaction=True)
def test_the_seeded_alarm_hears_it_and_says_it_in_words(owner: User, later: Callable[..., None]) -> None:
    tour.seed(owner)
    Source.objects.filter(slug="github").update(expect_every=60)
    later(minutes=5)
    desk.tick()
    work()
    run = Run.objects.get(handler="notify")
    assert run.status == "succeeded"
    from_practice = run.event.data
    assert from_practice["source"] == "github"


@pytest.mark.django_db(transaction=True)
def test_a_run_that_listens_makes_no_circle(later: Callable[..., None]) -> None:
    with registered("listener", lambda run: run.event.data["source"]):
        builders.trigger("listener", source="/nightdesk", type_pattern="nightdesk.source.*")
        builders.source("pager", expect_every=60)
        later(minutes=5)
        for _ in range(3):
            desk.tick()
            work()
        assert [run.result for run in Run.objects.all()] == ["pager"]


class TestItIsShown:
    def test_on_home_and_on_its_page(
        self, ann: User, sign_in: Callable[[User], Client], later: Callable[..., None]
    ) -> None:
        source = builders.source("pager", expect_every=600)
        builders.trigger(source="pager")
        rings(source, 5)
        desk.tick()
        browser = sign_in(ann)
        assert "expected every 10 min" in browser.get("/sources/pager").text
        assert "1 source silent" not in browser.get("/").text
        later(hours=1)
        desk.tick()
        home = browser.get("/").text
        assert "1 source silent" in home
        assert "pager: nothing for three times as long as usual" in home
        assert "Did the far side switch it off?" in browser.get("/sources/pager").text
        assert "Silent" in browser.get("/sources").text

    def test_the_api_says_its_vitals(self, ann: User, with_token: Callable[..., Client]) -> None:
        source = builders.source()
        for minutes in range(3 * 1440, -1, -30):
            at = clock.now() - timedelta(minutes=minutes)
            builders.event(received_at=at, time=at + timedelta(seconds=90))
        refuse(source, "not_authentic", 3)
        refuse(source, "duplicate", 2)
        desk.tick()
        vitals = with_token(ann, "read").get("/api/v1/sources/github").json()["vitals"]
        assert (vitals["rhythm"], round(vitals["every"])) == ("about every 30 min", 1800)
        assert (vitals["refused"], vitals["repeats"]) == ({"not_authentic": 3}, 2)
        assert -91 < vitals["clock_skew"] < -89
        assert vitals["next_expected"]

    def test_the_page_lists_what_came_whatever_became_of_it(self, ann: User, sign_in: Callable[[User], Client]) -> None:
        source = builders.source()
        first = builders.event("github.push", time=clock.now() + timedelta(minutes=3))
        for _ in range(2):
            builders.event("github.push", time=clock.now() + timedelta(minutes=3))
        builders.event("github.ping", status="suppressed")
        refuse(source, "not_authentic", 1)
        refuse(source, "same_body", 1, event=first.pk)
        page = sign_in(ann).get("/sources/github").text
        life = page[page.index('id="source-life"') : page.index('id="source-vitals"')]
        assert life.count('<li class="row"') == 6
        assert f'href="/events/{first.pk}"' in life[: life.index("came again")], "a repeat leads to the first one"
        assert "2 min ahead of ours" in page or "3 min ahead of ours" in page
        assert "1 × not_authentic" in page
        assert "status=suppressed" in page


def refuse(source: Source, reason: str, times: int, **fields: Any) -> None:
    for _ in range(times):
        source.refusals.create(slug=source.slug, at=clock.now(), reason=reason, answered=401, **fields)
