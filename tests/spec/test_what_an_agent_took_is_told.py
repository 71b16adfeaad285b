"""What asking a model took is told: on the run, by handler and day; and what is missing before it can be asked."""

import json

import pytest

from project.agent import budget, plan
from project.people import roles
from tests import builders
from tests.conftest import person
from triggers.models import Run

pytestmark = pytest.mark.django_db


def asked(*prices: str | None, prompt: str = "") -> Run:
    """A run of an agent that a model answered so often, each answer of 120 tokens at its price."""
    run = builders.run("agent")
    builders.step(run, 1, name=plan.PLAN, result_json=json.dumps({"prompt": prompt}))
    for turn, price in enumerate(prices, 1):
        answer = {"tokens_in": 100, "tokens_out": 20, "cost": price}
        budget.note(run, f"turn {turn}", "scripted", answer)
    return run


def page(browser, path: str) -> str:
    return " ".join(browser.get(path).content.decode().split())


def test_a_run_tells_its_answers_calls_tokens_and_cost(ann, sign_in):
    run = asked("0.00012", "0.00012")
    for number, name in enumerate(("turn 1 call 1/look", "turn 1 call 2/look it over", "turn 1 call 2/github.comment")):
        builders.step(run, number + 2, name=name)
    shown = page(sign_in(ann), f"/runs/{run.pk}")
    for told in ("<dt>Answers</dt><dd>2</dd>", "<dt>Calls of tools</dt><dd>2</dd>", "<dt>Tokens</dt><dd>240</dd>"):
        assert told in shown
    assert "<dd>$0.00024</dd>" in shown


def test_the_prompt_is_for_who_may_see_payloads(ann, sign_in):
    path = f"/runs/{asked('0.1', prompt='oolong').pk}?step=what+it+may+do"
    assert "oolong" in page(sign_in(ann), path)
    viewer = page(sign_in(person("vera", roles.VIEWER)), path)
    assert ("oolong" in viewer, "Operators see it." in viewer) == (False, True)


def test_a_price_that_nobody_knows_is_said_to_be_unknown(ann, sign_in):
    assert "not known" in page(sign_in(ann), f"/runs/{asked('0.1', None).pk}")


def test_a_run_that_asked_no_model_tells_nothing(ann, sign_in):
    assert "What the model took" not in page(sign_in(ann), f"/runs/{asked().pk}")


def test_handlers_tell_what_an_event_and_a_day_cost(ann, sign_in, later):
    asked("0.00012"), asked("0.00006", "0.00006")
    told = "$0.00012 an event, $0.00024 and 360 tokens today"
    assert told in page(sign_in(ann), "/handlers")
    assert told in page(sign_in(ann), "/handlers/agent")
    later(days=1)
    assert "$0.00012 an event, $0 and 0 tokens today" in page(sign_in(ann), "/handlers")


def test_without_a_model_the_handler_says_what_to_set(settings, ann, sign_in):
    assert "LLM_MODEL" in page(sign_in(ann), "/handlers/agent")
    settings.LLM_MODEL = "openai:scripted"
    assert "No model is set" not in page(sign_in(ann), "/handlers")


def test_a_run_at_its_limit_says_so(ann, sign_in):
    run = asked("0.1")
    error = {"type": "LimitReached", "message": "limit reached: 1 requests of a run", "traceback": ""}
    Run.objects.filter(pk=run.pk).update(
        status="cancelled", reason="limit_reached", finished_at=run.queued_at, error=error
    )
    shown = page(sign_in(ann), f"/runs/{run.pk}")
    assert "It used what its limits allow." in shown
    assert "limit reached: 1 requests of a run" in shown
