"""The page for somebody who has one real request and a secret, and nobody who says how it is signed."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from project.people.doors import needs
from triggers.forms.door import SCHEME
from triggers.forms.fit import FitForm
from triggers.models import Source
from triggers.sources.verify import catalogue


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs("configure")
def fit_request(request: HttpRequest) -> HttpResponse:
    """Say which provider, or which description, would have taken it, and lead to the form of such a source."""
    form = FitForm(request.POST or None)
    found = [shown(one) for one in form.fits()] if form.is_valid() else None
    context = {"form": form, "wrong": form.wrong, "found": found}
    return render(request, "triggers/source_fit.html", context, status=422 if form.is_bound and found is None else 200)


def shown(fit: dict[str, Any]) -> dict[str, Any]:
    """What fits, in words, and the address of the filled-in form."""
    provider, config = fit["provider"], fit["config"]
    kind = provider if provider in {*Source.CHATS, "cloudevents"} else "webhook"
    fields = {SCHEME.get(name, name): value for name, value in config.items()}
    said = {"kind": kind, **({"provider": provider} if kind == "webhook" else {}), **fields}
    name = catalogue()[provider].get("name", provider) if provider in catalogue() else "A scheme of your own"
    return {"name": name, "config": config, "link": f"{reverse('source-new')}?{urlencode(said)}"}
