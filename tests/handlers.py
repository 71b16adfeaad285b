"""Register a handler for one test, and work the queue as a worker would."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from triggers import dispatch, registry
from triggers.execute import execute
from triggers.models import Run


@contextmanager
def registered(name: str, function: Callable[..., Any], **given: Any) -> Iterator[str]:
    """`function` is the handler `name` while the block lasts."""
    registry.handler(name, **given)(function)
    try:
        yield name
    finally:
        registry.HANDLERS.pop(name, None)


def work(limit: int = 50) -> int:
    """Execute whatever is due, as a worker that heard a bell; returns how many runs were taken up."""
    done = 0
    while done < limit and (run_id := dispatch.next_due()) is not None:
        execute(run_id)
        done += 1
    return done


def fresh(run: Run) -> Run:
    """The row as the database has it now."""
    return Run.objects.get(pk=run.pk)
