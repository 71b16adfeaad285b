"""kill -9 between the requests of an agent, and in the middle of them: no answer that was kept is paid for again."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
import pytest

from tests import scripted_model
from tests.chaos.conftest import SlowGitHub, connect
from tests.chaos.load import TRIGGER, sign
from tests.chaos.striking import Plan
from tests.processes import Desk, desk
from tests.recorder import Recorder
from tests.scripted_model import Asked, calls, says

KILLS = 14  # of pool children and of the worker itself
MAIN_KILLS = 2
CONFIG = {
    "model": "openai:scripted",
    "instructions": "Look around, then say thanks.",
    "tools": ["event.search", "github.comment"],
    "max_requests": 500,
    "max_calls": 1000,
    "max_tokens": 10_000_000,
}
COMMENT = ("github_comment", {"repo": "acme/shop", "number": 1, "body": "thanks"})
SET = f"""
    from triggers.models import Trigger
    Trigger.objects.filter(slug="take-order").update(handler="agent", config={CONFIG!r})
    Trigger.objects.exclude(slug="take-order").update(enabled=False)
"""
FAULTS = ("after_journal kill 0.2", "after_step_call kill 0.1", "after_call kill 0.5", "after_claim kill 0.05")
pytestmark = pytest.mark.processes


@dataclass
class Story:
    """What the model says, and what it sees: was the turn it is asked for in the journal already?"""

    shop: Desk
    asked: Counter[int] = field(default_factory=Counter)  # requests of each turn
    bodies: dict[int, set[str]] = field(default_factory=dict)
    paid_twice: list[int] = field(default_factory=list)
    is_enough: bool = False

    def line(self, asked: Asked) -> Asked:
        turn = 1 + sum(message["role"] == "assistant" for message in asked["messages"])
        kept = self.shop.count("triggers_step", "name = ? AND status = 'done'", f"turn {turn}")
        if kept:
            self.paid_twice.append(turn)
        self.asked[turn] += 1
        self.bodies.setdefault(turn, set()).add(json.dumps(asked, sort_keys=True))
        return {**self.says(turn), "delay": 0.1}

    def says(self, turn: int) -> Asked:
        if turn == 3:
            return calls(COMMENT, ids=("c3",))
        if self.is_enough and turn > 8:
            return says("done")
        return calls(("event_search", {"words": f"order {turn}"}), ids=(f"c{turn}",))


@pytest.fixture
def shop() -> Iterator[Desk]:
    with desk(EGRESS_ALLOW="127.0.0.1") as made:
        yield made
        made.tell()


def test_no_request_is_paid_for_twice_and_its_effect_happens_once(
    shop: Desk, github: SlowGitHub, far_side: Recorder
) -> None:
    story = Story(shop)
    with scripted_model.serving(story.line) as model:
        shop.settings["LLM_BASE_URL"] = model.url
        plan = Plan(shop, seed=time.time_ns() % 1_000_000)
        shop.start()
        connect(shop, far_side)
        secret = shop.python(TRIGGER).split()[-1]
        shop.python(SET)
        headers, body = sign(secret, 0)
        plan.strike(*FAULTS)
        assert httpx.post(f"{shop.url}/hooks/generic", content=body, headers=headers, trust_env=False).is_success
        strike_until_enough(plan, story)
        plan.rest()
        story.is_enough = True
        shop.until(lambda: shop.count("triggers_run", "finished_at IS NOT NULL"), seconds=120)

    again = sum(story.asked.values()) - len(story.asked)
    between = len(plan.struck("kill", "after_journal"))
    print(f"seed {plan.seed}: {plan.deaths} deaths, {between} of them right after a commit, {len(story.asked)} turns,")
    print(f"{again} requests whose answer was cut off were made again")
    assert shop.rows("SELECT status, attempt FROM triggers_run") == [("succeeded", 1)]
    assert story.paid_twice == [], "these turns were in the journal and were asked for again"
    assert again <= plan.deaths
    assert all(len(bodies) == 1 for bodies in story.bodies.values()), "what is asked again is the same request"
    turns = "name LIKE 'turn %' AND name NOT LIKE '%/%' AND status = 'done' AND kind = 'call'"
    assert shop.count("triggers_step", turns) == len(story.asked) == max(story.asked)
    assert [item["body"].split("\n")[0] for item in github.comments] == ["thanks"]
    assert between >= 1
    assert plan.deaths >= KILLS


def strike_until_enough(plan: Plan, story: Story) -> None:
    """A pool child dies at the named places by itself; from outside die one in the middle of a request, now and then
    the worker with all its children."""
    main, seen, until = 0, 0, time.monotonic() + 400
    while plan.deaths < KILLS or main < MAIN_KILLS:
        assert time.monotonic() < until, f"only {plan.deaths} deaths"
        time.sleep(0.05)
        if main < MAIN_KILLS and plan.deaths >= (main + 1) * KILLS // (MAIN_KILLS + 1):
            plan.shop.kill_pool("worker")
            plan.kill(plan.shop.kill("worker"))
            main += 1
        elif sum(story.asked.values()) >= seen + 5:
            seen = sum(story.asked.values())
            plan.kill_a_child()
