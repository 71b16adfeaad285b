"""Handlers: the code that is loaded, and the files that could not be."""

from django.conf import settings
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from triggers import registry
from triggers.models import Run, Trigger


@require_safe
def handlers(request: HttpRequest) -> HttpResponse:
    """Every handler by name: what it does, its version, where it stands, what wakes it."""
    newest = Run.objects.values("handler").annotate(newest=Max("pk")).values("newest").order_by()
    last = dict(Run.objects.filter(pk__in=newest).values_list("handler", "queued_at"))
    woken: dict[str, list[str]] = {}
    for slug, handler in Trigger.objects.kept().order_by("slug").values_list("slug", "handler"):
        woken.setdefault(handler, []).append(slug)
    rows = [
        {"code": code, "doc": code.doc.strip(), "last": last.get(name), "triggers": woken.get(name, [])}
        for name, code in sorted(registry.HANDLERS.items())
    ]
    missing = sorted(set(woken) - set(registry.HANDLERS))
    context = {
        "handlers": rows,
        "broken": [file for _, file in sorted(registry.BROKEN.items())],
        "missing": [(name, woken[name]) for name in missing],
        "folder": settings.HANDLERS_DIR,
    }
    return render(request, "triggers/handlers.html", context)
