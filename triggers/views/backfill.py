"""The slots of a past range, rung now: what a schedule missed while nobody was there."""

from datetime import UTC, datetime

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from project.lib.problem import Problem
from project.people.doors import needs, who
from triggers import fire
from triggers.errors import NotValid
from triggers.models import Source
from triggers.sources.schedule import parse_schedule


@require_POST
@needs("operate")
def backfill(request: HttpRequest, slug: str) -> HttpResponse:
    """`since` and `until` are typed in the schedule's own zone."""
    row = get_object_or_404(Source.objects.open(), slug=slug, kind="schedule")
    try:
        since, until = (moment(row, request.POST.get(name, ""), name) for name in ("since", "until"))
        filled = fire.backfill(row, since, until, by=who(request))
    except Problem as refused:
        messages.error(request, refused.detail)
    else:
        words = "1 slot rings" if filled == 1 else f"{filled} slots ring"
        messages.success(
            request, f"{words} within seconds; what had rung rings no more." if filled else "All had rung."
        )
    return redirect("source-edit", slug=slug)


def moment(source: Source, text: str, field: str) -> datetime:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=parse_schedule(source.config).zone).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise NotValid("A day and a time, such as 2027-03-01T09:30.", field=field) from error
