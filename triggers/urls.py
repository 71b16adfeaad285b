"""Addresses of the machine's pages. Whatever changes something is a noun one POSTs to."""

from django.urls import path

from triggers.models import Source, Trigger
from triggers.views import (
    audit,
    dead_letter,
    dead_letters,
    events,
    handlers,
    on_off,
    runs,
    sources,
    trigger_editor,
    triggers,
)

urlpatterns = [
    path("events", events.events, name="events"),
    path("events/<int:seq>", events.event, name="event"),
    path("events/<int:seq>/raw", events.event_raw, name="event-raw"),
    path("events/<int:seq>/reruns", events.run_event_again, name="event-run-again"),
    path("runs", runs.runs, name="runs"),
    path("runs/<int:pk>", runs.run, name="run"),
    path("runs/<int:pk>/cancellation", runs.cancel_run, name="run-cancel"),
    path("runs/<int:pk>/reruns", runs.run_again, name="run-again"),
    path("runs/<int:pk>/choice", runs.unblock_run, name="run-unblock"),
    path("dead-letters", dead_letters.dead_letters, name="dead-letters"),
    path("dead-letters/g/<slug:fingerprint>", dead_letters.group, name="dead-letter-group"),
    path("dead-letters/<int:pk>", dead_letter.dead_letter, name="dead-letter"),
    path("dead-letters/<int:pk>/edit", dead_letter.edit_letter, name="dead-letter-edit"),
    path("dead-letters/<int:pk>/reruns", dead_letter.redrive_letter, name="dead-letter-redrive"),
    path("dead-letters/<int:pk>/dismissal", dead_letter.dismiss_letter, name="dead-letter-dismiss"),
    path("triggers", triggers.triggers, name="triggers"),
    path("triggers/new", trigger_editor.trigger_new, name="trigger-new"),
    path("triggers/<slug:slug>", trigger_editor.trigger_edit, name="trigger-edit"),
    path("triggers/<slug:slug>/switch", on_off.switch, {"of": Trigger}, name="trigger-switch"),
    path("triggers/<slug:slug>/archive", on_off.archive, {"of": Trigger}, name="trigger-archive"),
    path("sources", sources.sources, name="sources"),
    path("sources/new", sources.source_new, name="source-new"),
    path("sources/<slug:slug>", sources.source_edit, name="source-edit"),
    path("sources/<slug:slug>/secrets", sources.source_secret, name="source-secret"),
    path("sources/<slug:slug>/secrets/end", sources.source_secret_end, name="source-secret-end"),
    path("sources/<slug:slug>/switch", on_off.switch, {"of": Source}, name="source-switch"),
    path("sources/<slug:slug>/rings", sources.ring_source, name="source-ring"),
    path("sources/<slug:slug>/archive", on_off.archive, {"of": Source}, name="source-archive"),
    path("sources/<slug:slug>/refusals/<int:pk>/admission", sources.admit_refusal, name="refusal-admit"),
    path("audit", audit.audit, name="audit"),
    path("breakers/closing", handlers.close_breaker, name="breaker-close"),
    path("handlers", handlers.handlers, name="handlers"),
    path("handlers/<path:name>", handlers.handler, name="handler"),
]
