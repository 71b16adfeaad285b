"""One request to a model, through the library that knows the providers. Only a worker that runs an agent loads this."""

import asyncio
import hashlib
import inspect
import json
import logging
import time
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import httpx2
from django.conf import settings
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRequestRejectedError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from project.agent.budget import MOST_TOKENS
from project.agent.turns import LEFT_OUT, Turn, check_pairs, name_calls, size
from project.lib.egress import trust
from project.lib.redaction import without_secrets
from project.lib.text import UNSTORABLE, is_storable, made_storable
from triggers.errors import Permanent

USUAL_PAUSE = 5.0  # seconds before the same request once more, where the far side says nothing
LONGEST_PAUSE = 3600.0
TELLS = 500  # characters of what a far side said

PASSING = (408, 409, 425, 429)  # refusals of now, not of this request
# What the library raises at an answer of no shape.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)

logging.getLogger("httpx2").setLevel(logging.WARNING)  # its INFO line prints the whole address with its query


class ModelBusy(Exception):
    """The model could not be asked just now: 429, 5xx or no answer. This one request is made again, later."""

    def __init__(self, message: str, pause: float) -> None:
        super().__init__(message, pause)
        self.message = message
        self.pause = pause

    def __str__(self) -> str:
        return self.message

    @property
    def after(self) -> timedelta:
        return timedelta(seconds=min(max(self.pause, 0.0), LONGEST_PAUSE))


class ModelRefused(Permanent):
    """The provider takes no such request: its key, the name of its model, or what it is asked."""


def model_named(name: str, client: httpx2.AsyncClient) -> Model:
    """The model of this name; with LLM_BASE_URL whatever answers there in OpenAI's manner. Raises ModelRefused."""
    if settings.LLM_BASE_URL:
        plain = name.partition(":")[2] if name.startswith(("openai:", "ollama:")) else name
        key = settings.LLM_API_KEY or "none"
        own = OpenAIProvider(base_url=settings.LLM_BASE_URL, api_key=key, http_client=client)
        return OpenAIChatModel(plain, provider=own)
    try:
        return infer_model(name, partial(with_our_key, client))
    except (UserError, ValueError, ImportError) as error:
        raise ModelRefused(without_secrets(str(error))) from error


def with_our_key(client: httpx2.AsyncClient, provider: str) -> Provider[Any]:
    """Where it lets us, the provider calls with our client, and so trusts whom the desk trusts."""
    kind: Any = infer_provider_class(provider)
    given = {"api_key": settings.LLM_API_KEY} if settings.LLM_API_KEY else {}
    takes_one = "http_client" in inspect.signature(kind).parameters
    made: Provider[Any] = kind(**given, http_client=client) if takes_one else kind(**given)
    return made


def request(
    plan: dict[str, Any], turns: list[Turn], *, answer_tokens: int, patience: float, is_cut: bool = False
) -> dict[str, Any]:
    """What the model answers in `patience` seconds: `{model, request, response, tokens_in, tokens_out, cost, took}`.

    `{overflow}` where this was too much for it. Raises ModelBusy, ModelRefused."""
    check_pairs(turns)
    messages = messages_of(plan, turns, is_cut=is_cut)
    parameters = ModelRequestParameters(function_tools=[definition(one) for one in plan["tools"]])
    how = ModelSettings(timeout=patience, request_timeout=patience, max_tokens=answer_tokens, max_retries=0)
    asked = {"messages": ModelMessagesTypeAdapter.dump_python(messages, mode="json"), "tools": plan["tools"]}
    for message in asked["messages"]:
        message.pop("timestamp", None)
    began = time.monotonic()
    try:
        response = asyncio.run(ask(plan["model"], messages, parameters, how, patience))
    except ModelContextWindowExceededError as error:
        return {"overflow": said_by(error)}
    except UserError as error:
        raise ModelRefused(said_by(error)) from error
    except ModelAPIError as error:
        if is_refusal(error):
            raise ModelRefused(said_by(error)) from error
        raise ModelBusy(said_by(error), error.retry_after or USUAL_PAUSE) from error
    except UnexpectedModelBehavior as error:
        raise ModelBusy(f"its answer cannot be read: {said_by(error)}", USUAL_PAUSE) from error
    except UNREADABLE as error:
        raise ModelBusy(f"its answer cannot be read: {type(error).__name__}", USUAL_PAUSE) from error
    return facts_of(response, plan, asked, time.monotonic() - began)


