"""Buttons of the admin: each asks once more on a page of its own, and its form calls the door that everybody calls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from approvals import decide
from project.lib.bare import without
from project.lib.language import phrase, words
from project.lib.problem import Problem
from project.people.doors import who
from project.people.models import User
from project.people.roles import can
from triggers import redrive

with without("django.contrib.postgres.fields"):  # as in project/admin.py
    from unfold.decorators import action

METHODS = ("GET", "HEAD", "POST")


@dataclass(frozen=True)
class Button:
    """`call(row, person, reason)` is the door; `ability` is what its pages ask for, "" where the door asks itself."""

    words: str
    call: Callable[[Any, User, str], object]
    ability: str = "operate"


BUTTONS: dict[str, dict[str, Button]] = {
    "triggers.run": {
        "cancel": Button(words("Cancel this run"), lambda run, by, why: redrive.cancel(run, by=by, reason=why)),
    },
    "triggers.deadletter": {
        "run_again": Button(words("Run it again"), lambda row, by, why: redrive.redrive(row, by=by, reason=why)),
        "dismiss": Button(words("Dismiss it"), lambda row, by, why: redrive.dismiss(row, by=by, reason=why)),
    },
    "approvals.action": {
        "withdraw": Button(
            words("Withdraw this request"), lambda row, by, why: decide.cancel(row, by=by, reason=why), ability=""
        ),
    },
}


def buttons_of(label: str) -> dict[str, Any]:
    """What the window of a model has beside its rows: one member a button, and the list of them."""
    made = {name: asked_first(name, button) for name, button in BUTTONS.get(label, {}).items()}
    return {**made, "actions_detail": tuple(made)}


def asked_first(name: str, button: Button) -> Any:
    """The page of a button: opening it changes nothing, sending its form calls the door."""

    def ask(window: Any, request: HttpRequest, object_id: str) -> HttpResponse:
        if button.ability and not can(request.user, button.ability):
            raise PermissionDenied("This needs the role operator. An admin can give it to you.")
        row = window.get_object(request, object_id)
        if row is None or request.method not in METHODS:
            raise Http404
        if request.method == "POST":
            press(request, button, row)
            return redirect(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", object_id)
        context = {**window.admin_site.each_context(request), "row": row, "button": button, "title": button.words}
        return render(request, "admin/ask.html", context)

    ask.__name__ = name
    return action(description=button.words, url_path=name.replace("_", "-"))(ask)


def press(request: HttpRequest, button: Button, row: Any) -> None:
    """Call the door, and say what came of it on the page that follows."""
    try:
        button.call(row, who(request), request.POST.get("reason", ""))
    except Problem as refused:
        messages.error(request, refused.detail)
    else:
        messages.success(request, phrase("Done."))
