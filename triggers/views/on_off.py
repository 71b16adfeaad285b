"""The buttons that sources and triggers share: on, off, out of use."""

from typing import Any, cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from project.lib.language import phrase, spoken
from project.lib.problem import Problem
from project.lib.text import reason_of
from project.people.doors import needs, who
from triggers import upkeep
from triggers.errors import NotValid
from triggers.models import Source, Trigger

PAGES: dict[Any, tuple[str, str, str]] = {  # the list, the row's own page, what is left of an archived one
    Source: ("sources", "source-edit", "Its events stay."),
    Trigger: ("triggers", "trigger-edit", "Its runs stay."),
}


@require_POST
@needs("configure")
def switch(request: HttpRequest, slug: str, of: type[Source] | type[Trigger]) -> HttpResponse:
    """On or off. While a source is off its address answers 404 and its clock stands still."""
    row = cast("Source | Trigger", get_object_or_404(of, slug=slug))
    listed, page, _ = PAGES[of]
    on = request.POST.get("on") == "1"
    try:
        upkeep.switch(row, on=on, by=who(request), reason=reason_of(request.POST.get("reason", ""), NotValid))
    except Problem as refused:
        messages.error(request, refused.detail)
    else:
        messages.success(request, phrase("{slug} is {which}.", slug=slug, which=spoken("on" if on else "off")))
    return redirect(listed) if request.POST.get("back") == "list" else redirect(page, slug=slug)


@require_POST
@needs("configure")
def archive(request: HttpRequest, slug: str, of: type[Source] | type[Trigger]) -> HttpResponse:
    """Out of use for good; what it did stays readable."""
    row = cast("Source | Trigger", get_object_or_404(of, slug=slug, archived_at=None))
    listed, _, left = PAGES[of]
    upkeep.archive(row, by=who(request))
    messages.success(request, phrase("{slug} is archived. {left}", slug=slug, left=left))
    return redirect(listed)
