"""A slot of a schedule makes one event, whoever ticks, whatever was missed, however it is edited or paused."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Barrier, Thread
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from django.test import Client
from django.urls import reverse

from project.lib import clock
from project.people.models import User
from tests.contract.world import API
from triggers import configure, fire, retention, upkeep
from triggers.envelope import Arrival
from triggers.errors import NotValid, QueueFull, TriggerFull
from triggers.ingest import Outcome
from triggers.models import Audit, Event, ScheduleFire, Source
from triggers.sources.schedule import iso

EVERY_TEN = {"cron": "*/10 * * * *"}


@pytest.fixture
def set_clock(later: Callable[..., None]) -> Callable[[str], None]:
    """`set_clock("02:03")`: the desk's clock shows that time of 5 January 2027."""

    def show(text: str) -> None:
        wanted = datetime.fromisoformat(f"2027-01-05T{text}").replace(tzinfo=UTC)
        later(seconds=(wanted - clock.now()).total_seconds())

    return show


def schedule(config: dict[str, Any] | None = None, **fields: Any) -> Source:
    return configure.make_source(by=None, slug="report", kind="schedule", config=config or EVERY_TEN, **fields)


def slots() -> list[str]:
    rung = Event.objects.filter(type__endswith=".fired").order_by("pk")
    return [event.data["scheduled_for"][11:16] for event in rung]


@pytest.mark.django_db
def test_a_new_schedule_waits_for_its_first_slot_and_then_rings_once(set_clock: Callable[[str], None]) -> None:
    set_clock("02:03")
    source = schedule()
    assert fire.fire_due() == 0
    source.refresh_from_db()
    assert iso(source.next_fire_at or clock.now()) == "2027-01-05T02:10:00Z"
    set_clock("02:10:01")
    assert fire.fire_due() == 1
    assert fire.fire_due() == 0
    event = Event.objects.get()
    assert event.ce_id == f"schedule:{source.pk}:2027-01-05T02:10:00Z"
    assert event.type == "report.fired"
    assert event.source == source
    assert event.data == {"scheduled_for": "2027-01-05T02:10:00Z", "late": False, "missed": 0}
    assert ScheduleFire.objects.get().event == event.pk


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("catch_up", "expected", "missed"),
    [("none", [], 36), ("last", ["08:00"], 35), ("all", None, 0)],
)
def test_after_an_outage_it_catches_up_as_it_was_told(
    set_clock: Callable[[str], None], catch_up: str, expected: list[str] | None, missed: int
) -> None:
    set_clock("02:03")
    source = schedule({**EVERY_TEN, "catch_up": catch_up})
    fire.fire_due()
    set_clock("08:07")
    fire.fire_due()
    assert (len(slots()) == 36) if expected is None else (slots() == expected)
    assert slots() == sorted(slots())
    source.refresh_from_db()
    assert (source.misses, iso(source.next_fire_at or clock.now())) == (missed, "2027-01-05T08:10:00Z")
    for event in Event.objects.all():
        assert event.data["late"] is True
    if catch_up == "last":
        assert Event.objects.get().data["missed"] == 35


@pytest.mark.django_db
@pytest.mark.parametrize("catch_up", ["none", "last", "all"])
def test_what_passed_while_it_was_off_is_never_caught_up(set_clock: Callable[[str], None], catch_up: str) -> None:
    set_clock("02:03")
    source = schedule({**EVERY_TEN, "catch_up": catch_up})
    fire.fire_due()
    source.disable(by=None)
    set_clock("08:07")
    assert fire.fire_due() == 0
    source.enable(by=None)
    assert fire.fire_due() == 0
    set_clock("08:10:02")
    assert fire.fire_due() == 1
    assert slots() == ["08:10"]


@pytest.mark.django_db
def test_an_edited_schedule_forgets_its_old_slots(set_clock: Callable[[str], None]) -> None:
    set_clock("08:30")
    source = schedule({"cron": "0 9 * * *"})
    fire.fire_due()
    set_clock("08:59:59")
    for minute in (0, 15, 30):
        source.change(by=None, config={"cron": f"{minute} 10 * * *"})
    set_clock("09:00:01")
    assert fire.fire_due() == 0
    set_clock("10:30:01")
    assert fire.fire_due() == 1
    assert slots() == ["10:30"]


def change(source: Source, **fields: Any) -> None:
    source.refresh_from_db()
    configure.change_source(source, by=None, version=source.version, **fields)


