"""One command runs the desk: it starts once, stops in time, keeps everything, and says in one line what is wrong."""

import os
import signal
import socket
import subprocess
import sys

import psycopg
import pytest

from tests.processes import DATABASE, NAMES, ROOT, Desk, desk

pytestmark = pytest.mark.processes


@pytest.fixture
def shop():
    with desk() as made:
        yield made


@pytest.fixture(scope="module")
def older():
    """A desk whose database lacks the migrations of one app."""
    with desk() as made:
        made.manage("migrate", "approvals", "zero", "--verbosity", "0")
        yield made


def up(shop: Desk, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """An `up` that is expected to give up by itself."""
    command = [sys.executable, "manage.py", "up", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=shop.env | environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_it_starts_stops_within_ten_seconds_and_keeps_everything(shop):
    (shop.folder / DATABASE).unlink()  # the very first start, migrations and all
    shop.start()
    assert f"Nightdesk is open at {shop.url}" in shop.log
    password = shop.password
    sources, users = shop.count("triggers_source"), shop.count("people_user")
    assert [name for name in NAMES if not shop.main(name)] == []
    assert shop.stop() < 5 * 10  # a bound on liveness
    assert shop.process.returncode == 0
    assert shop.pids() == []

    first = shop.log
    shop.start()
    second = shop.log.removeprefix(first)
    assert password not in second
    assert "First start" not in second
    assert (shop.count("triggers_source"), shop.count("people_user")) == (sources, users)


def test_a_second_one_says_that_the_desk_is_running(shop):
    shop.start()
    refused = up(shop)
    assert refused.returncode == 1
    assert refused.stderr.strip() == f"CommandError: this desk is running already (process {shop.process.pid})"


def test_a_taken_port_is_named(shop):
    with socket.socket() as other:
        other.bind(("127.0.0.1", shop.port))
        other.listen()
        refused = up(shop)
    assert refused.returncode == 1
    assert f"cannot listen on 127.0.0.1:{shop.port}: Address already in use" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["--processes", "web,oven"], {}, "no process 'oven'; there are: valkey, web, worker, desk, beat, listen"),
        (["--workers", "0"], {}, "--workers must be at least 1"),
        ([], {"PORT": "eighty"}, "PORT must be a whole number from 1 to 65535, not 'eighty'"),
        ([], {"DATABASE_URL": "postgres://nobody@127.0.0.1:1/none"}, "the database cannot be used: "),
    ],
)
def test_nonsense_is_refused_in_words(shop, arguments, environment, words):
    refused = up(shop, *arguments, **environment)
    assert refused.returncode == 1
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_bare_start_makes_only_the_owner(shop):
    shop.start("--bare")
    assert shop.count("people_user") == 1
    assert shop.count("triggers_source") == 0


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "celery", "--app", "project.celery", "worker", "--queues", "runs", "--concurrency", "1"],
        ["-m", "celery", "--app", "project.celery", "beat"],
        ["-m", "uvicorn", "project.asgi:application", "--port", "0"],
        ["manage.py", "listen"],
        ["manage.py", "tick", "--once"],
        ["manage.py", "ring"],
        ["manage.py", "create_token", "owner", "--name", "x"],
    ],
    ids=lambda command: " ".join(command[:5]),
)
def test_nothing_starts_on_a_database_older_than_the_code(older, command):
    """AD-05: old code, old tasks and a new database do not meet unseen."""
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=older.env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode not in (0, None)
    assert "run: manage.py migrate" in done.stdout + done.stderr


def test_a_child_that_dies_is_started_again(shop):
    shop.start()
    killed = shop.kill("web")
    shop.until(lambda: shop.main("web") not in (None, killed) and shop.is_ready())
    assert '"process": "web", "event": "ended (SIGKILL); starting it again"' in shop.log


def test_ctrl_c_is_as_good_as_sigterm(shop):
    shop.start()
    os.kill(shop.process.pid, signal.SIGINT)
    assert shop.process.wait(50) == 0
    assert shop.pids() == []


def test_it_runs_on_postgresql_and_a_foreign_redis_as_well(postgres_server, valkey):
    with desk(postgres_server, REDIS_URL=valkey) as shop:
        with psycopg.connect(shop.database_url) as connection:  # the very first start here, too
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        shop.start()
        assert shop.main("valkey") is None
        assert shop.count("people_user") == 1
        assert shop.stop() < 50
