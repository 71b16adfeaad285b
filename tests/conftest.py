"""The people every test knows: Ann asks, Ben reviews, Eve is a stranger; the owner may do everything."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.test import Client, TransactionTestCase

from approvals import outside, undoing
from approvals.models import Connection
from project import figures, trouble
from project import valkey as server
from project.lib import clock, unwritten
from project.people import roles
from project.people.models import ApiToken, User
from tests import builders, database, order, postgres, ruled
from triggers import dispatch, refusals, routing, tallies
from triggers.bucket import BUCKETS
from triggers.heartbeat import Heart, Heartbeat

SECOND = timedelta(seconds=1)
PASSWORD = "a long enough password"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Races need two real connections: they run in the PostgreSQL pass of `make test`, not in this one."""
    order.sort(items)
    order.each_has_its_name(items)
    if connection.vendor == "postgresql":
        return
    chosen = [item for item in items if not item.get_closest_marker("postgres")]
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("postgres")])
    items[:] = chosen


def pytest_unconfigure() -> None:
    """What the tests wrote into memory is given back."""
    shutil.rmtree(settings.DATA_DIR, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test printed may hold half a surrogate pair, which cannot travel between the processes of the suite."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_blocker: Any) -> Iterator[None]:
    """Instead of pytest-django's own, which migrates from nothing in each process of the suite."""
    with django_db_blocker.unblock():
        database.copy()
    yield
    with django_db_blocker.unblock():
        database.drop()


def stays() -> None:
    """Instead of the end of the process, which is one of the suite's: no beat gets past the transaction of a test, so
    that on a slow machine a run's lease is lost."""


Heartbeat.__init__.__kwdefaults__["exit"] = stays

# What Django does after a test with `transaction=True`: it truncates every table and makes all permissions anew.
TransactionTestCase._fixture_teardown = lambda _: database.remove_rows()  # type: ignore[method-assign]


def person(name: str, *held: str) -> User:
    """A user with the password above and these roles."""
    user = User.objects.create_user(name, f"{name}@example.org", PASSWORD)
    roles.grant(user, *held)
    return user


@pytest.fixture
def ann(db: None) -> User:
    return person("ann", roles.VIEWER, roles.OPERATOR, roles.REVIEWER)


@pytest.fixture
def ben(db: None) -> User:
    return person("ben", roles.VIEWER, roles.REVIEWER)


@pytest.fixture
def high_has_its_rule(db: None) -> None:
    """A reviewer decides what is high where no other rule says who: the rule a desk begins with."""
    ruled.first()


@pytest.fixture
def eve(db: None) -> User:
    return person("eve")


@pytest.fixture
def owner(db: None) -> User:
    return person("owner", *roles.ROLES)


@pytest.fixture(name="connection")
def connection_to_the_shop(db: None) -> Connection:
    """A way out to a far side that `tests.nodding.serving` plays."""
    return builders.connection("shop", practice=False)


@pytest.fixture
def sign_in() -> Callable[[User], Client]:
    """`sign_in(ann)`: a browser in which this person is signed in."""

    def browser(user: User) -> Client:
        client = Client()
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    return browser


@pytest.fixture
def with_token() -> Callable[..., Client]:
    """`with_token(ann, "read", "ingest")`: a client that sends a fresh token of hers; a text makes a service's."""

    def client(user: User | str, *scopes: str) -> Client:
        person, service = (None, user) if isinstance(user, str) else (user, "")
        _, secret = ApiToken.objects.all().issue(user=person, service=service, name="test", scopes=list(scopes))
        return Client(headers={"authorization": f"Bearer {secret}"})

    return client


@pytest.fixture
def later() -> Iterator[Callable[..., None]]:
    """`later(hours=2)`: the desk's clock moves on; it is set back after the test."""

    def move(**amount: float) -> None:
        clock.shift += timedelta(**amount)

    yield move
    clock.shift = timedelta(0)


@pytest.fixture
def noon(db: None, later: Callable[..., None]) -> None:
    """It is noon UTC on the desk's clock, so that the minutes of a test lie within one day."""
    now = clock.now()
    later(seconds=(now.replace(hour=12, minute=0, second=0, microsecond=0) - now) % timedelta(days=1) / SECOND)


@pytest.fixture
def valkey() -> Iterator[str]:
    """The address of an empty Valkey on a unix socket, as redis-py writes it."""
    folder = Path(tempfile.mkdtemp(prefix="nd-", dir="/tmp"))  # a socket's path must stay short
    process = subprocess.Popen(server.command(folder / "valkey.sock", folder=folder), stdout=subprocess.DEVNULL)
    try:
        until(lambda: answers(folder / "valkey.sock"))
        yield f"unix://{folder}/valkey.sock?db=0"
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL for tests that start real processes on it: that of `make test`, if it is there."""
    if address := os.environ.get("TEST_POSTGRES"):
        yield address
        return
    with postgres.serve() as address:
        yield address


@pytest.fixture
def one_look(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pages ask once in this test what is wrong with the desk, however slow the machine: it counts queries."""
    monkeypatch.setattr(trouble, "KEPT", 3600.0)
    trouble.forget()
    yield
    trouble.forget()


def answers(path: Path) -> bool:
    """Whether somebody accepts connections on this unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def until(condition: Callable[[], object], seconds: float = 60, every: float = 0.05) -> None:
    """Wait for `condition`; a bound on liveness, far above what it takes."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {condition}")
        time.sleep(every)


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    """Every test's database is new, but its versions count from one again: forget what an earlier test cached."""
    routing.forget()
    BUCKETS.forget()
    outside.FAILING.forget()
    tallies.forget()
    unwritten.Last.at = float("-inf")  # Home says it for a minute
    figures.forget()
    cache.clear()
    refusals.valve = refusals.Valve()  # else a fast neighbour's refusals of the same second are counted here
    dispatch.Place.after = dispatch.Place.dead = undoing.Place.after = 0  # else a walk begins behind the first rows
    yield
    assert Heart.own is None or not Heart.own.beats, "a run of this test goes on: its time would end the process"
    routing.forget()
