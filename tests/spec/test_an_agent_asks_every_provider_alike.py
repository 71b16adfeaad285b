"""Another provider's own library, its own wire: the same turns, the same calls, the same bounds."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from project.agent.models import Spending
from tests import scripted_model, scripted_providers
from tests.agent_runs import actions, start
from tests.nodding import Shop, now_of, say, serving, settle
from tests.scripted_model import Model
from tests.scripted_providers import Claude, Gemini

pytestmark = pytest.mark.django_db
TEA, MILK = ("shop_order", {"item": "tea", "cups": 2}), ("shop_order", {"item": "milk"})


@pytest.fixture
def shop(connection) -> Iterator[Shop]:
    with serving() as shop:
        yield shop


@pytest.fixture(params=[Claude(), Gemini()], ids=["anthropic", "google"])
def wire(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def playing(wire, settings, monkeypatch) -> Iterator[Callable[..., Model]]:
    with ExitStack() as open_models:

        def play(*script: Any) -> Model:
            model = open_models.enter_context(scripted_providers.serving(*script))
            settings.LLM_API_KEY = "only for tests"
            monkeypatch.setenv(wire.address, model.url)
            return model

        yield play


def test_its_call_is_an_action_and_the_result_goes_back_to_it(wire, shop, playing, ben):
    model = playing(wire.says("I order.", TEA), wire.says("Ordered."))
    run = start(model=wire.model)
    [action] = actions()
    assert (run.status, action.arguments, model.paid) == ("waiting", {"item": "tea", "cups": 2}, 1)
    say(action, ben)
    settle()
    assert (now_of(run).result["answer"], len(shop.sent)) == ("Ordered.", 1)
    first, second = model.asked
    assert (wire.tools(first), wire.room(first)) == (["shop_order"], 4096)
    assert [result["action"] for result in wire.results(second)] == [f"A-{action.pk}"]


@pytest.mark.parametrize("by_its_address", [True, False], ids=["LLM_BASE_URL", "OLLAMA_BASE_URL"])
def test_ollama_speaks_as_openai_does(by_its_address, shop, settings, monkeypatch):
    with scripted_model.serving(scripted_model.says("Two cups.")) as model:
        monkeypatch.setenv("OLLAMA_BASE_URL", model.url)
        settings.LLM_BASE_URL = model.url if by_its_address else ""
        run = start(model="ollama:llama3.2")
    assert (run.status, run.result["answer"]) == ("succeeded", "Two cups.")
    assert [asked["model"] for asked in model.asked] == ["llama3.2"]


def test_tokens_and_their_price_are_known(wire, shop, playing):
    playing(wire.says("Two cups."))
    run = start(model=wire.model)
    spent = Spending.objects.get(run=run)
    assert (spent.model, spent.tokens_in, spent.tokens_out) == (wire.model.partition(":")[2], 100, 20)
    assert spent.micros == wire.micros


def test_two_calls_of_one_turn_get_one_result_each_in_their_order(wire, shop, playing, ben):
    model = playing(wire.says("", TEA, MILK), wire.says("done"))
    start(model=wire.model)
    tea, milk = actions()
    say(milk, ben)
    say(tea, ben, "reject")
    settle()
    assert [result["done"] for result in wire.results(model.asked[-1])] == [False, True]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_one_that_is_busy_is_asked_again_later_and_once(wire, shop, playing, later, status):
    model = playing(wire.fails(status), wire.says("done"))
    run = start(model=wire.model)
    assert (run.status, len(model.asked)) == ("waiting", 1)
    later(minutes=1)
    settle()
    assert (now_of(run).status, len(model.asked)) == ("succeeded", 2)


@pytest.mark.django_db(transaction=True)  # a step at work for more than a second is written down by another thread
def test_one_that_takes_its_time_is_waited_for(wire, shop, playing):
    model = playing({**wire.says("done"), "delay": 5.5})
    assert (start(model=wire.model).status, len(model.asked)) == ("succeeded", 1)


def test_a_key_that_is_refused_is_not_tried_again(wire, shop, playing):
    model = playing(wire.fails(401))
    run = start(model=wire.model)
    assert (run.status, run.error["type"], len(model.asked)) == ("dead", "ModelRefused", 1)


def test_a_call_that_was_cut_off_is_never_run(wire, shop, playing):
    model = playing(wire.says("", TEA, cut=True))
    run = start(model=wire.model)
    assert (run.status, run.error["type"], actions()) == ("dead", "CutOff", [])
    assert [wire.room(asked) for asked in model.asked] == [4096, 8192]


def test_a_conversation_that_is_too_long_is_not_sent_again_as_it_was(wire, shop, playing):
    model = playing(wire.too_long())
    run = start(model=wire.model)
    assert (run.error["type"], len(model.asked)) == ("TooLong", 1)
