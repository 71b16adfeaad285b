"""The self-check: every question by its name, said before production and on a page, never answered by a guess."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.core import checks as django_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import Client

from approvals import freezing
from approvals.models import Action
from project import checks, checks_live, health
from project.lib import clock, mounts
from project.people import roles
from project.people.models import User
from tests import builders
from tests.conftest import person
from tests.house.tree import ROOT
from triggers import registry
from triggers.models import Pulse, Watch

pytestmark = pytest.mark.django_db

QUESTIONS = {one.id: one for one in [*checks.DEPLOY, *checks_live.LIVE]}


def answer(id: str) -> str:
    return QUESTIONS[id].answer()


@pytest.mark.parametrize("one", checks.DEPLOY, ids=lambda one: one.id)
def test_a_question_stands_in_the_docs_by_its_name(one):
    assert f"| `{one.id}` | {one.words} |" in (ROOT / "docs" / "production.md").read_text()


def test_names_are_taken_once_and_every_question_has_a_hint():
    everything = [*checks.DEPLOY, *checks_live.LIVE]
    assert len(QUESTIONS) == len(everything)
    assert all(one.hint and one.words.endswith("?") for one in everything)


def test_check_deploy_says_what_is_wrong_and_fails_on_an_error(settings, capsys):
    settings.ALLOWED_HOSTS = ["*"]
    with pytest.raises(SystemCheckError) as told:
        call_command("check", deploy=True)
    assert "(nightdesk.E001) Does it answer to its own names only? ALLOWED_HOSTS is *" in str(told.value)
    assert "HINT: Set ALLOWED_HOSTS" in str(told.value)


def test_without_deploy_nothing_is_asked():
    assert [one.id for one in django_checks.run_checks() if (one.id or "").startswith("nightdesk.")] == []


def test_django_finds_nothing_wrong_with_the_code():
    """The processes without pages start without asking (project/processes.py)."""
    assert [str(one) for one in django_checks.run_checks() if one.is_serious()] == []


def ready(settings, folder: Path) -> None:
    """A desk with which nothing is wrong."""
    settings.ALLOWED_HOSTS, settings.BASE_URL = ["desk.example.org"], "https://desk.example.org"
    settings.TRUSTED_PROXIES, settings.NOTIFY_URLS, settings.ENVIRONMENT = ["10.0.0.7"], ["tgram://x/y"], "production"
    settings.DATA_DIR, settings.HANDLERS_DIR = folder, folder / "handlers"
    for name in ("secret.key", "field.key"):
        (folder / name).write_text("x")
        (folder / name).chmod(0o600)


def test_a_desk_that_is_ready_hears_only_what_nobody_can_check(settings, tmp_path, ann, ben):
    ready(settings, tmp_path)
    assert {one.id for one in checks.deploy()} == {"nightdesk.I001"}


@pytest.mark.parametrize(
    ("id", "change"),
    [
        ("nightdesk.E001", {"ALLOWED_HOSTS": ["*"]}),
        ("nightdesk.E002", {"BASE_URL": "http://desk.example.org"}),
        ("nightdesk.E008", {"TRUSTED_PROXIES": []}),
        ("nightdesk.E008", {"TRUSTED_PROXIES": ["0.0.0.0/0"]}),
        ("nightdesk.W001", {"ENVIRONMENT": "dev"}),
        ("nightdesk.W002", {"NOTIFY_URLS": []}),
    ],
)
def test_a_setting_that_is_wrong_is_named(settings, tmp_path, ann, ben, id, change):
    ready(settings, tmp_path)
    for name, value in change.items():
        setattr(settings, name, value)
    assert id in {one.id for one in checks.deploy()}


def test_keys_and_handlers_that_others_may_touch_are_named(settings, tmp_path):
    ready(settings, tmp_path)
    (tmp_path / "field.key").chmod(0o640)
    settings.HANDLERS_DIR.mkdir(mode=0o755)
    (settings.HANDLERS_DIR / "mine.py").write_text("")
    (settings.HANDLERS_DIR / "mine.py").chmod(0o666)
    assert answer("nightdesk.E004") == "field.key can be read by others"
    assert answer("nightdesk.E005") == "Others may write mine.py"


def test_a_printed_password_is_named_until_it_is_changed(ann):
    User.objects.filter(pk=ann.pk).update(must_change_password=True)
    assert answer("nightdesk.E006") == "ann still has the password that was printed"
    User.objects.filter(pk=ann.pk).update(must_change_password=False)
    assert answer("nightdesk.E006") == ""


def test_one_reviewer_is_not_enough(ben, owner):
    assert answer("nightdesk.W003") == ""
    User.objects.filter(pk=owner.pk).update(is_active=False)
    assert answer("nightdesk.W003") == "Only one person may decide"
    person("vic", roles.VIEWER)
    assert answer("nightdesk.W003") == "Only one person may decide"


@pytest.mark.parametrize(
    ("kind", "wrong"), [("nfs4", True), ("cifs", True), ("fuse.sshfs", True), ("ext4", False), ("", False)]
)
@pytest.mark.skipif("not health.is_sqlite()", reason="about SQLite")
def test_sqlite_on_a_network_is_named(db, monkeypatch, tmp_path, kind, wrong):
    table = tmp_path / "mounts"
    table.write_text(f"server:/srv / {kind} rw 0 0\n" if kind else "")
    monkeypatch.setattr(mounts, "MOUNTS", table)
    assert bool(answer("nightdesk.E003")) == wrong


def test_a_broker_that_forgets_is_named(settings, valkey):
    settings.REDIS = type(settings.REDIS)(client=valkey, celery="", ours=False)
    assert answer("nightdesk.W004") == ""
    with health.valkey() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    assert answer("nightdesk.W004") == "its maxmemory-policy is allkeys-lru"


def test_what_cannot_be_asked_says_so_and_is_not_called_well(settings, tmp_path):
    settings.REDIS = type(settings.REDIS)(client=f"unix://{tmp_path}/nobody.sock?db=0", celery="", ours=False)
    assert answer("nightdesk.W004").startswith("this could not be asked: ")


def test_the_tick_the_queue_and_missing_handlers_are_asked_of_the_rows(later):
    assert answer("desk.E03") == "tick has never run"
    Pulse.beat("tick", clock.now())
    assert (answer("desk.E03"), answer("desk.W05"), answer("desk.W08")) == ("", "", "")
    builders.run(trigger=builders.trigger("no-such-handler", slug="lost"))
    later(seconds=90)
    assert answer("desk.E03").startswith("tick is 9")
    assert answer("desk.W05").startswith("The oldest due run has waited for 9")
    assert answer("desk.W08") == "lost wants no-such-handler"


def test_what_is_approved_and_not_started_and_what_woke_and_did_not_go_on_is_named(later):
    now = clock.now()
    action = builders.action(status="approved", not_before=now, execute_by=now + timedelta(hours=9))
    builders.run(started_at=now, status="queued")
    assert (checks_live.approved(), checks_live.resumed()) == ("", "")
    later(seconds=90)
    assert "could have started 90 s ago" in checks_live.approved()
    assert "has not gone on for 90 s" in checks_live.resumed()
    freezing.freeze("Night", clock.now(), clock.now() + timedelta(hours=2), by=None)
    Action.objects.filter(pk=action.pk).update(not_before=clock.now() + timedelta(hours=2))  # as the desk then does
    assert checks_live.approved() == ""


def test_a_source_nobody_listens_to_is_named_and_shows_in_the_figures(later):
    inbox = builders.source("inbox", kind="file", provider="")
    assert answer("desk.E09") == "inbox: nobody listens"
    Watch.objects.create(source=inbox, looked_at=clock.now())
    assert (answer("desk.E09"), health.listeners()) == ("", {"inbox": ""})
    assert 'nightdesk_listener_alive{source="inbox"} 1.0' in Client().get("/metrics").content.decode()
    later(minutes=5)
    assert answer("desk.E09") == "inbox: nobody listens"
    Watch.objects.update(status=Watch.FAILED, detail="the folder is gone")
    assert answer("desk.E09") == "inbox: the folder is gone"
    assert 'nightdesk_listener_alive{source="inbox"} 0.0' in Client().get("/metrics").content.decode()


def test_a_handler_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "wrong.py").write_text("1 +")
    registry.load_file(tmp_path / "wrong.py")
    try:
        assert answer("desk.W07").startswith("wrong.py: SyntaxError")
    finally:
        registry.BROKEN.pop("wrong.py")


def test_a_full_disk_is_named(monkeypatch):
    assert answer("desk.E06") == ""
    usage = type("Usage", (), {"free": 10 * 1024**2, "total": 10**12})
    monkeypatch.setattr(checks_live.shutil, "disk_usage", lambda folder: usage)
    assert answer("desk.E06").startswith("10 MB are free")


def test_without_a_broker_nobody_can_be_asked_whether_he_works():
    assert answer("desk.E04") == "There is no broker to ask them through"
