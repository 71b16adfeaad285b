"""One round of the whole desk: the machine first, then the people's side, then the figures and the seal."""

from collections.abc import Callable

from django.conf import settings

from approvals import call_backs, deliver, digests, telling, undoing
from project import metrics_rows
from project.lib.alone import alone
from project.lib.apart import Round
from triggers import bulk, dispatch, sealing, search


def stages() -> dict[str, Callable[[], int]]:
    """The people's part of a round, in order, each with its own time: what is undone slowly holds up no delivery."""
    return {
        "expired": deliver.expire_overdue,
        "lost": deliver.presume_silent_ones_lost,
        "undone": undoing.tick,
        "delivered": deliver.deliver_due,
        "told": telling.tick,
        "told_daily": digests.tick,
        "called_back": call_backs.tick,
    }


def tick() -> Round:
    """Repeat whatever a lost message, or a dead process, would have done; safe when two rounds run at once."""
    return dispatch.tick(
        {
            **stages(),
            "bulk": bulk.go_on,
            "indexed": search.index,
            "added_up": metrics_rows.add_up,
            "sealed": sealing.seal,
        }
    )


def tick_alone() -> None:
    """A round, unless one is at work on this machine: beat must not fill the slots that deliver with slow rounds."""
    with alone(settings.DATA_DIR / "tick.lock") as free:
        if free:
            tick()
