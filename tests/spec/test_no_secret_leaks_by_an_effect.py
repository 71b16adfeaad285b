"""SE-01: a failed call tells method, host and status, and never what was sent with it."""

import base64
import logging
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from django.test import override_settings

from approvals.act import act
from approvals.models import Action, Attempt
from tests import builders
from tests.handlers import work
from tests.nodding import handling, say, settle
from tests.recorder import Recorder
from triggers.models import Audit, DeadLetter, Event, Run, Step

pytestmark = pytest.mark.django_db
SECRETS = ("SECRET-123", "SECRET-456", "SECRET-789")


@pytest.fixture
def far() -> Iterator[Recorder]:
    with Recorder() as recorder, override_settings(EGRESS_ALLOW=["127.0.0.1"]):
        yield recorder


def everything() -> str:
    """All that is stored in clear: rows of every kind that a page, an export or a mail could show."""
    tables = (Action, Attempt, DeadLetter, Event, Run, Step, Audit)
    return "\n".join(repr(row) for table in tables for row in table.objects.values())


@pytest.mark.parametrize("fault", ["404", "500", "drop", "hang", "redirect", "tls", "closed"])
def test_a_failed_call_says_what_and_where_but_no_secret(far, ben, caplog, fault, later):
    caplog.set_level(logging.DEBUG)
    url = far.url
    if fault == "tls":
        url = url.replace("http:", "https:")
    if fault == "closed":
        with Recorder() as gone:
            url = gone.url
    answers = {"404": 404, "500": 500, "redirect": (302, {"location": "/x?k=SECRET-456"}, {})}
    far.next(answers.get(fault, fault if fault in ("drop", "hang") else None))
    builders.connection("http", practice=False, config={"hosts": [url]})

    def call(run):
        return act(
            run,
            "call",
            kind="http.request",
            url=f"{url}/x?api_key=SECRET-456",
            headers={"Authorization": "Bearer SECRET-123", "X-Plain": "seen"},
            json={"password": "SECRET-789", "user": "ann"},
            timeout=2,
        )

    with handling(call):
        builders.run("story")
        work()
        action = Action.objects.get()
        say(action, ben)
        later(seconds=11)
        settle()
        assert Attempt.objects.count() == 1
    if fault in ("404", "500", "drop", "hang", "redirect"):
        sent = far.seen[0]
        assert sent.headers["authorization"] == "Bearer SECRET-123"
        assert "api_key=SECRET-456" in sent.path
        assert sent.json == {"password": "SECRET-789", "user": "ann"}
    told = Attempt.objects.get().error["message"]
    assert "POST 127.0.0.1" in told
    found = everything() + caplog.text
    for secret in SECRETS:
        assert secret not in found
        assert quote(secret, safe="") not in found
        assert base64.b64encode(secret.encode()).decode() not in found
    assert "Authorization" in found, "names are kept"
    settled = Action.objects.get()
    assert "ann" in settled.canonical, "what is no secret is shown"
    assert bool(settled.sealed_arguments) == (settled.settled_at is None), "kept only as long as it may be sent"


def test_the_same_secret_is_the_same_wish_and_another_is_another(far):
    builders.connection("http", practice=False, config={"hosts": [far.url]})
    keys = iter(["SECRET-123", "SECRET-123", "SECRET-456"])
    with handling(
        lambda run: act(run, "call", kind="http.request", key="k", url=far.url, headers={"X-Api-Key": next(keys)})
    ):
        for _ in range(3):
            builders.run("story")
            work()
    assert Action.objects.count() == 1
    assert [run.status for run in Run.objects.order_by("pk")] == ["waiting", "waiting", "dead"]
    assert Run.objects.last().error["type"] == "KeyTaken"


@pytest.mark.parametrize("part", ["cookie", "x-auth-token", "proxy-authorization"])
def test_what_people_see_says_that_something_is_hidden(far, part):
    builders.connection("http", practice=False, config={"hosts": [far.url]})
    with handling(lambda run: act(run, "call", kind="http.request", url=far.url, headers={part: "SECRET-123"})):
        builders.run("story")
        work()
    shown = Action.objects.get().arguments["headers"][part]
    assert shown.startswith("hidden:")
    assert "SECRET" not in everything()
