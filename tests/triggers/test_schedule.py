"""A schedule rings at the times it promises, on the days the clocks change too."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from project.people.models import User
from tests.contract.world import API
from triggers.errors import NotValid
from triggers.models import Source
from triggers.sources.cron import offset
from triggers.sources.schedule import CATCH_UP_CAP, COUNTED, Schedule, iso, parse_schedule, preview, zones

DATA = Path(__file__).parent.parent / "data" / "cron"
DST_CASES = json.loads((DATA / "dst_cases.json").read_text())["cases"]
TRANSITIONS = json.loads((DATA / "dst_transitions_2026_2027.json").read_text())["zones"]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)


def fires(cron: str, zone: str, after: str, count: int) -> list[str]:
    shown = preview({"cron": cron, "timezone": zone}, count, at(after))
    return [fire["at"] for fire in shown["fires"]]


@pytest.mark.parametrize("case", DST_CASES, ids=lambda case: f"{case['cron']} {case['zone']} {case['day']}")
def test_a_job_at_a_fixed_time_runs_once_on_the_day_of_a_clock_change(case: dict[str, Any]) -> None:
    schedule = parse_schedule({"cron": case["cron"], "timezone": case["zone"]})
    midnight = datetime.fromisoformat(case["day"]).replace(tzinfo=schedule.zone)
    slots = []
    slot = schedule.next_after(midnight.astimezone(UTC) - timedelta(seconds=1))
    while slot and slot.astimezone(schedule.zone).date() == midnight.date():
        slots.append(slot)
        slot = schedule.next_after(slot)
    assert slots == [at(text) for text in case["debian_fixed_time_job"]]


@pytest.mark.parametrize(
    ("cron", "zone", "after", "expected"),
    [
        # CR-01 the skipped hour
        ("30 2 * * *", "America/New_York", "2026-03-07T12:00-05:00", ["2026-03-08T07:00", "2026-03-09T06:30"]),
        ("0 2 * * *", "America/New_York", "2026-03-07T12:00-05:00", ["2026-03-08T07:00"]),
        # CR-02 the repeated hour
        ("30 1 * * *", "America/New_York", "2026-10-31T12:00-04:00", ["2026-11-01T05:30", "2026-11-02T06:30"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00+11:00", ["2026-04-04T14:45", "2026-04-05T15:15"]),
        # CR-04 never back in time
        ("* * * * *", "America/New_York", "2026-03-08T06:59Z", ["2026-03-08T07:00", "2026-03-08T07:01"]),
        ("*/5 * * * *", "America/New_York", "2026-03-08T06:59Z", ["2026-03-08T07:00", "2026-03-08T07:05"]),
        ("0 * * * *", "America/New_York", "2026-03-08T06:30Z", ["2026-03-08T07:00", "2026-03-08T08:00"]),
        # CR-05 a gap at midnight
        (
            "0 0 * * 0",
            "America/Santiago",
            "2026-08-25T12:00Z",
            ["2026-08-30T04:00", "2026-09-06T04:00", "2026-09-13T03:00"],
        ),
        ("30 0 * * *", "Africa/Cairo", "2026-04-23T12:00+02:00", ["2026-04-23T22:00", "2026-04-24T21:30"]),
        # CR-07 asked inside the gap
        ("30 2 * * 7", "Europe/Rome", "2025-03-29T00:00+01:00", ["2025-03-30T01:00", "2025-04-06T00:30"]),
        ("30 2 * * *", "America/New_York", "2026-03-08T06:30Z", ["2026-03-08T07:00"]),
        ("*/30 2 * * *", "America/New_York", "2026-03-07T12:00-05:00", ["2026-03-09T06:00"]),
        ("0 2,3 * * *", "America/New_York", "2026-03-07T12:00-05:00", ["2026-03-08T07:00", "2026-03-09T06:00"]),
        # CR-09, CR-17
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00Z", ["2028-02-29T00:00"]),
        ("*/45 * * * *", "UTC", "2026-01-01T00:00Z", ["2026-01-01T00:45", "2026-01-01T01:00", "2026-01-01T01:45"]),
        ("0 0 */2 * *", "UTC", "2026-01-29T01:00Z", ["2026-01-31T00:00", "2026-02-01T00:00", "2026-02-03T00:00"]),
    ],
)
def test_the_known_traps_of_cron(cron: str, zone: str, after: str, expected: list[str]) -> None:
    assert fires(cron, zone, after, len(expected)) == [f"{text}:00Z" for text in expected]


CRONS = ["30 2 * * *", "* * * * *", "*/7 * * * *", "0 0 * * 0", "15,45 1-3 * * *", "0 */3 * * *", "59 23 31 * *"]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(CRONS),
    st.sampled_from(sorted(zones())),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)),
)
def test_the_next_slot_is_always_later(cron: str, zone: str, naive: datetime) -> None:
    schedule = parse_schedule({"cron": cron, "timezone": zone})
    moment = naive.replace(tzinfo=UTC)
    for _ in range(5):
        following = schedule.next_after(moment)
        assert following is not None
        assert following > moment
        moment = following


@pytest.mark.parametrize("zone", TRANSITIONS)
def test_around_every_clock_change_slots_only_move_forward_and_none_is_lost(zone: str) -> None:
    schedule = parse_schedule({"cron": "*/10 * * * *", "timezone": zone})
    for change in TRANSITIONS[zone]:
        start = at(change["utc"]) - timedelta(hours=3)
        moment = start
        while moment < start + timedelta(hours=6):
            following = schedule.next_after(moment)
            assert following is not None
            assert timedelta(0) < following - moment <= timedelta(minutes=10)
            moment = following


@pytest.mark.parametrize(
    ("cron", "minutes", "hours"),
    [
        ("*/5 */2 * * *", range(0, 60, 5), range(0, 24, 2)),
        ("*/20 3 * * *", (0, 20, 40), (3,)),
        ("44 * * * *", (44,), range(24)),
    ],
)
@pytest.mark.parametrize("zone", ["Pacific/Chatham", "Australia/Lord_Howe", "Europe/Berlin", "America/Havana"])
def test_a_job_of_real_time_rings_whenever_its_clock_shows_the_time(
    cron: str, minutes: Sequence[int], hours: Sequence[int], zone: str
) -> None:
    """In Chatham the clock goes from 02:45 to 03:45: an hour of every second one was lost."""
    schedule = parse_schedule({"cron": cron, "timezone": zone})
    for begin in range(0, 366 * 24, 12):
        start = at("2026-01-01T00:00:00Z") + timedelta(hours=begin)
        if offset(start, schedule.zone) == offset(start + timedelta(hours=12), schedule.zone):
            continue
        walk = [start + timedelta(minutes=minute) for minute in range(-6 * 60, 18 * 60)]
        local = [moment.astimezone(schedule.zone) for moment in walk]
        told = schedule.between(walk[0], walk[-1], None)
        assert told == [
            moment for moment, one in zip(walk, local, strict=True) if one.minute in minutes and one.hour in hours
        ]


def test_the_preview_says_what_the_clock_change_does() -> None:
    config = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}
    spring = preview(config, 2, at("2026-03-28T12:00Z"))["fires"]
    assert spring[0] == {"at": "2026-03-29T01:00:00Z", "local": "Sun 2026-03-29 03:00:00 CEST", "note": "moved by DST"}
    assert "note" not in spring[1]
    autumn = preview(config, 1, at("2026-10-24T12:00Z"))["fires"]
    assert autumn[0]["note"] == "this hour comes twice"


@pytest.mark.parametrize(
    ("config", "after", "left_out", "notes"),
    [
        ({"cron": "*/30 2 * * *"}, "2026-03-07T17:00Z", ["02:00", "02:30"], ["", ""]),
        ({"cron": "0 2,3 * * *"}, "2026-03-07T17:00Z", ["02:00"], ["", ""]),
        ({"cron": "0,30 2 * * *"}, "2026-03-07T17:00Z", ["02:30"], ["moved by DST", ""]),
        ({"cron": "30 2 * * *"}, "2026-03-07T17:00Z", [], ["moved by DST", ""]),
        ({"cron": "*/20 * * * *"}, "2026-03-08T06:50Z", [], ["", ""]),
        ({"cron": "*/30 2 * * *"}, "2026-03-08T12:00Z", [], ["", ""]),
        ({"at": "2026-03-08T02:30"}, "2026-03-07T17:00Z", [], ["moved by DST"]),
        ({"at": "2026-11-01T01:30"}, "2026-10-31T17:00Z", [], ["this hour comes twice"]),
        ({"at": "2026-11-01T01:30-05:00"}, "2026-10-31T17:00Z", [], [""]),
    ],
)
def test_the_preview_marks_what_a_clock_change_takes_away(
    config: dict[str, str], after: str, left_out: list[str], notes: list[str]
) -> None:
    """CR-07: of each time that is not on the list because of it, the page says so."""
    told = preview({**config, "timezone": "America/New_York"}, 2, at(after))
    assert [time["local"] for time in told["left_out"]] == [f"Sun 2026-03-08 {wall}:00" for wall in left_out]
    assert all("skips" in time["note"] for time in told["left_out"])
    assert [fire.get("note", "") for fire in told["fires"]] == notes


@pytest.mark.django_db
def test_the_api_says_when_a_schedule_would_ring(ann: User, with_token: Any) -> None:
    asked = {"config": {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}, "count": 2, "after": "2026-03-28T12:00:00Z"}

    def ask(**more: Any) -> tuple[int, Any]:
        answer = with_token(ann, "read").post(f"{API}/sources/preview", asked | more, content_type="application/json")
        return answer.status_code, answer.json()

    status, told = ask()
    assert (status, told["words"]) == (200, "At 02:30 (Europe/Berlin)")
    assert [(fire["local"], fire["note"]) for fire in told["fires"]] == [
        ("Sun 2026-03-29 03:00:00 CEST", "moved by DST"),
        ("Mon 2026-03-30 02:30:00 CEST", ""),
    ]
    assert told["left_out"] == []
    star = ask(config={"cron": "*/30 2 * * *", "timezone": "Europe/Berlin"})[1]["left_out"]
    assert [time["local"] for time in star] == ["Sun 2026-03-29 02:00:00", "Sun 2026-03-29 02:30:00"]
    assert ask(config={"every": 60}, count=1)[1]["fires"][0]["at"].startswith("2026-03-28T12:01:00")
    for more, field in (({"config": {"cron": "99 * * * *"}}, "cron"), ({"after": "9999-12-31T23:59:59Z"}, "after")):
        status, refused = ask(**more)
        assert (status, refused.get("field")) == (422, field)
    assert not Source.objects.exists()


def test_a_schedule_reads_as_a_sentence() -> None:
    assert (
        parse_schedule({"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin"}).words()
        == "At 09:00, Monday through Friday (Europe/Berlin)"
    )
    assert parse_schedule({"every": 2700}).words() == "Every 45 minutes"
    assert parse_schedule({"every": 3600}).words() == "Every hour"
    assert parse_schedule({"every": 90}).words() == "Every 90 seconds"
    assert (
        parse_schedule({"at": "2026-05-01T09:00", "timezone": "Asia/Shanghai"}).words()
        == "Once, on 2026-05-01 09:00 (Asia/Shanghai)"
    )


def test_an_uneven_step_is_pointed_out() -> None:
    assert "uneven" in preview({"cron": "*/45 * * * *"}, 1, at("2026-01-01T00:00Z"))["warnings"][0]
    assert preview({"cron": "*/15 */6 * * *"}, 1, at("2026-01-01T00:00Z"))["warnings"] == []


def test_an_interval_is_real_time_whatever_the_clocks_do() -> None:
    shown = preview({"every": 2700, "timezone": "Europe/Berlin"}, 3, at("2026-03-29T00:30Z"))
    assert [fire["at"][11:16] for fire in shown["fires"]] == ["01:15", "02:00", "02:45"]


def test_once_is_once() -> None:
    config = {"at": "2026-05-01T09:00", "timezone": "Asia/Shanghai"}
    assert [fire["at"] for fire in preview(config, 5, at("2026-04-30T00:00Z"))["fires"]] == ["2026-05-01T01:00:00Z"]
    assert preview(config, 5, at("2026-05-01T01:00Z"))["fires"] == []


@pytest.mark.parametrize(
    ("config", "field"),
    [
        *[({"cron": cron}, "cron") for cron in ("0 0 30 2 *", "0 0 31 4 *", "60 * * * *", "*/0 * * * *", "", "@daily")],
        *[({"cron": cron}, "cron") for cron in ("0 8 * * FRI-MON", "0 8 * * 5-1", "* * * * * *", "30 0 9 * * *", "x")],
        ({}, "cron"),
        ({"cron": "* * * * *", "every": 5}, "cron"),
        ({"every": 0}, "every"),
        ({"every": "soon"}, "every"),
        ({"at": "tomorrow"}, "at"),
        *[({"at": f"{year}-12-31T23:59:59-12:00"}, "at") for year in ("0001", "9999")],
        ({"every": 5, "timezone": "Mars/Olympus"}, "timezone"),
        ({"every": 5, "timezone": "../etc/passwd"}, "timezone"),
        ({"every": 5, "catch_up": "some"}, "catch_up"),
        ({"every": 5, "jitter": -1}, "jitter"),
        ({"every": 5, "cronn": "x"}, "cronn"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused_by_the_name_of_the_field(config: Any, field: str) -> None:
    with pytest.raises(NotValid) as refused:
        parse_schedule(config)
    assert refused.value.facts["field"] == field


def test_spaces_around_a_cron_line_do_no_harm() -> None:
    assert parse_schedule({"cron": "  0 9  * * *\n"}).cron == "0 9 * * *"


def outage(catch_up: str) -> Any:
    """Every ten minutes; nobody was there from 02:03 to 08:07 (CR-10)."""
    schedule = Schedule(cron="*/10 * * * *", catch_up=catch_up)
    return schedule.due(at("2026-01-05T02:10Z"), at("2026-01-05T08:07Z"))


@pytest.mark.parametrize(
    ("catch_up", "fired", "missed"),
    [("none", [], 36), ("last", ["08:00"], 35), ("all", None, 0)],
)
def test_after_an_outage_the_schedule_catches_up_as_it_was_told(
    catch_up: str, fired: list[str] | None, missed: int
) -> None:
    due = outage(catch_up)
    times = [iso(slot)[11:16] for slot in due.fire]
    assert len(times) == 36 if fired is None else times == fired
    assert times == sorted(times)
    assert (due.missed, iso(due.following)) == (missed, "2026-01-05T08:10:00Z")


def test_a_slot_that_is_a_moment_late_is_no_catch_up() -> None:
    schedule = Schedule(cron="*/10 * * * *", catch_up="none")
    assert schedule.due(at("2026-01-05T02:10Z"), at("2026-01-05T02:10:02Z")).fire == [at("2026-01-05T02:10Z")]


def test_catching_up_has_a_cap_and_a_very_long_outage_is_counted_in_parts() -> None:
    every = Schedule(cron="* * * * *", catch_up="all")
    day = every.due(at("2026-01-05T00:00Z"), at("2026-01-06T00:00Z"))
    assert (len(day.fire), day.missed) == (CATCH_UP_CAP, 1441 - CATCH_UP_CAP)
    year = every.due(at("2026-01-01T00:00Z"), at("2027-01-01T00:00Z"))
    assert (year.fire, year.seen) == ([], COUNTED)
    assert year.following == at("2026-01-01T00:00Z") + timedelta(minutes=COUNTED)


def test_jitter_is_stable_for_a_source_and_spreads_the_others() -> None:
    schedule = Schedule(cron="0 * * * *", jitter=600)
    offsets = {schedule.offset(f"source-{number}") for number in range(50)}
    assert schedule.offset("report") == schedule.offset("report")
    assert len(offsets) > 30
    assert all(timedelta(0) <= offset < timedelta(seconds=600) for offset in offsets)