MOVED_NOT = [{"catch_up": "all"}, {"catch_up": "none"}, {"spread": 5}, {"timezone": "UTC"}]


@pytest.mark.django_db
@pytest.mark.parametrize("jitter", [0, 3600])
@pytest.mark.parametrize("edit", [*MOVED_NOT, {"jitter": 1800}, {"cron": "30 10 * * *"}, {"cron": "1 9 * * *"}])
def test_an_edit_loses_and_doubles_no_slot_that_is_due(
    set_clock: Callable[[str], None], edit: dict[str, Any], jitter: int
) -> None:
    """Whatever is edited while a slot waits for tick, or waits out its jitter: it rings, once."""
    set_clock("08:30")
    source = schedule({"cron": "0 9 * * *", "jitter": jitter})
    fire.fire_due()
    set_clock("09:00:01")
    change(source, config={**source.config, **edit})
    change(source, name="another name")
    for minute in range(70):
        set_clock(f"{9 + minute // 60:02}:{minute % 60:02}:02")
        fire.fire_due()
    late = ["09:01"] if edit.get("cron") == "1 9 * * *" else []
    assert slots() == ["09:00", *late]
    source.refresh_from_db()
    assert (source.fires, source.misses) == (1 + len(late), 0)


@pytest.mark.django_db
def test_a_slot_that_waits_out_its_jitter_rings_at_its_moment_though_the_times_were_edited(
    set_clock: Callable[[str], None],
) -> None:
    set_clock("08:30")
    source = schedule({"cron": "0 9 * * *", "jitter": 3600})
    fire.fire_due()
    source.refresh_from_db()
    moment = source.next_fire_at or clock.now()
    set_clock("09:00:01")
    change(source, config={"cron": "0 12 * * *"})
    set_clock(str((moment - timedelta(seconds=5)).time()))
    assert fire.fire_due() == 0
    set_clock(str((moment + timedelta(seconds=5)).time()))
    assert (fire.fire_due(), slots()) == (1, ["09:00"])


@pytest.mark.django_db
@pytest.mark.parametrize(("catch_up", "rung", "missed"), [("none", 0, 6), ("last", 1, 5), ("all", 6, 0)])
def test_an_edit_after_an_outage_catches_up_what_the_old_times_owe(
    set_clock: Callable[[str], None], catch_up: str, rung: int, missed: int
) -> None:
    set_clock("02:03")
    source = schedule({**EVERY_TEN, "catch_up": catch_up})
    fire.fire_due()
    set_clock("03:07")
    change(source, config={"cron": "0 9 * * *"})
    assert fire.fire_due() == rung
    source.refresh_from_db()
    assert (len(slots()), source.fires, source.misses) == (rung, rung, missed)
    assert iso(source.next_fire_at or clock.now()) == "2027-01-05T09:00:00Z"


@pytest.mark.django_db
@pytest.mark.parametrize("off", [upkeep.archive, partial(upkeep.switch, on=False)])
def test_what_is_due_when_it_is_turned_off_is_missed_and_said(
    set_clock: Callable[[str], None], off: Callable[..., None]
) -> None:
    set_clock("08:30")
    source = schedule({"cron": "0 9 * * *", "jitter": 3600})
    fire.fire_due()
    set_clock("09:00:01")
    off(source, by=None)
    set_clock("11:00")
    assert fire.fire_due() == 0
    source.refresh_from_db()
    assert (slots(), source.fires, source.misses) == ([], 0, 1)


