"""Is the audit log as it was sealed, and has everything that was done its nod and its rows? Asked by `verify_audit`,
and by the desk itself every day."""

import itertools
import logging

from approvals import nods
from approvals.unlogged import unlogged
from project.lib import clock
from triggers import sealing
from triggers.models import Pulse

logger = logging.getLogger("nightdesk.audit")
MOST = 20  # of them are named
DAILY = "audited"  # the pulse that remembers what the last look found


def look() -> list[str]:
    """What is wrong now, also for the checks and the banner until the next look."""
    found = [said for said in (broken(), bare(), untold()) if said]
    Pulse.beat(DAILY, clock.now(), found=found)
    for said in found:
        logger.error("%s", said)
    return found


def found() -> list[str]:
    """What the last look found."""
    detail = Pulse.objects.filter(name=DAILY).values_list("detail", flat=True).first()
    return detail["found"] if detail else []


def broken() -> str:
    try:
        sealing.verify()
    except sealing.BrokenChain as wrong:
        return f"the audit log is broken at its first wrong link: {wrong}"
    return ""


def bare() -> str:
    few = [f"A-{action.pk}" for action in itertools.islice(nods.without_a_nod(), MOST)]
    return f"done, or about to be, with fewer yeses than it needed: {', '.join(few)}" if few else ""


def untold() -> str:
    lacking = list(itertools.islice(unlogged(), MOST))
    return f"the audit log lacks what happened: {', '.join(lacking)}" if lacking else ""
