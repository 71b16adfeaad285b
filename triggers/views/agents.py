"""Agents: which there are and how each is doing; one agent's diagram, its history, and the same played again."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from project.lib.diagram import Arrow, states
from project.lib.language import phrase
from project.lib.problem import Problem
from project.people.doors import needs, who
from project.people.roles import can
from triggers import agents as doors
from triggers import registry
from triggers import schemas_agents as schemas
from triggers.forms.fields import DeskForm
from triggers.machines import MACHINES, Machine
from triggers.models import Agent, AgentEvent
from triggers.replaying import Replay, replay
from triggers.views.lists import Filters, as_table, list_page, listing


class AgentForm(DeskForm):
    """A new agent: events name it by its slug."""

    slug = forms.SlugField(label="Name", max_length=64, help_text="Events name it in their `correlationid`: `coder`")
    machine = forms.ChoiceField(label="Machine")

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        self.fields["machine"].choices = [(name, name) for name in sorted(MACHINES)]  # type: ignore[attr-defined]


@require_http_methods(["GET", "HEAD", "POST"])
def agents(request: HttpRequest) -> HttpResponseBase:
    """Everybody reads the list; the POST of an admin makes one."""
    return made(request) if request.method == "POST" else list_of(request, AgentForm())


def list_of(request: HttpRequest, form: AgentForm) -> HttpResponseBase:
    filters = Filters(request.GET, ("machine", "status"))
    everything = Agent.objects.kept()
    rows = filters.narrow(everything, schemas.AgentFilters)
    if filters.as_table:
        return as_table(request, "agents", schemas.AgentRow, rows, schemas.AgentRow.of)
    context = {
        "list": listing(rows, everything, filters),
        "picks": [filters.pick("machine", "Machine", sorted(MACHINES)), filters.pick("status", "State", all_states())],
        "machines": [MACHINES[name] for name in sorted(MACHINES)],
        "form": form,
        "may_edit": can(request.user, "configure"),
    }
    answer = list_page(request, "triggers/agents.html", filters, context)
    answer.status_code = 422 if form.errors else answer.status_code
    return answer


def all_states() -> list[str]:
    return sorted({state for machine in MACHINES.values() for state in machine.states})


@needs("configure")
def made(request: HttpRequest) -> HttpResponseBase:
    form = AgentForm(request.POST)
    if not form.is_valid():
        return list_of(request, form)
    try:
        agent = doors.make(by=who(request), **form.cleaned_data)
    except Problem as refused:
        form.refuse(refused)
        return list_of(request, form)
    messages.success(request, phrase("{agent} is there; events that name it move it from now on.", agent=agent.slug))
    return redirect("agent", slug=agent.slug)


@require_safe
def agent(request: HttpRequest, slug: str) -> HttpResponseBase:
    """One agent; with `replay=on` its events are played again, which changes nothing."""
    row = get_object_or_404(Agent, slug=slug)
    filters = Filters(request.GET, ("outcome", "since", "until", "replay"))
    everything = row.history.taken_up()
    rows = filters.narrow(everything, schemas.HistoryFilters).told()
    if filters.as_table:
        return as_table(request, f"{slug}-history", schemas.HistoryRow, rows, schemas.HistoryRow.of)
    machine = MACHINES.get(row.machine)
    last = everything.filter(outcome="moved").order_by("-number").first()
    found, refused = replayed(row, filters) if filters.one("replay") else (None, "")
    context = {
        "agent": row,
        "machine": machine,
        "broken": len(registry.BROKEN),
        "picture": picture(machine, row, last) if machine else "",
        "moves": moves_of(machine) if machine else [],
        "list": listing(rows, everything, filters),
        "picks": [filters.pick("outcome", "Outcome", AgentEvent.OUTCOMES)],
        "waiting": row.history.to_come().count(),
        "snapshot": row.snapshots.order_by("-number").first(),
        "replay": found,
        "refused": refused,
        "may_edit": can(request.user, "configure"),
    }
    return list_page(request, "triggers/agent.html", filters, context)


def replayed(row: Agent, filters: Filters) -> tuple[Replay | None, str]:
    try:
        return replay(row, since=filters.time("since"), until=filters.time("until")), ""
    except Problem as problem:
        return None, problem.detail


def picture(machine: Machine, row: Agent, last: AgentEvent | None) -> Any:
    """Arrows of one pair of states are one, with the numbers of all its moves."""
    pairs: dict[tuple[int, int], list[int]] = {}
    for number, move in enumerate(machine.moves, start=1):
        for start in move.starts:
            pairs.setdefault((machine.states.index(start), machine.states.index(move.end)), []).append(number)
    made = (last.start, last.end) if last else None
    arrows = [
        Arrow(
            start,
            end,
            in_short(numbers),
            "last" if made == (machine.states[start], machine.states[end]) else "",
        )
        for (start, end), numbers in pairs.items()
    ]
    label = f"The states of {machine.name}: {', '.join(machine.states)}. {row.slug} is {row.status}."
    return states(machine.states, arrows, current=row.status, label=label)


def in_short(numbers: list[int]) -> str:
    """`2`, `1,4`, `7–9`."""
    if len(numbers) > 2 and numbers == [*range(numbers[0], numbers[-1] + 1)]:
        return f"{numbers[0]}–{numbers[-1]}"
    return ",".join(map(str, numbers))


def moves_of(machine: Machine) -> list[dict[str, Any]]:
    return [
        {"number": number, "move": move, "starts": ", ".join(move.starts), "enters": machine.on_enter.get(move.end, "")}
        for number, move in enumerate(machine.moves, start=1)
    ]


@require_POST
@needs("configure")
def archive(request: HttpRequest, slug: str) -> HttpResponse:
    doors.archive(get_object_or_404(Agent, slug=slug, archived_at=None), by=who(request))
    messages.success(request, phrase("{agent} is archived: no event moves it. Its history stays.", agent=slug))
    return redirect("agents")
