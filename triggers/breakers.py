"""A handler that fails every time is left alone for a while: its runs queue, and one of them tries from time to time.

A run counts when it gave up and nothing says that this was the run's own fault: `Permanent`, what people cancelled and
effects that were refused are spared. Any success, and a try that gets as far as a wait, ends the matter."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import connection, transaction

from project.lib import clock
from project.lib.apart import each
from project.lib.live import MANY, changed
from project.lib.prepared import Select
from triggers import registry
from triggers.models import Audit, Breaker, Run
from triggers.models.run import CLAIMABLE, ENDED, Status

if TYPE_CHECKING:
    from project.people.models import User

FIRST_PAUSE = timedelta(minutes=1)  # until the first try; twice as long after each that fails
LONGEST_PAUSE = timedelta(hours=1)
COUNT = (  # one statement: between two a success may wipe the row
    "INSERT INTO triggers_breaker (handler, failures, opened) VALUES (%s, 1, 0) "
    "ON CONFLICT (handler) DO UPDATE SET failures = triggers_breaker.failures + 1"
)
FAILING = Select(lambda handler: Breaker.objects.filter(handler=handler).values_list("handler"), handler=str)
GOT_THROUGH = (Status.SUCCEEDED, Status.WAITING, Status.BLOCKED)


def succeeded(run: Run) -> None:
    """In the transaction of its end."""
    if FAILING(handler=run.handler):
        Breaker.objects.filter(handler=run.handler).delete()


def gave_up(run: Run, now: datetime) -> None:
    """Count a run that died, in the transaction of its end; so many in a row open the breaker."""
    most = most_of(run.handler)
    if not most:
        return
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [run.handler])
    held = Breaker.objects.get(handler=run.handler)  # the statement before it holds the row
    if held.probe_id == run.pk or (held.until is None and held.failures >= most):
        open_(held, now)


def failed(run: Run, now: datetime) -> None:
    """A try failed, another one follows: the one that tries for all of them need not fail to its end."""
    held = Breaker.objects.select_for_update(no_key=True).filter(handler=run.handler, probe=run).first()
    if held is not None:
        open_(held, now)


def open_(held: Breaker, now: datetime) -> None:
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(held.opened, 10))
    Breaker.objects.filter(pk=held.pk).update(opened=held.opened + 1, opened_at=now, until=now + pause, probe=None)
    Audit.write("open the breaker", held, failures=held.failures)
    changed("runs", id=MANY)


def close(handler: str, *, by: "User | None") -> bool:
    """A person has mended what was wrong: its runs start again at once. False when it was not open."""
    with transaction.atomic():
        held = Breaker.objects.select_for_update(no_key=True).open().filter(handler=handler).first()
        if held is None:
            return False
        Audit.write("close the breaker", held, by=by, failures=held.failures)
        held.delete()
        changed("runs", id=MANY)
    return True


def look() -> int:
    """Let one run try where the pause is over, and hear what became of those that tried; called by tick."""
    return each(look_at, Breaker.objects.open().filter(until__lte=clock.now()))


def look_at(held: Breaker) -> bool:
    if held.probe_id is None:
        return choose(held)
    status = Run.objects.filter(pk=held.probe_id).values_list("status", flat=True).first()
    is_held = status in CLAIMABLE and not Run.objects.ready(clock.now()).filter(pk=held.probe_id).exists()
    rows = Breaker.objects.filter(pk=held.pk, probe=held.probe_id)
    if status in GOT_THROUGH:
        rows.delete()
        changed("runs", id=MANY)
    elif is_held or status is None or status in ENDED:  # it may not try, or what it met says nothing of the others
        rows.update(probe=None)
    return False


def choose(held: Breaker) -> bool:
    """The most urgent run of the handler tries; it is rung for in the same round."""
    waiting = Run.objects.ready(clock.now()).filter(handler=held.handler)
    first = waiting.order_by("priority", "due_at", "id").first()
    return bool(first and Breaker.objects.filter(pk=held.pk, probe=None).update(probe=first))


def most_of(handler: str) -> int:
    code = registry.HANDLERS.get(handler)
    return code.breaker if code else registry.Handler.breaker
