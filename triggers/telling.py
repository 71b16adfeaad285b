"""What follows the door's answers: bells, waits, browsers, and the list of repeats; many events in one go.

None of it may cost the next delivery its turn, and all of it may be lost: tick asks the rows again."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from django.db import DatabaseError

from project.lib.live import changed
from triggers import bells, moving, receipts, refusals, tallies, uses, waking
from triggers.ingest import Outcome, match_stored
from triggers.models import Source
from triggers.routing import LATER
from triggers.store import Member
from triggers.threads import beside

logger = logging.getLogger("nightdesk.door")
BELLS = 2  # of one round: a worker that hears one goes on with whatever is due, and rings for the others
REST = 0.05  # seconds between two rounds: a bell costs as much as two deliveries, and a worker at work needs none
LONG_REST = 0.2  # the same while events pour in: workers go from one to the next, and would hear all those bells later
MOST = 10_000  # events whose bells and waits are still to come; what is beyond is left to tick
REPEATS = 20  # that wait to be listed; a flood of them is only counted


class Told(NamedTuple):
    """What must be known of an event that was answered; its body is let go."""

    seq: int
    bells: tuple[int, ...]  # runs that may be taken up at once
    awaited: bool
    later: bool  # it was too large to be matched at the door, or there was no room for what it starts
    correlationid: str = ""  # perhaps the name of an agent


@dataclass(frozen=True, slots=True)
class Repeat:
    """A delivery that came before, as it came."""

    slug: str
    outcome: Outcome
    headers: Mapping[str, str]
    body: bytes
    remote: str


class Teller:
    """Gathers while one thread tells; one for each door."""

    def __init__(self) -> None:
        self.fresh: list[Told] = []
        self.repeats: list[Repeat] = []
        self.task: asyncio.Task[None] | None = None

    def take(self, fresh: list[Member], repeats: list[Repeat]) -> None:
        self.fresh += [told_of(member) for member in fresh[: MOST - len(self.fresh)]]
        for repeat in repeats:
            tallies.note("duplicates", repeat.slug)
        self.repeats += repeats[: REPEATS - len(self.repeats)]
        self.start()

    def start(self) -> None:
        if self.task is None or self.task.done():
            self.task = asyncio.get_running_loop().create_task(self.go_on())

    async def go_on(self) -> None:
        while self.fresh or self.repeats:
            fresh, self.fresh = self.fresh, []
            repeats, self.repeats = self.repeats, []
            await beside(tell, fresh, repeats)
            await asyncio.sleep(LONG_REST if len(fresh) > BELLS else REST)

    async def finish(self) -> None:
        if self.task is not None:
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None


def told_of(member: Member) -> Told:
    is_later = member.route.status == LATER and not member.is_held
    return Told(member.seq, tuple(member.bells), member.awaited, is_later, member.arrival.correlationid)


def tell(fresh: list[Told], repeats: list[Repeat]) -> None:
    """Ring for the runs, wake who waited for one of these events, list the repeats on the first one."""
    try:
        bells.ring([run for told in fresh for run in told.bells][:BELLS])
        if awaited := [told.seq for told in fresh if told.awaited and not told.later]:
            waking.wake_waits(awaited)
        if large := [told.seq for told in fresh if told.later]:
            match_stored(large)
        moving.move_agents(told.correlationid for told in fresh)
        for repeat in repeats:
            refusals.keep_duplicate(
                Source.objects.get(slug=repeat.slug),
                repeat.outcome,
                headers=repeat.headers,
                body=repeat.body,
                remote=repeat.remote,
            )
        receipts.tell([told.seq for told in fresh if not told.later])  # the others when they are matched
        uses.flush()
        changed("events")
    except DatabaseError as error:
        logger.warning("What follows %d events is left to tick: %s", len(fresh), error)
