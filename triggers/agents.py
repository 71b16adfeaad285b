"""Agents come and go: a person makes one of a machine, and takes it out of use."""

from typing import TYPE_CHECKING

from django.db import transaction

from project.lib import clock
from project.lib.live import changed
from triggers.configure import insert_named
from triggers.errors import NotValid
from triggers.machines import MACHINES
from triggers.models import Agent, Audit

if TYPE_CHECKING:
    from project.people.models import User


def make(slug: str, machine: str, *, by: "User | None") -> Agent:
    """A new agent in its machine's first state; events from now on move it. Raises NotValid, SlugTaken."""
    table = MACHINES.get(machine)
    if table is None:
        raise NotValid(f"There is no machine `{machine}`.", field="machine", machines=sorted(MACHINES))
    agent = Agent(slug=slug, machine=machine, status=table.initial, made_by=by, made_at=clock.now())
    with transaction.atomic():
        insert_named(agent)
        Audit.write("create", agent, by=by, machine=machine)
        changed("agents", id=slug)
    return agent


def archive(agent: Agent, *, by: "User | None") -> None:
    """Out of use for good; its history stays readable. Nothing happens when it is archived already."""
    with transaction.atomic():
        held = Agent.objects.select_for_update(of=("self",), no_key=True).get(pk=agent.pk)
        if held.archived_at is None:
            held.archive(by=by)
            changed("agents", id=held.slug)
