"""An action's page in every status, for every role: what happened, what follows, and only the buttons that help."""

import re
from datetime import timedelta
from typing import Any

import pytest

from approvals.models import Action
from project.lib import clock
from project.people import roles
from project.people.roles import can
from tests import builders
from tests.approvals.test_argument_forms import PULL
from tests.approvals.test_pages import text_of
from tests.conftest import PASSWORD, person
from triggers.models import DeadLetter

pytestmark = pytest.mark.django_db
NOW, LATER = timedelta(0), timedelta(minutes=5)
# what stands in the row, and what the page says of it
STORIES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "awaiting": ({}, ("What will happen", "If nobody decides", "It expires at")),
    "approved": (
        {"decided_at": NOW, "not_before": NOW, "execute_by": LATER},
        ("Approved, waiting to go out", "It goes out within seconds", "it expires and says so"),
    ),
    "delivering": (
        {"decided_at": NOW, "leased_until": LATER, "tries": 1},
        ("is going out now", "its outcome is unknown", "never sent twice blindly"),
    ),
    "delivered": ({"decided_at": NOW, "settled_at": NOW, "tries": 1}, ("What happened", "went out once")),
    "unknown": ({"decided_at": NOW, "tries": 1}, ("Did it happen?", "was sent, but no answer came back")),
    "failed": (
        {"decided_at": NOW, "settled_at": NOW, "tries": 5, "keeps_key": True},
        ("It could not be done", "It may have happened all the same", "D-"),
    ),
    "rejected": ({"decided_at": NOW, "settled_at": NOW}, ("said no", "Nothing was sent", "The run was told")),
    "expired": ({"settled_at": NOW}, ("Nobody decided in time", "Nothing was sent", "The run was told")),
    "cancelled": ({"settled_at": NOW}, ("The request was withdrawn by", "Nothing was sent", "The run was told")),
    "superseded": ({"settled_at": NOW}, ("A newer request of the same step took its place", "the newer one")),
}
# the buttons of each role, by the last part of the address they lead to
BUTTONS: dict[str, dict[str, set[str]]] = {
    "awaiting": {"viewer": set(), "operator": {"cancel"}, "reviewer": {"decisions", "edit"}, "admin": set()},
    "approved": {
        "viewer": set(),
        "operator": {"cancel"},
        "reviewer": {"take-back", "cancel"},
        "admin": {"take-back"},
    },
    "unknown": {"viewer": set(), "operator": {"outcome"}, "reviewer": set(), "admin": set()},
}


@pytest.fixture(params=roles.ROLES)
def reader(request):
    return person(f"the-{request.param}", request.param)


def told(status: str, reader) -> Action:
    """An action in this status; who may decide has said yes to it himself, where somebody has, and else Rob."""
    fields, _ = STORIES[status]
    times = {name: clock.now() + value if isinstance(value, timedelta) else value for name, value in fields.items()}
    origin = builders.run(status="dead" if status == "failed" else "waiting", finished_at=clock.now())
    names = {"run": origin, "origin_run": origin.pk, "step": "open"}
    link = builders.connection(slug=f"practice-{origin.pk}")
    action = builders.action(status=status, given=1, arguments=PULL, connection=link, **names, **times)
    if status in ("approved", "delivering", "delivered", "unknown", "failed", "rejected"):
        verdict = "reject" if status == "rejected" else "approve"
        seen = {"digest": action.digest, "revision": 1, "at": clock.now(), "reason": "because"}
        action.decisions.create(
            by=reader if can(reader, "decide") else person("rob", roles.REVIEWER), verdict=verdict, **seen
        )
    if status == "failed":
        at = {"first_at": clock.now(), "last_at": clock.now()}
        DeadLetter.objects.create(kind="action", action_id=action.pk, run=origin, fingerprint="f" * 16, **at)
    if status == "cancelled":
        Action.objects.filter(pk=action.pk).update(ended_by=reader)
    if status == "superseded":
        builders.action(run=origin, origin_run=origin.pk, step="open")
    return action


def buttons(page: str, action: Action) -> set[str]:
    found = re.findall(rf'(?:action|href)="/actions/{action.pk}/([a-z-]+)', page)
    return set(found)


@pytest.mark.parametrize("status", STORIES)
def test_the_page_says_what_happened_what_follows_and_offers_what_helps(status, reader, sign_in):
    action, (_, words) = told(status, reader), STORIES[status]
    client = sign_in(reader)
    answer = client.get(f"/actions/{action.pk}")
    page, role = text_of(answer), reader.username.removeprefix("the-")
    assert answer.status_code == 200
    assert [each for each in words if each not in page] == []
    assert buttons(answer.content.decode(), action) == BUTTONS.get(status, {}).get(role, set())
    arguments_shown = role in ("operator", "reviewer")
    assert ("acme/shop" in answer.content.decode()) == arguments_shown
    assert client.get(f"/approvals?sel={action.pk}&tab=decided").status_code == 200


@pytest.mark.parametrize("status", STORIES)
def test_no_button_that_is_shown_is_refused_for_the_role(status, reader, sign_in):
    """What a page offers, the door lets through: never 403, whatever else it may say."""
    client = sign_in(reader)
    client.post("/step-up", {"password": PASSWORD, "next": "/"})
    for button in BUTTONS.get(status, {}).get(reader.username.removeprefix("the-"), set()):
        action = told(status, reader)
        path = f"/actions/{action.pk}/{button}"
        if button == "edit":
            assert client.get(path).status_code == 200
            continue
        seen = {"digest": action.digest, "revision": 1, "verdict": "approve", "status": "delivered", "note": "seen"}
        assert client.post(path, seen).status_code in (302, 409), button


def test_what_was_approved_and_never_done_looks_like_no_success(owner, sign_in):
    action = told("expired", owner)
    Action.objects.filter(pk=action.pk).update(reason_code="execute_by", execute_by=clock.now())
    at = {"first_at": clock.now(), "last_at": clock.now()}
    letter = DeadLetter.objects.create(
        kind="action", action_id=action.pk, run=action.run, fingerprint="f" * 16, message="too late", **at
    )
    client = sign_in(owner)
    page = text_of(client.get(f"/actions/{action.pk}"))
    assert "Approved, but not carried out in time" in page
    assert f"D-{letter.pk}" in page
    assert "too late" in client.get("/").content.decode(), "Home names what is in the dead letters"


def test_whose_run_it_was_is_told_how_to_ask_anew(ann, sign_in):
    action = told("expired", ann)
    page = sign_in(ann).get(f"/actions/{action.pk}")
    assert f'href="/runs/{action.run_id}"' in page.content.decode()
    assert "run it again to ask anew" in text_of(page)


def test_the_end_of_its_run_is_named_as_the_reason(ann, sign_in):
    action = told("cancelled", ann)
    Action.objects.filter(pk=action.pk).update(ended_by=None, reason_code="run_ended")
    assert "withdrawn when its run ended" in text_of(sign_in(ann).get(f"/actions/{action.pk}"))
