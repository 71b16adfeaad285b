"""Retention leaves whatever a run may still read: what it waited for, what was gathered, also of one it repeats."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from project.lib import clock
from project.people.models import User
from tests import builders
from tests.handlers import fresh, registered, work
from triggers import blobs, dispatch, pinning, redrive, retention, waking
from triggers.durable import Durable
from triggers.errors import PayloadGone, Permanent
from triggers.models import Blob, DeadLetter, Event, Gathered, Run, Source

pytestmark = pytest.mark.django_db(transaction=True)
Later = Callable[..., None]
LONG = timedelta(days=60)


@pytest.fixture(autouse=True)
def _no_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "REST", 0)


class Story:
    """A handler whose fault is said from outside, and what it has read so far."""

    def __init__(self) -> None:
        self.broken = False
        self.got: list[Any] = []

    def paying(self, run: Durable) -> None:
        paid = run.wait_for("payment", type="shop.paid", source="*")
        run.step("book", lambda data: None, paid.data)
        if self.broken:
            raise Permanent("no")
        run.sleep("guarantee", LONG)
        self.got.append(paid.data)

    def gathering(self, run: Durable) -> None:
        run.sleep("guarantee", LONG)
        data = [event.data for event in run.events]
        if self.broken:
            raise Permanent("no")
        self.got.append(data)


@pytest.fixture
def story() -> Iterator[Story]:
    story = Story()
    with registered("story", story.paying), registered("gathering", story.gathering):
        yield story


def paid_for() -> Run:
    run = builders.run("story")
    work()
    waking.wake_waits([builders.event("shop.paid", data={"amount": 5}).pk])
    work()
    return run


def goes_on(later: Later, days: int) -> None:
    """Days later, after a round of retention, whatever is due goes on."""
    later(days=days)
    retention.prune()
    dispatch.tick()
    work()


def debounced(**fields: Any) -> Run:
    events = [builders.event(data={"n": n}) for n in range(3)]
    run = builders.run("gathering", trigger=builders.trigger("gathering"), event=events[-1], **fields)
    Gathered.objects.bulk_create(Gathered(run=run, event=event) for event in events)
    return run


def ended() -> dict[str, Any]:
    return {"status": "succeeded", "finished_at": clock.now()}


ALL = [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_run_that_sleeps_keeps_what_it_waited_for(story: Story, later: Later) -> None:
    run = paid_for()
    goes_on(later, 40)
    goes_on(later, 21)
    assert (fresh(run).status, story.got) == ("succeeded", [{"amount": 5}])


def test_so_does_one_that_kept_that_wait_from_the_run_it_repeats(story: Story, ann: User, later: Later) -> None:
    old = paid_for()
    redrive.cancel(old, by=ann)
    new = redrive.rerun(fresh(old), by=ann, from_step="book")
    work()
    assert fresh(new).status == "waiting"
    goes_on(later, 40)
    goes_on(later, 21)
    assert (fresh(new).status, story.got) == ("succeeded", [{"amount": 5}])


def test_an_open_letter_keeps_what_its_run_waited_for(story: Story, ann: User, later: Later) -> None:
    story.broken = True
    paid_for()
    goes_on(later, 40)
    story.broken = False
    again = redrive.redrive(DeadLetter.objects.get(), by=ann)
    work()
    goes_on(later, 61)
    assert again is not None
    assert (fresh(again).status, story.got) == ("succeeded", [{"amount": 5}])


def test_an_open_letter_keeps_all_that_its_run_gathered(story: Story, ann: User, later: Later) -> None:
    story.broken = True
    debounced()
    work()
    goes_on(later, 61)
    goes_on(later, 40)
    story.broken = False
    redrive.redrive(DeadLetter.objects.get(), by=ann)
    work()
    assert story.got == [ALL]


def test_a_run_keeps_all_that_the_one_it_repeats_gathered(story: Story, ann: User, later: Later) -> None:
    redrive.rerun(debounced(**ended()), by=ann)
    work()
    goes_on(later, 40)
    goes_on(later, 21)
    assert story.got == [ALL]


def test_what_nobody_may_read_any_more_goes(story: Story, later: Later) -> None:
    paid_for()
    debounced(**ended())
    goes_on(later, 61)
    assert Event.objects.filter(pruned_at=None).exists()
    goes_on(later, 31)
    assert not Event.objects.filter(pruned_at=None).exists()


def test_a_debounced_run_is_not_run_again_without_a_part_of_it(story: Story, ann: User) -> None:
    run = debounced(**ended())
    Event.objects.filter(pk=run.event_id - 1).update(received_at=clock.now() - timedelta(days=31))
    retention.prune()
    with pytest.raises(PayloadGone, match=f"E-{run.event_id - 1}"):
        redrive.rerun(run, by=ann)
    assert Run.objects.count() == 1


def test_a_handler_is_told_that_a_payload_is_gone(ann: User, later: Later) -> None:
    """What was awaited went while nobody needed it: from here on it is an error, once, and never no data."""
    run = builders.run(event=builders.event(data={"n": 1}), **ended())
    paid = builders.event("shop.paid", data={"amount": 5})
    builders.step(run, 1, name="payment", kind="wait", result_json=f'{{"event": {paid.pk}}}')
    Run.objects.filter(pk=run.pk).update(handler="story")
    Event.objects.filter(pk=paid.pk).update(raw=None, data_json="", pruned_at=clock.now())
    builders.step(run, 2, name="book")
    with registered("story", Story().paying):
        new = redrive.rerun(fresh(run), by=ann, from_step="book")
        work()
    assert (fresh(new).status, fresh(new).attempt) == ("dead", 1)
    assert DeadLetter.objects.get().error_type == "PayloadGone"


def test_an_event_that_was_pinned_keeps_the_run_that_gathered_it(story: Story, ann: User, later: Later) -> None:
    run = debounced(**ended(), result_json='"kept"')
    pinning.pin(Event.objects.get(pk=run.event_id - 2), by=ann, reason="court")
    goes_on(later, 31)
    assert fresh(run).result == "kept"


class TestWhatAMailCameWith:
    """An attachment stays as long as an event that names it, whatever kept that one."""

    @pytest.fixture
    def name(self) -> str:
        return blobs.keep_bytes(b"pdf", clock.now() + timedelta(days=30))

    def mail(self, name: str) -> Event:
        if not Source.objects.filter(slug="post").exists():
            builders.source("post", kind="email", provider="")
        return builders.event("mail.received", source_slug="post", data={"attachments": [{"n": 1}, {"blob": name}]})

    def test_stays_while_its_event_is_held_and_goes_with_it(self, name: str, ann: User, later: Later) -> None:
        mail = self.mail(name)
        pinning.pin(mail, by=ann, reason="court")
        for days in (31, 1, 40):
            goes_on(later, days)
            assert blobs.content(name) == b"pdf"
        pinning.unpin(mail, by=ann)
        goes_on(later, 2)
        with pytest.raises(LookupError):
            blobs.content(name)

    def test_stays_for_the_last_of_several_events(self, name: str, later: Later) -> None:
        self.mail(name)
        later(days=20)
        assert blobs.keep_bytes(b"pdf", clock.now() + timedelta(days=30)) == name
        last = self.mail(name)
        goes_on(later, 29)
        assert (Event.objects.get(pk=last.pk).pruned_at, blobs.content(name)) == (None, b"pdf")
        goes_on(later, 2)
        assert not Blob.objects.exists()

    def test_stays_while_a_round_was_cut_short(
        self, name: str, ann: User, later: Later, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nobody has looked whether its event is held, so nobody knows that it is not."""
        pinning.pin(self.mail(name), by=ann, reason="court")
        later(days=40)
        emptied = retention.empty_some_events
        monkeypatch.setattr(retention, "empty_some_events", lambda ids, now: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            retention.prune()
        monkeypatch.setattr(retention, "empty_some_events", emptied)
        retention.remove_unused_blobs(clock.now())
        assert blobs.content(name) == b"pdf"
        retention.prune()
        assert blobs.content(name) == b"pdf"

    def test_stays_when_payloads_are_to_be_kept_for_longer(self, name: str, later: Later, settings: Any) -> None:
        self.mail(name)
        settings.RETENTION_DAYS = 60
        goes_on(later, 45)
        assert blobs.content(name) == b"pdf"
        goes_on(later, 17)
        assert not Blob.objects.exists()
