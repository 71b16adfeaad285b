"""Eight races of the desk, on PostgreSQL with two real connections and a barrier: one wins, the other is told so.

The suite runs sixty of each, `make races` two thousand."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import models

from approvals import deliver
from approvals.decide import Said
from approvals.errors import AlreadyDecided, ExpiredAlready
from approvals.models import Action, Attempt
from project.lib import clock
from project.people.models import User
from tests import builders
from tests.handlers import fresh, registered
from tests.model import invariants
from tests.nodding import now_of, say, serving
from tests.races.crew import Balance, Crew, Deed
from tests.races.together import rounds
from triggers import dispatch, pausing, redrive
from triggers.durable import Durable
from triggers.envelope import Arrival
from triggers.errors import AlreadySettled, Ended, Fenced
from triggers.execute import execute, reclaim
from triggers.ingest import ingest
from triggers.journal import Journal
from triggers.models import DeadLetter, Event, Run, Source, Step, Wait

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
ROUNDS = rounds(60)
LOOK = 100  # races between two looks at what must always hold
PAST = timedelta(seconds=-5)
Deeds = tuple[Deed, Deed]


def copies(row: Any, count: int, **named: Any) -> list[Any]:
    """`count` rows like `row`, written in one go; what is in `named` is a text numbered for each."""
    fields = {
        field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields if not field.primary_key
    }
    model: type[models.Model] = type(row)
    texts = [{name: f"{text}-{number}" for name, text in named.items()} for number in range(count)]
    return list(model._default_manager.bulk_create(model(**fields | text) for text in texts))


class Race:
    """What two do at once to one of many rows."""

    def __init__(self, ann: User, ben: User) -> None:
        self.ann, self.ben = ann, ben

    def rows(self, count: int) -> list[Any]:
        raise NotImplementedError

    def deeds(self, row: Any) -> Deeds:
        raise NotImplementedError

    def judge(self, row: Any, left: Any, right: Any) -> bool:
        """Assert what must be so; returns whether the left one won."""
        raise NotImplementedError

    def balance(self, crew: Crew) -> Balance:
        """What brings the two together."""
        return crew.lag


class OfRuns(Race):
    def story(self, run: Durable) -> Any:
        return "done"

    def rows(self, count: int) -> list[Any]:
        return copies(builders.run("story"), count)


class OfActions(Race):
    status = "awaiting"
    tier = "medium"
    fields: dict[str, Any] = {}

    def rows(self, count: int) -> list[Any]:
        self.connection = builders.connection("shop", practice=False)
        given = {"tier": self.tier, "status": self.status, "arguments": {"cups": 1}, "take_back_for": 0, **self.fields}
        to = {"connection": self.connection, "connection_version": self.connection.version}
        first = builders.action("shop.order", **given, **to)
        return copies(first, count, key="k")


class AYesAndTheEndOfItsTime(OfActions):
    def __init__(self, ann: User, ben: User) -> None:
        super().__init__(ann, ben)
        self.hurry = Balance()

    def balance(self, crew: Crew) -> Balance:
        return self.hurry

    def deeds(self, row: Action) -> Deeds:
        end = clock.now() + timedelta(seconds=0.03 - self.hurry.value)
        Action.objects.filter(pk=row.pk).update(expires_at=end)
        return lambda: say(row, self.ann), lambda: self.expire(row)

    def expire(self, row: Action) -> None:
        while Action.objects.awaiting().filter(pk=row.pk).exists():
            deliver.expire(row.pk)

    def judge(self, row: Action, left: Any, right: Any) -> bool:
        said = isinstance(left, Said)
        assert said or isinstance(left, ExpiredAlready | AlreadyDecided), left
        assert (now_of(row).status, row.decisions.count()) == (("approved", 1) if said else ("expired", 0))
        return said


class TwoVotes(OfActions):
    """Where two are needed both count, and one of them is the last."""

    fields = {"needed": 2}

    def deeds(self, row: Action) -> Deeds:
        return lambda: say(row, self.ann), lambda: say(row, self.ben)

    def judge(self, row: Action, left: Any, right: Any) -> bool:
        assert sorted([(left.given, left.status), (right.given, right.status)]) == [(1, "awaiting"), (2, "approved")]
        assert (now_of(row).given, row.decisions.count()) == (2, 2)
        return bool(left.given == 1)


class ADeliveryAndTheSwitch(OfActions):
    """What has not started when the switch is thrown does not start."""

    status = "approved"
    tier = "low"

    def rows(self, count: int) -> list[Any]:
        self.fields = {"not_before": clock.now(), "execute_by": clock.now() + timedelta(days=1)}
        return super().rows(count)

    def deeds(self, row: Action) -> Deeds:
        pausing.resume("kind", "shop.order", by=None)
        return lambda: deliver.deliver(row.pk), lambda: self.throw(row)

    def throw(self, row: Action) -> bool:
        pausing.pause("kind", "shop.order", by=None)
        return Attempt.objects.filter(action=row).exists()

    def judge(self, row: Action, left: Any, right: Any) -> bool:
        assert right == Attempt.objects.filter(action=row).exists()
        assert now_of(row).status == ("delivered" if right else "approved")
        return bool(right)


class AnEventAndItsWait(OfRuns):
    """It arrives while the run goes to sleep over it: whichever is first, the run wakes."""

    def story(self, run: Durable) -> Any:
        return run.wait_for("pay", type="paid", source="github", subject=str(run.row.pk))

    def deeds(self, row: Run) -> Deeds:
        self.source = Source.objects.get()
        return lambda: execute(row.pk), lambda: self.pay(row)

    def pay(self, row: Run) -> int:
        paid = Arrival(self.source.pk, "github", f"pay-{row.pk}", "/github", "paid", subject=str(row.pk), raw=b"{}")
        return ingest([paid])[0].seq

    def judge(self, row: Run, left: Any, right: Any) -> bool:
        assert left is True, left
        wait = Wait.objects.get(run=row)
        assert (wait.status, wait.event_id, fresh(row).status) == ("resolved", right, "queued")
        return wait.ended_at is not None and wait.registered_at < Event.objects.get(pk=right).received_at


class ACancelAndTheLastWord(OfRuns):
    def deeds(self, row: Run) -> Deeds:
        return lambda: execute(row.pk), lambda: redrive.cancel(row, by=self.ann)

    def judge(self, row: Run, left: Any, right: Any) -> bool:
        status = fresh(row).status
        if isinstance(right, Ended):
            assert (status, right.facts["status"]) == ("succeeded", "succeeded")
        else:
            assert (status, right in (True, False)) == ("cancelled", True)
            assert left is not right, "cancelled before it was claimed, or asked while it ran"
        return isinstance(right, Ended)


class AReclaimAndTheJournal(OfRuns):
    """The worker that comes back writes before the reclaim, or never again."""

    def rows(self, count: int) -> list[Any]:
        held = {"status": "running", "fence": 1, "lease_owner": "lost", "leased_until": clock.now() + PAST}
        return copies(builders.run("story", **held), count)

    def deeds(self, row: Run) -> Deeds:
        late = Durable(fresh(row), Journal(fresh(row)))
        return lambda: late.step("one", lambda: 1), lambda: reclaim(row.pk, 1, reason="worker_lost")

    def judge(self, row: Run, left: Any, right: Any) -> bool:
        run = fresh(row)
        assert (right, run.status, run.fence, run.crashes) == (True, "queued", 2, 1)
        kept = list(Step.objects.filter(run=row).values_list("name", "fence"))
        assert kept == ([] if isinstance(left, Fenced) else [("one", 1)]), left
        return bool(kept)


class ALetterPressedTwice(OfRuns):
    def rows(self, count: int) -> list[Any]:
        now = clock.now()
        runs = copies(builders.run("story", status="dead", finished_at=now), count)
        facts = {"kind": "run", "handler": "story", "error_type": "Bad", "fingerprint": "f", "first_at": now}
        return DeadLetter.objects.bulk_create(
            DeadLetter(run=run, event=run.event, last_at=now, **facts) for run in runs
        )

    def deeds(self, row: DeadLetter) -> Deeds:
        return lambda: redrive.redrive(row, by=self.ann), lambda: redrive.redrive(row, by=self.ben)

    def judge(self, row: DeadLetter, left: Any, right: Any) -> bool:
        [new] = Run.objects.filter(rerun_of=row.run_id)
        assert {left, right} - {new} == {refused for refused in (left, right) if isinstance(refused, AlreadySettled)}
        assert DeadLetter.objects.get(pk=row.pk).redriven_as == new
        return bool(left == new)


class TwoTicks(Race):
    """A lost worker, a time that is over and an event nobody matched: each is seen to once."""

    def rows(self, count: int) -> list[Any]:
        builders.trigger("story", slug="stories")
        now = clock.now()
        held = {"status": "running", "fence": 1, "lease_owner": "lost", "leased_until": now + PAST}
        due = {"status": "waiting", "wake_at": now + PAST}
        later = now + timedelta(days=1)  # until its race, nothing of it is due
        lost = copies(builders.run("story", **held | {"leased_until": later}), count)
        asleep = copies(builders.run("story", **due | {"wake_at": later}), count)
        waits = {"since": now, "registered_at": now, "expires_at": later}
        Wait.objects.bulk_create(Wait(run=run, step="nap", **waits) for run in Run.objects.filter(status="waiting"))
        return list(zip(lost, asleep, strict=True))

    def deeds(self, row: tuple[Run, Run]) -> Deeds:
        past = clock.now() + PAST
        Run.objects.filter(pk=row[0].pk).update(leased_until=past)
        Run.objects.filter(pk=row[1].pk).update(wake_at=past)
        Wait.objects.filter(run=row[1]).update(expires_at=past)
        self.event = builders.event(status="accepted")
        return dispatch.tick, dispatch.tick

    def judge(self, row: tuple[Run, Run], left: Any, right: Any) -> bool:
        done = {stage: left.done[stage] + right.done[stage] for stage in ("reclaimed", "woken", "matched")}
        assert done == {"reclaimed": 1, "woken": 1, "matched": 1}
        lost, slept = map(fresh, row)
        assert (lost.status, lost.crashes, lost.fence, slept.status) == ("queued", 1, 2, "queued")
        started = Run.objects.filter(event=self.event)
        assert started.count() == 1
        rest = Run.objects.filter(models.Q(pk__in=[run.pk for run in row]) | models.Q(event=self.event))
        rest.update(due_at=clock.now() + timedelta(days=1))  # else every later round rings for it
        return bool(left.done["reclaimed"])


@pytest.fixture
def crew() -> Iterator[Crew]:
    with Crew() as crew:
        yield crew


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "kind",
    [
        AYesAndTheEndOfItsTime,
        TwoVotes,
        ADeliveryAndTheSwitch,
        AnEventAndItsWait,
        ACancelAndTheLastWord,
        AReclaimAndTheJournal,
        ALetterPressedTwice,
        TwoTicks,
    ],
    ids=lambda kind: kind.__name__,
)
def test_one_of_two_wins_and_the_other_is_told(kind: type[Race], crew: Crew, ann: User, ben: User) -> None:
    builders.source()
    race, memory, wins = kind(ann, ben), invariants.Memory(), set[bool]()
    story = race.story if isinstance(race, OfRuns) else lambda run: "done"
    with serving(getattr(race, "tier", "medium")), registered("story", story):
        for number, row in enumerate(race.rows(ROUNDS), 1):
            left, right = crew.race(*race.deeds(row))
            won = race.judge(row, left, right)
            race.balance(crew).won(won)
            wins.add(won)
            if number % LOOK == 0:
                invariants.hold(memory)
    invariants.hold(memory)
    assert wins == {True, False} or ROUNDS < 20, "they never met: nothing was raced"


def test_a_crew_tells_what_each_of_two_did() -> None:
    with Crew() as crew:
        assert crew.race(lambda: json.loads("1"), lambda: 2) == (1, 2)
        left, _ = crew.race(lambda: json.loads("x"), lambda: Event.objects.count())
        assert isinstance(left, ValueError)
