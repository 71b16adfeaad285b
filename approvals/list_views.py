"""Actions: everything handlers ever wanted done, newest first; what nobody knows the outcome of stands above all."""

from functools import partial
from operator import methodcaller
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.http import require_safe

from approvals import schemas
from approvals.kinds import KINDS
from approvals.models import Action
from approvals.models.action import Status
from approvals.tiers import Tier
from project.people.roles import can
from triggers.views.lists import Filters, as_table, count_of, list_page, listing

FILTERS = ("kind", "tier", "status", "run", "requester", "since", "until")
SORTS = {"decided": "decided_at", "ended": "settled_at"}
MOST_UNKNOWN = 20  # shown above the list


@require_safe
def actions(request: HttpRequest) -> HttpResponseBase:
    """The list. Without a choice of states the unknown ones come first, in a part of their own."""
    filters = Filters(request.GET, FILTERS, SORTS)
    everything = Action.objects.for_lists()
    rows = filters.narrow(everything, schemas.ActionFilters)
    if filters.as_table:
        told = methodcaller("tells_title_to", request.user)
        show = partial(schemas.ActionLine.of, arguments=can(request.user, "payloads"), told=told)
        return as_table(request, "actions", schemas.ActionLine, rows.for_tables(), show)
    context: dict[str, Any] = {}
    if not filters.many("status"):
        lost = rows.filter(status=Status.UNKNOWN)
        context |= {
            "lost": [row.shown_to(request.user) for row in lost.order_by("-pk")[:MOST_UNKNOWN]],
            "lost_count": count_of(lost),
        }
        context["all_lost"] = filters.address(status=Status.UNKNOWN, rows=None, after=None)
        rows = rows.exclude(status=Status.UNKNOWN)
    found = listing(rows, everything, filters)
    for row in found.rows:
        row.shown_to(request.user)
    context |= {"list": found, "picks": picks_of(filters)}
    return list_page(request, "approvals/actions.html", filters, context)


def picks_of(filters: Filters) -> list[Any]:
    return [
        filters.pick("kind", "Kind", sorted(KINDS)),
        filters.pick("tier", "Risk", Tier.values),
        filters.pick("status", "State", Status.values),
    ]
