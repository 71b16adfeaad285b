"""One press for many dead letters: which ones is fixed then, the first goes alone, and none is taken twice or lost."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from project import desk
from project.lib import clock
from project.people.models import User
from tests import builders
from tests.handlers import fresh, registered, work
from triggers import bulk, redrive, schemas_bulk
from triggers.durable import Durable
from triggers.errors import AlreadyAtWork, NotValid, Permanent
from triggers.models import Audit, Breaker, Bulk, BulkItem, DeadLetter, Event, Gathered, Run

pytestmark = pytest.mark.django_db(transaction=True)
API = "/api/v1"
Later = Callable[..., None]


class FarSide:
    """Down until somebody mends it."""

    broken = True

    def story(self, run: Durable) -> str:
        if self.broken:
            raise Permanent("Timeout")
        return "sent"


@pytest.fixture
def far() -> Iterator[FarSide]:
    far = FarSide()
    with registered("story", far.story, breaker=0):
        yield far


def letters(count: int) -> list[DeadLetter]:
    """So many open letters of one cause."""
    known = set(DeadLetter.objects.values_list("pk", flat=True))
    for _ in range(count):
        builders.run("story")
    work(count)
    return list(DeadLetter.objects.exclude(pk__in=known).order_by("pk"))


def press(by: User, verb: str = "redrive", **given: Any) -> Bulk:
    rows = Run.objects.all() if verb == "cancel" else DeadLetter.objects.all()
    return bulk.press(verb, rows, by=by, filter={}, **given)


def go_on(later: Later, rounds: int = 1) -> None:
    """Rounds of the desk two seconds apart, and a worker beside it."""
    for _ in range(rounds):
        bulk.go_on()
        work()
        later(seconds=2)


def outcomes(job: Bulk) -> list[str]:
    return list(job.items.order_by("pk").values_list("status", flat=True))


def state(job: Bulk) -> str:
    return Bulk.objects.get(pk=job.pk).status


def test_the_first_goes_alone_and_is_watched_for_a_minute(far: FarSide, ann: User, later: Later) -> None:
    letters(4)
    far.broken = False
    job = press(ann)
    go_on(later, rounds=5)
    assert outcomes(job) == ["started", "waiting", "waiting", "waiting"]
    later(seconds=60)
    go_on(later)
    assert (outcomes(job), state(job)) == (["started"] * 4, "done")
    assert list(DeadLetter.objects.values_list("status", flat=True)) == ["redriven"] * 4
    assert Run.objects.filter(status="succeeded", requester=ann).count() == 4


def test_a_first_one_that_is_held_was_not_watched_yet(far: FarSide, ann: User, sign_in: Any, later: Later) -> None:
    first, *_ = letters(2)
    far.broken = False
    now = clock.now()
    held = Breaker.objects.create(handler="story", failures=5, opened=1, opened_at=now, until=now + timedelta(hours=1))
    job = press(ann)
    go_on(later, rounds=2)
    later(minutes=2)
    go_on(later)
    assert outcomes(job) == ["started", "waiting"], "a minute in the queue says nothing"
    page = sign_in(ann).get(f"/bulk/{job.pk}").content.decode()
    assert f"waits for D-{first.pk}&#x27;s run to begin: held by the breaker of story" in page
    assert ", 1 queued" in page
    held.delete()
    go_on(later)
    assert outcomes(job) == ["started", "waiting"], "its minute begins with its first try"
    later(minutes=1)
    go_on(later)
    assert (outcomes(job), state(job)) == (["started"] * 2, "done")


def test_a_job_is_not_called_done_while_its_runs_are_queued(far: FarSide, ann: User, sign_in: Any) -> None:
    letters(2)
    job = press(ann, canary=0)
    bulk.go_on()
    browser = sign_in(ann)
    for page in (f"/bulk/{job.pk}", "/bulk"):
        head = browser.get(page).content.decode().partition("<progress")[0]
        assert state(job) == "done"
        assert ("2 queued" in head, "Done" in head) == (True, False)


def test_a_run_that_waits_for_a_person_was_taken(far: FarSide, ann: User) -> None:
    letters(2)
    job = press(ann, canary=0)
    bulk.go_on()
    Run.objects.filter(status="queued").update(status="waiting")
    told = schemas_bulk.told(Bulk.objects.get(pk=job.pk).tally)
    assert (told["started"], told["left"]) == (2, 0)


def test_a_canary_that_dies_stops_it_and_nothing_else_is_touched(far: FarSide, ann: User, later: Later) -> None:
    first, *rest = letters(3)
    job = press(ann)
    go_on(later, rounds=3)
    assert (state(job), outcomes(job)) == ("stopped", ["started", "waiting", "waiting"])
    assert "went first failed" in Bulk.objects.get().said
    first.refresh_from_db()
    assert first.status == "open", "it failed again, so it stands open again"
    assert all(Run.objects.filter(rerun_of=letter.run).count() == 0 for letter in rest)


def test_a_person_may_go_on_all_the_same(far: FarSide, ann: User, later: Later) -> None:
    letters(3)
    job = press(ann)
    go_on(later, rounds=2)
    far.broken = False
    bulk.resume(Bulk.objects.get(), by=ann)
    go_on(later, rounds=2)
    assert (state(job), outcomes(job)) == ("done", ["started"] * 3)


def test_so_many_failures_in_a_row_stop_it(far: FarSide, ann: User, later: Later) -> None:
    letters(12)
    job = press(ann, canary=0, rate=1, stop_after=3)
    go_on(later, rounds=8)
    assert state(job) == "stopped"
    assert outcomes(job).count("started") in range(3, 11), "it stops at the next look"
    assert Bulk.objects.get().said == "The last 3 all failed."


def test_one_success_breaks_the_row(far: FarSide, ann: User, later: Later) -> None:
    letters(6)
    job = press(ann, canary=0, rate=1, stop_after=3)
    for number in range(8):
        far.broken = number % 2 == 0
        go_on(later)
    assert state(job) == "done"


def test_no_more_than_its_rate_are_taken_in_a_round(far: FarSide, ann: User, later: Later) -> None:
    letters(9)
    far.broken = False
    job = press(ann, canary=0, rate=1)
    later(hours=1)  # however long nobody looked
    bulk.go_on()
    assert outcomes(job).count("started") == 4


def test_a_second_press_is_told_of_the_first_and_later_letters_are_left_alone(
    far: FarSide, ann: User, sign_in: Callable[[User], Client], later: Later
) -> None:
    """DL-03: the count of the dry run is what runs, once, also when the button is pressed in two tabs."""
    wanted = letters(5)
    browser, cause = sign_in(ann), wanted[0].fingerprint
    body = {"verb": "redrive", "filter": {"fingerprint": cause}, "canary": 0}
    seen = browser.post(f"{API}/bulk", {**body, "dry_run": True}, "application/json").json()
    assert (seen["count"], Bulk.objects.count()) == (5, 0)
    newcomers = letters(2)
    far.broken = False
    answer = browser.post(f"{API}/bulk", {**body, "upto": seen["upto"]}, "application/json")
    number = answer.json()["id"]
    assert (answer.status_code, answer.json()["total"], answer["Location"]) == (202, 5, f"{API}/bulk/{number}")
    again = browser.post(f"{API}/bulk", body, "application/json")
    assert (again.status_code, again.json()["code"], again.json()["bulk"]) == (409, "already_at_work", number)
    go_on(later, rounds=3)
    told = browser.get(f"{API}/bulk/{number}").json()
    assert (told["status"], told["started"], told["succeeded"], told["left"]) == ("done", 5, 5, 0)
    assert set(DeadLetter.objects.open()) == set(newcomers)
    items = browser.get(f"{API}/bulk/{number}/items", {"status": "started"}).json()["items"]
    assert {item["ref"] for item in items} == {letter.pk for letter in wanted}


def test_what_a_person_ran_first_is_skipped_and_said(far: FarSide, ann: User, later: Later) -> None:
    one, two = letters(2)
    far.broken = False
    job = press(ann, canary=0)
    redrive.redrive(one, by=ann)
    redrive.dismiss(two, by=ann, reason="known")
    go_on(later)
    assert outcomes(job) == ["skipped", "skipped"]
    assert [item.detail for item in job.items.order_by("pk")] == [
        "Somebody was first: it is redriven.",
        "Somebody was first: it is dismissed.",
    ]
    assert Run.objects.filter(rerun_of__isnull=False).count() == 1


def test_pause_holds_from_the_next_row_and_cancel_leaves_the_rest(far: FarSide, ann: User, later: Later) -> None:
    letters(12)
    far.broken = False
    job = press(ann, canary=0, rate=1)
    go_on(later)
    bulk.pause(job, by=ann)
    taken = outcomes(job).count("started")
    go_on(later, rounds=3)
    assert outcomes(job).count("started") == taken in range(1, 5)
    bulk.resume(job, by=ann)
    go_on(later)
    bulk.cancel(job, by=ann)
    go_on(later, rounds=3)
    assert (state(job), outcomes(job).count("waiting")) == ("cancelled", DeadLetter.objects.open().count())
    assert DeadLetter.objects.open().exists()
    verbs = Audit.objects.filter(kind="bulk").order_by("pk").values_list("verb", flat=True)
    assert list(verbs) == ["bulk redrive", "pause", "resume", "cancel"]


def test_a_desk_that_dies_in_the_middle_of_a_row_loses_and_doubles_nothing(
    far: FarSide, ann: User, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters(3)
    far.broken = False
    job = press(ann, canary=0)

    class Killed(BaseException):
        pass

    def dies(item: BulkItem, status: str, **facts: Any) -> bool:
        raise Killed

    says = BulkItem.say
    monkeypatch.setattr(BulkItem, "say", dies)
    with pytest.raises(Killed):
        bulk.go_on()
    monkeypatch.setattr(BulkItem, "say", says)
    assert (outcomes(job), Run.objects.count()) == (["waiting"] * 3, 3)
    later(seconds=2)
    go_on(later)
    assert (outcomes(job), Run.objects.filter(status="succeeded").count()) == (["started"] * 3, 3)


def test_runs_are_cancelled_by_filter_and_letters_dismissed_with_one_reason(
    far: FarSide, ann: User, later: Later
) -> None:
    letters(2)
    waiting = [builders.run("story") for _ in range(2)]
    with pytest.raises(NotValid):
        press(ann, "dismiss", reason=" ")
    press(ann, "dismiss", reason="a test delivery")
    press(ann, "cancel")
    bulk.go_on()
    assert {fresh(run).status for run in waiting} == {"cancelled"}
    assert set(DeadLetter.objects.values_list("status", "reason")) == {("dismissed", "a test delivery")}
    assert {job.canary for job in Bulk.objects.all()} == {0}, "nothing to watch"


def test_a_reason_is_kept_whole_or_refused(far: FarSide, ann: User, later: Later) -> None:
    (letter,) = letters(1)
    for refused in (
        lambda: press(ann, reason="x" * 2001),
        lambda: redrive.redrive(letter, by=ann, reason="x" * 2001),
        lambda: redrive.dismiss(letter, by=ann, reason="a \0"),
    ):
        with pytest.raises(NotValid, match="reason"):
            refused()
    far.broken = False
    job = press(ann, reason="x" * 2000)
    go_on(later)
    assert (outcomes(job), job.reason) == (["started"], "x" * 2000)
    assert fresh_reason(letter).startswith(f"B-{job.pk}: xxx")


def fresh_reason(letter: DeadLetter) -> str:
    return DeadLetter.objects.get(pk=letter.pk).reason


def test_an_empty_wish_and_the_same_wish_twice_are_refused(far: FarSide, ann: User) -> None:
    with pytest.raises(NotValid, match="nothing to do"):
        press(ann)
    letters(1)
    first = press(ann)
    with pytest.raises(AlreadyAtWork, match=f"B-{first.pk}"):
        press(ann)
    bulk.cancel(first, by=ann)
    assert press(ann).pk != first.pk


def test_the_round_of_the_desk_does_it(far: FarSide, ann: User) -> None:
    letters(1)
    far.broken = False
    job = press(ann, canary=0)
    desk.tick()
    assert outcomes(job) == ["started"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"filter": {"statu": "open"}}, "no filter `statu`"),
        ({"filter": {"since": "yesterday"}}, "since"),
        ({"filter": {"kind": "nothing"}}, "kind"),
        ({"filter": {"since": ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]}}, "takes one value"),
        ({"filter": {}, "verb": "dismiss"}, "why"),
        ({"filter": {}, "verb": "run_again"}, "triggers"),
        ({"filter": {}, "verb": "run_again", "triggers": ["nobody"]}, "no trigger `nobody`"),
        ({"filter": {}, "rate": 0}, "rate"),
        ({"filter": {"kind": True}}, "texts and numbers"),
    ],
)
def test_a_wish_that_makes_no_sense_takes_nothing(
    far: FarSide, ann: User, sign_in: Callable[[User], Client], given: dict[str, Any], said: str
) -> None:
    """PG-02: a filter that is not understood never takes another set."""
    letters(1)
    answer = sign_in(ann).post(f"{API}/bulk", {"verb": "redrive", **given}, "application/json")
    assert (answer.status_code, answer.json()["code"], Bulk.objects.count()) == (422, "not_valid", 0)
    assert said in str(answer.json())


def test_a_reviewer_reads_a_job_and_presses_none(far: FarSide, ann: User, ben: User, sign_in: Any) -> None:
    letters(1)
    job = press(ann)
    reader = sign_in(ben)
    assert reader.get(f"/bulk/{job.pk}").status_code == reader.get("/bulk").status_code == 200
    assert reader.get("/bulk/new?verb=redrive").status_code == 403
    assert reader.post("/bulk", {"verb": "redrive"}).status_code == 403
    assert reader.post(f"/bulk/{job.pk}/pause").status_code == 403


def test_the_list_of_jobs_asks_few_questions_however_many_there_are(
    far: FarSide, ann: User, sign_in: Any, django_assert_max_num_queries: Any
) -> None:
    letters(2)
    browser = sign_in(ann)
    for number in range(4):
        job = bulk.press("redrive", DeadLetter.objects.all(), by=ann, filter={"round": [str(number)]})
    bulk.cancel(job, by=ann)
    with django_assert_max_num_queries(16):
        page = browser.get("/bulk").content.decode()
    assert page.count("0 of 2") == 4


def test_the_buttons_say_first_what_they_will_do(far: FarSide, ann: User, sign_in: Any, later: Later) -> None:
    wanted = letters(3)
    browser = sign_in(ann)
    listed = browser.get("/dead-letters").content.decode()
    assert "all 3 again" in listed
    address = f"/bulk/new?verb=redrive&status=open&fingerprint={wanted[0].fingerprint}"
    page = browser.get(address).content.decode()
    assert "Run again: 3 dead letters" in page
    assert not Bulk.objects.exists()
    letters(1)
    form = {"verb": "redrive", "status": "open", "fingerprint": wanted[0].fingerprint, "upto": wanted[-1].pk}
    pressed = browser.post("/bulk", {**form, "canary": 0, "rate": 10, "stop_after": 5}, follow=True)
    job = Bulk.objects.get()
    assert pressed.redirect_chain[-1][0] == f"/bulk/{job.pk}"
    assert "0 of 3" in pressed.content.decode()
    second = browser.post("/bulk", form, follow=True).content.decode()
    assert "Nothing was started a second time" in second
    far.broken = False
    go_on(later)
    page = browser.get(f"/bulk/{job.pk}").content.decode()
    assert "3 of 3" in page
    assert "3 done" in page


def test_a_filter_that_was_not_read_whole_starts_nothing(far: FarSide, ann: User, sign_in: Any) -> None:
    letters(1)
    browser = sign_in(ann)
    assert browser.get("/bulk/new?verb=redrive&statu=open").status_code == 400
    assert browser.get(f"/bulk/new?verb=run_again&q={'long' * 100}").status_code == 400
    assert browser.post("/bulk", {"verb": "run_again", "q": "long" * 100}).status_code == 302
    assert not Bulk.objects.exists()
    answer = browser.post("/bulk", {"verb": "redrive", "kind": "nothing", "canary": 0}, follow=True)
    assert not Bulk.objects.exists()
    assert "Nothing was started" in answer.content.decode()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rate": 0}, "`rate` is 1 to 100"),
        ({"stop_after": 101}, "`stop_after` is 1 to 100"),
        ({"canary": "one"}, "whole number"),
    ],
)
def test_a_pace_that_makes_no_sense_is_refused_on_the_page(
    far: FarSide, ann: User, sign_in: Any, given: dict[str, Any], said: str
) -> None:
    letters(1)
    answer = sign_in(ann).post("/bulk", {"verb": "redrive", **given}, follow=True)
    assert said in answer.content.decode()
    assert not Bulk.objects.exists()


def test_a_trigger_that_is_gone_is_said_and_nothing_starts(ann: User, sign_in: Any) -> None:
    builders.source()
    builders.event(status="ignored")
    builders.trigger("story", slug="mended")
    builders.trigger("story", slug="old", archived_at=clock.now())
    form = {"verb": "run_again", "status": "ignored", "triggers": ["mended", "old"]}
    answer = sign_in(ann).post("/bulk", form, follow=True)
    assert "There is no trigger `old`." in answer.content.decode()
    assert not Bulk.objects.exists()


def test_stored_events_run_again_with_the_triggers_one_names(ann: User, later: Later, sign_in: Any) -> None:
    """DL-04: what no rule matched is listed and started by hand once the rule is mended."""
    seen: list[int] = []
    builders.source()
    missed = [builders.event(status="ignored").pk for _ in range(3)]
    builders.event("github.push", status="ignored")
    with registered("story", lambda run: seen.append(run.event.pk)):
        builders.trigger("story", slug="mended")
        body = {"verb": "run_again", "filter": {"type": "github.issues.*", "status": "ignored"}, "triggers": ["mended"]}
        answer = sign_in(ann).post(f"{API}/bulk", {**body, "canary": 0}, "application/json")
        assert (answer.status_code, answer.json()["total"]) == (202, 3)
        go_on(later, rounds=2)
    assert sorted(seen) == missed


def test_events_that_one_run_gathered_are_run_again_by_it_once(ann: User, later: Later) -> None:
    """A run that debouncing made of three events has all three again, and none of them runs alone beside it."""
    got: list[list[int]] = []
    with registered("story", lambda run: got.append([event.pk for event in run.events])):
        mine, other = builders.trigger("story"), builders.trigger("story")
        events = [builders.event() for _ in range(3)]
        run = builders.run("story", trigger=mine, event=events[-1], status="succeeded", finished_at=clock.now())
        Gathered.objects.bulk_create(Gathered(run=run, event=event) for event in events)
        chosen = Event.objects.filter(pk__in=[event.pk for event in events])
        job = bulk.press("run_again", chosen, by=ann, filter={}, triggers=[mine], canary=0)
        go_on(later, rounds=2)
        all_three = [event.pk for event in events]
        assert got == [all_three]
        assert outcomes(job) == ["skipped", "skipped", "started"]
        told = job.items.order_by("pk").first()
        assert told is not None
        assert f"E-{run.event_id}" in told.detail
        got.clear()
        bulk.press("run_again", chosen, by=ann, filter={}, triggers=[other], canary=0)
        go_on(later, rounds=2)
        assert sorted(got) == [[pk] for pk in all_three], "of another trigger nobody gathered them"
        got.clear()
        without = chosen.exclude(pk=run.event_id)
        bulk.press("run_again", without, by=ann, filter={"some": True}, triggers=[mine], canary=0)
        go_on(later, rounds=2)
        assert sorted(got) == [[pk] for pk in all_three[:2]], "the one that would bring them was not chosen"
