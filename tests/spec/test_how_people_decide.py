"""The log keeps what a person saw; admins see how fast, how often with a yes; the sealed log leaves with its chain."""

import hashlib
import json
import re
from typing import Any

import pytest
import rfc8785

from approvals import habits, looking
from approvals.models import Action, Decision
from project.lib import clock
from project.people.models import User
from tests import builders
from tests.approvals.test_argument_forms import PULL
from tests.nodding import now_of, say
from triggers import sealing
from triggers.models import Audit

pytestmark = pytest.mark.django_db


def press(client: Any, action: Action, verdict: str = "approve", **given: str) -> int:
    """Read the page, then press, as a browser does."""
    page = client.get(f"/actions/{action.pk}").content.decode()
    [drawn] = set(re.findall(r'name="drawn" value="([^"]+)"', page))
    seen = {"digest": action.digest, "revision": str(action.revision), "drawn": drawn, "reason": "why not"}
    return client.post(f"/actions/{action.pk}/decisions", {**seen, "verdict": verdict, **given}).status_code


def test_the_log_says_what_stood_above_the_buttons(ann: User, ben: User) -> None:
    action = builders.action(by=ann, title="Open the fix", arguments=PULL)
    say(action, ben)
    row = Audit.objects.get(verb="approve")
    assert (row.by, row.detail["digest"], row.detail["revision"]) == (ben, action.digest, 1)
    shown = {"title": "Open the fix", "tier": "medium", "rules": ["default by tier"], "needed": 1, "given": 0}
    assert row.detail["saw"] == shown


@pytest.mark.parametrize("verb", ["cancel", "take back", "reject", "say delivered"])
def test_every_move_of_a_person_names_the_bytes_it_was_about(
    verb: str, ann: User, ben: User, owner: User, sign_in: Any
) -> None:
    action = builders.action(by=ann, arguments=PULL)
    client = sign_in(ben)
    if verb == "take back":
        press(client, action)
        client.post(f"/actions/{action.pk}/take-back")
    elif verb == "cancel":
        client.post(f"/actions/{action.pk}/cancel")
    elif verb == "say delivered":
        Action.objects.filter(pk=action.pk).update(status="unknown", tries=1)
        sign_in(owner).post(f"/actions/{action.pk}/outcome", {"status": "delivered", "note": "I looked"})
    else:
        press(client, action, "reject")
    rows = Audit.objects.filter(kind="action", verb=verb)
    assert rows.exists()
    by = owner if verb == "say delivered" else ben
    assert {(row.by, row.detail.get("digest")) for row in rows} == {(by, action.digest)}
    assert all("revision" in row.detail for row in rows)


def test_a_decision_keeps_whose_it_was_and_whence_it_came(ann: User, ben: User, sign_in: Any) -> None:
    """By the number of the person: whoever takes another name afterwards has said it all the same."""
    action = builders.action(by=ann, arguments=PULL)
    client = sign_in(ben)
    client.defaults |= {"HTTP_USER_AGENT": "Firefox on a phone", "REMOTE_ADDR": "203.0.113.9"}
    press(client, action)
    User.objects.filter(pk=ben.pk).update(username="benedict")
    said = Decision.objects.get()
    assert (said.by_id, said.remote, said.browser, said.channel) == (
        ben.pk,
        "203.0.113.9",
        "Firefox on a phone",
        "page",
    )


def test_how_long_it_was_on_the_screen_is_kept_with_the_decision(
    ann: User, ben: User, sign_in: Any, later: Any
) -> None:
    action = builders.action(by=ann, arguments=PULL)
    client = sign_in(ben)
    page = client.get(f"/actions/{action.pk}").content.decode()
    drawn = re.findall(r'name="drawn" value="([^"]+)"', page)[0]
    later(seconds=90)
    press(client, action, drawn=drawn)
    assert 90 <= (Decision.objects.get().looked_for or 0) < 120


