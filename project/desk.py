"""One round of the whole desk: the machine first, then the people's side."""

from approvals import deliver
from triggers import dispatch


def tick() -> None:
    """What beat asks for every two seconds; safe when two rounds run at once."""
    try:
        dispatch.tick()
    finally:  # what people approved is delivered whatever became of the machine's round
        deliver.tick()
