"""Agents over HTTP: their state, their history, and the same played again."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Status

from project.lib.pages import Page, listing
from project.people.auth import caller
from triggers import agents, replaying
from triggers import schemas_agents as schemas
from triggers.api import found
from triggers.models import Agent

router = Router()


@router.get("/agents", response=Page[schemas.AgentRow], tags=["agents"])
def list_agents(request: HttpRequest, filters: Query[schemas.AgentFilters]) -> Any:
    caller(request).need("view")
    return listing(request, Agent.objects.kept(), filters, schemas.AgentRow.of, row=schemas.AgentRow)


@router.post("/agents", response={201: schemas.AgentOut}, tags=["agents"])
def make_agent(request: HttpRequest, body: schemas.AgentIn) -> Any:
    """A new agent in the first state of `machine`; events whose `correlationid` is its slug move it from now on."""
    who = caller(request)
    who.need("configure")
    return Status(201, schemas.AgentOut.of(agents.make(body.slug, body.machine, by=who.user)))


@router.get("/agents/{slug:slug}", response=schemas.AgentOut, tags=["agents"])
def get_agent(request: HttpRequest, slug: str) -> Any:
    caller(request).need("view")
    return schemas.AgentOut.of(found(Agent.objects.kept(), slug=slug))


@router.delete("/agents/{slug:slug}", response={204: None}, tags=["agents"])
def archive_agent(request: HttpRequest, slug: str) -> Any:
    who = caller(request)
    who.need("configure")
    agents.archive(found(Agent.objects.kept(), slug=slug), by=who.user)
    return Status(204, None)


@router.get("/agents/{slug:slug}/history", response=Page[schemas.HistoryRow], tags=["agents"])
def list_history(request: HttpRequest, slug: str, filters: Query[schemas.HistoryFilters]) -> Any:
    """Every event it took up, the newest first."""
    caller(request).need("view")
    rows = found(Agent.objects.kept(), slug=slug).history.taken_up().told()
    return listing(request, rows, filters, schemas.HistoryRow.of, row=schemas.HistoryRow)


@router.post("/agents/{slug:slug}/replay", response=schemas.ReplayOut, tags=["agents"])
def replay_agent(request: HttpRequest, slug: str, body: schemas.ReplayIn | None = None) -> Any:
    """Its events again, by the code of now, from the last snapshot before `since` to `until`. Nothing is started."""
    caller(request).need("view")
    wish = body or schemas.ReplayIn.model_validate({})
    agent = found(Agent.objects.kept(), slug=slug)
    return schemas.ReplayOut.of(replaying.replay(agent, since=wish.since, until=wish.until))
