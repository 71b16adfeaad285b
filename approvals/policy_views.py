"""The policy on its pages: its rules, an editor that tries a draft on the last 30 days, a second admin's yes."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.models import Group
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from approvals import amending
from approvals import policy_schemas as schemas
from approvals.amending import Amendment
from approvals.models import PolicyChange, PolicyRule, PolicyVersion
from approvals.policy_forms import EXAMPLES, PolicyForm, free_name
from approvals.rule_words import wants
from project.lib.language import phrase, words
from project.lib.problem import Problem
from project.lib.states import IllegalMove
from project.people import doors
from project.people.doors import needs, who
from project.people.roles import can
from triggers.errors import Stale
from triggers.sources.schedule import zones
from triggers.views.lists import Filters, as_table, list_page


@require_safe
def policies(request: HttpRequest) -> HttpResponseBase:
    """The rules in their order, and changes that wait for a second admin."""
    filters = Filters(request.GET, ())
    rows = PolicyRule.objects.kept().select_related("changed_by").in_order()
    if filters.as_table:
        return as_table(request, "policies", schemas.RuleOut, rows.order_by(), schemas.RuleOut.of)
    changes = PolicyChange.objects.select_related("by").order_by("-pk")
    context = {
        "rules": [(row, wants(row)) for row in rows],
        "waiting": changes.filter(status="waiting"),
        "examples": EXAMPLES,
        "number": PolicyVersion.newest(),
    }
    return list_page(request, "approvals/policies.html", filters, context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs("configure")
def policy_new(request: HttpRequest) -> HttpResponse:
    """An empty rule, or one of the examples to begin with."""
    if request.method == "POST":
        return posted(request, PolicyForm(request.POST), None)
    slug = request.GET.get("example", "")
    initial = {**EXAMPLES[slug], "slug": free_name(slug)} if slug in EXAMPLES else {}
    return editor(request, PolicyForm(initial=initial), None)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def policy_edit(request: HttpRequest, slug: str) -> HttpResponseBase:
    """One rule: everybody reads it, an admin changes it."""
    row = get_object_or_404(PolicyRule.objects.select_related("changed_by"), slug=slug)
    return changed(request, row) if request.method == "POST" else editor(request, PolicyForm(rule=row), row)


@needs("configure")
def changed(request: HttpRequest, row: PolicyRule) -> HttpResponse:
    if row.archived_at is not None:
        raise Http404("Archived rules are not changed any more.")
    return posted(request, PolicyForm(request.POST, rule=row), row)


def posted(request: HttpRequest, form: PolicyForm, row: PolicyRule | None) -> HttpResponse:
    """Try it, or save what was tried; a draft that was not looked at yet is shown first."""
    if request.POST.get("do") == "try" and row is None:
        form.fields["slug"].required = False  # whatever it will be called, it says the same
    if not form.is_valid():
        return editor(request, form, row, status=422)
    slug = row.slug if row else form.cleaned_data["slug"]
    try:
        draft = amending.amended("change" if row else "create", slug, row, **form.row_fields())
    except Problem as refused:
        form.refuse(refused)
        return editor(request, form, row, status=422)
    if request.POST.get("do") != "save" or request.POST.get("seen") != draft.seen:
        return editor(request, form, row, draft=draft, ask=request.POST.get("do") == "save")
    if not doors.is_fresh(request):
        form.add_error(None, "Confirm that it is you in another tab (the link is above), then save again.")
        return editor(request, form, row, draft=draft, status=403)
    return saved(request, form, row, draft)


def saved(request: HttpRequest, form: PolicyForm, row: PolicyRule | None, draft: Amendment) -> HttpResponse:
    version = form.cleaned_data["version"] or 0
    try:
        done = amending.save(draft.verb, draft.slug, row, by=who(request), version=version, **form.row_fields())
    except Stale:
        form.add_error(None, "Somebody changed this while you had it open. Open it again, then make your change.")
        return editor(request, form, row, status=409)
    except Problem as refused:
        form.refuse(refused)
        return editor(request, form, row, status=422)
    return onwards(request, done)


def onwards(request: HttpRequest, done: PolicyRule | PolicyChange) -> HttpResponse:
    if isinstance(done, PolicyChange):
        messages.warning(request, "It is not in force: it loosens what is high, so a second admin must confirm it.")
        return redirect("policy-change", pk=done.pk)
    told = words("{slug} is out of force.") if done.archived_at else words("{slug} is in force.")
    messages.success(request, phrase(told, slug=done.slug))
    return redirect("policies")


def editor(
    request: HttpRequest,
    form: PolicyForm,
    row: PolicyRule | None,
    *,
    draft: Amendment | None = None,
    ask: bool = False,
    status: int = 200,
) -> HttpResponse:
    if draft:
        draft.backtest.shown_to(who(request))
    context: dict[str, Any] = {
        "form": form,
        "rule": row,
        "wants": wants(row) if row else "",
        "draft": draft,
        "found": draft.backtest if draft else None,
        "ask": ask,
        "fresh": doors.is_fresh(request),
        "here": request.get_full_path(),  # with the example it was opened with
        "may_edit": can(request.user, "configure") and (row is None or row.archived_at is None),
        "examples": EXAMPLES if row is None else {},
        "zones": sorted(zones()),
        "names": Group.objects.order_by("name").values_list("name", flat=True),
    }
    return render(request, "approvals/policy.html", context, status=status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs("configure")
def policy_archive(request: HttpRequest, slug: str) -> HttpResponse:
    """What would happen without this rule; the POST takes it away."""
    row = get_object_or_404(PolicyRule.objects.kept(), slug=slug)
    if not doors.is_fresh(request):
        return doors.to_step_up(reverse("policy-archive", args=[slug]))
    draft = amending.amended("archive", slug, row)
    draft.backtest.shown_to(who(request))
    if request.method == "POST" and request.POST.get("seen") == draft.seen:
        return onwards(request, amending.save("archive", slug, row, by=who(request), version=row.version))
    return render(request, "approvals/policy_archive.html", {"rule": row, "wants": wants(row), **shown(draft)})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def policy_change(request: HttpRequest, pk: int) -> HttpResponseBase:
    """A change that waits for a second admin: what it loosens, and what it would have done."""
    change = get_object_or_404(PolicyChange.objects.select_related("by", "ended_by"), pk=pk)
    return ended(request, change) if request.method == "POST" else change_page(request, change)


@needs("configure")
def ended(request: HttpRequest, change: PolicyChange) -> HttpResponse:
    if not doors.is_fresh(request):
        return doors.to_step_up(reverse("policy-change", args=[change.pk]))
    try:
        if request.POST.get("do") == "confirm":
            return onwards(request, amending.confirm(change, by=who(request)))
        amending.withdraw(change, by=who(request))
    except IllegalMove:
        return change_page(request, change, "Somebody was faster: it has ended.", status=409)
    except Problem as refused:
        return change_page(request, change, refused.detail, status=refused.http)
    messages.success(request, "Withdrawn. Nothing changed.")
    return redirect("policies")


def change_page(request: HttpRequest, change: PolicyChange, refusal: str = "", *, status: int = 200) -> HttpResponse:
    row = PolicyRule.objects.kept().filter(slug=change.slug).first()
    context: dict[str, Any] = {
        "change": change,
        "rule": row,
        "refusal": refusal,
        "mine": change.by_id == who(request).pk,
    }
    context["wants"] = wants(row) if row else ""
    if change.status == "waiting":
        try:
            context |= shown(amending.again(change, row))
            context["found"].shown_to(who(request))  # any viewer may open this page
        except Problem as refused:
            context["refusal"] = refusal or refused.detail
    if change.fields:
        context["wanted"] = wants(PolicyRule(**change.fields))
    return render(request, "approvals/policy_change.html", context, status=status)


def shown(draft: Amendment) -> dict[str, Any]:
    return {"draft": draft, "found": draft.backtest}
