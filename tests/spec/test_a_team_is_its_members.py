"""Roles and teams: who is in them in that moment may decide; an admin changes them, and cannot lock everybody out."""

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from approvals import asking, teams, telling
from approvals.errors import InUse, NotReviewer, NotValid
from project.people import roles
from project.people.models import User
from project.people.roles import LastAdmin
from tests import builders
from tests.conftest import PASSWORD, person
from tests.nodding import now_of, say
from tests.ruled import rule, team
from tests.telling import a_chat, reach, receipts
from triggers.models import Audit

pytestmark = pytest.mark.django_db
TEAMS = "/settings/teams"
PULLS = 'action.kind == "github.create_pr"'


@pytest.fixture
def desk(owner: User, sign_in: Any) -> Client:
    """The owner's browser, freshly signed in."""
    client = sign_in(owner)
    client.post("/step-up", {"password": PASSWORD, "next": "/"})
    return client


def page_of(group: Group) -> str:
    return f"{TEAMS}/{group.pk}"


def test_who_is_in_a_team_without_a_role_opens_and_decides_what_he_is_asked(ann: User, eve: User, sign_in: Any) -> None:
    action = builders.action(by=ann)
    assert sign_in(eve).get(f"/actions/{action.pk}").status_code == 403
    team("treasury", eve)
    rule("money", PULLS, "require", reviewers=["treasury"])
    action = builders.action(by=ann, groups=[{"reviewers": ["treasury"], "quorum": 1}])
    browser = sign_in(eve)
    for path in ("/approvals", f"/actions/{action.pk}", "/settings/notifications"):
        assert browser.get(path).status_code == 200
    assert browser.get("/admin/").status_code == 403
    seen = {"verdict": "approve", "digest": action.digest, "revision": 1}
    assert browser.post(f"/actions/{action.pk}/decisions", seen).status_code == 302
    said = action.decisions.get()
    assert (said.by, said.remote, now_of(action).status) == (eve, "127.0.0.1", "approved")


def test_an_admin_makes_a_team_and_puts_people_in(desk: Client, owner: User, ben: User) -> None:
    made = desk.post(TEAMS, {"name": "finance"})
    group = Group.objects.get(name="finance")
    assert made.url == page_of(group)
    assert "Nobody is not everybody" in desk.get(page_of(group)).content.decode()
    assert desk.post(page_of(group), {"do": "join", "person": ben.pk}).status_code == 302
    assert list(group.user_set.all()) == [ben]
    assert desk.post(page_of(group), {"do": "leave", "person": ben.pk}).status_code == 302
    assert not group.user_set.exists()
    told = [(row.verb, row.by, row.detail.get("person")) for row in Audit.objects.filter(kind="group").order_by("pk")]
    assert told == [("create", owner, None), ("join", owner, "ben"), ("leave", owner, "ben")]


def test_who_leaves_a_team_may_not_decide_what_waits_already(desk: Client, ann: User, ben: User) -> None:
    group = team("finance", ben)
    rule("finance", PULLS, reviewers=["finance"])
    action = builders.action(by=ann)
    teams.leave(group, ben, by=ann)
    with pytest.raises(NotReviewer):
        say(action, ben)
    teams.join(group, ben, by=ann)
    assert say(now_of(action), ben).status == "approved"


def test_who_leaves_a_team_is_not_told_what_was_on_its_way_to_him(ann: User, ben: User) -> None:
    group = team("finance", ben)
    rule("finance", PULLS, reviewers=["finance"])
    with a_chat() as chat:
        reach(ben, "slack", "U2")
        asking.begin(builders.action(by=ann).pk)
        teams.leave(group, ben, by=ann)
        telling.tick()
        assert (receipts(), chat.messages) == ([("ben", "ask", "skipped")], {})


@pytest.mark.parametrize("deed", ["join", "leave", "drop"])
def test_only_an_admin_with_a_fresh_sign_in_changes_who_is_in(
    deed: str, ann: User, ben: User, owner: User, sign_in: Any
) -> None:
    group = team("finance", ben)
    wish = {"do": deed, "person": ben.pk}
    assert sign_in(ann).post(page_of(group), wish).status_code == 403
    assert sign_in(owner).post(page_of(group), wish).url.startswith("/step-up")
    assert sign_in(owner).post(TEAMS, {"name": "more"}).url.startswith("/step-up")
    assert list(group.user_set.all()) == [ben]
    assert sign_in(ann).get(page_of(group)).status_code == 200, "everybody with a role sees who decides"


