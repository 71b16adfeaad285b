"""The page of a run says what it is at, what stopped it, and what became of its workers."""

import re
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from approvals.act import act
from approvals.models import Action, Asking, Channel, Notice
from project.lib import clock
from project.people.models import User
from tests import builders, nodding
from tests.conftest import person
from tests.handlers import fresh, registered, work
from triggers import history, retention, tries
from triggers.errors import NotJson
from triggers.execute import reclaim
from triggers.journal import LONG, NOTHING, Journal
from triggers.models import DeadLetter, Run
from triggers.tries import Tries

pytestmark = pytest.mark.django_db(transaction=True)
ERROR = {"type": "ConnectionError", "message": "the line is dead", "traceback": ""}


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


def test_the_panel_of_a_step_says_what_its_row_says(page: Callable[..., str]) -> None:
    """A step that asked is begun, and waits for a person."""
    builders.connection("shop", practice=False)
    with nodding.serving(), registered("story", lambda run: act(run, "buy", kind="shop.order", item="tea")):
        run = builders.run("story")
        work()
    panel = page(run, "?step=buy").partition('id="step"')[2].partition("</div>")[0]
    assert "Waits for a person" in panel
    assert "Started</span>" not in panel


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


def tried(later: Callable[..., None], *, retries: int = 1) -> Run:
    """A run whose step failed in its first attempt, all its tries, and worked in the second."""
    calls = count()

    def call() -> str:
        at = next(calls)
        if at <= retries:
            raise ConnectionError(f"call {at}: the line is dead, password=hunter2")
        return "answered"

    with registered("story", lambda run: run.step("call", call, retries=retries)):
        run = builders.run("story", trigger=builders.trigger("story"))
        work()
        later(hours=2)
        work()
    return fresh(run)


def test_every_try_of_a_step_is_told_with_its_time_its_error_and_the_pause_after_it(
    page: Callable[..., str], later: Callable[..., None]
) -> None:
    run = tried(later)
    assert run.status == "succeeded", run.error
    [step] = run.steps.all()
    assert [(one["n"], one["error"] and one["error"]["type"]) for one in step.tries] == [
        (1, "ConnectionError"),
        (2, "ConnectionError"),
        (3, None),
    ]
    times = [one[name] for one in step.tries for name in ("started_at", "finished_at")]
    assert times == sorted(times), "one after the other"
    shown = page(run, "?step=call")
    for words in ("Attempts 3", "Try 1 failed", "call 0: the line is dead", "Try 2 failed", "call 1", "Try 3 worked"):
        assert words in shown
    assert ", then waited" in shown
    assert "hunter2" not in shown
    line = shown.partition('<svg role="img" aria-label="worked at try 3">')[2].partition("</svg>")[0]
    assert re.findall(r'<rect class="(\w+)"', line) == ["fail", "retry", "fail", "retry", "ok"]


def test_of_a_step_that_was_tried_without_end_the_newest_tries_are_told(
    page: Callable[..., str], later: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tries, "KEPT", 2)
    [step] = tried(later).steps.all()
    assert [one["n"] for one in step.tries] == [2, 3]
    assert "Attempts 3 <span" in page(step.run, "?step=call")
    assert "the newest 2" in page(step.run, "?step=call")


def test_a_viewer_sees_that_a_try_failed_and_not_its_words(
    ben: User, sign_in: Callable[[User], Client], later: Callable[..., None]
) -> None:
    shown = sign_in(ben).get(reverse("run", args=[tried(later).pk]) + "?step=call").content.decode()
    assert "Try 1 failed" in shown
    assert "the line is dead" not in shown


def test_a_step_that_was_tried_once_tells_nothing_of_tries(page: Callable[..., str]) -> None:
    with registered("story", lambda run: run.step("call", str)):
        run = builders.run("story")
        work()
    assert run.steps.get().tries is None
    assert "Attempts" not in page(run, "?step=call")


def test_after_retention_a_try_says_what_failed_and_quotes_nothing(later: Callable[..., None]) -> None:
    run = tried(later)
    retention.empty_some_runs([run.pk], clock.now())
    told = [one["error"] for one in run.steps.get().tries]
    assert [error and (error["type"], error["message"]) for error in told] == [("ConnectionError", "")] * 2 + [None]


def test_the_tries_before_a_worker_died_are_still_told_and_counted() -> None:
    run = builders.run(status="running", fence=1, leased_until=clock.now())
    step = builders.step(run, 1, name="call", status="failed", result_json=None, error=dict(ERROR), fence=1)
    journal = Journal(run)
    made = Tries(step)
    with journal.working("call", NOTHING, made):
        journal.at_work[0].began -= LONG
        journal.note(None)
    [row] = run.steps.all()
    assert (row.status, row.error, [one["n"] for one in row.tries]) == ("started", None, [1])
    after = Tries(row)
    with after.one():
        pass
    assert [(one["n"], bool(one["error"])) for one in after.told(clock.now()) or []] == [(1, True), (2, False)]


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
        assert "reviewer decides" in shown
        tell("ann", "ben")
        assert "reviewer, 2 told" in page(run)


def tell(*names: str) -> None:
    """A message about what waits has reached each of them, by two ways."""
    asking = Asking.objects.create(action=Action.objects.get(), revision=1, digest="", asked_at=clock.now())
    ways, at = [builders.connection("smtp"), builders.connection("slack")], clock.now()
    for someone in [person(name, "reviewer") for name in names]:
        for way in ways:
            channel = Channel.objects.create(person=someone, connection=way, address="x", created_at=at)
            told = {"what": "ask", "status": "sent", "sent_at": at, "due_at": at}
            Notice.objects.create(asking=asking, channel=channel, person=someone, **told)
