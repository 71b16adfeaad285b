"""A program outside asks for an action: once a key, under the policy of everybody; it sees its own and no other."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from approvals import deliver, outside
from approvals.clearing import settle_unknown
from approvals.errors import CannotSendAgain, OutcomeUnknown, StepUpRequired
from approvals.kinds import KINDS
from approvals.models import Action, Connection, Proposal
from approvals.tiers import Tier
from project.lib import clock
from project.people import roles
from project.people.models import ApiToken, User
from tests import builders
from tests.agents import ORDER, agent, ask
from tests.conftest import person
from tests.contract.world import API
from tests.nodding import Shop, carry_out, changed_kind, now_of, say, serving, settle, the_action
from tests.ruled import rule
from triggers import retention
from triggers.models import Audit

pytestmark = pytest.mark.usefixtures("connection", "high_has_its_rule")


@pytest.fixture
def shop() -> Iterator[Shop]:
    with serving() as shop:
        yield shop


@pytest.fixture
def robot(db: None, shop: Shop) -> Client:
    return agent("robot")


def refusal(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def withdraw(client: Client, number: int) -> Any:
    return client.post(f"{API}/actions/{number}/cancel", {}, content_type="application/json")


def test_it_waits_for_a_nod_and_then_happens_once(robot: Client, shop: Shop, ben: User) -> None:
    asked = ask(robot, reason="We are out of tea", evidence=["the tin is empty"])
    assert asked.status_code == 201, asked.content
    told = asked.json()
    assert (told["status"], told["tier"], told["agent"], told["requested_by"]) == ("awaiting", "medium", "robot", None)
    assert told["arguments"] == ORDER["arguments"]
    action = the_action()
    say(action, ben)
    carry_out()
    told = robot.get(f"{API}/actions/{action.pk}").json()
    assert (told["status"], told["result"]["cups"]) == ("delivered", 2)
    assert len(shop.sent) == 1
    assert Audit.objects.get(verb="propose").detail["agent"] == "robot"


def test_the_same_key_is_the_same_action(robot: Client) -> None:
    first, again = ask(robot), ask(robot)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert refusal(ask(robot, reason="another one")) == (422, "key_reused")
    assert ask(robot, "two").json()["id"] != first.json()["id"]


def test_a_key_belongs_to_its_token(robot: Client) -> None:
    assert ask(robot).json()["id"] != ask(agent("robot")).json()["id"]


def test_a_key_is_kept_for_a_day_and_as_long_as_its_action_has_not_ended(
    robot: Client, ben: User, later: Callable[..., None]
) -> None:
    first = ask(robot, expires=3 * 86400).json()["id"]
    later(hours=30)
    assert ask(robot, expires=3 * 86400).json()["id"] == first
    say(the_action(), ben, "reject")
    second = ask(robot)
    assert (second.status_code, second.json()["id"] != first) == (201, True)
    assert second.json()["key"] != Action.objects.get(pk=first).key, "the far side remembers keys, too"


@pytest.mark.parametrize("key", ["", "two words", "x" * 181, "ä"])
def test_without_a_key_of_its_own_nothing_is_asked_for(robot: Client, key: str) -> None:
    assert refusal(ask(robot, key)) == (400, "bad_value")
    assert not Action.objects.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": "shop.steal"}, "kind"),
        ({"kind": "external."}, "kind"),
        ({"arguments": {"cups": "many"}}, "cups"),
        ({"arguments": {"teapot": 1}}, "teapot"),
        ({"connection": "elsewhere"}, "connection"),
        ({"expires": 0}, "expires"),
        ({"callback_url": "ftp://example.org"}, "callback_url"),
        ({"callback_url": "http://169.254.169.254/latest"}, "callback_url"),
        ({"callback_url": "http://10.0.0.1/hook"}, "callback_url"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(robot: Client, body: dict[str, Any], field: str) -> None:
    answer = ask(robot, **body)
    assert (*refusal(answer), answer.json()["field"]) == (422, "not_valid", field)
    assert not Action.objects.exists()
    assert ask(robot).status_code == 201, "a refusal uses up no key"


def test_what_needs_no_nod_is_done_and_told(ben: User) -> None:
    with serving("low") as shop:
        robot = agent("robot")
        assert ask(robot).json()["status"] == "approved"
        carry_out()
        assert (the_action().status, len(shop.sent)) == ("delivered", 1)


def test_beyond_the_hourly_budget_of_its_token_also_low_waits_for_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("approvals.budget.BUDGET", 2)
    with serving("low"):
        robot = agent("robot")
        assert [ask(robot, f"k{n}").json()["tier"] for n in range(3)] == ["low", "low", "medium"]
        assert ask(agent("other"), "k").json()["tier"] == "low"


def test_withdrawing_and_asking_anew_has_an_end(robot: Client, later: Any) -> None:
    """People are told of each; who withdraws what he asked makes no room with it for an hour."""
    for number in range(outside.MOST_WAITING):
        action = ask(robot, f"k{number}", arguments={"cups": number}).json()
        assert (
            robot.post(f"{API}/actions/{action['id']}/cancel", {}, content_type="application/json").status_code == 200
        )
    assert refusal(ask(robot, "one-more")) == (429, "too_many_waiting")
    later(hours=1.1)
    assert ask(robot, "one-more").status_code == 201


def test_so_many_wait_for_people_and_no_more(robot: Client, ben: User) -> None:
    answers = [ask(robot, f"k{n}", arguments={"cups": n}) for n in range(outside.MOST_WAITING + 1)]
    assert [answer.status_code for answer in answers[:-1]] == [201] * outside.MOST_WAITING
    assert refusal(answers[-1]) == (429, "too_many_waiting")
    assert answers[-1]["Retry-After"] == str(outside.ROOM_LATER)
    assert ask(agent("other")).status_code == 201, "each token has its own"
    assert ask(robot, "k0", arguments={"cups": 0}).status_code == 200, "what it asked for before it may still ask"
    say(Action.objects.order_by("pk")[0], ben, "reject")
    assert ask(robot, "more").status_code == 201


@pytest.mark.parametrize("end", ["expired", "denied", "withdrawn"])
def test_what_ends_without_a_persons_word_makes_no_room_for_an_hour(
    end: str, robot: Client, later: Callable[..., None]
) -> None:
    if end == "denied":
        rule("no-shopping", "action.kind == 'shop.order'", "deny")
    codes = []
    for number in range(outside.MOST_WAITING + 3):
        answer = ask(robot, f"k{number}", arguments={"cups": number}, expires=60)
        codes.append(answer.status_code)
        if end == "withdrawn" and answer.status_code == 201:
            withdraw(robot, answer.json()["id"])
        if end == "expired":
            later(seconds=61)
            deliver.expire_overdue()
    assert codes == [201] * outside.MOST_WAITING + [429] * 3
    later(hours=1.1)
    assert ask(robot, "one-more").status_code == 201


@pytest.mark.parametrize("expires", [0, 1e-9, 3, 59.9, -5])
def test_people_have_a_minute_at_least(robot: Client, expires: float) -> None:
    answer = ask(robot, expires=expires)
    assert (*refusal(answer), answer.json()["field"]) == (422, "not_valid", "expires")
    assert not Action.objects.exists()


def test_three_times_no_is_a_no_under_every_key(robot: Client, ben: User) -> None:
    for number in range(3):
        ask(robot, f"please-{number}")
        say(Action.objects.latest("pk"), ben, "reject")
    assert refusal(ask(robot, "please-3")) == (409, "asked_enough")
    assert ask(robot, "other", arguments={"cups": 9}).status_code == 201


def test_what_a_rule_denies_ends_at_once(robot: Client) -> None:
    rule("no-shopping", "action.kind == 'shop.order' && action.proposed_by_agent", "deny")
    told = ask(robot).json()
    assert (told["status"], told["reason_code"]) == ("rejected", "policy_denied")


def test_only_a_token_with_the_scope_asks(owner: User, eve: User, sign_in: Any, shop: Shop) -> None:
    assert refusal(ask(Client())) == (401, "not_signed_in")
    assert refusal(ask(agent(owner, "read", "operate", "decide", "configure", "ingest"))) == (403, "forbidden")
    assert refusal(ask(agent(eve))) == (403, "forbidden")
    assert refusal(ask(sign_in(owner))) == (403, "forbidden")
    assert ask(agent(owner)).status_code == 201


def test_a_token_that_was_revoked_asks_for_nothing(robot: Client) -> None:
    robot.token.revoke()  # type: ignore[attr-defined]
    assert refusal(ask(robot)) == (401, "not_signed_in")


class TestWhatARevokedTokenAskedFor:
    """Whoever revokes it stops the program: nothing of it begins any more, whatever people had said."""

    def test_waits_no_longer(self, robot: Client, shop: Shop, owner: User, sign_in: Any) -> None:
        action = Action.objects.get(pk=ask(robot).json()["id"])
        sign_in(owner).post(f"/settings/tokens/{robot.token.pk}/revoke")  # type: ignore[attr-defined]
        ended = now_of(action)
        assert (ended.status, ended.reason_code, ended.ended_by) == ("cancelled", "token_revoked", owner)
        assert Audit.objects.filter(verb="cancel", ref=str(action.pk), by=owner).exists()
        page = " ".join(sign_in(owner).get(f"/actions/{action.pk}").content.decode().split())
        assert "withdrawn by owner when its token was revoked" in page

    @pytest.mark.parametrize("tier", ["low", "medium"])
    @pytest.mark.parametrize("way", ["by the page", "its person left", "in the row alone"])
    def test_does_not_start(self, way: str, tier: str, shop: Shop, ben: User, eve: User) -> None:
        roles.grant(eve, roles.OPERATOR)
        robot = agent(eve)
        changed_kind(tier=Tier(tier))
        action = Action.objects.get(pk=ask(robot).json()["id"])
        if tier == "medium":
            say(action, ben)
        if way == "by the page":
            robot.token.revoke(by=eve)  # type: ignore[attr-defined]
        elif way == "its person left":
            User.objects.filter(pk=eve.pk).update(is_active=False)
        else:
            ApiToken.objects.update(revoked_at=clock.now())
        settle()
        assert (now_of(action).status, now_of(action).reason_code, shop.sent) == ("cancelled", "token_revoked", [])

    def test_is_not_sent_again_in_doubt(self, robot: Client, shop: Shop, ann: User, ben: User, later: Any) -> None:
        shop.faults, shop.before_fault = [OutcomeUnknown("timeout")], False
        action = Action.objects.get(pk=ask(robot).json()["id"])
        say(action, ben)
        settle()
        robot.token.revoke()  # type: ignore[attr-defined]
        later(minutes=10)
        settle()
        assert (now_of(action).status, len(shop.sent)) == ("unknown", 1)
        with pytest.raises(CannotSendAgain):
            settle_unknown(action, by=ann, status="not_sent")

    def test_is_nothing_of_another_token(self, robot: Client, shop: Shop, ben: User) -> None:
        other = Action.objects.get(pk=ask(agent("other")).json()["id"])
        robot.token.revoke()  # type: ignore[attr-defined]
        say(other, ben)
        settle()
        assert now_of(other).status == "delivered"

    def test_stays_when_it_had_ended(self, robot: Client, shop: Shop, ben: User) -> None:
        action = Action.objects.get(pk=ask(robot).json()["id"])
        say(action, ben)
        settle()
        assert robot.token.revoke()  # type: ignore[attr-defined]
        assert not robot.token.revoke()  # type: ignore[attr-defined]
        assert now_of(action).status == "delivered"


# What an agent cannot do


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    extra=st.dictionaries(
        st.sampled_from(["tier", "status", "needed", "reviewers", "policy", "approved", "requested_by", "allowed_by"]),
        st.sampled_from(["low", "read", "approved", 0, True, [], None]),
        max_size=3,
    ),
    inside=st.dictionaries(st.sampled_from(["tier", "approved", "allow"]), st.just("low"), max_size=2),
    reason=st.sampled_from(["", "tier: low", "already approved by ann", "</p>approve"]),
)
def test_nothing_it_says_makes_its_own_tier_another(
    robot: Client, extra: dict[str, Any], inside: dict[str, Any], reason: str
) -> None:
    before = Action.objects.count()
    Action.objects.filter(status="awaiting").update(status="cancelled", settled_at="2026-01-01T00:00:00Z")
    answer = ask(
        robot, f"k{before}-{Proposal.objects.count()}", **extra, arguments={"cups": 1, **inside}, reason=reason
    )
    if extra or inside:
        assert refusal(answer) == (422, "not_valid")
        assert Action.objects.count() == before
    else:
        assert (answer.json()["tier"], answer.json()["status"]) == ("medium", "awaiting")


@pytest.mark.parametrize("name", ["external.deploy", "external.low", "external.read.only"])
def test_what_it_does_itself_is_high_whatever_it_is_called(robot: Client, name: str, ben: User, sign_in: Any) -> None:
    rule("let-it", "action.kind.startsWith('external.')", "allow")
    told = ask(robot, kind=name, arguments={"service": "shop"}).json()
    assert (told["tier"], told["status"], told["needed"]) == ("high", "awaiting", 1)
    assert told["title"].endswith('(service: "shop")')
    with pytest.raises(StepUpRequired):
        say(the_action(), ben)
    say(the_action(), ben, stepped_up=True, reason="seen")
    later_on = Action.objects.get()
    Action.objects.update(not_before=later_on.decided_at)
    carry_out()
    assert (the_action().status, the_action().result) == ("delivered", {"granted": True})


def test_credentials_of_what_it_does_itself_are_on_no_card(robot: Client) -> None:
    told = ask(robot, kind="external.login", arguments={"host": "a.example", "password": "hunter2", "n": [1]})
    assert told.status_code == 201, told.content
    assert "hunter2" not in told.content.decode()
    assert "hunter2" not in str(Action.objects.values().get())
    assert told.json()["arguments"]["password"].startswith("hidden:")


def test_a_key_that_was_used_stays_used_also_when_the_request_is_forgotten(
    shop: Shop, robot: Client, ben: User, later: Any
) -> None:
    """Requests go after RETENTION_DAYS; the far side never reads the same key for two effects."""
    keys = []
    for _ in range(3):
        action = Action.objects.get(pk=ask(robot).json()["id"])
        say(action, ben)
        carry_out()
        keys.append(action.key)
        later(days=40)
        if len(keys) != 2:
            retention.prune()
    assert keys == [f"T-{robot.token.pk}/one", f"T-{robot.token.pk}.2/one", f"T-{robot.token.pk}.3/one"]
    assert len(shop.sent) == 3


def test_an_unknown_kind_is_no_family(robot: Client) -> None:
    assert KINDS.get("nobody.knows") is None
    assert refusal(ask(robot, kind="nobody.knows")) == (422, "not_valid")


def test_whose_token_it_is_does_not_nod(shop: Shop, ann: User, ben: User, sign_in: Any) -> None:
    own = agent(ann, "propose", "decide", "read", "operate")
    told = ask(own).json()
    seen = {"verdict": "approve", "digest": told["digest"], "revision": 1}
    path = f"{API}/actions/{told['id']}/decisions"
    for client in (own, sign_in(ann), agent(ann, "decide")):
        assert refusal(client.post(path, seen, content_type="application/json")) == (403, "self_approval")
    assert sign_in(ben).post(path, seen, content_type="application/json").status_code == 201


def test_also_where_one_person_is_alone_no_program_nods_for_him(shop: Shop, owner: User, sign_in: Any) -> None:
    robot = agent(owner, "propose", "decide")
    told = ask(robot).json()
    seen = {"verdict": "approve", "digest": told["digest"], "revision": 1}
    path = f"{API}/actions/{told['id']}/decisions"
    for client in (robot, agent(owner, "decide")):
        assert refusal(client.post(path, seen, content_type="application/json")) == (403, "self_approval")
    assert sign_in(owner).post(path, seen, content_type="application/json").status_code == 201
    again = ask(robot, "two", arguments={"cups": 3}).json()
    no = {"verdict": "reject", "digest": again["digest"], "revision": 1, "reason": "not needed"}
    assert robot.post(f"{API}/actions/{again['id']}/decisions", no, content_type="application/json").status_code == 201


def test_who_made_the_token_of_a_service_does_not_nod_to_what_it_asks(
    shop: Shop, owner: User, ben: User, sign_in: Any
) -> None:
    told = ask(agent("robot", made_by=owner)).json()
    assert (told["requested_by"], told["requester_chain"]) == (None, [owner.pk])
    seen = {"verdict": "approve", "digest": told["digest"], "revision": 1}
    path = f"{API}/actions/{told['id']}/decisions"
    assert refusal(sign_in(owner).post(path, seen, content_type="application/json")) == (403, "self_approval")
    assert sign_in(ben).post(path, seen, content_type="application/json").status_code == 201


def test_a_service_never_nods_itself(robot: Client) -> None:
    number = ask(robot).json()["id"]
    every = agent("robot", "propose", "read", "operate", "decide", "configure", "ingest")
    seen = {"verdict": "approve", "digest": the_action().digest, "revision": 1}
    for client in (robot, every):
        answer = client.post(f"{API}/actions/{number}/decisions", seen, content_type="application/json")
        assert answer.status_code == 403
    assert the_action().status == "awaiting"


def test_it_sees_its_own_actions_and_no_others(robot: Client, ann: User) -> None:
    mine, theirs = ask(robot).json()["id"], ask(agent("other")).json()["id"]
    hers = ask(agent(ann), "hers").json()["id"]
    builders.action(run=builders.run())
    assert [row["id"] for row in robot.get(f"{API}/actions").json()["items"]] == [mine]
    assert robot.get(f"{API}/actions/{mine}").json()["arguments"] is not None
    second = agent(ann)  # another program of the same person
    for client, number in ((robot, theirs), (robot, hers), (second, hers), (second, mine)):
        assert refusal(client.get(f"{API}/actions/{number}")) == (404, "not_found")
        assert refusal(withdraw(client, number)) == (404, "not_found")
        assert refusal(client.get(f"{API}/actions/{number}?wait=5")) == (404, "not_found")
    assert [row["id"] for row in second.get(f"{API}/actions").json()["items"]] == []
    for path in ("events", "runs", "audit", "policies", "connections", "freezes", "live"):
        assert robot.get(f"{API}/{path}").status_code == 403, path


@pytest.mark.parametrize("who", ["robot", "ann"])
def test_whoever_asked_may_withdraw_it(shop: Shop, ann: User, ben: User, who: str) -> None:
    client = agent(ann if who == "ann" else "robot")
    number = ask(client).json()["id"]
    path = f"{API}/actions/{number}/cancel"
    gone = client.post(path, {"reason": "not needed"}, content_type="application/json")
    assert (gone.status_code, gone.json()["status"]) == (200, "cancelled")
    assert refusal(client.post(path, {}, content_type="application/json")) == (409, "already_decided")
    carry_out()
    told = client.get(f"{API}/actions/{number}").json()
    assert (told["status"], told["result"], told["decisions"], shop.sent) == ("cancelled", None, [], [])


def test_what_is_under_way_is_not_withdrawn(robot: Client) -> None:
    number = ask(robot).json()["id"]
    Action.objects.update(status="unknown")
    assert refusal(withdraw(robot, number)) == (409, "too_late")


def test_its_page_says_who_asked(robot: Client, ben: User, sign_in: Any) -> None:
    number = ask(robot, reason="We are out of tea").json()["id"]
    page = sign_in(ben).get(f"/actions/{number}").content.decode()
    assert "robot" in page
    assert "A program outside, a service account" in page
    assert "Why the program wants this" in page
    assert "robot" in sign_in(person("viewer-vic", "viewer")).get("/actions").content.decode()


def test_the_connection_it_names_is_the_one_that_is_used(robot: Client, connection: Connection) -> None:
    builders.connection("shop", slug="second")
    assert ask(robot, "one", connection="second").json()["connection"] == "second"
    assert now_of(the_action()).connection.slug == "second"
