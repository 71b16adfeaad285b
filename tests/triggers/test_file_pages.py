"""A file source is made in the browser, and its page says how the watching goes."""

from datetime import timedelta

import pytest
from django.urls import reverse

from project.lib import clock
from tests.contract.world import API
from tests.files import file_source
from triggers.models import Source, Watch

pytestmark = pytest.mark.django_db


@pytest.fixture
def inbox(tmp_path, settings):
    settings.FILE_ROOTS = [str(tmp_path)]
    return tmp_path


@pytest.fixture
def admin(owner, sign_in):
    return sign_in(owner)


def typed(folder, **fields):
    """A filled-in form of a file source."""
    given = {"kind": "file", "slug": "uploads", "path": str(folder), "pattern": "*.csv", "on": ["created", "deleted"]}
    return {**given, "settle_seconds": "2.5", "mode": "auto", **fields}


def test_a_folder_is_watched_by_a_form(admin, inbox):
    page = admin.get(reverse("source-new"), {"kind": "file"})
    assert str(inbox) in page.content.decode()
    answer = admin.post(reverse("source-new"), typed(inbox, recursive="on"))
    assert answer.url == reverse("source-edit", args=["uploads"])
    row = Source.objects.get(slug="uploads")
    assert row.config == {
        "path": str(inbox),
        "pattern": "*.csv",
        "recursive": True,
        "on": ["created", "deleted"],
        "settle_seconds": 2.5,
    }
    assert row.types == ["uploads.**"]
    form = admin.get(reverse("source-edit", args=["uploads"])).context["form"]
    assert (form["recursive"].value(), form["on"].value(), form["mode"].value()) == (
        True,
        ["created", "deleted"],
        "auto",
    )
    admin.post(reverse("source-edit", args=["uploads"]), typed(inbox, version=str(row.version), pattern=""))
    row.refresh_from_db()
    assert "pattern" not in row.config
    assert "recursive" not in row.config


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"path": "/etc"}, "path", "outside FILE_ROOTS"),
        ({"path": "uploads"}, "path", "absolute path"),
        ({"path": "{inbox}/none"}, "path", "make it first"),
        ({"on": []}, "on", "required"),
        ({"settle_seconds": "0"}, "settle_seconds", "0.1"),
    ],
)
def test_what_may_not_be_watched_is_refused_at_its_field(admin, inbox, changes, field, said):
    changes = {name: value.format(inbox=inbox) if isinstance(value, str) else value for name, value in changes.items()}
    answer = admin.post(reverse("source-new"), typed(inbox, **changes))
    assert answer.status_code == 422
    assert said in answer.context["form"].errors[field][0]
    assert not Source.objects.exists()


@pytest.mark.parametrize(
    ("health", "said"),
    [
        (None, "Nobody watches it right now"),
        ({"status": "watching", "mode": "native", "files": 3}, "3 files since"),
        ({"status": "watching", "mode": "native", "files": 3, "looked_at": timedelta(minutes=-2)}, "Nobody watches"),
        ({"status": "watching", "mode": "polling", "detail": "sysctl -w fs"}, "sysctl -w fs"),
        ({"status": "missing", "detail": "/x is not there"}, "The folder is gone"),
        ({"status": "failed", "detail": "over 10,000 files"}, "over 10,000 files"),
        ({"status": "watching", "recovered": 2}, "2 changes the system had not told of were found"),
    ],
)
def test_the_page_says_how_the_watching_goes(admin, inbox, health, said):
    row = file_source("uploads", inbox)
    if health is not None:
        now = clock.now()
        Watch.objects.create(
            source=row, since=now, **{**health, "looked_at": now + health.get("looked_at", timedelta())}
        )
    page = admin.get(reverse("source-edit", args=["uploads"])).content.decode()
    assert said in page
    assert "Address" not in page
    assert admin.get(reverse("sources")).status_code == 200


def test_the_api_says_it_too(admin, inbox):
    row = file_source("uploads", inbox)
    assert admin.get(f"{API}/sources/uploads").json()["health"] is None
    now = clock.now()
    Watch.objects.create(source=row, status="watching", mode="native", files=7, since=now, looked_at=now)
    health = admin.get(f"{API}/sources/uploads").json()["health"]
    assert (health["status"], health["mode"], health["files"], health["recovered"]) == ("watching", "native", 7, 0)
    assert health["since"].endswith("Z")
    assert "uploads" in b"".join(admin.get(f"{API}/sources?format=csv").streaming_content).decode()


def test_the_page_is_alive_for_a_source_that_is_off(admin, inbox):
    file_source("uploads", inbox, mode="polling").disable(by=None)
    assert "It is off: nobody looks" in admin.get(reverse("source-edit", args=["uploads"])).content.decode()
