"""What a run may do, written down as it begins: whatever is changed later changes the next run, not this one.

Only its model and its limits are those of now when a person runs it again, for they may be why it ended."""

import hashlib
import json
from functools import partial
from typing import Any

from django.conf import settings
from pydantic import ValidationError

from project.agent import prompt, tools
from project.agent.config import Config
from project.lib.language import words
from triggers.durable import Durable

ANSWER = "final_answer"
PLAN = "what it may do"  # the step in which all this is written down
NO_MODEL = words(
    "No model is set: set LLM_MODEL, and LLM_BASE_URL or LLM_API_KEY, or name one in the config of the trigger."
)
BY_RULES = words(
    "No model is set: the handler named under “Otherwise” works by rules instead. Set LLM_MODEL, and LLM_BASE_URL or"
    " LLM_API_KEY, or name a model here."
)


def model_of(config: Config) -> str:
    return config.model or settings.LLM_MODEL


def agreed(run: Durable) -> dict[str, Any]:
    """What was written down, also of a run that this one goes on from."""
    plan: dict[str, Any] = run.step(PLAN, partial(made, run))
    if run.row.rerun_of_id is None:
        return plan
    now: dict[str, Any] = run.step(f"what R-{run.row.pk} may use", partial(of_now, run))
    return plan | now


def of_now(run: Durable) -> dict[str, Any]:
    """`{model, limits}`; empty when the config is not valid any more or names no model."""
    try:
        config: Config = run.config
    except ValidationError:
        return {}
    model = model_of(config)
    return {"model": model, "limits": limits_of(config)} if model else {}


def limits_of(config: Config) -> dict[str, Any]:
    return config.model_dump(mode="json", exclude={"model", "instructions", "tools", "output", "otherwise"})


def made(run: Durable) -> dict[str, Any]:
    """Everything that decides what is sent to the model and what its calls mean."""
    config: Config = run.config
    offered = tools.offered(config.tools)
    if config.output:
        doc = "Give your answer. Call it alone, when everything else is done."
        offered.append({"name": ANSWER, "wire": ANSWER, "tier": "read", "doc": doc, "schema": config.output})
    text = json.dumps([config.instructions, offered, config.output], sort_keys=True)
    return {
        "version": hashlib.sha256(text.encode()).hexdigest()[:12],
        "model": model_of(config),
        "tools": offered,
        "limits": limits_of(config),
        "answers_by_tool": bool(config.output),
        "origin": f"proposed by agent from event E-{run.event.pk}",
        **prompt.written(run, config.instructions),
    }
