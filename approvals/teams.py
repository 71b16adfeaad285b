"""Roles and teams: who holds them, who may change that, and what must not happen to them."""

from typing import Any

from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction

from approvals.errors import InUse, NotValid
from approvals.models import Action, PolicyRule
from project.lib.live import changed
from project.people import roles
from project.people.models import User
from triggers.models import Audit

LONGEST_NAME = 64


def make(name: str, *, by: User) -> Group:
    """A team without members, so nobody yet. Raises NotValid."""
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise NotValid(f"A team has a name of 1 to {LONGEST_NAME} printable characters.", field="name")
    try:
        with transaction.atomic():
            team = Group.objects.create(name=name)
            Audit.write("create", team, by=by, name=name)
            changed("teams", id=team.pk)
    except IntegrityError:
        raise NotValid(f"There is a team or role {name} already.", field="name") from None
    return team


def join(group: Group, person: User, *, by: User) -> None:
    """From now on `person` holds the role, or is in the team. Raises NotValid for somebody who left."""
    if not person.is_active:
        raise NotValid(f"{person} has left.", field="person")
    with transaction.atomic():
        hold(group)
        if not group.user_set.filter(pk=person.pk).exists():
            group.user_set.add(person)
            Audit.write("join", group, by=by, name=group.name, person=person.username)
            changed("teams", id=group.pk)


def leave(group: Group, person: User, *, by: User) -> None:
    """From now on no more, also for what waits already. Raises LastAdmin."""
    with transaction.atomic():
        hold(group)
        if not group.user_set.filter(pk=person.pk).exists():
            return
        if group.name == roles.ADMIN:
            roles.check_admin_stays(without=person)
        group.user_set.remove(person)
        Audit.write("leave", group, by=by, name=group.name, person=person.username)
        changed("teams", id=group.pk)


def drop(group: Group, *, by: User) -> None:
    """The team is gone. Raises InUse for a role, and for a team that a rule or a waiting action names."""
    with transaction.atomic():
        hold(group)
        check_unused(group)
        Audit.write("delete", group, by=by, name=group.name)
        changed("teams", id=group.pk)
        group.delete()


def hold(group: Group) -> None:
    """Until the transaction ends nobody else changes it."""
    Group.objects.select_for_update(no_key=True).get(pk=group.pk)


def check_unused(group: Group) -> None:
    """Raises InUse: a rule that names a team which is gone would wait for nobody."""
    if group.name in roles.ROLES:
        raise InUse(f"{group.name} is a role of the desk.")
    rules = named_by(group)
    if rules:
        raise InUse(f"The rule {rules[0]} names it.")
    waiting = next((row.pk for row in Action.objects.awaiting().only("groups") if names(row.groups, group)), None)
    if waiting:
        raise InUse(f"A-{waiting} waits for it.")


def names(groups: list[dict[str, Any]], group: Group) -> bool:
    return any(group.name in one["reviewers"] for one in groups)


def named_by(group: Group) -> list[str]:
    """Rules of the policy that ask this role or team."""
    kept = PolicyRule.objects.kept().in_order().only("slug", "reviewers")
    return [rule.slug for rule in kept if group.name in rule.reviewers]


def admins() -> list[User]:
    """Who may change roles and teams."""
    return list(User.objects.filter(is_active=True, groups__name=roles.ADMIN).order_by("username"))
