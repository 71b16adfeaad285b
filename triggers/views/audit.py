"""The audit log: who did what to what, newest first, and nothing in it can be changed."""

from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.urls import NoReverseMatch, reverse
from django.views.decorators.http import require_safe

from project.lib.language import spoken
from project.lib.table import streamed
from project.people.doors import needs
from project.people.roles import can
from project.templatetags.desk import short_digest
from triggers import sealing
from triggers.models import Audit
from triggers.schemas_audit import AuditFilters, AuditRow, without_headline
from triggers.views.audit_words import YES_AND_NO
from triggers.views.lists import Filters, as_table, list_page, listing

FILTERS = ("actor", "verb", "subject", "since", "until")
MOST_WAITING = 1000  # unsealed rows that are counted
LONGEST = 300  # characters of what is said beside a deed
# kind of row -> its page, and the letter it is called by
PAGES = {
    "action": ("action", "A-"),
    "run": ("run", "R-"),
    "event": ("event", "E-"),
    "deadletter": ("dead-letter", "D-"),
    "cause": ("dead-letter-group", ""),
    "bulk": ("bulk-job", "B-"),
    "source": ("source-edit", ""),
    "trigger": ("trigger-edit", ""),
    "connection": ("connection-edit", ""),
    "policyrule": ("policy-edit", ""),
    "policychange": ("policy-change", ""),
}


@require_safe
def audit(request: HttpRequest) -> HttpResponseBase:
    """The list."""
    filters = Filters(request.GET, FILTERS)
    everything = Audit.objects.select_related("by")
    rows = filters.narrow(everything, AuditFilters)
    payload = can(request.user, "payloads") or can(request.user, "decide")
    if filters.as_table:
        return as_table(request, "audit", AuditRow, rows, partial(AuditRow.of, payload=payload))
    found = listing(rows, everything, filters)
    for row in found.rows:
        row.page = page_of(row)
        row.words = words_of(row.detail if payload else without_headline(row.detail))
    return list_page(request, "triggers/audit.html", filters, {"list": found, "picks": [], "seal": seal()})


@require_safe
@needs("payloads", "decide")
def export(request: HttpRequest) -> HttpResponseBase:
    """All of it that is sealed, as lines of JSON: each as it was sealed, with what people saw."""
    return streamed(request, "audit.jsonl", "application/x-ndjson; charset=utf-8", sealing.exported())


def seal() -> dict[str, Any]:
    """How far the log is sealed, and how many rows wait for it."""
    return {"head": sealing.head(), "waiting": Audit.objects.unsealed()[:MOST_WAITING].count(), "most": MOST_WAITING}


def page_of(row: Audit) -> dict[str, Any]:
    """What it was done to in words, with the address of its page when it has one."""
    name, letter = PAGES.get(row.kind, ("", ""))
    try:
        url = reverse(name, args=[row.ref]) if name else ""
    except NoReverseMatch:  # a ref that is no number any more
        url = ""
    return {"url": url, "words": f"{letter}{row.ref}" if letter else row.subject}


def words_of(detail: dict[str, Any]) -> str:
    """The details in one line; empty ones are left out."""
    given = ((spoken(name.strip("_").replace("_", " ")), value) for name, value in detail.items())
    text = "; ".join(f"{name}: {said(value)}" for name, value in given if value not in (None, "", []))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def said(value: Any) -> str:
    if isinstance(value, bool):
        return spoken(YES_AND_NO[0] if value else YES_AND_NO[1])
    if isinstance(value, str) and value.startswith("sha256:"):
        return short_digest(value)
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {said(each)}" for name, each in value.items())
    return ", ".join(map(said, value)) if isinstance(value, list) else str(value)
