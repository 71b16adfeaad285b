"""The switch in the browser: stop everything, or one kind, handler or source, at once and without a date."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from approvals.kinds import KINDS
from approvals.models import Action
from approvals.models.action import SETTLED
from project.lib.language import phrase
from project.lib.text import LONGEST_REASON
from project.people.doors import needs, who
from triggers import pausing
from triggers.forms.fields import DeskForm
from triggers.models import Run, Source, Switch
from triggers.registry import HANDLERS


def choices() -> list[tuple[str, Any]]:
    """What there is, or still waits although no code of ours knows it (`external.…`), so that nobody stops a
    name that he has misspelt; `scope name` is what comes back."""
    slugs = Source.objects.kept().order_by("slug").values_list("slug", flat=True)
    kinds = {*KINDS, *Action.objects.exclude(status__in=SETTLED).order_by().values_list("kind", flat=True).distinct()}
    handlers = {*HANDLERS, *Run.objects.live().order_by().values_list("handler", flat=True).distinct()}
    groups = (("kind", "Actions of a kind", sorted(kinds)), ("handler", "A handler", sorted(handlers)))
    named = [
        (label, [(f"{scope} {name}", name) for name in names])
        for scope, label, names in (*groups, ("source", "A source", slugs))
    ]
    return [("all", "Everything"), *((label, names) for label, names in named if names)]


class SwitchForm(DeskForm):
    """What is to stop, and why."""

    what = forms.ChoiceField(label="What stops?", choices=choices)
    reason = forms.CharField(
        label="Why?",
        required=False,
        max_length=LONGEST_REASON,
        help_text="People read it where something waits for it.",
    )

    def clean_what(self) -> tuple[str, str]:
        scope, _, name = self.cleaned_data["what"].partition(" ")
        return scope, name


@require_POST
@needs("operate")
def stop(request: HttpRequest) -> HttpResponse:
    """From the commit on nothing starts that it holds back, also of what is approved."""
    form = SwitchForm(request.POST)
    if form.is_valid():
        row = pausing.pause(*form.cleaned_data["what"], by=who(request), reason=form.cleaned_data["reason"])
        messages.success(request, phrase("Stopped: {row}. What has begun ends; nothing new begins.", row=row))
    else:
        messages.error(request, "Nothing was stopped: pick what from the list, and keep the reason short.")
    return redirect("freezes")


@require_POST
@needs("operate")
def go_on(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Switch.objects.off(), pk=pk)
    pausing.resume(row.scope, row.name, by=who(request))
    messages.success(request, phrase("{row} goes on. What is due starts within seconds.", row=row))
    return redirect("freezes")
