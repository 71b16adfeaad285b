"""A failure makes one letter: it says how it stands now, what was done about it, and whether the cause is mended."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from project.lib import clock
from project.people.models import User
from tests import builders
from tests.handlers import registered, work
from triggers import dispatch, endings, redrive
from triggers.durable import Durable
from triggers.errors import AlreadySettled, NotValid, PayloadGone, Permanent
from triggers.models import Audit, DeadLetter, Event, Run
from triggers.views.dead_letters import causes_of, told

pytestmark = pytest.mark.django_db(transaction=True)
API = "/api/v1"


class E1(Permanent):
    """The first thing that goes wrong."""


class E2(Permanent):
    """The second."""


class FarSide:
    """What it does next is said from outside."""

    def __init__(self) -> None:
        self.fault: type[Exception] | None = E1
        self.calls: list[str] = []

    def send(self) -> str:
        self.calls.append("send")
        if self.fault is not None:
            raise self.fault("no")
        return "sent"

    def story(self, run: Durable) -> str:
        run.step("load", lambda: self.calls.append("load"))
        return run.step("send", self.send)


@pytest.fixture
def far() -> Iterator[FarSide]:
    far = FarSide()
    with registered("story", far.story, breaker=0):
        yield far


def dies() -> DeadLetter:
    builders.run("story")
    work()
    letter = DeadLetter.objects.order_by("pk").last()
    assert letter is not None
    return letter


def test_it_is_open_again_with_the_error_of_now_and_its_history(far: FarSide, ann: User, sign_in: Any) -> None:
    """DL-01: 1 open -> 0 -> 1, reason E2, two failures, and who pressed stays to be read."""
    letter = dies()
    assert (letter.error_type, DeadLetter.objects.open().count()) == ("E1", 1)
    far.fault = E2
    browser = sign_in(ann)
    browser.post(f"/dead-letters/{letter.pk}/reruns", {"reason": "it is mended"})
    assert DeadLetter.objects.open().count() == 0
    work()
    again = DeadLetter.objects.get()
    assert (again.pk, again.status, again.error_type, again.attempts) == (letter.pk, "open", "E2", 2)
    assert (again.redriven_as, again.settled_by, again.reason) == (None, None, "")
    assert again.fingerprint != letter.fingerprint
    assert again.run is not None
    assert again.run.rerun_of == letter.run
    page = browser.get(f"/dead-letters/{letter.pk}").content.decode()
    assert "Run again</b> by ann" in page
    assert "it is mended" in page
    assert f"R-{again.run_id}" in page


def test_a_run_that_was_run_again_is_not_given_a_second_letter(far: FarSide, ann: User) -> None:
    letter = dies()
    redrive.redrive(letter, by=ann)
    work()
    assert dispatch.bury_dead() == 0
    assert DeadLetter.objects.count() == 1


def test_from_the_failed_step_only_what_failed_is_done_again(far: FarSide, ann: User) -> None:
    """DL-02: what had succeeded is neither computed nor sent a second time."""
    letter = dies()
    far.fault = None
    redrive.redrive(letter, by=ann)
    work()
    assert far.calls == ["load", "send", "send"]
    assert DeadLetter.objects.get().status == "redriven"


def test_running_the_dead_run_again_settles_its_letter(far: FarSide, ann: User) -> None:
    letter = dies()
    assert letter.run is not None
    new = redrive.rerun(letter.run, by=ann, reason="from its page")
    letter.refresh_from_db()
    assert (letter.status, letter.redriven_as, letter.reason) == ("redriven", new, "from its page")
    with pytest.raises(AlreadySettled):
        redrive.redrive(letter, by=ann)


def state(letter: DeadLetter) -> str:
    [cause] = told(list(causes_of(DeadLetter.objects.filter(fingerprint=letter.fingerprint))), clock.now())
    return str(cause["still"]["words"])


def test_whether_it_still_happens_is_said_in_words(far: FarSide, later: Callable[..., None], ann: User) -> None:
    dies()
    letter = dies()
    assert state(letter) == "Yes, 2 in the last hour"
    later(hours=2)
    assert state(letter) == "Perhaps: 2 in the last 24 hours, the last"
    far.fault = None
    builders.run("story")
    work()
    assert state(letter) == "Probably mended: last success"
    later(days=3)
    assert state(letter) == "Probably mended: last success"
    Run.objects.filter(status="succeeded").update(status="cancelled")
    assert state(letter) == "Not seen since"


def test_the_page_of_a_group_says_it_too_and_dismisses_all(far: FarSide, ann: User, sign_in: Any) -> None:
    letter = dies()
    dies()
    far.fault = None
    builders.run("story")
    work()
    browser = sign_in(ann)
    for address in ("/dead-letters", f"/dead-letters/g/{letter.fingerprint}"):
        assert "Probably mended: last success" in browser.get(address).content.decode()
    group = browser.get(f"/dead-letters/g/{letter.fingerprint}").content.decode()
    assert "Run all 2 again" in group
    assert "Dismiss all 2" in group


# --- letters of events ---


def invalid(**fields: Any) -> DeadLetter:
    """An event that a schema refused, and its letter."""
    event = builders.event(status="invalid", **fields)
    with transaction.atomic():
        return endings.open_letter(
            clock.now(), kind="event", event=event, error_type="SchemaRefused", message="amount is no number"
        )


def test_an_event_that_was_refused_is_asked_again_by_the_rules_of_now(ann: User, sign_in: Any) -> None:
    letter = invalid()
    builders.source()
    browser = sign_in(ann)
    with registered("story", lambda run: "done"):
        builders.trigger("story")
        assert "Mend the schema" in browser.get(f"/dead-letters/{letter.pk}").content.decode()
        answer = browser.post(f"{API}/dead-letters/{letter.pk}/redrive", {}, "application/json")
        assert (answer.status_code, answer.json()["status"]) == (202, "redriven")
        work()
    event = Event.objects.get(pk=letter.event_id)
    assert (event.status, event.runs.get().status) == ("routed", "succeeded")


def test_an_event_that_is_refused_again_opens_the_same_letter(ann: User) -> None:
    letter = invalid()
    redrive.redrive(letter, by=ann)
    event = letter.event
    with transaction.atomic():
        endings.open_letter(clock.now(), kind="event", event=event, error_type="SchemaRefused", message="still")
    again = DeadLetter.objects.get()
    assert (again.pk, again.status, again.attempts, again.message) == (letter.pk, "open", 2, "still")


def test_why_an_event_cannot_be_asked_again_is_said_plainly(ann: User) -> None:
    gone = invalid(pruned_at=clock.now())
    with pytest.raises(PayloadGone, match="sent anew"):
        redrive.redrive(gone, by=ann)
    taken = invalid()
    Event.objects.filter(pk=taken.event_id).update(status="routed")
    with pytest.raises(NotValid, match="routed by now"):
        redrive.redrive(taken, by=ann)
    with pytest.raises(NotValid, match="routed by now"):
        redrive.redrive(taken, by=ann, data={})
    assert DeadLetter.objects.open().count() == 2
    assert not Audit.objects.filter(verb="redrive").exists()


def test_an_action_nobody_s_run_asked_for_says_so(ann: User, client: Client, sign_in: Any) -> None:
    with transaction.atomic():
        letter = endings.open_letter(clock.now(), kind="action", action_id=7, error_type="Refused", message="no")
    with pytest.raises(NotValid, match="No run asked"):
        redrive.redrive(letter, by=ann)
