"""Triggers: what wakes what, and when it last did."""

from collections.abc import Iterable

from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.http import require_safe

from project.lib import clock
from triggers import registry
from triggers import schemas_config as schemas
from triggers.models import Rhythm, Run, Source, Trigger
from triggers.views.beats import heartbeats
from triggers.views.lists import Filters, as_table, list_page

MOST_BEATS = 100  # triggers whose heartbeat is drawn


@require_safe
def triggers(request: HttpRequest) -> HttpResponseBase:
    """Every trigger that is kept: what wakes what, and when it last did."""
    filters = Filters(request.GET, ())
    if filters.as_table:
        return as_table(request, "triggers", schemas.TriggerOut, Trigger.objects.kept(), schemas.TriggerOut.of)
    newest = Run.objects.filter(trigger=OuterRef("pk")).order_by("-queued_at").values("queued_at")[:1]
    rows = list(Trigger.objects.kept().annotate(last_run_at=Subquery(newest)).order_by("slug"))
    beats = heartbeats(clock.of(request), [row.pk for row in rows[:MOST_BEATS]])
    sources = sources_of(rows)
    for row in rows:
        source = sources.get(row.source)
        row.source_kind = source.kind if source else "desk"  # type: ignore[attr-defined]
        row.is_broken = row.handler not in registry.HANDLERS  # type: ignore[attr-defined]
        row.beat = beats.get(row.pk, "")  # type: ignore[attr-defined]
        row.state = state_of(row, source)  # type: ignore[attr-defined]
    archived = Trigger.objects.exclude(archived_at=None).count()
    return list_page(request, "triggers/triggers.html", filters, {"triggers": rows, "archived": archived})


def sources_of(rows: Iterable[Trigger]) -> dict[str, Source]:
    """The sources of these triggers with their rhythm, by slug."""
    return {
        source.slug: source
        for source in Source.objects.select_related("rhythm").filter(slug__in={row.source for row in rows})
    }


def state_of(row: Trigger, source: Source | None) -> str:
    """On, off, paused, or silent: its source should have rung long ago."""
    if not row.enabled or (source and not source.enabled):
        return "disabled"
    if row.mode == "paused":
        return "paused"
    rhythm: Rhythm | None = getattr(source, "rhythm", None)
    return "silent" if rhythm and rhythm.silent_at else "live"
