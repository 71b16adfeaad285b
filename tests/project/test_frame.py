"""What stands around every page: the title that says what waits, the clock with its zone, and silence by default."""

import re

import pytest
from django.test import Client

from project.people.models import User
from tests import builders
from triggers.models import Rhythm


@pytest.fixture
def page(owner: User, sign_in):
    browser = sign_in(owner)
    return lambda address="/": browser.get(address).content.decode()


def title(page: str) -> str:
    found = re.search(r"<title>(.*?)</title>", page, re.DOTALL)
    assert found
    return re.sub(r"\s+", " ", found[1]).strip()


def test_the_title_says_what_waits_and_on_which_desk(page, ann, settings):
    settings.ENVIRONMENT = "prod"
    assert title(page("/approvals")) == "Approvals · PROD"
    assert "icon.svg" in page()
    builders.action(by=ann, run=builders.run())
    assert title(page("/approvals")) == "(1) Approvals · PROD"
    assert "icon-waiting.svg" in page()


def test_the_title_of_a_run_that_waits_says_so(page, ann):
    run = builders.run("refund-agent", status="waiting", waiting_for="approvals.action.settled")
    builders.action(by=ann, run=run)
    run.waits.create(
        step="ask",
        type="approvals.action.settled",
        since=run.queued_at,
        registered_at=run.queued_at,
        subject="actions/1",
    )
    assert title(page(f"/runs/{run.pk}")).startswith(f"Waiting · R-{run.pk} refund-agent")


def test_sound_is_off_until_somebody_switches_it_on(page, owner):
    assert "data-sound" not in page()
    owner.change(sound=True)
    assert 'data-sound="on"' in page()


def test_lists_are_dense_for_whoever_wants_that(page, owner):
    assert "data-density" not in page()
    owner.change(density="compact")
    assert 'data-density="compact"' in page()


def test_the_rail_counts_sources_that_are_silent(page):
    assert 'class="count warn"' not in page()
    source = builders.source()
    Rhythm.objects.create(source=source, silent_at=builders.clock.now())
    assert '<span class="count warn">1</span>' in page()
    assert "Silent" in page_of_triggers(page, source.slug)


def page_of_triggers(page, slug: str) -> str:
    builders.trigger(source=slug)
    return page("/triggers")


def test_the_clock_shows_its_zone_and_switches_it(page, owner, sign_in):
    owner.change(time_zone="Asia/Shanghai")
    assert "UTC+8" in page()
    browser = sign_in(owner)
    answer = browser.post("/settings/zone", {"time_zone": "UTC", "next": "/runs?status=dead"})
    assert answer["location"] == "/runs?status=dead"
    owner.refresh_from_db()
    assert owner.time_zone == "UTC"
    assert 'data-zone="UTC"' in page()


@pytest.mark.parametrize("wrong", ["Mars/Phobos", "", "../etc"])
def test_a_zone_nobody_knows_changes_nothing(owner, sign_in, wrong):
    owner.change(time_zone="Europe/Berlin")
    browser: Client = sign_in(owner)
    browser.post("/settings/zone", {"time_zone": wrong, "next": "https://evil.example/"})
    owner.refresh_from_db()
    assert owner.time_zone == ("Europe/Berlin" if wrong else "")  # empty: the desk's own


def bell(page: str) -> str:
    found = re.search(r'<details[^>]* id="bell".*?</details>', page, re.DOTALL)
    assert found
    return found[0]


def test_the_bell_says_what_needs_one(page, ann):
    assert "Nothing needs you." in bell(page())
    builders.action(by=ann, run=builders.run())
    rung = bell(page())
    assert 'aria-label="Needs you: Approvals 1"' in rung
    assert 'href="/approvals"' in rung