def test_the_last_admin_stays(desk: Client, owner: User, ben: User) -> None:
    admins = Group.objects.get(name=roles.ADMIN)
    answer = desk.post(page_of(admins), {"do": "leave", "person": owner.pk})
    assert answer.status_code == 409
    assert "Somebody must stay admin" in answer.content.decode()
    gone = person("cem", roles.ADMIN)
    User.objects.filter(pk=gone.pk).update(is_active=False)
    with pytest.raises(LastAdmin):
        teams.leave(admins, owner, by=owner)
    teams.join(admins, ben, by=owner)
    teams.leave(admins, owner, by=owner)
    assert list(admins.user_set.filter(is_active=True)) == [ben]


@pytest.mark.parametrize("change", [{"is_active": ""}, {"groups": []}])
def test_the_last_admin_stays_in_the_admin_too(change: dict[str, Any], desk: Client, owner: User) -> None:
    held = [str(pk) for pk in owner.groups.values_list("pk", flat=True)]
    form = {"username": "owner", "first_name": "", "last_name": "", "email": "", "is_active": "on", "groups": held}
    answer = desk.post(f"/admin/people/user/{owner.pk}/change/", {**form, **change})
    assert "Somebody must stay admin" in answer.content.decode()
    owner.refresh_from_db()
    assert owner.is_active
    assert owner.groups.filter(name=roles.ADMIN).exists()
    assert desk.post(f"/admin/people/user/{owner.pk}/delete/", {"post": "yes"}).status_code == 403


def test_a_team_that_is_asked_is_not_taken_away(desk: Client, owner: User, ann: User, ben: User) -> None:
    group = team("finance", ben)
    rule("finance", PULLS, reviewers=["finance"])
    with pytest.raises(InUse):
        teams.drop(group, by=owner)
    assert desk.post(f"/admin/auth/group/{group.pk}/delete/", {"post": "yes"}).status_code == 403
    assert desk.post(page_of(Group.objects.get(name=roles.REVIEWER)), {"do": "drop"}).status_code == 409
    waits = team("legal", ben)
    builders.action(by=ann, groups=[{"reviewers": ["legal"], "quorum": 1}])
    with pytest.raises(InUse):
        teams.drop(waits, by=owner)
    free = team("spare")
    assert desk.post(page_of(free), {"do": "drop"}).url == TEAMS
    assert not Group.objects.filter(name="spare").exists()


@pytest.mark.parametrize("name", ["", "  ", "x" * 65, "two\nlines", "reviewer"])
def test_a_team_has_a_name_of_its_own(name: str, owner: User) -> None:
    with pytest.raises(NotValid):
        teams.make(name, by=owner)


def test_somebody_who_left_joins_nothing(owner: User, ben: User) -> None:
    User.objects.filter(pk=ben.pk).update(is_active=False)
    ben.refresh_from_db()
    with pytest.raises(NotValid):
        teams.join(team("finance"), ben, by=owner)


class TestALoneAdmin:
    """He is told before he saves a rule that he could not undo, or that nobody could fulfil."""

    def tried(self, desk: Client, **given: Any) -> str:
        wish = {"when": PULLS, "effect": "require", "order": "100", "zone": "UTC", "slug": "fresh", "do": "try"}
        return desk.post("/policies/new", {**wish, **given}).content.decode()

    def test_that_loosening_high_takes_a_second_admin(self, desk: Client) -> None:
        assert "There is one admin" in self.tried(desk, tier="high")
        assert "There is one admin" in self.tried(desk, effect="deny")
        assert "There is one admin" not in self.tried(desk)
        person("cem", roles.ADMIN)
        assert "There is one admin" not in self.tried(desk, tier="high")

    def test_that_there_are_too_few_people(self, desk: Client, ben: User) -> None:
        assert "needs 3 of reviewer and there are only 2" in self.tried(desk, quorum="3")
        assert "nobody could approve" not in self.tried(desk, quorum="2")
        assert "what one of them asked for, nobody could approve" in self.tried(desk, quorum="2", four_eyes="on")
        team("finance")
        assert "needs 1 of finance and there are only 0" in self.tried(desk, reviewers="finance")

    def test_in_the_api_too(self, desk: Client) -> None:
        wish = {"slug": "fresh", "when": PULLS, "effect": "require", "quorum": 5}
        told = desk.post("/api/v1/policy-backtests", wish, content_type="application/json").json()
        assert told["warns"] == ["It needs 5 of reviewer and there is only 1: nobody could approve what it means."]
