"""Named places at which the fault loops let a process die, hang or fail. The product only passes by them.

A place stands behind every commit and on both sides of every call: whatever happens there must lose nothing and do
nothing twice. Nothing in the product sets `reached`; the settings of tests/chaos do.
"""

from collections.abc import Callable

POINTS = (
    # a run
    "after_claim",
    "after_step_call",  # the function ran, the journal does not know it
    "before_journal_commit",  # inside the transaction of a step, a wait, an act or an end
    "after_journal",
    "before_suspend_commit",
    "after_suspend",  # the wait is registered; nobody has looked yet whether its event is here
    "after_reclaim",
    "after_expiry",  # waits whose time had come
    "before_ring",  # whatever is rung for is committed
    # an effect
    "after_decision",
    "after_delivering_commit",
    "before_call",
    "after_call",  # the effect is done, its outcome is not written
    "before_outcome_commit",
    "after_outcome",
    "before_call_back",  # the next try is planned, the program outside is not told yet
    "after_loss",  # a delivery without a word is `unknown` now
    # an event
    "after_ingest_commit",  # at the door: the sender has no answer yet
    "after_event_commit",  # at every other edge
    "after_matching",  # the runs of an event that was only stored before
    "after_slots_commit",  # a schedule's slots are taken, their events are not there
    "after_fire",  # the event is there, its slot does not say so
)

reached: Callable[[str], None] | None = None


def failpoint(name: str) -> None:
    """Pass by the place `name`."""
    if reached is not None:
        reached(name)
