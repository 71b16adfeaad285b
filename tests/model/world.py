"""A desk in small: stories of all the parts a handler may have, a far side with moods, people, workers that die."""

import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from approvals import act as acts
from approvals import clearing
from approvals.errors import Cancelled, Expired, NotSent, OutcomeUnknown, Refused, Rejected, Undeliverable
from approvals.kinds import KINDS, Arguments, Far, Kind
from approvals.models import Action
from approvals.tiers import Tier
from project.lib import clock
from project.people import roles
from tests import builders
from tests.conftest import person
from tests.database import empty_the_database
from tests.handlers import registered, work
from tests.model.workers import Worker, stopping_at_places
from tests.nodding import carry_out, say
from triggers import dispatch, routing
from triggers.durable import Durable
from triggers.envelope import Arrival
from triggers.errors import Permanent, TimedOut
from triggers.execute import execute
from triggers.ingest import ingest
from triggers.limits import read_limits
from triggers.models import Run
from triggers.models.run import LEASE
from triggers.unblock import unblock

PARTS = ("step", "flaky", "time", "nap", "wait", "low", "medium", "unsafe", "shared", "emit", "poison")
MOODS = ("ok", "busy", "refused", "silent", "lost")
RELEASES = ("as it was", "renamed", "asks with more")
BITTER = (Rejected, Expired, Cancelled, Undeliverable)  # what the story takes for an answer


class Order(Arguments):
    """What the far side is asked for."""

    cups: int


