"""`agent`: a model works on an event, with the instructions, tools and limits that the trigger's config gives it."""

from typing import Any

from django.utils.module_loading import import_string

from project.agent.config import Config
from project.agent.plan import NO_MODEL, model_of
from triggers import registry
from triggers.durable import Durable
from triggers.errors import Permanent
from triggers.registry import handler

WORK = "project.agent.work.work"  # loads the libraries of the providers: seconds that only a worker at it pays


class NoModel(Permanent):
    """No model is set."""


@handler("agent", version="1", config=Config)
def agent(run: Durable) -> Any:
    """Let a model read the event, use the tools it is given and answer; what changes the world is an action.

    Every answer of the model is remembered: a crash, a deploy or a wait for people pays for none of them twice."""
    if run.step("is a model set", lambda: has_model(run.config)):
        return import_string(WORK)(run)
    rules = registry.HANDLERS.get(run.config.otherwise)
    if rules is None:  # the config that named some was changed meanwhile
        raise NoModel(NO_MODEL)
    run.log(f"no model is set: {rules.name} does it by rules")
    return rules.function(run)


def has_model(config: Config) -> bool:
    """False where rules stand in for it. Raises NoModel: what fails is not remembered, and a run again asks anew."""
    if model_of(config):
        return True
    if not config.otherwise:
        raise NoModel(NO_MODEL)
    return False
