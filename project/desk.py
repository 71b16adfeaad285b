"""One round of the whole desk: the machine first, then the people's side, then the figures and the seal."""

import time
from collections.abc import Callable

from django.conf import settings

from approvals import call_backs, deliver, mornings, telling, undoing
from project import metrics_rows
from project.lib import clock
from project.lib.alone import alone
from project.lib.apart import Round
from project.lib.sqlite import log
from triggers import bulk, dispatch, learning, sealing, search, silence, stopping, waking
from triggers.models import Pulse

STINT = 60.0  # seconds after which the next round is beat's, however much is left: half of what such a task may take


def stages() -> dict[str, Callable[[], int]]:
    """The people's part of a round, in order, each with its own time: what is undone slowly holds up no delivery."""
    return {
        "expired": deliver.expire_overdue,
        "lost": deliver.presume_silent_ones_lost,
        "undone": undoing.tick,
        "delivered": deliver.deliver_due,
    }


def upkeep() -> dict[str, Callable[[], int]]:
    """What comes after the rest, and waits for nobody outside."""
    return {
        "bulk": bulk.go_on,
        "fell_silent": silence.listen_for_silence,
        "indexed": search.index,
        "learnt": learning.learn,
        "added_up": metrics_rows.add_up,
        "sealed": sealing.seal,
        "log_copied": log.copy,
    }


def messages() -> dict[str, Callable[[], int | None]]:
    """What is told to people and programs: far sides that may hang, each for the time of one call."""
    return {"told": telling.tick, "told_daily": mornings.tick, "called_back": call_backs.tick}


def tick() -> Round:
    """Repeat whatever a lost message, or a dead process, would have done; safe when two rounds run at once."""
    return dispatch.tick({**stages(), **messages(), **upkeep()})


def tick_alone() -> None:
    """A round, unless one is at work on this machine: beat must not fill the slots that deliver with slow rounds.

    The messages come after it, also after one that broke, under a lock of their own: while a mail server hangs, the
    next round begins in time."""
    Round().run({"tick": machine_alone, "messages": messages_alone})


def machine_alone() -> None:
    """Round after round while there are more timers than one has time for: beat would leave a pause between them."""
    until = time.monotonic() + STINT
    with alone(settings.DATA_DIR / "tick.lock") as free:
        while free and left_some(dispatch.tick({**stages(), **upkeep()})) and time.monotonic() < until:
            pass


def left_some(this: Round) -> bool:
    """Whether it stopped to wake runs because its time for that was over, and another round may begin."""
    return this.took.get("woken", 0.0) >= waking.WAKE_FOR and not stopping.is_told_to_stop()


def messages_alone() -> None:
    with alone(settings.DATA_DIR / "messages.lock") as free:
        if free:
            tell()


def tell() -> Round:
    """One round of messages; what it could not do stands on the checks, as of the other rounds."""
    now, this = clock.now(), Round()
    try:
        this.run(messages())
    finally:
        if not this.stopped:
            Pulse.beat("messages", now, **this.done, faults=this.faults, took=this.took)
    return this
