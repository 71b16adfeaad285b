"""What asking a model took is told: on the run, by handler and day; and what is missing before it can be asked."""

from collections.abc import Iterator

import pytest

from tests.agent_runs import Playing, stage, start
from tests.conftest import person
from tests.nodding import Shop, serving
from tests.scripted_model import calls, says

pytestmark = pytest.mark.django_db
TWICE = (calls(("event_search", {"words": "tea"}), ("event_search", {"words": "milk"})), says("done"))


@pytest.fixture
def shop(connection) -> Iterator[Shop]:
    with serving() as shop:
        yield shop


@pytest.fixture
def playing(settings) -> Iterator[Playing]:
    with stage(settings) as play:
        yield play


def page(browser, path: str) -> str:
    return " ".join(browser.get(path).content.decode().split())


def test_a_run_tells_its_answers_calls_tokens_and_cost(shop, playing, ann, sign_in):
    playing(*TWICE)
    run = start(tools=["event.search"], price_in=1, price_out=1)
    shown = page(sign_in(ann), f"/runs/{run.pk}")
    for told in ("<dt>Answers</dt><dd>2</dd>", "<dt>Calls of tools</dt><dd>2</dd>", "<dt>Tokens</dt><dd>240</dd>"):
        assert told in shown
    assert "<dd>$0.00024</dd>" in shown


def test_the_prompt_is_for_who_may_see_payloads(shop, playing, ann, sign_in):
    playing(says("done"))
    run = start({"tea": "oolong"})
    asked = f"/runs/{run.pk}?step=what+it+may+do"
    assert "oolong" in page(sign_in(ann), asked)
    viewer = page(sign_in(person("vera", "viewer")), asked)
    assert ("oolong" in viewer, "Operators see it." in viewer) == (False, True)


def test_a_price_that_nobody_knows_is_said_to_be_unknown(shop, playing, ann, sign_in):
    playing(says("done"))
    assert "not known" in page(sign_in(ann), f"/runs/{start().pk}")


def test_a_run_that_asked_no_model_tells_nothing(shop, ann, sign_in):
    assert "What the model took" not in page(sign_in(ann), f"/runs/{start(model='').pk}")


def test_handlers_tell_what_an_event_and_a_day_cost(shop, playing, ann, sign_in, later):
    playing(says("done"))
    for _ in range(2):
        start(price_in=1, price_out=1)
    told = "$0.00012 an event, $0.00024 and 240 tokens today"
    assert told in page(sign_in(ann), "/handlers")
    assert told in page(sign_in(ann), "/handlers/agent")
    later(days=1)
    assert "$0.00012 an event, $0 and 0 tokens today" in page(sign_in(ann), "/handlers")


def test_without_a_model_the_handler_says_what_to_set(settings, ann, sign_in):
    assert "LLM_MODEL" in page(sign_in(ann), "/handlers/agent")
    settings.LLM_MODEL = "openai:scripted"
    assert "No model is set" not in page(sign_in(ann), "/handlers")


def test_a_run_at_its_limit_says_so(shop, playing, ann, sign_in):
    playing(TWICE[0])
    run = start(tools=["event.search"], max_requests=1)
    shown = page(sign_in(ann), f"/runs/{run.pk}")
    assert "It used what its limits allow." in shown
    assert "limit reached: 1 requests of a run" in shown
