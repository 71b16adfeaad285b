"""One round of the whole desk: the machine first, then the people's side, then the figures."""

from approvals import deliver
from project import metrics_rows
from project.lib.apart import apart
from triggers import dispatch, sealing


def tick() -> None:
    """What beat asks for every two seconds; safe when two rounds run at once."""
    try:
        dispatch.tick()
    finally:  # what people approved is delivered whatever became of the machine's round
        deliver.tick()
    apart(metrics_rows.add_up)
    apart(sealing.seal)
