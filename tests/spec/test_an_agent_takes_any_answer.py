"""A server says what it likes: an answer that was paid for is kept, one that cannot be read is asked for again."""

from collections.abc import Iterator
from typing import Any

import pytest

from project.agent.models import Spending
from tests.agent_runs import Playing, actions, stage, start
from tests.nodding import Shop, now_of, serving, settle
from tests.scripted_model import calls, says, streams
from triggers.models import Run

pytestmark = pytest.mark.django_db
MOST = 2**31 - 1


@pytest.fixture
def shop(connection) -> Iterator[Shop]:
    with serving() as shop:
        yield shop


@pytest.fixture
def playing(settings) -> Iterator[Playing]:
    with stage(settings) as play:
        yield play


def saying(**strange: Any) -> Any:
    line = says("done")
    line["body"] |= strange
    return line


def counting(went_in: Any, came_out: Any = 1) -> dict[str, Any]:
    return {"prompt_tokens": went_in, "completion_tokens": came_out, "total_tokens": 1}


class TestWhatItSaysOfItself:
    """One request, one row of what it took: a number or a name that no database takes loses no answer."""

    def booked(self, playing: Playing, **strange: Any) -> Spending:
        model = playing(saying(**strange))
        run = start(tools=[], day_tokens=10**6, price_in="999999", price_out="999999")
        assert (run.status, run.result["answer"], model.paid) == ("succeeded", "done", 1)
        return Spending.objects.get(run=run)

    @pytest.mark.parametrize("counted", [2**31, 10**13, 10**30])
    def test_more_tokens_than_there_can_be_are_as_many_as_can_be_written(self, playing, counted):
        row = self.booked(playing, usage=counting(counted, counted))
        assert (row.tokens_in, row.tokens_out) == (MOST, MOST)

    @pytest.mark.parametrize("counted", [0, -5])
    def test_no_request_is_free(self, playing, counted):
        row = self.booked(playing, usage=counting(counted, counted))
        assert row.tokens_in > 200, "the rules alone are as many"
        assert row.tokens_out > 0

    def test_its_name_is_written_as_far_as_it_can_be(self, playing):
        assert self.booked(playing, model="x\x00y\ud83c").model == "x\ufffdy\ufffd"
        assert self.booked(playing, model="x" * 5000).model == "x" * 200


@pytest.mark.parametrize("written", ['{"item": "half \ud83c"}', "x\x00\ud83c", '{"item": "half \\ud83c"}'])
def test_a_call_with_half_a_sign_is_told_and_never_guessed(shop, playing, written):
    model = playing(calls(("shop_order", written)), says("sorry"))
    run = start()
    assert (run.status, run.result["answer"], actions()) == ("succeeded", "sorry", [])
    assert "not JSON" in model.results()["c1"]["why"]


def test_words_with_half_a_sign_go_back_without_it(shop, playing):
    model = playing(calls(("event_search", {"words": "tea"}), content="half \ud83c"), says("a\x00b \ud83c"))
    assert start(tools=["event.search"]).result["answer"] == "a\ufffdb \ufffd"
    assert model.last()[-2]["content"] == "half \ufffd"


CUSTOM = {"id": "x", "type": "custom", "custom": {"name": "shop_order", "input": "{}"}}


@pytest.mark.parametrize(
    "line",
    [
        saying(choices=[]),
        saying(choices=None),
        saying(created=10**18),
        saying(usage=[1]),
        says(tool_calls=[CUSTOM]),
        says(tool_calls=[{"id": "x", "type": "function"}]),
        {"body": [1, 2]},
        {"body": {"error": {"message": "boom"}}},
        {"text": "null"},
        {"text": "junk", "headers": {"content-encoding": "gzip"}},
        streams(says("done")),
        streams(calls(("shop_order", {"item": "tea"}))),
        streams(calls(("shop_order", {"item": "tea"})), cut=True),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_asked_for_again_alone_and_later(shop, playing, later, line):
    model = playing(line, says("done"))
    run = start()
    assert (run.status, run.attempt, run.waiting_for) == ("waiting", 1, f"turn 1 pause 1 of R-{run.pk} attempt 1")
    later(minutes=1)
    settle()
    assert (now_of(run).status, len(model.asked), Run.objects.count()) == ("succeeded", 2, 1)
    assert actions() == [], "of an answer in pieces, which nobody asked for, none is put together"
