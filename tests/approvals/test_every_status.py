"""An action's page in every status, for every role: what happened, what follows, and only the buttons that help."""

import re
from datetime import timedelta
from typing import Any

import pytest

from approvals.models import Action
from project.lib import clock
from project.people import roles
from project.people.roles import can
from tests import builders, ruled
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
    "awaiting": {"viewer": set(), "operator": {"cancel"}, "reviewer": {"decisions", "edit", "cancel"}, "admin": set()},
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
    assert ("b.txt" in answer.content.decode()) == arguments_shown
    assert client.get(f"/approvals?sel={action.pk}&tab=decided").status_code == 200


# the same where a rule made since asks the team finance, and treats it as high
OF_THE_TEAM: dict[str, dict[str, set[str]]] = {
    "awaiting": {"operator": {"cancel"}, "reviewer": set(), "admin": set(), "finance": {"decisions", "edit", "cancel"}},
    "approved": {
        "operator": {"cancel"},
        "reviewer": set(),
        "admin": {"take-back"},
        "finance": {"take-back", "cancel"},
    },
    "unknown": {"operator": set(), "reviewer": set(), "admin": set(), "finance": {"outcome"}},
}


def each(table: dict[str, dict[str, set[str]]]) -> list[tuple[str, str, str, str]]:
    """Every button that is shown, pressed on the page and, but for a form that is opened, asked for by the API."""
    shown = [(status, role, button) for status, of in table.items() for role, has in of.items() for button in has]
    return [(way, *one) for one in sorted(shown) for way in ("page", "api") if (way, one[-1]) != ("api", "edit")]


VERBS = {"awaiting": ("decisions", "cancel"), "approved": ("take-back", "cancel"), "unknown": ("outcome",)}
HIDDEN = [
    (status, role, verb)
    for status, of in OF_THE_TEAM.items()
    for role, shown in of.items()
    for verb in VERBS[status]
    if verb not in shown
]


def one_of(role: str):
    if role in roles.ROLES:
        return person(f"the-{role}", role)
    member = person(f"the-{role}")
    ruled.team(role, member)
    return member


def told_the_team(status: str, reader) -> Action:
    """An action that was asked as high of the reviewers, before there was a rule that names a team."""
    action = told(status, reader)
    said = {"digest": action.digest, "revision": 1, "at": clock.now(), "reason": "because", "verdict": "approve"}
    if status == "approved" and reader.username == "the-finance":
        action.decisions.create(by=reader, **said)
    if status == "approved" and reader.username == "the-reviewer":
        action.decisions.all().delete()
    Action.objects.filter(pk=action.pk).update(tier="high")
    ruled.team("finance")
    ruled.rule("finance-looks", 'action.kind == "github.create_pr"', tier="high", reviewers=["finance"])
    action.refresh_from_db()
    return action


def pressed(client, action: Action, button: str):
    """On the page, with a fresh sign-in."""
    client.post("/step-up", {"password": PASSWORD, "next": "/"})
    path = f"/actions/{action.pk}/{button}"
    if button == "edit":
        return client.get(path)
    seen = {"digest": action.digest, "revision": action.revision, "verdict": "approve", "reason": "looks right"}
    return client.post(path, {**seen, "status": "delivered", "note": "seen"})


def asked(client, action: Action, verb: str):
    """By the API, with a fresh sign-in."""
    client.post("/step-up", {"password": PASSWORD, "next": "/"})
    bodies = {
        "decisions": {"digest": action.digest, "revision": action.revision, "verdict": "approve", "reason": "right"},
        "outcome": {"status": "delivered", "note": "seen"},
    }
    path = f"/api/v1/actions/{action.pk}/{verb}"
    return client.post(path, bodies.get(verb, {}), content_type="application/json")


def does(way: str, client, action: Action, button: str) -> bool:
    if way == "page":
        return pressed(client, action, button).status_code == (200 if button == "edit" else 302)
    return asked(client, action, button).status_code in (200, 201)


@pytest.mark.parametrize(("way", "status", "role", "button"), each(BUTTONS))
def test_a_button_that_is_shown_does_it_and_so_does_the_api(way, status, role, button, sign_in):
    reader = one_of(role)
    assert does(way, sign_in(reader), told(status, reader), button)


@pytest.mark.parametrize(("status", "role"), [(status, role) for status, of in OF_THE_TEAM.items() for role in of])
def test_the_page_offers_the_team_that_is_asked_what_its_members_may_do(status, role, sign_in):
    reader = one_of(role)
    action = told_the_team(status, reader)
    page = sign_in(reader).get(f"/actions/{action.pk}").content.decode()
    assert buttons(page, action) == OF_THE_TEAM[status][role]
    assert ("b.txt" in page) == (role != "admin")


@pytest.mark.parametrize(("way", "status", "role", "button"), each(OF_THE_TEAM))
def test_what_a_named_team_is_offered_it_may_do(way, status, role, button, sign_in):
    reader = one_of(role)
    assert does(way, sign_in(reader), told_the_team(status, reader), button)


@pytest.mark.parametrize(("status", "role", "verb"), HIDDEN)
def test_what_is_not_offered_is_refused_on_the_page_and_by_the_api(status, role, verb, sign_in):
    reader = one_of(role)
    action, client = told_the_team(status, reader), sign_in(reader)
    assert pressed(client, action, verb).status_code == 403
    assert asked(client, action, verb).json()["code"] == "not_reviewer"


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
