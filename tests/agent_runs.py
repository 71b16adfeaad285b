"""Short ways to start an agent and to let a model play a script, for the tests of agents."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from approvals.models import Action
from project.lib import clock
from tests import builders, scripted_model
from tests.handlers import work
from tests.nodding import now_of
from tests.scripted_model import Model
from triggers.models import Run, Trigger

CONFIG = {"model": "openai:scripted", "instructions": "Order what the event says.", "tools": ["shop.order"]}
Playing = Callable[..., Model]


@contextmanager
def stage(settings: Any) -> Iterator[Playing]:
    """`play(line, …)`: a model that says these lines, and that the desk is told to ask."""
    with ExitStack() as open_models:

        def play(*script: Any) -> Model:
            model = open_models.enter_context(scripted_model.serving(*script))
            settings.LLM_BASE_URL = model.url
            return model

        yield play


def trigger_of(**config: Any) -> Trigger:
    return builders.trigger("agent", config={**CONFIG, **config})


def start(data: Any = None, *, trigger: Trigger | None = None, **config: Any) -> Run:
    event = builders.event(data={"tea": 2} if data is None else data)
    run = builders.run("agent", trigger=trigger or trigger_of(**config), event=event)
    work()
    return now_of(run)


def again(run: Run) -> Run:
    """As if a bell had rung for it: it is replayed from the top."""
    Run.objects.filter(pk=run.pk).update(status="queued", due_at=clock.now())
    work()
    return now_of(run)


def actions() -> list[Action]:
    return list(Action.objects.order_by("pk"))
