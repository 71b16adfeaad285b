"""Roles and teams on their pages: everybody sees who is in them, an admin with a fresh sign-in changes that."""

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.models import Group
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from approvals import teams
from project.lib.language import phrase, words
from project.lib.problem import Problem
from project.lib.text import number
from project.people import doors, roles
from project.people.doors import needs, who
from project.people.models import User

MEANINGS = {
    roles.VIEWER: words("sees facts"),
    roles.OPERATOR: words("also sees payloads, runs again, cancels, pauses"),
    roles.REVIEWER: words("decides where no rule names others"),
    roles.ADMIN: words("configures, and changes who is in what"),
}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def all_teams(request: HttpRequest) -> HttpResponseBase:
    """The four roles, and the teams beside them; a POST makes a team."""
    return made(request) if request.method == "POST" else listed(request)


def listed(request: HttpRequest, wrong: str = "", *, status: int = 200) -> HttpResponse:
    active = Count("user", filter=Q(user__is_active=True))
    rows = {group.name: group for group in Group.objects.annotate(people=active).order_by("name")}
    held = [(rows.pop(name), MEANINGS[name]) for name in roles.ROLES if name in rows]
    others = [(group, teams.named_by(group)) for group in rows.values()]
    facts = {"roles": held, "teams": others, "admins": teams.admins(), "fresh": doors.is_fresh(request)}
    context = {**facts, "wrong": wrong, "name": request.POST.get("name", ""), "tab": "teams"}
    return render(request, "approvals/teams.html", context, status=status)


@needs("configure")
def made(request: HttpRequest) -> HttpResponse:
    if not doors.is_fresh(request):
        return doors.to_step_up(reverse("teams"))
    try:
        team = teams.make(request.POST.get("name", ""), by=who(request))
    except Problem as refused:
        return listed(request, refused.detail, status=refused.http)
    messages.success(request, phrase("{name} is made. It has nobody in it yet.", name=team.name))
    return redirect("team", pk=team.pk)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def team(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Who is in it, and which rules ask it."""
    group = get_object_or_404(Group, pk=pk)
    return moved(request, group) if request.method == "POST" else shown(request, group)


def shown(request: HttpRequest, group: Group, wrong: str = "", *, status: int = 200) -> HttpResponse:
    people = group.user_set.order_by("-is_active", "username")
    context = {
        "group": group,
        "meaning": MEANINGS.get(group.name, ""),
        "people": people,
        "others": User.objects.filter(is_active=True).exclude(pk__in=people).order_by("username"),
        "rules": teams.named_by(group),
        "admins": teams.admins(),
        "fresh": doors.is_fresh(request),
        "wrong": wrong,
        "tab": "teams",
    }
    return render(request, "approvals/team.html", context, status=status)


@needs("configure")
def moved(request: HttpRequest, group: Group) -> HttpResponse:
    """Somebody comes, somebody goes, or the team itself does."""
    if not doors.is_fresh(request):
        return doors.to_step_up(reverse("team", args=[group.pk]))
    deeds: dict[str, Callable[[], None]] = {
        "join": lambda: teams.join(group, named(request), by=who(request)),
        "leave": lambda: teams.leave(group, named(request), by=who(request)),
        "drop": lambda: teams.drop(group, by=who(request)),
    }
    deed = request.POST.get("do", "")
    if deed not in deeds:
        return shown(request, group, "That is nothing one can do here.", status=400)
    try:
        deeds[deed]()
    except Problem as refused:
        return shown(request, group, refused.detail, status=refused.http)
    return redirect("teams") if deed == "drop" else redirect("team", pk=group.pk)


def named(request: HttpRequest) -> User:
    return get_object_or_404(User, pk=number(request.POST.get("person", "")))