def test_the_second_of_two_clicks_is_not_a_verdict_on_the_card_that_came_up_under_it(
    ann: User, ben: User, sign_in: Any, later: Any
) -> None:
    first, second = builders.action(by=ann, arguments=PULL), builders.action(by=ann, arguments=PULL)
    client = sign_in(ben)
    assert press(client, first) == 302
    assert press(client, second) == 409, "its page was drawn after that, and a moment ago"
    assert press(client, second, "reject") == 409, "nor is a no"
    assert now_of(second).status == "awaiting"
    told = client.get(f"/actions/{second.pk}").content.decode()
    drawn = re.findall(r'name="drawn" value="([^"]+)"', told)[0]
    later(seconds=1)
    assert press(client, second, drawn=drawn) == 302


def test_only_another_decision_of_the_same_person_and_browser_makes_a_click_too_soon(
    ann: User, ben: User, owner: User, sign_in: Any, later: Any
) -> None:
    first, second, third = (builders.action(by=ann, arguments=PULL) for _ in range(3))
    assert press(sign_in(owner), first) == 302
    client = sign_in(ben)
    assert press(client, second) == 302, "somebody else's decision brought up no card here"
    later(seconds=11)
    assert press(client, third) == 302, "it was opened by itself"


def test_nobody_writes_that_time_himself(ann: User, ben: User) -> None:
    one, other = builders.action(by=ann), builders.action(by=ann)
    now = clock.now()
    carried = looking.drawn(one, ben, now)
    assert looking.looked_for(carried, one, ben, now) == 0
    for text, action, reader in ((carried, other, ben), (carried, one, ann), ("", one, ben), (f"{carried}x", one, ben)):
        assert looking.looked_for(text, action, reader, now) is None


def test_admins_see_who_decides_in_under_three_seconds_and_how_often_with_a_yes(
    ann: User, ben: User, owner: User, sign_in: Any
) -> None:
    for seconds, verdict in ((1, "approve"), (2.9, "approve"), (3, "approve"), (60, "reject"), (None, "approve")):
        say(builders.action(by=ann), ben, verdict, looked_for=seconds)
    high = builders.action("stripe.refund", by=ann, tier="high")
    say(high, ben, stepped_up=True, reason="looked", looked_for=1)
    [his] = habits.habits(clock.now())
    assert (his.person, his.yes, his.no, his.share) == (ben, 5, 1, 83)
    assert (his.timed, his.quick) == (4, 2), "high is not timed, and what came by the API cannot be"
    page = sign_in(owner).get("/audit/people").content.decode()
    assert "83 %" in page
    assert sign_in(ann).get("/audit/people").status_code == 403


def test_answers_and_old_decisions_are_no_habit(ann: User, ben: User, later: Any) -> None:
    say(builders.action(by=ann), ben)
    later(days=31)
    assert habits.habits(clock.now()) == []


def test_the_sealed_log_can_be_walked_without_the_desk(ann: User, ben: User, sign_in: Any) -> None:
    for verdict in ("approve", "reject"):
        say(builders.action(by=ann), ben, verdict)
    sealing.seal()
    answer = sign_in(ben).get("/audit/export")
    lines = [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]
    assert len(lines) == Audit.objects.count()
    before = "0" * 64
    for line in lines:
        said = {name: value for name, value in line.items() if name not in ("actor", "hash")}
        before = hashlib.sha256(rfc8785.dumps({**said, "before": before})).hexdigest()
        assert before == line["hash"]
    assert before == sealing.head().hash


def test_the_table_of_the_log_carries_the_seal_too(ann: User, ben: User, sign_in: Any) -> None:
    say(builders.action(by=ann), ben)
    sealing.seal()
    rows = b"".join(sign_in(ben).get("/audit?format=csv").streaming_content).decode()
    assert sealing.head().hash in rows
    assert now_of(Action.objects.get()).status == "approved"
