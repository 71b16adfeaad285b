"""What few processes of a desk ever use is loaded when it is used: the start of each is what people wait for."""

import json
import subprocess
import sys

import pytest

from tests import prepared
from tests.house.tree import ROOT

LOADED = "import json, sys; print(json.dumps(sorted(sys.modules)))"
SETUP = "import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'project.settings'; django.setup()"
STARTS = {
    "listen": f"{SETUP}; import project.management.commands.listen; {LOADED}",
    "worker": f"import project.celery_main; {SETUP}; import project.tasks, triggers.tasks, approvals.tasks; {LOADED}",
    "web": f"import project.asgi, project.urls; {LOADED}",
}
COMMAND_LINES = {"prompt_toolkit", "typer", "rich"}
LIBRARIES = {"apprise", "celpy", "confluent_kafka", "lark", "openai", "psycopg", "pydantic_ai", "valkey"}
PAGES = {"project.urls", "project.api", "project.admin", "unfold.admin", "triggers.api", "approvals.views"}
FARS = {f"triggers.listeners.{name}" for name in ("database", "kafka", "mail", "stream")}


@pytest.mark.parametrize(
    ("process", "not_loaded"),
    [
        ("listen", {*COMMAND_LINES, *LIBRARIES, *PAGES, *FARS, "opentelemetry.sdk"}),
        ("worker", {*COMMAND_LINES, *LIBRARIES, *PAGES, *FARS, "opentelemetry.sdk"}),
        ("web", {*COMMAND_LINES, *LIBRARIES, "opentelemetry.sdk"}),
    ],
)
def test_a_process_starts_without(process, not_loaded, tmp_path):
    done = run(STARTS[process], tmp_path)
    loaded = set(json.loads(done.splitlines()[-1]))
    assert "triggers.models.run" in loaded
    assert loaded & not_loaded == set()


def test_migrations_are_looked_at_and_not_loaded(tmp_path):
    prepared.sqlite(tmp_path / prepared.DATABASE)
    done = run(f"{SETUP}; from project import health; health.require_migrated(); {LOADED}", tmp_path)
    assert [name for name in json.loads(done) if ".migrations.0" in name] == []


def test_the_helpers_that_were_left_out_are_there_for_whoever_wants_them(tmp_path):
    wanted = "import cel.cli, rich.console, opentelemetry.sdk.metrics as metrics; print(metrics.MeterProvider.__name__)"
    assert run(f"import project; {wanted}", tmp_path).strip() == "MeterProvider"


def test_the_collector_works_again_once_everything_is_loaded(tmp_path):
    told = run(f"{SETUP}; import gc; print(gc.isenabled(), gc.get_freeze_count() > 100_000)", tmp_path)
    assert told.split() == ["True", "True"]


def run(code: str, folder: object) -> str:
    environment = prepared.passed_on() | {"DATA_DIR": str(folder), "DJANGO_SETTINGS_MODULE": "project.settings"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
