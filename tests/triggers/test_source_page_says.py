"""What a source's page, the list and Home say of one that cannot be used, of a wrong schedule, and of its zone."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from project import figures
from project.people.models import User
from tests import builders
from tests.deliveries import deliver
from triggers.models import ScheduleFire, Source

pytestmark = pytest.mark.django_db
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "lost": ({"sealed_secrets": "gAAAAABnot-ours"}, "Its secret cannot be read"),
    "unknown": ({"provider": "gone"}, "Nightdesk knows no provider `gone`."),
    "scheme": (
        {"provider": "custom", "config": {"header": "no header"}},
        "What is saved of it makes no sense: header:",
    ),
    "clock": (
        {"kind": "schedule", "provider": "", "config": {"cron": "61 * * * *"}},
        "What is saved of it makes no sense: cron:",
    ),
    "stream": ({"kind": "redis_stream", "provider": "", "config": {}}, "What is saved of it makes no sense: url:"),
}


@pytest.fixture
def admin(owner: User, sign_in: Callable[[User], Client]) -> Client:
    return sign_in(owner)


@pytest.mark.parametrize("name", BROKEN)
def test_a_source_that_cannot_be_used_is_shown_where_people_look(admin: Client, name: str) -> None:
    fields, sentence = BROKEN[name]
    builders.source("well")
    builders.source("ours")
    Source.objects.filter(slug="ours").update(**fields)
    home = admin.get("/")
    assert [need.title for need in home.context["needs"]] == ["1 source cannot be used"]
    assert "ours: its page says why" in home.text
    assert "Cannot be used" in admin.get(reverse("sources")).text
    page = admin.get(reverse("source-edit", args=["ours"]))
    assert page.status_code == 200
    assert sentence in page.text.replace("&#x27;", "'")
    told = {row["slug"]: row["warning"] for row in admin.get("/api/v1/sources").json()["items"]}
    assert told["ours"].startswith(sentence)
    assert not told["well"]
    Source.objects.filter(slug="ours").update(enabled=False)
    figures.forget()
    assert not admin.get("/").context["needs"], "one that is off waits for nobody"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["lost", "unknown", "scheme"])
def test_whoever_rings_there_is_asked_to_come_back(name: str) -> None:
    """Nothing is lost of a sender that tries again, and nothing breaks."""
    builders.source("github")
    Source.objects.update(**BROKEN[name][0])
    [answer] = deliver({"slug": "github", "body": b"{}", "headers": {"Content-Type": "application/json"}})
    assert (answer.status, answer.json["code"]) == (503, "queue_full")
    assert answer.headers["retry-after"]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"cron": "61 * * * *"}, "cron: "),
        ({"cron": "0 8 * *"}, "a cron line has five fields"),
        ({"cron": "0 0 30 2 *"}, "in `0 0 30 2 *`"),
        ({"cron": ""}, "Say when"),
    ],
)
def test_a_preview_says_why_a_cron_line_is_wrong(admin: Client, typed: dict[str, str], said: str) -> None:
    form = {"kind": "schedule", "rhythm": "cron", "timezone": "UTC", "catch_up": "last", "try": "1", **typed}
    page = admin.post(reverse("source-new"), form)
    assert page.status_code == 200
    assert said in page.text
    inside = {f"new-{name}": value for name, value in form.items() if name not in ("kind", "try")}
    trigger = {"source": "new:schedule", "made": "schedule", "type_pattern": "**", "handler": "notify", "try": "1"}
    assert said in admin.post("/triggers/new", trigger | inside).text


def test_the_page_of_a_schedule_names_its_zone_beside_the_slots(admin: Client) -> None:
    row = builders.source(
        "daily", kind="schedule", provider="", config={"cron": "0 8 * * *", "timezone": "Europe/Berlin"}, secrets=()
    )
    at = datetime(2026, 7, 1, 6, tzinfo=UTC)
    ScheduleFire.objects.create(source=row, fire_at=at, fired_at=at)
    page = admin.get(reverse("source-edit", args=["daily"])).text
    assert "Wed 2026-07-01 08:00:00 CEST" in page
    assert "<dt>Zone</dt><dd>Europe/Berlin</dd>" in page
    assert "From (Europe/Berlin)" in page
    assert "Until (Europe/Berlin)" in page