@dataclass
class FarSide:
    """Honours keys for ever, and keeps the book of what happened."""

    moods: list[str] = field(default_factory=list)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    book: list[str] = field(default_factory=list)  # the effect, each time it happened, without generation and revision

    def deliver(self, far: Far, order: Order, key: str) -> dict[str, Any]:
        mood = self.moods.pop(0) if self.moods else "ok"
        if mood == "busy":
            raise NotSent("busy")
        if mood == "lost":
            raise OutcomeUnknown("the connection broke while it was sent")
        if key not in self.answers:
            if mood == "refused":
                raise Refused("422")
            self.answers[key] = {"cups": order.cups}
            self.book.append(key.partition(".g")[0].partition(".r")[0])
        if mood == "silent":
            raise OutcomeUnknown("no answer")
        return self.answers[key]

    def probe(self, far: Far, order: Order, keys: list[str]) -> dict[str, Any] | None:
        return next((self.answers[key] for key in keys if key in self.answers), None)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Three kinds lead to it: low and keyed, medium and probed, medium and unsafe."""
        for name, tier, safety in (
            ("low", "low", "keyed"),
            ("medium", "medium", "probe"),
            ("unsafe", "medium", "unsafe"),
        ):
            KINDS[f"model.{name}"] = Kind(
                name=f"model.{name}",
                system="model",
                tier=Tier(tier),
                safety=safety,  # type: ignore[arg-type]
                arguments=Order,
                deliver=self.deliver,
                probe=self.probe if safety == "probe" else None,
                title=lambda order: f"{order.cups} cups",
                preview=lambda order: [],
                pretend=lambda order, number: {},
                take_back=timedelta(0),
            )
        try:
            yield
        finally:
            for name in ("low", "medium", "unsafe"):
                del KINDS[f"model.{name}"]


@dataclass
class World:
    """What the stories work with, and the ways to move it."""

    far: FarSide = field(default_factory=FarSide)
    release: str = RELEASES[0]
    told: dict[tuple[int, str], list[str]] = field(default_factory=dict)  # (run, step) -> what its handler was given
    began_under: dict[int, str] = field(default_factory=dict)  # run -> release of its last worker
    counter: "itertools.count[int]" = field(default_factory=itertools.count)
    workers: dict[str, Worker] = field(default_factory=dict)
    zombies: list[Worker] = field(default_factory=list)

    # The story

    def story(self, run: Durable) -> list[Any]:
        release = self.release
        self.began_under[run.row.pk] = release
        return [self.part(run, part, number, release) for number, part in enumerate(run.event.data["plan"])]

    def part(self, run: Durable, part: str, number: int, release: str) -> Any:
        name = f"{part} {number}" if release != "renamed" else f"new {part} {number}"
        value = self.do(run, part, name, number + 100 * (release == "asks with more"))
        said = self.told.setdefault((run.row.pk, name), [])
        said.append(json.dumps(value, sort_keys=True))
        return value

    def do(self, run: Durable, part: str, name: str, number: int) -> Any:
        match part:
            case "step":
                return run.step(name, self.compute, number)
            case "flaky":
                return run.step(name, self.stumble, run.row.attempt)
            case "time":
                return [run.now().isoformat(), run.random(), str(run.uuid())]
            case "nap":
                return run.sleep(name, timedelta(minutes=10))
            case "emit":
                return run.emit(type="shop.echo", data=number)
            case "poison":
                return run.step(name, self.refuse)
            case "wait":
                return self.await_payment(run, name)
            case _:
                return self.act(run, part, name, number)

    def compute(self, number: int) -> list[int]:
        """Another value at every call: who computes twice, and is believed twice, is found out."""
        return [number, next(self.counter)]

    def stumble(self, attempt: int) -> int:
        if attempt == 1:
            raise ConnectionError("not today")
        return next(self.counter)

    def refuse(self) -> None:
        raise Permanent("never")

    def await_payment(self, run: Durable, name: str) -> str:
        try:
            paid = run.wait_for(
                name, type="shop.paid", source="shop", subject=run.event.subject, timeout=timedelta(hours=1)
            )
        except TimedOut:
            return "too late"
        return paid.ce_id

    def act(self, run: Durable, part: str, name: str, number: int) -> Any:
        kind, key = ("low", f"shared {run.event.subject}") if part == "shared" else (part, None)
        try:
            return acts.act(run, name, kind=f"model.{kind}", connection="model", key=key, cups=1 if key else number)
        except BITTER as error:
            return type(error).__name__

    # What moves it

    def ring(self, type: str, subject: str, name: str, **data: Any) -> None:
        """An event of the shop; the same name again is a duplicate."""
        raw = json.dumps(data).encode()
        keys = [(f"id:{name}", "duplicate")]
        source = self.shop
        ingest([Arrival(source.pk, "shop", name, "/shop", type, subject=subject, raw=raw, keys=keys)])

    def start(self, who: str) -> bool:
        """A free worker takes up what is most urgent."""
        run_id = dispatch.next_due() if self.is_free(who) else None
        if run_id is None:
            return False
        self.workers[who] = Worker(lambda: execute(run_id)).go()
        return True

    def start_delivering(self) -> None:
        """The desk's process makes its round, from place to place."""
        if self.is_free("desk"):
            self.workers["desk"] = Worker(carry_out).go()

    def is_free(self, who: str) -> bool:
        return who not in self.workers or self.workers[who].over

    def busy(self) -> list[str]:
        """Whoever is in the middle of something."""
        return sorted(who for who in self.workers if not self.is_free(who))

    def go(self, who: str, places: int = 1) -> None:
        self.workers[who].go(places)

    def kill(self, who: str, *, inside: bool = False) -> None:
        self.workers[who].die(inside=inside)

    def forsake(self, who: str) -> None:
        """It stands still, and another process takes its place; it may come back."""
        self.zombies.append(self.workers.pop(who))

    def pass_time(self, **amount: float) -> None:
        clock.shift += timedelta(**amount)

    def tick(self) -> None:
        dispatch.tick()
        carry_out()

    def lose_leases(self) -> None:
        """Time in which nobody renews a lease, and the round that notices."""
        self.pass_time(seconds=LEASE.total_seconds() + 1)
        self.tick()

    def come_to_rest(self) -> None:
        """Workers are well, far sides answer, people say yes, look what happened, and give up what is blocked."""
        for worker in self.everybody():
            worker.die()
        self.far.moods.clear()
        for _ in range(60):
            self.lose_leases()
            work()
            for action in Action.objects.awaiting():
                say(action, self.ann)
            for action in Action.objects.filter(status="unknown", not_before=None):
                happened = any(key in self.far.answers for key in action.attempts.values_list("key_sent", flat=True))
                said = "delivered" if happened else "failed"
                clearing.settle_unknown(action, by=self.ann, status=said, note="looked")
            for run in Run.objects.filter(status="blocked"):
                unblock(run, by=self.owner, choice="cancel")
            if not Run.objects.live().exists():
                break
            self.pass_time(hours=1)

    def everybody(self) -> list[Worker]:
        """Who is at work or stopped somewhere."""
        return [worker for worker in [*self.workers.values(), *self.zombies] if not worker.over]

    def pick(self, rows: Any, number: int) -> Any:
        """One of these rows, the same for the same number; None when there is none."""
        keys = list(rows.order_by("pk").values_list("pk", flat=True))
        return rows.model.objects.get(pk=keys[number % len(keys)]) if keys else None


@contextmanager
def opened() -> Iterator[World]:
    """A world of its own: an empty database, the clock at its start, no bell heard."""
    world = World()
    empty_the_database()
    routing.forget()
    with ExitStack() as stack:
        stack.callback(setattr, clock, "shift", timedelta(0))
        stack.enter_context(world.far.open())
        stack.enter_context(registered("story", world.story))
        stack.enter_context(stopping_at_places())
        world.ann, world.ben = (person(name, roles.VIEWER, roles.REVIEWER, roles.OPERATOR) for name in ("ann", "ben"))
        world.owner = person("owner", *roles.ROLES)
        builders.connection("model", slug="model", practice=False)
        world.shop = builders.source("shop", provider="generic")
        builders.trigger("story", slug="orders", source="shop", type_pattern="shop.order")
        one = read_limits({"concurrency": {"limit": 1, "when_busy": "skip", "waiting_counts": True}})
        builders.trigger("story", slug="rush", source="shop", type_pattern="shop.rush", limits=one)
        yield world
        for worker in world.everybody():
            worker.die()
