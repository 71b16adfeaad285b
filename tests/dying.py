"""A worker that dies behind the nth commit of a run, and the next one that takes the run up."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from project.lib import failpoints
from tests.handlers import work
from triggers.execute import reclaim
from triggers.models import Run


class Gone(BaseException):
    """The worker dies here."""


@dataclass
class Passed:
    commits: int = 0


@contextmanager
def dying_behind(nth: int) -> Iterator[Passed]:
    """While the block lasts, whoever commits for the nth time is gone; the count goes on."""
    passed = Passed()

    def die(place: str) -> None:
        passed.commits += place == "after_journal"
        if place == "after_journal" and passed.commits == nth:
            raise Gone

    failpoints.reached = die
    try:
        yield passed
    finally:
        failpoints.reached = None


def to_its_end(begin: Callable[[], object]) -> Run:
    """Begin a run; where its worker dies, its lease is over and the next one takes it up."""
    try:
        begin()
    except Gone:
        taken_up_again()
    return Run.objects.latest("pk")


def taken_up_again() -> None:
    """The lease of what was lost is over, and the next worker comes."""
    lost = Run.objects.filter(status="running").first()
    if lost is not None:
        reclaim(lost.pk, lost.fence, reason="worker_lost")
    Run.objects.filter(status="queued").update(due_at="2020-01-01T00:00Z")
    work()
