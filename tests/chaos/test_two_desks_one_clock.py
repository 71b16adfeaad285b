"""Two machines, two beats, clocks an hour apart: every slot fires once, and none is lost when one dies (CR-12).

The database's clock decides; the second machine's own is an hour behind."""

import itertools
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from tests.processes import Desk, desk

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

EVERY_SECOND = """
    from project.lib import clock
    from triggers.models import ConfigVersion, Source
    Source.objects.create(slug="each-second", name="Each second", kind="schedule", types=["**"],
                          config={"every": 1, "catch_up": "all"}, next_fire_at=clock.now())
    ConfigVersion.bump()
"""
HOUR = 3600  # seconds


@pytest.fixture
def pair(shop: Desk) -> Iterator[tuple[Desk, Desk]]:
    """Two desks on one database, broker and set of keys; the second one's clock is late."""
    shop.start()
    shared = {
        "DATABASE_URL": f"sqlite:///{shop.folder}/nightdesk.sqlite3",
        "REDIS_URL": f"unix://{shop.folder}/valkey.sock?db=0",
        "SECRET_KEY_FILE": str(shop.folder / "secret.key"),
        "FIELD_KEY_FILE": str(shop.folder / "field.key"),
    }
    with desk(**shared, DJANGO_SETTINGS_MODULE="tests.chaos.settings", NIGHTDESK_CLOCK_OFF=f"-{HOUR}") as second:
        second.start("--processes", "desk,beat", ready=False)
        second.until(lambda: len(second.pids("desk")) > 1 and second.main("beat"), seconds=120)
        yield shop, second
        second.tell()


def test_each_slot_fires_once(pair: tuple[Desk, Desk]) -> None:
    first, second = pair
    first.python(EVERY_SECOND)
    for number, shop in enumerate((second, first), 1):
        first.until(lambda number=number: len(slots(first)) >= 5 * number, seconds=60)
        shop.kill("beat")
        shop.kill("desk")
    before = len(slots(first))
    first.until(lambda: len(slots(first)) >= before + 3, seconds=60)
    first.stop()

    fired = slots(first)
    assert {later - slot for slot, later in itertools.pairwise(fired)} == {timedelta(seconds=1)}
    assert first.count("triggers_event", "source_slug = 'each-second'") == len(fired)
    assert "IntegrityError" not in first.log + second.log


def slots(shop: Desk) -> list[datetime]:
    """Those that were fired, oldest first."""
    query = "SELECT fire_at FROM triggers_schedulefire f JOIN triggers_source s ON s.id = f.source_id WHERE s.slug = ?"
    return sorted(datetime.fromisoformat(slot) for (slot,) in shop.rows(query, "each-second"))
