"""Nothing is told by colour alone: in grey, and to who sees no colours, each state has its icon, word or pattern."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from project.lib import clock, svg
from project.people.models import User
from project.templatetags.desk import LOOKS, TIERS, badge, status, status_icon, tier
from tests import builders


@pytest.mark.parametrize("name", LOOKS)
def test_a_state_is_a_word_beside_an_icon_and_an_icon_alone_is_named(name: str) -> None:
    look = LOOKS[name]
    assert look.word
    assert re.fullmatch(rf'<span class="st {look.tone}"><svg.+</svg>{look.word}</span>', status(name), re.DOTALL)
    assert f'role="img" aria-label="{look.word}"' in status_icon(name)


def test_states_of_one_tone_are_told_apart_by_their_words_and_good_and_bad_by_their_icons() -> None:
    icons: dict[str, set[str]] = {}
    for look in LOOKS.values():
        icons.setdefault(look.tone, set()).add(look.icon)
    assert icons["ok"].isdisjoint(icons["fail"] | icons["dead"] | icons["wait"] | icons["retry"] - {"rotate-ccw"})


def test_a_risk_is_a_word_and_as_many_steps() -> None:
    steps = [tier(name).count('class="on"') for name in TIERS]
    assert steps == [1, 2, 3, 4]
    assert all(f"{name.capitalize()} risk" in tier(name) for name in TIERS)


def test_a_column_that_waits_or_failed_has_a_pattern_of_its_own() -> None:
    bars = [svg.Bar({"ok": 2, "wait": 1, "fail": 3}, "all three"), svg.Bar({"ok": 2, "wait": 0, "fail": 0}, "good")]
    drawn = svg.columns(bars, "a chart")
    both, good = drawn.split("<g>")[1:]
    assert re.findall(r'fill="url\(#(\w+)\)"', both) == ["waits", "fails"]
    assert "url(#" not in good
    assert set(re.findall(r'pattern id="(\w+)"', drawn)) == {"waits", "fails"}


def test_slots_of_a_heartbeat_have_heights_of_their_own() -> None:
    drawn = svg.beat(["ok", "fail", "wait", "none"], "a heartbeat")
    heights = re.findall(r'<rect class="(\w+)".*?height="(\d+)"', drawn)
    assert [name for name, _ in heights] == ["ok", "fail", "wait", "none"]
    assert len({height for _, height in heights}) == 4


@pytest.mark.django_db
def test_a_step_that_failed_is_hatched_in_the_timeline(owner: User, sign_in: Callable[[User], Client]) -> None:
    now = clock.now()
    run = builders.run(status="succeeded", started_at=now - timedelta(minutes=1), finished_at=now)
    error = {"type": "Boom", "message": "", "traceback": ""}
    builders.step(run, 1, name="bad", status="failed", error=error, result_json=None)
    builders.step(run, 2, name="good")
    shown = sign_in(owner).get(reverse("run", args=[run.pk])).content.decode()
    rows = shown.partition('class="gantt"')[2].split('<div class="grow"')
    assert 'fill="url(#fails)"' in next(row for row in rows if 'title="bad"' in row)
    assert 'fill="url(#fails)"' not in next(row for row in rows if 'title="good"' in row)


def test_a_badge_made_by_hand_has_an_icon_too() -> None:
    assert "<svg" in badge("fail", "file-x", "no such code")
