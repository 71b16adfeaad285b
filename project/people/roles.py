"""Four independent roles, each a Django group; a superuser is none of them by that."""

from typing import TYPE_CHECKING

from django.contrib.auth.models import AnonymousUser, Group

from project.lib.problem import Problem

if TYPE_CHECKING:
    from project.people.models import User

VIEWER, OPERATOR, REVIEWER, ADMIN = ROLES = ("viewer", "operator", "reviewer", "admin")
ABILITIES: dict[str, frozenset[str]] = {
    "view": frozenset(ROLES),
    "payloads": frozenset({OPERATOR}),
    "operate": frozenset({OPERATOR}),
    "decide": frozenset({REVIEWER}),
    "configure": frozenset({ADMIN}),
}


class LastAdmin(Problem):
    """Somebody must stay admin; give the role to another person first."""

    code = "last_admin"
    http = 409


def check_admin_stays(*, without: "User") -> None:
    """Inside a transaction: raises LastAdmin when no other active person is admin. Two who go at once wait here."""
    role = Group.objects.select_for_update(no_key=True).filter(name=ADMIN).first()
    if role is not None and not role.user_set.filter(is_active=True).exclude(pk=without.pk).exists():
        raise LastAdmin


def roles_of(user: "User | AnonymousUser") -> frozenset[str]:
    """The roles a signed-in, active person holds now; asked once per user object."""
    return groups_of(user) & frozenset(ROLES)


def groups_of(user: "User | AnonymousUser") -> frozenset[str]:
    """Roles and teams."""
    if not user.is_authenticated or not user.is_active:
        return frozenset()
    if not hasattr(user, "_groups"):
        user._groups = frozenset(user.groups.values_list("name", flat=True))  # type: ignore[attr-defined]
    groups: frozenset[str] = user._groups  # type: ignore[attr-defined]
    return groups


def can(user: "User | AnonymousUser", ability: str) -> bool:
    """Whether `user` may `view`, see `payloads`, `operate`, `decide` or `configure`.

    Who is in a team may view: rules name teams to decide, and who is asked must be able to open it."""
    return bool(groups_of(user)) if ability == "view" else bool(ABILITIES[ability] & roles_of(user))


def grant(user: "User", *roles: str) -> None:
    """Put `user` into the named roles."""
    user.groups.add(*(Group.objects.get_or_create(name=role)[0] for role in roles))
    user.__dict__.pop("_groups", None)
