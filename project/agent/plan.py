"""What a run may do, written down as it begins: whatever is changed later changes the next run, not this one."""

import hashlib
import json
from typing import Any

from django.conf import settings

from project.agent import prompt, tools
from project.agent.config import Config
from project.lib.language import words
from triggers.durable import Durable

ANSWER = "final_answer"
PLAN = "what it may do"  # the step in which all this is written down
NO_MODEL = words(
    "No model is set: set LLM_MODEL, and LLM_BASE_URL or LLM_API_KEY, or name one in the config of the trigger."
)


def model_of(config: Config) -> str:
    return config.model or settings.LLM_MODEL


def made(run: Durable) -> dict[str, Any]:
    """Everything that decides what is sent to the model and what its calls mean."""
    config: Config = run.config
    offered = [
        {"name": one.name, "wire": one.wire, "tier": str(one.tier), "doc": one.doc, "schema": one.schema}
        for one in tools.chosen(config.tools)
    ]
    if config.output:
        doc = "Give your answer. Call it alone, when everything else is done."
        offered.append({"name": ANSWER, "wire": ANSWER, "tier": "read", "doc": doc, "schema": config.output})
    limits = config.model_dump(mode="json", exclude={"model", "instructions", "tools", "output", "otherwise"})
    text = json.dumps([config.instructions, offered, config.output], sort_keys=True)
    return {
        "version": hashlib.sha256(text.encode()).hexdigest()[:12],
        "model": model_of(config),
        "tools": offered,
        "limits": limits,
        "answers_by_tool": bool(config.output),
        "origin": f"proposed by agent from event E-{run.event.pk}",
        **prompt.written(run, config.instructions),
    }
