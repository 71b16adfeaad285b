"""Concurrent deliveries of one process share one commit; each is answered after it was read back."""

import asyncio
from dataclasses import dataclass, field

from django.db import DatabaseError, DataError, IntegrityError, OperationalError, ProgrammingError

from project.lib import unwritten
from project.lib.failpoints import failpoint
from triggers import ingest
from triggers.errors import QueueFull, TriggerFull
from triggers.routing import Table
from triggers.store import ConfigChanged, Member
from triggers.writers import Unconfirmed, Writer

MOST = 64  # deliveries of one commit: while it waits for the disk, the loop judges as many others
OF_ONE = (DataError, IntegrityError, ProgrammingError)  # what is wrong with one delivery
PAST_A_LIMIT = "54"  # SQLSTATE class program_limit_exceeded: a row too large for an index
MOST_EVENTS = 4000  # of one commit; a delivery may bring a thousand, and a statement takes only so many values


@dataclass(slots=True)
class Request:
    """The members of one delivery, written together or not at all."""

    members: list[Member]
    table: Table
    done: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def start_afresh(self) -> None:
        """Nothing of it was written; it is tried again."""
        for member in self.members:
            ingest.fresh_start(member)


Outcome = tuple[Request, BaseException | None]
STOPPING = "The desk is being stopped."


class GroupCommit:
    """Gathers what arrives while a commit is under way, and commits it as one, in the writer's thread.

    The loop hands over a batch and goes on judging what comes next; all but the commit itself happens on the loop."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.waiting: list[Request] = []
        self.is_busy = False  # a batch is with the writer, or about to be
        self.is_closed = False

    async def write(self, members: list[Member], table: Table) -> None:
        """Returns after the commit was read back. Raises ConfigChanged (match again) or QueueFull."""
        if self.is_closed:
            raise QueueFull(STOPPING)
        request = Request(members, table)
        self.waiting.append(request)
        if not self.is_busy:  # whoever is ready in this turn of the loop comes along
            self.is_busy = True
            asyncio.get_running_loop().call_soon(self.hand_over)
        await request.done

    async def close(self) -> None:
        """Begin nothing more: who still waits is sent away, and what is with the writer comes to its end."""
        self.is_closed = True
        waiting, self.waiting = self.waiting, []
        self.answer(alike(waiting, QueueFull(STOPPING)))
        await self.writer.close()

    def hand_over(self) -> None:
        if not (batch := self.next_batch()):
            return  # it was closed meanwhile
        try:
            self.writer.thread.submit(self.work, batch)
        except RuntimeError as error:  # no thread can be started
            asyncio.get_running_loop().call_soon(self.go_on, alike(batch, full(error)))

    def next_batch(self) -> list[Request]:
        """Those who came first, whole deliveries."""
        count = events = 0
        while count < min(MOST, len(self.waiting)) and events < MOST_EVENTS:
            events += len(self.waiting[count].members)
            count += 1
        batch, self.waiting = self.waiting[:count], self.waiting[count:]
        return batch

    def work(self, batch: list[Request]) -> None:
        """Commit one batch; in the writer's thread."""
        outcomes = self.outcomes_of(batch)
        batch[0].done.get_loop().call_soon_threadsafe(self.go_on, outcomes)
        self.writer.tend()

    def outcomes_of(self, batch: list[Request]) -> list[Outcome]:
        """What neither the database nor a limit says is a fault of our own with one delivery: it alone raises that."""
        try:
            return self.commit(batch)
        except BaseException as error:  # raised on the loop, where somebody hears it
            if len(batch) == 1:
                return alike(batch, error)
        for request in batch:
            request.start_afresh()
        return [outcome for request in batch for outcome in self.outcomes_of([request])]

    def go_on(self, outcomes: list[Outcome]) -> None:
        """The writer goes on with what was judged meanwhile, and each delivery hears how it ended; on the loop."""
        self.is_busy = bool(self.waiting)
        if self.is_busy:
            self.hand_over()
        self.answer(outcomes)

    def answer(self, outcomes: list[Outcome]) -> None:
        for request, error in outcomes:
            if request.done.done():
                continue  # its client went away
            if error is None:
                request.done.set_result(None)
            else:
                request.done.set_exception(error)

    def commit(self, batch: list[Request]) -> list[Outcome]:
        newest = max(request.table.version for request in batch)
        older = [request for request in batch if request.table.version != newest]
        return alike(older, ConfigChanged()) + self.written([one for one in batch if one not in older], newest)

    def written(self, batch: list[Request], version: int) -> list[Outcome]:
        try:
            self.writer.commit([member for request in batch for member in request.members], version)
        except ConfigChanged as changed:
            return alike(batch, changed)
        except Unconfirmed as error:
            return alike(batch, full(error))
        except TriggerFull as error:
            return self.without_the_full(batch, version, error)
        except DatabaseError as error:
            return self.alone(batch, error)
        failpoint("after_ingest_commit")
        return alike(batch, None)

    def without_the_full(self, batch: list[Request], version: int, error: TriggerFull) -> list[Outcome]:
        """One delivery is to wait for its trigger; nothing of the batch was written, the others try again."""
        waits = [request for request in batch if any(member.full for member in request.members)]
        others = [request for request in batch if request not in waits]
        for request in others:
            request.start_afresh()
        return alike(waits, error) + (self.written(others, version) if others else [])

    def alone(self, batch: list[Request], error: DatabaseError) -> list[Outcome]:
        """One member broke the batch: each delivery tries once by itself. The database is away: nobody waits twice."""
        if len(batch) == 1:
            return alike(batch, full(error))
        outcomes: list[Outcome] = []
        for place, request in enumerate(batch):
            request.start_afresh()
            outcomes += self.outcomes_of([request])
            ended = outcomes[-1][1]
            cause = ended.__cause__ if isinstance(ended, QueueFull) else None
            if isinstance(cause, OperationalError) and is_away(cause):
                return outcomes + alike(batch[place + 1 :], ended)
        return outcomes


def alike(batch: list[Request], error: BaseException | None) -> list[Outcome]:
    return [(request, error) for request in batch]


def is_away(cause: Exception) -> bool:
    """Does the database take nothing, whoever asks? One delivery that passes a limit of it is no sign of that."""
    if not isinstance(cause, (DatabaseError, Unconfirmed)) or isinstance(cause, OF_ONE):
        return False
    return not (getattr(cause.__cause__, "sqlstate", None) or "").startswith(PAST_A_LIMIT)


def full(cause: Exception) -> QueueFull:
    if is_away(cause):
        unwritten.note(cause)
    answer = QueueFull("The database does not take events right now.")
    answer.__cause__ = cause
    return answer
