"""Triggers: what wakes what, and when it last did."""

from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.http import require_safe

from triggers import registry
from triggers import schemas_config as schemas
from triggers.models import Run, Source, Trigger
from triggers.views.lists import Filters, as_table, list_page


@require_safe
def triggers(request: HttpRequest) -> HttpResponseBase:
    """Every trigger that is kept: what wakes what, and when it last did."""
    filters = Filters(request.GET, ())
    if filters.as_table:
        return as_table(request, "triggers", schemas.TriggerOut, Trigger.objects.kept(), schemas.TriggerOut.of)
    newest = Run.objects.filter(trigger=OuterRef("pk")).order_by("-pk").values("queued_at")[:1]
    rows = list(Trigger.objects.kept().annotate(last_run_at=Subquery(newest)).order_by("slug"))
    kinds = dict(Source.objects.values_list("slug", "kind"))
    for row in rows:
        row.source_kind = kinds.get(row.source, "desk")  # type: ignore[attr-defined]
        row.is_broken = row.handler not in registry.HANDLERS  # type: ignore[attr-defined]
        row.state = state_of(row)  # type: ignore[attr-defined]
    archived = Trigger.objects.exclude(archived_at=None).count()
    return list_page(request, "triggers/triggers.html", filters, {"triggers": rows, "archived": archived})


def state_of(row: Trigger) -> str:
    if not row.enabled:
        return "disabled"
    return "paused" if row.mode == "paused" else "live"
