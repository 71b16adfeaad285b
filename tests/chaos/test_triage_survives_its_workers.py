"""kill -9 wherever it hurts most: the story still ends with one pull request and one comment at the far side.

So does the undoing of one that fails: each effect is undone once, the last one first."""

import httpx
import pytest

from tests.chaos.conftest import SlowGitHub, connect
from tests.chaos.load import TRIGGER, sign
from tests.chaos.striking import Plan
from tests.processes import Desk
from tests.recorder import Recorder

TRIP = """
from approvals.act import act
from triggers.errors import Permanent
from triggers.registry import handler


@handler("take-order")
def take_order(run):
    for place in ("flight", "hotel", "car"):
        comment = {"kind": "github.comment", "repo": "acme/shop", "number": 1}
        act(run, place, **comment, body=place, compensate={**comment, "body": f"no {place}"})
    raise Permanent("the guest does not come")
"""
pytestmark = pytest.mark.processes


def test_killed_in_every_call_that_others_can_see(shop: Desk, github: SlowGitHub, far_side: Recorder) -> None:
    ann = begin(shop, far_side)
    github.hold("/pulls")
    approve(ann, awaiting(shop, ann))

    assert github.held.wait(30), "the pull request was made, its answer is still under way"
    kill_all(shop, "desk")
    github.let_go()
    shop.until(lambda: status_of(shop, "github.create_pr") != "delivering", seconds=60)
    github.hold("/comments")

    assert github.held.wait(90), "the comment was made, its answer is still under way"
    kill_all(shop, "worker")
    github.let_go()
    shop.until(lambda: ended(shop), seconds=90)

    assert shop.rows("SELECT status FROM triggers_run") == [("succeeded",)]
    assert (len(github.pulls), len(github.comments)) == (1, 1)
    assert statuses(shop) == {"github.create_pr": "delivered", "github.comment": "delivered"}


def test_killed_over_and_over_from_the_first_moment(shop: Desk, github: SlowGitHub, far_side: Recorder) -> None:
    ann = begin(shop, far_side)
    shop.kill_pool("worker")
    action = awaiting(shop, ann)
    shop.kill("worker")
    shop.kill_pool("desk")
    approve(ann, action)
    shop.kill("desk")
    shop.kill_pool("worker")
    shop.until(lambda: ended(shop), seconds=90)

    assert shop.rows("SELECT status FROM triggers_run") == [("succeeded",)]
    assert (len(github.pulls), len(github.comments)) == (1, 1)


@pytest.mark.parametrize("name", ["web", "worker", "desk", "beat", "listen", "valkey"])
def test_a_request_outlives_whichever_process_dies_while_people_are_asked(
    name: str, shop: Desk, github: SlowGitHub, far_side: Recorder
) -> None:
    """And what somebody has on the screen from before still counts."""
    ann = begin(shop, far_side)
    action = awaiting(shop, ann)
    shop.kill(name)
    shop.until(shop.is_ready, seconds=60)
    again = ann.get(f"/api/v1/actions/{action['id']}").raise_for_status().json()
    assert [again[one] for one in ("status", "digest", "revision")] == ["awaiting", action["digest"], 1]
    assert github.pulls == []
    approve(ann, action)
    shop.until(lambda: ended(shop), seconds=90)
    assert shop.rows("SELECT status FROM triggers_run") == [("succeeded",)]
    assert (len(github.pulls), len(github.comments)) == (1, 1)
    assert "has everything that became of it" in shop.manage("verify_audit")


def test_killed_while_what_a_failed_run_did_is_undone(shop: Desk, github: SlowGitHub, far_side: Recorder) -> None:
    plan = Plan(shop, seed=1)
    shop.handlers(TRIP, name="trip")
    shop.start()
    connect(shop, far_side)
    # Each place is passed three times on the way there. The first way back is done and not written down, the second
    # one begun and not called, the third one done and its outcome not committed.
    plan.strike("after_call kill #4", "after_delivering_commit kill #5", "before_outcome_commit kill #5")
    shop.python("from triggers.models import Trigger; Trigger.objects.update(enabled=False)")  # the alarm acts as well
    headers, body = sign(shop.python(TRIGGER).split()[-1], 0)
    assert httpx.post(f"{shop.url}/hooks/generic", content=body, headers=headers, trust_env=False).status_code == 202
    shop.until(lambda: undone(shop) == 3, seconds=120)

    assert len(plan.struck("kill")) == 3
    said = [item["body"].split("\n")[0] for item in github.comments]
    assert said == ["flight", "hotel", "car", "no car", "no hotel", "no flight"]
    assert shop.rows("SELECT status FROM triggers_run WHERE handler = 'take-order'") == [("dead",)]
    assert statuses(shop)["github.comment"] == "delivered"


def undone(shop: Desk) -> int:
    return shop.count("approvals_compensation", "status = 'undone'")


def begin(shop: Desk, far_side: Recorder) -> httpx.Client:
    """An open desk whose GitHub is the recording server, and one delivery for it."""
    shop.start()
    connect(shop, far_side)
    client = shop.token("read", "decide")
    shop.command("ring", "github-issue")
    return client


def awaiting(shop: Desk, ann: httpx.Client) -> dict:
    """The action that waits for a nod."""
    shop.until(lambda: shop.count("approvals_action", "status = 'awaiting'"), seconds=60)
    number = shop.rows("SELECT id FROM approvals_action WHERE status = 'awaiting'")[0][0]
    return dict(ann.get(f"/api/v1/actions/{number}").raise_for_status().json())


def approve(ann: httpx.Client, action: dict) -> None:
    """A yes; it goes out when its ten seconds of take-back are over."""
    said = {"verdict": "approve", "digest": action["digest"], "revision": action["revision"]}
    answer = ann.post(f"/api/v1/actions/{action['id']}/decisions", json=said)
    assert answer.status_code == 201, answer.text


def kill_all(shop: Desk, name: str) -> None:
    """First those that do the work, so that none of them hears the answer that comes now."""
    assert shop.kill_pool(name)
    shop.kill(name)


def statuses(shop: Desk) -> dict[str, str]:
    return dict(shop.rows("SELECT kind, status FROM approvals_action"))


def status_of(shop: Desk, kind: str) -> str | None:
    return statuses(shop).get(kind)


def ended(shop: Desk) -> bool:
    return shop.count("triggers_run", "finished_at IS NOT NULL") == 1
