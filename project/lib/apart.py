"""Rows and stages of one round stand apart: what one of them cannot do must not stop the others."""

import logging
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError

from project.lib.crypto import Unreadable
from project.lib.problem import Problem

logger = logging.getLogger("nightdesk.round")


def apart(work: Callable[..., int | None], *given: Any, **named: Any) -> int:
    """What `work` counted; 0, and a line in the log, when the database, a rule of the desk or a lost key refuses."""
    try:
        return int(work(*given, **named) or 0)
    except (DatabaseError, Problem, Unreadable) as fault:
        subject = ", ".join(str(item) for item in given)
        logger.exception("%s(%s) failed and is left to the next round: %s", work.__name__, subject, fault)
        return 0