def is_refusal(error: ModelAPIError) -> bool:
    """Whether the same request would be refused again."""
    if isinstance(error, ModelHTTPError):
        return 400 <= error.status_code < 500 and error.status_code not in PASSING
    return isinstance(error, ModelRequestRejectedError | ModelQuotaExceededError)


async def ask(
    name: str, messages: list[ModelMessage], parameters: ModelRequestParameters, how: ModelSettings, patience: float
) -> ModelResponse:
    """One request and no hidden second one: whether to ask again is decided, and remembered, outside.

    Some libraries of providers take their patience from the client, and not from the request."""
    async with httpx2.AsyncClient(verify=trust(), timeout=patience) as client, model_named(name, client) as model:
        return await model_request(model, messages, model_settings=how, model_request_parameters=parameters)


def facts_of(response: ModelResponse, plan: dict[str, Any], asked: Any, took: float) -> dict[str, Any]:
    """Whatever the server says of itself is kept as far as a database takes it: the answer is paid for."""
    [whole] = ModelMessagesTypeAdapter.dump_python([response], mode="json")
    whole = sendable(whole)
    name_calls(whole)
    tokens_in, tokens_out = response.usage.input_tokens, response.usage.output_tokens
    if response.usage.unmeasured_requests or tokens_in < 1:  # it did not count, and limits must hold all the same
        tokens_in, tokens_out = size(asked), size(whole)
        cost = estimate(plan["model"], tokens_in=tokens_in, tokens_out=tokens_out)
    else:
        cost = as_text(cost_of(response))
    return {
        "model": made_storable(response.model_name or plan["model"]),
        "request": hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest(),
        "response": whole,
        "tokens_in": min(tokens_in, MOST_TOKENS),
        "tokens_out": min(tokens_out, MOST_TOKENS),
        "cost": cost,
        "took": round(took, 3),
    }


def sendable(said: Any) -> Any:
    """The same without half signs, which no request can carry back; in the arguments of a call each becomes its escape,
    which whoever reads them refuses, and does not guess."""
    if isinstance(said, str):
        return made_storable(said)
    if isinstance(said, list):
        return [sendable(one) for one in said]
    if not isinstance(said, dict):
        return said
    plain = {name: sendable(value) for name, value in said.items()}
    return plain | {"args": escaped(said["args"])} if said.get("part_kind") == "tool-call" else plain


def escaped(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        text = json.dumps(arguments)
        return arguments if is_storable(json.dumps(arguments, ensure_ascii=False)) else text
    return UNSTORABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", arguments)


def cost_of(response: ModelResponse) -> Decimal | None:
    """Dollars, by the list of prices that comes with the library; None for a model that is not in it.

    Nor is anything known of an answer whose server says neither what it took (ValueError) nor its own name
    (AssertionError): it is paid for, and kept."""
    try:
        return response.cost().total_price
    except (LookupError, ValueError, AssertionError):
        return None


def estimate(name: str, *, tokens_in: int, tokens_out: int) -> str | None:
    """Dollars of a request that is not made yet, by the same list."""
    provider, _, plain = name.rpartition(":")
    usage = RequestUsage(input_tokens=tokens_in, output_tokens=tokens_out)
    return as_text(cost_of(ModelResponse(parts=[], usage=usage, model_name=plain, provider_name=provider or None)))


def as_text(cost: Decimal | None) -> str | None:
    return None if cost is None else str(cost)


def said_by(error: Exception) -> str:
    return without_secrets(" ".join(str(error).split()))[:TELLS]


def definition(tool: dict[str, Any]) -> ToolDefinition:
    return ToolDefinition(
        name=tool["wire"], description=tool["doc"], parameters_json_schema=tool["schema"], strict=False
    )


def messages_of(plan: dict[str, Any], turns: list[Turn], *, is_cut: bool) -> list[ModelMessage]:
    """The conversation as the library writes it: what it was told first, then each turn and its results."""
    instructions = plan["instructions"]
    first = f"{plan['prompt']}\n{LEFT_OUT}" if is_cut else plan["prompt"]
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(first)], instructions=instructions)]
    for turn in turns:
        messages += ModelMessagesTypeAdapter.validate_python([turn["response"]])
        results = [ToolReturnPart(one["tool"], one["text"], tool_call_id=one["id"]) for one in turn["results"]]
        words = [UserPromptPart(turn["say"])] if turn["say"] else []
        messages.append(ModelRequest(parts=[*results, *words], instructions=instructions))
    return messages
