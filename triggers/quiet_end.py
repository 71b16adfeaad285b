"""A run that succeeds and that nobody waits for ends by one statement; whatever else is to be done is found there."""

from datetime import datetime
from typing import Any

from django.db import InterfaceError, OperationalError
from django.db.models import Exists, OuterRef, Q, QuerySet

from project.lib import retrying
from project.lib.live import changed
from project.lib.prepared import Update, by_itself
from project.lib.states import move_of
from triggers import endings, registry
from triggers.journal import Journal, about_to_commit, committed
from triggers.models import Breaker, Run, Trigger
from triggers.models.run import Status

TYPE = f"nightdesk.run.{Status.SUCCEEDED}"


def may_hear(type: str) -> Q:
    """Triggers whose pattern may match events of `type`: it is the type, or like it up to its first star."""
    segments = type.split(".")
    starts = (".".join([*segments[:place], "*"]) for place in range(len(segments) + 1))
    like_it = (Q(type_pattern__startswith=start) for start in starts)
    return Q(*like_it, type_pattern=type, _connector=Q.OR)


def quiet(pk: int, fence: int, now: datetime, result: str, version: str) -> tuple[QuerySet[Run], dict[str, Any]]:
    """The run while its worker holds it, and nothing but its row is to be written when it succeeds."""
    told = {**endings.NOTHING_TO_COME, "finished_at": now, "result_json": result, "handler_version": version}
    run, values = move_of(Run, "succeed", {"pk": pk, "fence": fence}, {"error": None, "reason": "", **told})
    listening = Trigger.objects.armed().filter(may_hear(TYPE), source__in=endings.SOURCES)
    failing = Breaker.objects.filter(handler=OuterRef("handler"))
    left = [rows() for rows in registry.left_by_run]
    in_the_way = (~Exists(rows) for rows in (listening, failing, *left))
    return run.filter(*in_the_way, cancel_requested_at=None, slot_key=None), values


END = Update(quiet, pk=int, fence=int, now=datetime, result=str, version=str)


def ended(journal: Journal, result: str, version: str) -> bool:
    """Whether the run has succeeded by this one statement; else it ends as every run does, and why is found there."""
    run = journal.run
    may_wait = run.fence > 1  # an earlier worker of it may have left waits open
    of_machine = run.trigger_id is None and run.event.correlationid  # which may wait for this end
    if may_wait or of_machine or journal.clock is None:
        return False
    now = journal.clock.now()
    try:
        with by_itself():
            about_to_commit()
            is_done = END(pk=run.pk, fence=run.fence, now=now, result=result, version=version) == 1
    except (OperationalError, InterfaceError) as error:
        if retrying.passes(error):
            return False  # if it was committed after all, the run is not this worker's any more
        raise
    if is_done:
        committed()
        run.read_again({"status": Status.SUCCEEDED, "finished_at": now, "error": None, "reason": ""})
        changed("runs", id=run.pk)
    return is_done
