"""What a team types into the editor of a trigger: instructions, tools and limits of one agent."""

from decimal import Decimal
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from project.agent import tools
from project.lib import json_schema
from triggers import registry

LONGEST = 20_000  # characters of instructions
MOST_DOLLARS = 1_000_000  # as much as one answer is ever booked for


class Config(BaseModel):
    """One agent. What is empty among the limits has no limit."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(
        "", max_length=200, description="As `openai:gpt-5`, `anthropic:…`, `ollama:…`. Empty: what LLM_MODEL says."
    )
    instructions: str = Field(
        min_length=1,
        max_length=LONGEST,
        description=(
            "What it is to do. {event.data.issue.title} points at a part of the event; without any such field it is"
            " shown the whole event."
        ),
        json_schema_extra={"format": "multi-line"},
    )
    tools: list[str] = Field(
        default=[],
        max_length=50,
        description=(
            "One a line: a kind of action, as github.comment or github.comment@connection; http.get, http.get@host,"
            " event.search, file.read, github.read; a tool of your own; mcp@connection for all tools of an MCP server,"
            " mcp.search@connection for one."
        ),
    )
    output: dict[str, Any] | None = Field(
        None, description="A JSON schema of type object that its answer must fit. Empty: it answers with a text."
    )
    otherwise: str = Field(
        "",
        max_length=200,
        description="A handler that works by rules, used while no model is set. Empty: the run fails and says so.",
    )
    max_requests: int = Field(20, ge=1, le=500, description="Requests to the model a run.")
    max_calls: int = Field(50, ge=0, le=1000, description="Calls of tools a run.")
    max_tokens: int = Field(200_000, ge=1, description="Tokens a run, in and out together.")
    max_cost: Decimal | None = Field(None, gt=0, le=MOST_DOLLARS, description="Dollars a run.")
    max_seconds: int = Field(600, ge=1, description="Seconds a run waits for the model, all requests together.")
    day_tokens: int | None = Field(None, ge=1, description="Tokens a day (UTC) of all runs of this trigger.")
    day_cost: Decimal | None = Field(
        None, gt=0, le=MOST_DOLLARS, description="Dollars a day (UTC) of all runs of this trigger."
    )
    answer_tokens: int = Field(
        4096, ge=16, description="Tokens one answer may have; twice as many when it was cut off."
    )
    context_tokens: int = Field(
        60_000, ge=500, description="About so many tokens are sent at once; the oldest turns are left out."
    )
    price_in: Decimal | None = Field(
        None, ge=0, le=MOST_DOLLARS, description="Dollars a million tokens in, where the price is not known."
    )
    price_out: Decimal | None = Field(None, ge=0, le=MOST_DOLLARS, description="Dollars a million tokens out.")

    @field_validator("tools")
    @classmethod
    def known(cls, names: list[str]) -> list[str]:
        tools.chosen(names)
        return names

    @field_validator("otherwise")
    @classmethod
    def plain(cls, name: str) -> str:
        rules = registry.HANDLERS.get(name)
        if name and (rules is None or rules.config is not None):
            raise ValueError("must be a handler that is loaded and takes no config of its own")
        return name

    @field_validator("output")
    @classmethod
    def usable(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is None:
            return None
        if schema.get("type") != "object":
            raise ValueError("the schema must be of `type: object`")
        json_schema.check_references(schema)
        json_schema.validator(schema)
        return schema
