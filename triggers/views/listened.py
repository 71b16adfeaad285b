"""The button of a source that is listened to: does the connection hold?"""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from project.lib.problem import Problem
from project.people.doors import needs
from triggers.listeners.tryout import try_out
from triggers.models import Source


@require_POST
@needs("configure")
def try_source(request: HttpRequest, slug: str) -> HttpResponse:
    """Connect once with what is saved; nothing is read and nothing rings."""
    row = get_object_or_404(Source.objects.kept(), slug=slug)
    try:
        messages.success(request, try_out(row))
    except Problem as refused:
        messages.error(request, refused.detail)
    return redirect("source-edit", slug=slug)
