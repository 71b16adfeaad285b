"""What can go wrong in the machine; the class is the meaning, the docstring the sentence."""

import math
from datetime import timedelta
from typing import Any

from project.lib.problem import Problem

LONGEST_RETRY = 366 * 86400  # seconds; whoever asks for more gets this


class Permanent(Exception):
    """Trying again would not help: the run goes to the dead letters at once."""


class Retry(Exception):
    """Try again after a time the handler chose."""

    def __init__(self, message: str = "", *, after: float | timedelta) -> None:
        self.seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
        if not math.isfinite(self.seconds):
            raise ValueError(f"{after} is no time to wait")
        super().__init__(message or f"try again in {self.seconds:g} s")

    @property
    def after(self) -> timedelta:
        return timedelta(seconds=min(max(self.seconds, 0), LONGEST_RETRY))


class TimedOut(Exception):
    """The awaited event did not come in time."""


class StepFailed(Exception):
    """A step failed when it was computed, with an error whose class is not loaded any more."""


class ResultTooLarge(Permanent):
    """A step's result is over 8 MiB; store it elsewhere and return its address."""


class RunTooLarge(Permanent):
    """The results of a run's steps are over 32 MiB together; store them elsewhere and return their addresses."""


class HistoryTooLong(Permanent):
    """A run remembers at most 10,000 steps."""


class NotJson(Permanent):
    """A step's result holds something JSON cannot say."""


class NameTaken(Permanent):
    """Two acts of one run have the same name."""


class AskedInTransaction(Permanent):
    """A rollback of the handler's own transaction would take back what is remembered: ask before or after it."""


class EndsRun(Exception):
    """Not a failure: uncaught, it ends the run `cancelled` with this reason, without retry or dead letter.

    `is_buried`: a dead letter stands all the same, of what it rests on."""

    is_buried = False
    reason = "cancelled"


class BuriedAlready(Exception):
    """Uncaught, it ends the run `dead`; the dead letter stands under the action already."""

    reason = "undeliverable"
    is_buried = True


class CrashLoop(Exception):
    """Three workers were lost under this run."""


class UnknownHandler(Exception):
    """No code is registered under this handler's name."""


class Signal(BaseException):
    """Not an error: it leaves the handler, and `except Exception` in a handler cannot swallow it."""


class Suspended(Signal):
    """The run parked itself until an event or a time."""


class Fenced(Signal):
    """Another worker holds this run now; whatever this one still does must not be remembered."""


class CancelRequested(Signal):
    """A person asked for the end of this run."""


class GivenBack(Signal):
    """The desk is paused or stopping: the run goes back into the queue, no attempt is counted."""


class LeftBehind(Signal):
    """This function took longer than its step may; the run went on without it."""


class Blocked(Signal):
    """The code asks for something else than the journal holds; a person must choose.

    `facts` go with the difference: the `step`, its `inputs` before and now, the `orphans` not asked for."""

    def __init__(self, difference: str, *, reason: str = "changed", **facts: Any) -> None:
        self.difference = difference
        self.reason = reason
        self.facts = facts
        super().__init__(difference)


class TriggerProblem(Problem):
    """The desk cannot do that."""


class BadDelivery(TriggerProblem):
    """The delivery cannot be read."""

    code = "not_parsable"
    http = 400

    def __init__(self, detail: str = "", *, code: str = "", http: int = 0, **facts: Any) -> None:
        super().__init__(detail, **facts)
        if code:
            self.code = code  # type: ignore[misc]
        if http:
            self.http = http  # type: ignore[misc]


class BadFilter(TriggerProblem):
    """The filter does not compile."""

    code = "bad_filter"
    http = 422


class NotValid(TriggerProblem):
    """A value is missing or makes no sense."""

    code = "not_valid"
    http = 422


class NotYet(TriggerProblem):
    """Nightdesk cannot do this yet."""

    code = "not_yet"
    http = 422


class Ended(TriggerProblem):
    """The run has ended; nothing is left to cancel."""

    code = "ended"
    http = 409


class AlreadySettled(TriggerProblem):
    """This dead letter was run again or dismissed already."""

    code = "already_settled"
    http = 409


class AlreadyAtWork(TriggerProblem):
    """A bulk job does exactly this already."""

    code = "already_at_work"
    http = 409


class PayloadGone(TriggerProblem, Permanent):
    """The payload was removed by the rule of retention, so there is nothing to run with."""

    code = "payload_gone"
    http = 409


class NotEnded(TriggerProblem):
    """The run is still under way; cancel it first or wait for its end."""

    code = "not_ended"
    http = 409


class NotBlocked(TriggerProblem):
    """This run is not blocked: nothing is to be chosen."""

    code = "not_blocked"
    http = 409


class Stale(TriggerProblem):
    """Somebody changed this while you had it open; load it again."""

    code = "stale"
    http = 409


class QueueFull(TriggerProblem):
    """The desk cannot take more right now; send it again later."""

    code = "queue_full"
    http = 503


class TriggerFull(QueueFull):
    """The queue of a trigger is full; send it again later."""

    def __init__(self, *, trigger: str) -> None:
        super().__init__(trigger=trigger, retry_after=5)


class TooMany(TriggerProblem):
    """This source sends faster than its limit."""

    code = "too_many"
    http = 429


class SlugTaken(TriggerProblem):
    """This slug is in use, perhaps by an archived row; choose another."""

    code = "slug_taken"
    http = 409
