"""A broker that takes connections and never answers holds no answer of the desk."""

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from approvals.act import act
from approvals.models import Action
from project import health, trouble
from project.celery import Desk, app
from project.lib.clock import now
from project.people import roles
from project.people.models import User
from tests import builders
from tests.conftest import person
from tests.handlers import work
from tests.nodding import carry_out, handling, say, serving
from triggers.bells import Belfry, send
from triggers.models import Event, Pulse, Run

pytestmark = pytest.mark.django_db
LONG = 15.0  # seconds; far above what a bell may cost, below what a worker's own connection waits


class Mute:
    """It listens and never reads."""

    def __init__(self) -> None:
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(50)
        self.url = f"redis://127.0.0.1:{self.socket.getsockname()[1]}/0"

    def calls(self) -> int:
        """How many have called since the last look."""
        self.socket.setblocking(False)
        found = 0
        while True:
            try:
                self.socket.accept()[0].close()
            except BlockingIOError:
                return found
            found += 1


@pytest.fixture(autouse=True)
def mute(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mute]:
    """The desk's broker, hung: everything that speaks to it has this address."""
    broker = Mute()
    settings.REDIS = type(settings.REDIS)(client=broker.url, celery=broker.url, ours=False)
    settings.CELERY_BROKER_URL = broker.url
    monkeypatch.setattr(Belfry, "silent_until", 0.0)
    monkeypatch.setattr(health.Silence, "until", float("-inf"))
    trouble.forget()
    desk = Desk("hung", set_as_current=False)
    desk.config_from_object("django.conf:settings", namespace="CELERY")
    desk.set_current()
    yield broker
    app.set_current()
    desk.close()
    broker.socket.close()
    trouble.forget()


def test_an_event_over_the_api_is_answered(
    ann: User,
    with_token: Callable[..., Client],
    django_capture_on_commit_callbacks: Any,
) -> None:
    builders.trigger("triage-issue", source=builders.source("api", kind="cloudevents", provider="", types=["**"]).slug)
    body = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.placed"}
    began = time.monotonic()
    with django_capture_on_commit_callbacks(execute=True):
        answer = with_token(ann, "ingest").post("/api/v1/events", body, content_type="application/cloudevents+json")
    assert time.monotonic() - began < LONG
    assert (answer.status_code, Event.objects.count(), Run.objects.count()) == (202, 1, 1)


def test_after_one_bell_was_not_heard_none_is_rung_for_a_while(mute: Mute) -> None:
    assert not send("triggers.tasks.advance", run_id=1)
    assert mute.calls() > 0
    assert not send("triggers.tasks.advance", run_id=2)
    assert mute.calls() == 0


def test_the_checks_wait_for_it_once(mute: Mute, sign_in: Callable[[User], Client]) -> None:
    Pulse.beat("tick", now())
    admin = sign_in(person("gus", roles.ADMIN))
    mute.calls()
    page = admin.get("/settings/checks").content.decode()
    assert "The broker does not answer" in page
    assert "Timeout reading from socket" in page
    assert mute.calls() == 2  # the banner's question and the page's own


def test_the_switch_is_thrown_and_what_is_approved_does_not_begin(
    ann: User, ben: User, connection: object, sign_in: Callable[[User], Client], django_capture_on_commit_callbacks: Any
) -> None:
    with serving() as shop, handling(lambda run: act(run, "order", kind="shop.order")):
        builders.run("story")
        work()
        began = time.monotonic()
        with django_capture_on_commit_callbacks(execute=True):
            say(Action.objects.get(), ben)
            assert sign_in(ann).post("/switch", {"what": "kind shop.order"})["location"] == "/freezes"
        assert time.monotonic() - began < LONG
        carry_out()
        assert (Action.objects.get().status, shop.sent) == ("approved", [])