@pytest.mark.django_db(transaction=True)
def test_a_schedule_that_is_turned_off_between_taking_and_ringing_rings_no_more(
    set_clock: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-13: the slot is taken and not rung; nothing of it starts, and nothing rings when it is on again."""
    set_clock("02:03")
    source = schedule({**EVERY_TEN, "catch_up": "all"})
    fire.fire_due()
    set_clock("02:30:01")

    def turn_off(name: str) -> None:
        if name == "after_slots_commit":
            upkeep.switch(source, on=False, by=None)

    monkeypatch.setattr(fire, "failpoint", turn_off)
    assert fire.fire_due() == 0
    set_clock("02:31")
    fire.fire_due()
    upkeep.switch(source, on=True, by=None)
    fire.fire_due()
    assert not Event.objects.filter(type="report.fired").exists()
    assert set(source.slots.values_list("outcome", flat=True)) == {"cancelled"}


@pytest.mark.django_db
def test_a_tick_that_read_the_schedule_before_it_was_closed_fires_nothing(set_clock: Callable[[str], None]) -> None:
    set_clock("02:03")
    schedule()
    fire.fire_due()
    set_clock("02:10")
    read = Source.objects.get()
    Source.objects.get().disable(by=None)
    assert fire.take_and_ring(read, clock.now()) == 0
    assert not Event.objects.exists()


@pytest.mark.django_db
def test_a_slot_that_was_taken_but_not_rung_is_rung_by_a_later_tick(
    set_clock: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock("02:03")
    schedule()
    fire.fire_due()
    set_clock("02:10:01")
    with monkeypatch.context() as patch:
        patch.setattr(fire, "ring", die)
        with pytest.raises(ProcessKilled):
            fire.fire_due()
    assert fire.fire_due() == 0
    set_clock("02:10:30")
    assert fire.fire_due() == 1
    assert fire.fire_due() == 0
    assert slots() == ["02:10"]


class ProcessKilled(BaseException):
    """As kill -9 would: between the slot and its event."""


def die(*args: Any, **kwargs: Any) -> int:
    raise ProcessKilled


@pytest.mark.django_db
def test_a_slot_cut_short_is_given_up_when_its_source_was_closed(set_clock: Callable[[str], None]) -> None:
    set_clock("02:10:30")
    source = schedule()
    slot = clock.now() - timedelta(seconds=30)
    ScheduleFire.objects.create(source=source, fire_at=slot, fired_at=slot)
    source.archive(by=None)
    assert fire.fire_due() == 0
    assert ScheduleFire.objects.get().outcome == "cancelled"


@pytest.mark.django_db
def test_once_is_once(set_clock: Callable[[str], None]) -> None:
    set_clock("02:03")
    source = schedule({"at": "2027-01-05T02:05:00Z"})
    fire.fire_due()
    set_clock("02:05:01")
    assert fire.fire_due() == 1
    set_clock("03:00")
    assert fire.fire_due() == 0
    source.refresh_from_db()
    assert source.enabled is False
    assert (
        Audit.objects.filter(kind="source", verb="disable").get().detail["reason"] == "It has rung, and does so once."
    )


@pytest.mark.django_db
def test_what_rang_once_keeps_no_new_schedule_from_being_planned(
    set_clock: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock("02:03")
    monkeypatch.setattr(fire, "BATCH", 2)
    over = [Source.objects.create(slug=f"over-{n}", kind="schedule", config={"at": "2026-01-01T09:00"}) for n in "abc"]
    source = schedule()
    fire.fire_due()
    fire.fire_due()
    source.refresh_from_db()
    assert source.next_fire_at is not None
    assert not Source.objects.open().filter(pk__in=[row.pk for row in over]).exists()
    assert set(Audit.objects.filter(verb="disable").values_list("detail__reason", flat=True)) == {
        "Its time has passed."
    }


@pytest.mark.django_db
def test_a_time_that_has_passed_is_refused_when_it_is_saved_and_stays_where_it_was(
    set_clock: Callable[[str], None],
) -> None:
    set_clock("02:03")
    with pytest.raises(NotValid, match="has passed") as refused:
        schedule({"at": "2027-01-05T02:02", "timezone": "UTC"})
    assert refused.value.facts["field"] == "at"
    source = schedule({"at": "2027-01-05T02:05"})
    with pytest.raises(NotValid, match="has passed"):
        configure.change_source(source, by=None, version=source.version, config={"at": "2027-01-05T02:01"})
    set_clock("02:10")
    changed = configure.change_source(source, by=None, version=source.version, name="Over", config=source.config)
    assert changed.name == "Over"


@pytest.mark.django_db
def test_jitter_moves_the_moment_and_never_the_slot(set_clock: Callable[[str], None]) -> None:
    set_clock("02:03")
    source = schedule({**EVERY_TEN, "jitter": 300})
    fire.fire_due()
    source.refresh_from_db()
    assert source.next_fire_at is not None
    later_by = source.next_fire_at - datetime(2027, 1, 5, 2, 10, tzinfo=UTC)
    assert timedelta(0) < later_by < timedelta(seconds=300)
    set_clock(str(source.next_fire_at.time()))
    assert fire.fire_due() == 1
    assert slots() == ["02:10"]
    assert Event.objects.get().data["late"] is False


@pytest.mark.django_db
def test_firing_by_hand_rings_each_time(set_clock: Callable[[str], None]) -> None:
    source = schedule()
    assert fire.fire(source) != fire.fire(source)
    assert Event.objects.count() == 2


@pytest.mark.django_db
def test_who_rings_a_schedule_by_hand_has_asked_for_what_follows(ann: User) -> None:
    seq = fire.fire(schedule(), by=ann)
    assert Event.objects.get(pk=seq).requester == ann
    assert Audit.objects.get(verb="ring").by == ann


@pytest.mark.django_db
def test_a_schedule_whose_zone_vanished_is_closed_and_the_others_go_on(set_clock: Callable[[str], None]) -> None:
    set_clock("02:03")
    schedule()
    broken = Source.objects.create(slug="old", kind="schedule", config={"every": 5, "timezone": "Gone/Zone"})
    fire.fire_due()
    broken.refresh_from_db()
    assert broken.enabled is False
    set_clock("02:10")
    assert fire.fire_due() == 1


@pytest.mark.django_db(transaction=True)
def test_two_ticks_at_once_give_one_event_for_each_slot(set_clock: Callable[[str], None]) -> None:
    set_clock("02:03")
    schedule({**EVERY_TEN, "catch_up": "all"})
    fire.fire_due()
    set_clock("02:33")
    together, rung = Barrier(2), []

    def tick() -> None:
        try:
            together.wait(10)
            rung.append(fire.fire_due())
        finally:
            connections.close_all()

    ticks = [Thread(target=tick) for _ in range(2)]
    for thread in ticks:
        thread.start()
    for thread in ticks:
        thread.join(30)
    assert sum(rung) == 3
    assert slots() == ["02:10", "02:20", "02:30"]
    assert not Event.objects.filter(duplicates__gt=0).exists()


@pytest.mark.django_db
def test_old_slots_are_forgotten_and_what_was_cut_short_is_not(set_clock: Callable[[str], None]) -> None:
    set_clock("02:10")
    source = schedule()
    old = clock.now() - timedelta(days=settings.RETENTION_DAYS + 1)
    kept = [
        ScheduleFire.objects.create(source=source, fire_at=old, fired_at=old),
        ScheduleFire.objects.create(source=source, fire_at=clock.now(), fired_at=clock.now(), event=1),
    ]
    ScheduleFire.objects.create(source=source, fire_at=old - timedelta(hours=1), fired_at=old, event=2)
    ScheduleFire.objects.create(source=source, fire_at=old - timedelta(hours=2), fired_at=old, outcome="missed")
    assert retention.prune()["slots"] == 2
    assert list(ScheduleFire.objects.order_by("pk")) == kept


@pytest.mark.django_db
def test_a_due_schedule_whose_zone_vanished_is_closed_and_the_others_ring(set_clock: Callable[[str], None]) -> None:
    set_clock("02:03")
    broken = configure.make_source(by=None, slug="old", kind="schedule", config=EVERY_TEN)
    schedule()
    fire.fire_due()
    Source.objects.filter(pk=broken.pk).update(config={**EVERY_TEN, "timezone": "Gone/Zone"})
    set_clock("02:10")
    assert fire.fire_due() == 1
    broken.refresh_from_db()
    assert broken.enabled is False


@pytest.mark.django_db
def test_a_slot_that_cannot_be_stored_now_stops_no_other_schedule(
    set_clock: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock("02:03")
    full = configure.make_source(by=None, slug="full", kind="schedule", config=EVERY_TEN)
    schedule()
    fire.fire_due()
    ingest = fire.ingest

    def refusing(arrivals: list[Arrival], **more: Any) -> list[Outcome]:
        if arrivals[0].source_id == full.pk:
            raise QueueFull
        return ingest(arrivals, **more)

    monkeypatch.setattr(fire, "ingest", refusing)
    set_clock("02:10")
    assert fire.fire_due() == 1
    monkeypatch.undo()
    set_clock("02:10:30")
    assert fire.fire_due() == 1
    assert slots() == ["02:10", "02:10"]


@pytest.mark.django_db
def test_slots_that_are_caught_up_are_spread(set_clock: Callable[[str], None]) -> None:
    set_clock("02:03")
    schedule({**EVERY_TEN, "catch_up": "all", "spread": 60})
    fire.fire_due()
    set_clock("02:35")
    assert fire.fire_due() == 1
    assert slots() == ["02:10"]
    set_clock("02:35:50")
    assert fire.fire_due() == 0
    set_clock("02:36:01")
    assert fire.fire_due() == 1
    set_clock("02:37:01")
    assert (fire.fire_due(), fire.fire_due()) == (1, 0)
    assert slots() == ["02:10", "02:20", "02:30"]
    assert [event.data["late"] for event in Event.objects.all()] == [True] * 3


@pytest.mark.django_db
def test_a_range_is_filled_with_what_has_not_rung(set_clock: Callable[[str], None], ann: User) -> None:
    set_clock("02:03")
    source = schedule({**EVERY_TEN, "catch_up": "none"})
    fire.fire_due()
    set_clock("02:10:01")
    fire.fire_due()
    set_clock("02:45")
    fire.fire_due()
    source.refresh_from_db()
    assert (slots(), source.misses) == (["02:10"], 3)
    day = "2027-01-05T"
    since, until = (datetime.fromisoformat(f"{day}{at}+00:00") for at in ("01:50", "02:30"))
    assert fire.backfill(source, since, until, by=ann) == 4
    set_clock("02:45:01")
    assert fire.fire_due() == 4
    assert sorted(slots()) == ["01:50", "02:00", "02:10", "02:20", "02:30"]
    assert fire.backfill(source, since, until, by=ann) == 0
    assert Audit.objects.filter(verb="back-fill").count() == 2
    for wrong in ((until, since), (since, clock.now() + timedelta(days=1)), (since - timedelta(days=30), until)):
        with pytest.raises(NotValid):
            fire.backfill(source, *wrong, by=ann)
    source.disable(by=ann, reason="holidays")
    with pytest.raises(NotValid, match="It is off"):
        fire.backfill(source, since, until, by=ann)


@pytest.mark.django_db
@pytest.mark.parametrize("config", [EVERY_TEN, {"every": 600}])
def test_what_rang_longer_ago_than_payloads_are_kept_rings_no_more(
    set_clock: Callable[[str], None], later: Callable[..., None], ann: User, config: dict[str, Any]
) -> None:
    """Its slot and its key were forgotten; that it rang is a fact that stays."""
    set_clock("02:00")
    source = schedule(config)
    fire.fire_due()
    for at in ("02:11", "02:21", "02:31"):
        set_clock(at)
        fire.fire_due()
    rung = [event.time for event in Event.objects.order_by("pk") if event.time]
    assert len(rung) == 3
    fire.fire(source)
    later(days=settings.RETENTION_DAYS + 1)
    retention.prune()
    fire.fire_due()
    source.refresh_from_db()
    assert not source.slots.filter(fire_at__in=rung).exists()
    assert fire.backfill(source, rung[0], rung[-1], by=ann) == 0
    assert fire.backfill(source, rung[0] - timedelta(minutes=10), rung[-1], by=ann) == 1


@pytest.mark.django_db
def test_a_full_trigger_holds_back_the_slots_of_its_own_schedule_only(
    set_clock: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock("08:00")
    full, report = configure.make_source(by=None, slug="full", kind="schedule", config=EVERY_TEN), schedule()
    fire.fire_due()
    old = clock.now() - timedelta(days=1)
    waiting = [
        ScheduleFire(source=full, fire_at=old + timedelta(seconds=n), fired_at=old) for n in range(fire.BATCH + 1)
    ]
    ScheduleFire.objects.bulk_create([*waiting, ScheduleFire(source=report, fire_at=clock.now(), fired_at=old)])
    ingest, asked = fire.ingest, []

    def without_room(arrivals: list[Arrival], **more: Any) -> list[Outcome]:
        asked.append(arrivals[0].source_id)
        if arrivals[0].source_id == full.pk:
            raise TriggerFull(trigger="slow")
        return ingest(arrivals, **more)

    monkeypatch.setattr(fire, "ingest", without_room)
    assert fire.fire_due() == 1
    assert sorted(asked) == sorted([full.pk, report.pk]), "it has no room: it is asked once a round"
    assert ScheduleFire.objects.filter(source=full, event=None).count() == fire.BATCH + 1


@pytest.mark.django_db
@pytest.mark.parametrize("jitter", [0, 300])
def test_an_interval_is_filled_between_the_slots_that_rang_wherever_the_range_begins(
    set_clock: Callable[[str], None], ann: User, jitter: int
) -> None:
    set_clock("02:03")
    source = schedule({"every": 600, "catch_up": "none", "jitter": jitter})
    fire.fire_due()
    source.refresh_from_db()
    set_clock(str((source.next_fire_at or clock.now()).time()))
    fire.fire_due()
    assert slots() == ["02:13"]
    set_clock("02:47")
    fire.fire_due()
    source.refresh_from_db()
    since, until = (datetime.fromisoformat(f"2027-01-05T{at}+00:00") for at in ("02:08:30", "02:37:07"))
    assert fire.backfill(source, since, until, by=ann) == 2
    fire.fire_due()
    assert sorted(slots()) == ["02:13", "02:23", "02:33"]
    source.disable(by=ann)
    set_clock("02:50")
    source.enable(by=ann)  # from now on its slots hang on this moment
    assert fire.backfill(source, since, until, by=ann) == 0


@pytest.mark.django_db
def test_the_page_of_an_interval_shows_the_slots_it_is_going_to_ring(
    set_clock: Callable[[str], None], owner: User, sign_in: Callable[[User], Client]
) -> None:
    set_clock("02:03")
    schedule({"every": 600})
    fire.fire_due()
    set_clock("02:08")
    plan = sign_in(owner).get(reverse("source-edit", args=["report"])).context["plan"]
    assert [slot["at"][11:16] for slot in plan["fires"]] == ["02:13", "02:23", "02:33", "02:43", "02:53"]


@pytest.mark.django_db
def test_the_page_says_who_turned_it_off_and_why_and_fills_a_range(
    set_clock: Callable[[str], None], owner: User, sign_in: Callable[[User], Client]
) -> None:
    set_clock("02:45")
    source = schedule({**EVERY_TEN, "timezone": "Europe/Berlin"})
    admin = sign_in(owner)
    given = {"since": "2027-01-05T03:00", "until": "2027-01-05T03:30"}
    page = admin.post(reverse("source-backfill", args=["report"]), given, follow=True).content.decode()
    assert "4 slots ring within seconds" in page
    assert sorted(ScheduleFire.objects.values_list("fire_at", flat=True))[0].hour == 2
    answer = admin.post(
        f"{API}/sources/report/backfill",
        {"since": "2027-01-05T02:00:00Z", "until": "2027-01-05T02:30:00Z"},
        content_type="application/json",
    )
    assert (answer.status_code, answer.json()) == (202, {"slots": 0})
    admin.post(reverse("source-switch", args=["report"]), {"on": "0", "reason": "until the move is done"})
    page = admin.get(reverse("source-edit", args=["report"])).content.decode()
    assert "until the move is done" in page
    assert owner.username in page
    source.refresh_from_db()
    assert admin.get(f"{API}/sources/report").json()["skips"] == 0


def counted(source: Source) -> tuple[int, int]:
    source.refresh_from_db()
    return source.fires, source.misses


@pytest.mark.django_db
def test_a_slot_that_is_filled_in_has_rung_and_is_missed_no_more(set_clock: Callable[[str], None]) -> None:
    set_clock("02:03")
    source = schedule(EVERY_TEN | {"catch_up": "none"})
    fire.fire_due()
    set_clock("02:55")
    fire.fire_due()
    assert counted(source) == (0, 5)
    now = clock.now()
    assert fire.backfill(source, now - timedelta(minutes=75), now, by=None) == 7, "two of before it was made"
    set_clock("02:55:30")
    fire.fire_due()
    assert (counted(source), len(slots())) == ((7, 0), 7)


@pytest.mark.django_db
def test_a_slot_that_was_taken_and_rings_no_more_is_missed(set_clock: Callable[[str], None]) -> None:
    set_clock("02:03")
    source = schedule(EVERY_TEN | {"catch_up": "all", "spread": 60})
    fire.fire_due()
    set_clock("03:01")
    fire.fire_due()
    source.refresh_from_db()
    upkeep.switch(source, on=False, by=None, reason="x")
    set_clock("03:30")
    fire.fire_due()
    fire.fire_due()
    assert (counted(source), len(slots())) == ((1, 5), 1)
    source.refresh_from_db()
    upkeep.switch(source, on=True, by=None, reason="")
    source.refresh_from_db()
    now = clock.now()
    assert fire.backfill(source, now - timedelta(minutes=75), now, by=None) == 8, "three of while it was off"
    assert counted(source) == (9, 0)
