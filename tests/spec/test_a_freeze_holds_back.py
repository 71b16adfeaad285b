"""The freeze calendar: meanwhile nothing it means is carried out; what is approved waits, and says until when."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from approvals import clearing, decide, freezing, starts
from approvals.errors import NotValid
from approvals.models import Action, Freeze
from project.lib import clock, stream
from project.lib.schema import rfc3339
from project.people.models import User
from tests import builders
from tests.agents import agent, ask
from tests.conftest import PASSWORD
from tests.contract.world import API
from tests.nodding import Shop, carry_out, now_of, say, serving, the_action
from triggers.models import Audit, DeadLetter

pytestmark = pytest.mark.usefixtures("connection")


@pytest.fixture
def shop(db: None) -> Iterator[Shop]:
    with serving() as shop:
        yield shop


def approved(ben: User) -> Action:
    ask(agent("robot"))
    say(the_action(), ben)
    return the_action()


def frozen(hours: float = 4, *, begins: float = -1, name: str = "Stocktaking", **named: Any) -> Freeze:
    now = clock.now()
    times = {"starts_at": now + timedelta(hours=begins), "ends_at": now + timedelta(hours=hours)}
    return freezing.freeze(name, **times, by=None, **named)


def test_what_is_approved_waits_for_the_end_and_starts_then(shop: Shop, ben: User, later: Callable[..., None]) -> None:
    freeze = frozen(hours=30)
    action = approved(ben)
    carry_out()
    waits = now_of(action)
    assert (shop.sent, waits.status, waits.frozen_until) == ([], "approved", freeze.ends_at)
    assert waits.execute_by > freeze.ends_at, "it does not expire meanwhile"
    later(hours=29)
    carry_out()
    assert shop.sent == []
    later(hours=1.5)
    carry_out()
    assert (len(shop.sent), now_of(action).status) == (1, "delivered")
    assert not DeadLetter.objects.exists()


def test_a_freeze_holds_back_what_was_approved_before_it(shop: Shop, ben: User) -> None:
    action = approved(ben)
    frozen()
    carry_out()
    assert (shop.sent, now_of(action).status) == ([], "approved")


def test_lifted_it_holds_nothing_back_any_more(shop: Shop, ben: User) -> None:
    freeze = frozen()
    action = approved(ben)
    carry_out()
    freezing.lift(freeze, by=ben)
    carry_out()
    assert (len(shop.sent), now_of(action).frozen_until) == (1, None)
    with pytest.raises(NotValid):
        freezing.lift(freeze, by=ben)


def test_however_many_it_held_it_is_lifted_by_a_few_questions(
    ben: User,
    django_assert_max_num_queries: Callable[..., Any],
    django_capture_on_commit_callbacks: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[str, object]] = []
    monkeypatch.setattr(stream, "publish", lambda topic, id, _: told.append((topic, id)))
    freeze = frozen()
    until = clock.now() + timedelta(hours=1)
    held = [builders.action(status="approved", frozen_until=until) for _ in range(20)]
    with django_assert_max_num_queries(12), django_capture_on_commit_callbacks(execute=True):
        freezing.lift(freeze, by=ben)
    assert {("actions", one.pk) for one in held} <= set(told), "a card that is open says so"
    assert not Action.objects.filter(pk__in=[one.pk for one in held], frozen_until__isnull=False).exists()


def test_another_freeze_goes_on_when_one_is_lifted(shop: Shop, ben: User) -> None:
    longer, freeze = frozen(hours=9), frozen()
    action = approved(ben)
    carry_out()
    freezing.lift(freeze, by=ben)
    carry_out()
    assert (shop.sent, now_of(action).frozen_until) == ([], longer.ends_at)


def test_one_freeze_after_the_other_is_one(shop: Shop, ben: User) -> None:
    frozen(hours=4)
    second = frozen(begins=3, hours=8)
    action = approved(ben)
    carry_out()
    assert now_of(action).frozen_until == second.ends_at


@pytest.mark.parametrize(
    ("means", "holds"),
    [
        ({}, True),
        ({"kinds": ["shop.order"]}, True),
        ({"kinds": ["stripe.refund", "shop.*"]}, True),
        ({"kinds": ["stripe.*"]}, False),
        ({"tiers": ["medium"]}, True),
        ({"tiers": ["high"]}, False),
        ({"kinds": ["shop.*"], "tiers": ["high", "low"]}, False),
        ({"begins": 1}, False),
    ],
)
def test_it_means_what_it_names(shop: Shop, ben: User, means: dict[str, Any], holds: bool) -> None:
    frozen(**means)
    approved(ben)
    carry_out()
    assert len(shop.sent) == (0 if holds else 1)


def test_a_freeze_of_everything_holds_back_no_alarm_of_the_desk() -> None:
    alarm, other = (builders.action(kind, tier="low", status="approved") for kind in ("notify.send", "github.comment"))
    freeze, now = frozen(), clock.now()
    assert starts.thaws_at(alarm, now) == now
    assert starts.thaws_at(other, now) == freeze.ends_at
    named = frozen(kinds=["notify.*"], hours=5)
    assert starts.thaws_at(alarm, now) == named.ends_at


def test_what_needs_no_nod_waits_too(later: Callable[..., None]) -> None:
    with serving("low") as shop:
        frozen()
        ask(agent("robot"))
        carry_out()
        assert (shop.sent, the_action().status) == ([], "approved")
        later(hours=5)
        carry_out()
        assert len(shop.sent) == 1


def test_people_go_on_deciding_and_may_take_back_meanwhile(shop: Shop, ben: User) -> None:
    frozen()
    action = approved(ben)
    carry_out()
    decide.take_back(action, by=ben)
    again = now_of(action)
    assert (again.status, again.frozen_until, again.revision) == ("awaiting", None, 2)
    freezing.lift(Freeze.objects.get(), by=ben)
    carry_out()
    assert shop.sent == [], "nobody has said yes to the second revision"


def test_what_is_in_doubt_is_not_sent_again_in_a_freeze(shop: Shop, ann: User, ben: User) -> None:
    action = approved(ben)
    Action.objects.update(status="unknown", tries=1)
    frozen()
    clearing.settle_unknown(action, by=ann, status="not_sent")
    carry_out()
    assert (shop.sent, now_of(action).status) == ([], "unknown")
    freezing.lift(Freeze.objects.get(), by=ann)
    carry_out()
    assert len(shop.sent) == 1


def test_the_page_of_an_action_says_until_when(shop: Shop, ben: User, sign_in: Any) -> None:
    frozen(name="Between <the> years")
    ask(agent("robot"))
    browser, path = sign_in(ben), f"/actions/{the_action().pk}"
    page = browser.get(path).content.decode()
    assert "A freeze is on until" in page
    assert ("until then it can be taken back" in page, "s to take it back" in page) == (True, False)
    say(the_action(), ben)
    carry_out()
    page = browser.get(path).content.decode()
    assert "Approved, frozen until" in page
    assert "Between &lt;the&gt; years" in page


def test_a_yes_during_a_freeze_counts_nothing_down(shop: Shop, ben: User, sign_in: Any) -> None:
    frozen(name="Release night")
    action = approved(ben)
    page = sign_in(ben).get(f"/approvals?done={action.pk}").content.decode()
    toast = page.partition(f'id="toast-{action.pk}"')[2].partition("</form>")[0]
    assert "Approved. A freeze holds it back until" in toast
    assert "Release night" in toast
    assert ("Take back" in toast, "data-until" in toast) == (True, False)


# Who keeps the calendar


def fresh(browser: Client) -> Client:
    browser.post(f"{API}/step-up", {"password": PASSWORD}, content_type="application/json")
    return browser


def body(**fields: Any) -> dict[str, Any]:
    return {"name": "Release night", "ends_at": rfc3339(clock.now() + timedelta(hours=4)), **fields}


def post(client: Client, **fields: Any) -> Any:
    return client.post(f"{API}/freezes", body(**fields), content_type="application/json")


def test_an_admin_sets_and_lifts_it_over_the_api(owner: User, sign_in: Any) -> None:
    admin = fresh(sign_in(owner))
    made = post(admin, kinds=["github.*"], tiers=["high"])
    assert made.status_code == 201, made.content
    told = made.json()
    assert (told["by"], told["kinds"], told["tiers"], told["on"]) == ("owner", ["github.*"], ["high"], True)
    listed = admin.get(f"{API}/freezes", {"since": rfc3339(clock.now())}).json()["items"]
    assert [row["id"] for row in listed] == [told["id"]]
    assert admin.delete(f"{API}/freezes/{told['id']}").status_code == 204
    after = admin.get(f"{API}/freezes/{told['id']}").json()
    assert (after["on"], after["lifted_by"]) == (False, "owner")
    assert admin.delete(f"{API}/freezes/{told['id']}").status_code == 422
    assert list(Audit.objects.filter(kind="freeze").values_list("verb", flat=True)) == ["freeze", "lift"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": " "}, "name"),
        ({"ends_at": "2020-01-01T00:00:00Z"}, "ends_at"),
        ({"starts_at": "2020-01-01T00:00:00Z", "ends_at": "9999-01-01T00:00:00Z"}, "ends_at"),
        ({"kinds": ["*"]}, "kinds"),
        ({"kinds": ["shop"]}, "kinds"),
        ({"kinds": ["gihub.*"]}, "kinds"),
        ({"kinds": ["github.*", "stripe.refnd"]}, "kinds"),
        ({"tiers": ["extreme"]}, "tiers"),
        ({"until": "tomorrow"}, "until"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused(owner: User, sign_in: Any, fields: dict[str, Any], field: str) -> None:
    answer = post(fresh(sign_in(owner)), **fields)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert not Freeze.objects.exists()


def test_a_kind_that_nobody_knows_is_answered_with_the_nearest_that_is(owner: User, sign_in: Any) -> None:
    admin = fresh(sign_in(owner))
    assert post(admin, kinds=["gihub.*"]).json()["detail"] == "There is no kind `gihub.*`; did you mean `github.*`?"
    assert "`stripe.refund`?" in post(admin, kinds=["stripe.refnd"]).json()["detail"]
    assert post(admin, kinds=["zzz.*"]).json()["detail"] == "There is no kind `zzz.*`."
    assert post(admin, kinds=["external.*", "external.deploy"]).status_code == 201


def test_only_a_fresh_admin_in_person_changes_it(owner: User, ann: User, sign_in: Any, with_token: Any) -> None:
    row = frozen()
    for client in (sign_in(ann), sign_in(owner), with_token(owner, "configure", "read", "operate")):
        assert post(client).status_code == 403
        assert client.delete(f"{API}/freezes/{row.pk}").status_code == 403
    assert Freeze.objects.kept().count() == 1


def local(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M")


def test_an_admin_keeps_it_in_the_browser_and_everybody_reads_it(
    shop: Shop, owner: User, ann: User, ben: User, sign_in: Any
) -> None:
    admin = sign_in(owner)
    times = {"starts_at": local(clock.now()), "ends_at": local(clock.now() + timedelta(days=1))}
    wanted = {"name": "Release night", "kinds": "shop.*\n", "tiers": ["medium", "high"], **times}
    assert "Confirm that it is you" in admin.post("/freezes", wanted).content.decode()
    assert not Freeze.objects.exists()
    assert fresh(admin).post("/freezes", wanted).status_code == 302
    row = Freeze.objects.get()
    assert (row.kinds, row.tiers, row.by) == (["shop.*"], ["medium", "high"], owner)
    approved(ben)
    carry_out()
    page = sign_in(ann).get("/freezes").content.decode()
    assert "Release night" in page
    assert "1 approved action waits" in page
    assert "Add to the calendar" not in page
    assert sign_in(ann).post("/freezes", wanted).status_code == 403
    assert sign_in(ann).post(f"/freezes/{row.pk}/lift").status_code == 403
    assert fresh(admin).post("/freezes", {**wanted, "ends_at": times["starts_at"]}).status_code == 422
    assert admin.post(f"/freezes/{row.pk}/lift").status_code == 302
    carry_out()
    assert len(shop.sent) == 1
    assert "Nothing is frozen" in admin.get("/freezes").content.decode()
