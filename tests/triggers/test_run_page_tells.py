"""The page of a run says what it is at, what stopped it, and what became of its workers."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from approvals.act import act
from project.lib import clock
from project.people.models import User
from tests import builders, nodding
from tests.handlers import fresh, registered, work
from triggers import history
from triggers.errors import NotJson
from triggers.execute import reclaim
from triggers.models import DeadLetter, Run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def page(owner: User, sign_in: Callable[[User], Client]) -> Callable[..., str]:
    browser = sign_in(owner)
    return lambda run, query="": browser.get(reverse("run", args=[run.pk]) + query).content.decode()


def blocked(later: Callable[..., None]) -> Run:
    amounts = iter([100, 200])

    def story(run: Any) -> None:
        run.step("charge", lambda amount, currency: None, next(amounts), currency="EUR")
        run.sleep("nap", timedelta(hours=1))

    with registered("story", story):
        run = builders.run("story")
        work()
        later(hours=2)
        Run.objects.filter(pk=run.pk).update(status="queued")
        work()
    return fresh(run)


def test_it_says_how_many_tries_there_are(page: Callable[..., str]) -> None:
    trigger = builders.trigger("triage-issue", limits={"retries": {"max": 1}})
    assert "<dd>1 of at most 2</dd>" in page(builders.run(trigger=trigger))


def test_a_blocked_run_shows_both_inputs_and_its_three_choices(
    page: Callable[..., str], later: Callable[..., None]
) -> None:
    shown = page(blocked(later))
    for words in (
        "Step “charge” is asked with other arguments than those it was computed from: argument 1",
        ">100<",
        ">200<",
        "Continue with the code as it is",
        "Start again as a new run",
    ):
        assert words in shown
    assert "currency when" not in shown, "that argument is the same"


def test_a_blocked_run_tells_what_was_done_from_what_only_began(page: Callable[..., str]) -> None:
    error = {"type": "Blocked", "message": "The code ended", "traceback": "", "orphans": ["look", "call the runbook"]}
    run = builders.run(status="blocked", error=error)
    builders.step(run, 1, name="look")
    builders.step(run, 2, name="call the runbook", kind="act", status="started", result_json=None, finished_at=None)
    shown = page(run, "?step=call+the+runbook")
    head = " ".join(shown.partition("Done and not asked for so far")[2].split())
    assert (
        head.index("look") < head.index("Begun, not ended, and not asked for so far") < head.index("call the runbook")
    )
    assert "It has begun and not ended: its run is blocked." in shown
    assert "its worker is gone" not in shown


def test_a_viewer_sees_which_step_differs_but_no_argument(
    ben: User, sign_in: Callable[[User], Client], later: Callable[..., None]
) -> None:
    shown = sign_in(ben).get(reverse("run", args=[blocked(later).pk])).content.decode()
    assert "“charge” is asked with other arguments" in shown
    assert ">100<" not in shown
    assert "An operator chooses" in shown


@pytest.mark.parametrize(("choice", "status"), [("continue", 200), ("restart", 201), ("cancel", 200)])
def test_the_choice_is_made_over_the_api_too(
    owner: User, with_token: Callable[..., Client], later: Callable[..., None], choice: str, status: int
) -> None:
    run = blocked(later)
    api = with_token(owner, "read", "operate")
    path = f"/api/v1/runs/{run.pk}/choice"
    answer = api.post(path, {"choice": choice}, content_type="application/json")
    assert (answer.status_code, answer.json()["id"] == run.pk) == (status, choice != "restart")
    again = api.post(path, {"choice": choice}, content_type="application/json")
    assert (again.status_code, again.json()["code"]) == (409, "not_blocked")
    assert api.post(path, {"choice": "guess"}, content_type="application/json").status_code == 422


def test_a_step_that_is_at_work_is_on_the_timeline_before_it_ends(page: Callable[..., str]) -> None:
    run = builders.run(status="running", fence=1, leased_until=clock.now(), started_at=clock.now())
    builders.step(run, 1, name="think long", status="started", finished_at=None, result_json=None)
    shown = page(run, "?step=think+long")
    assert "It has begun and not ended" in shown
    assert 'title="think long"' in shown
    assert ">At work</span>" not in shown, "one row says it"


def test_a_crash_loop_names_its_step_and_its_memory_on_the_run_and_in_the_dead_letter(
    page: Callable[..., str], owner: User, sign_in: Callable[[User], Client]
) -> None:
    run = builders.run(status="running", fence=1, leased_until=clock.now(), memory_mib=512)
    builders.step(run, 1, name="load it all", status="started", finished_at=None, result_json=None)
    for fence in (1, 3, 5):
        reclaim(run.pk, fence, reason="timed_out" if fence == 5 else "worker_lost")
        if fence < 5:
            shown = page(run)
            assert "worker was lost" in shown or "workers were lost" in shown
            assert "load it all" in shown
            assert "The worker that was on it died." in shown
            Run.objects.filter(pk=run.pk).update(status="running", fence=fence + 2, leased_until=clock.now())
    run = fresh(run)
    assert (run.status, run.reason, run.crashes, run.attempt) == ("dead", "crash_loop", 3, 1)
    letter = DeadLetter.objects.get(run=run)
    assert (letter.step, letter.error_type) == ("load it all", "CrashLoop")
    told = "3 workers were lost under this run, the last one in the step “load it all”: its time was up, 512 MiB"
    for shown in (page(run), sign_in(owner).get(reverse("dead-letter", args=[letter.pk])).content.decode()):
        assert told in shown
        assert "512 MiB, when its" in shown


def test_a_long_history_warns(page: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MANY_STEPS", 2)
    run = builders.run(status="succeeded", finished_at=clock.now())
    builders.step(run, 1)
    assert "It remembers" not in page(run)
    builders.step(run, 2)
    assert "It remembers 2 steps" in page(run)


def test_the_panel_shows_what_a_step_was_asked_with_and_what_could_not_be_kept(page: Callable[..., str]) -> None:
    def story(run: Any) -> None:
        try:
            run.step("odd", lambda order, box: {box}, {"id": 7}, box="small")
        except NotJson:
            run.step("large", lambda: "x" * 300_000)

    with registered("story", story):
        run = builders.run("story")
        work()
    shown = page(run, "?step=odd")
    for words in ("Asked with", "argument 1", "{&quot;id&quot;: 7}", "box", "cannot be kept", "{&#x27;small&#x27;}"):
        assert words in shown, words
    assert "293.0\xa0KB: too much to draw" in page(run, "?step=large")


def test_an_act_that_waits_is_one_row_which_says_for_whom(page: Callable[..., str]) -> None:
    def story(run: Any) -> None:
        act(run, "order tea", kind="shop.order", cups=2)

    builders.connection("shop", practice=False)
    with nodding.serving(), registered("story", story):
        run = builders.run("story")
        work()
        assert fresh(run).status == "waiting"
        assert list(run.steps.values_list("name", "kind", "status")) == [("order tea", "act", "started")]
        shown = page(run)
    assert shown.count('title="order tea"') == 1
    assert "a person decides" in shown
