"""What a desk's own code does with every event before a trigger is asked. It runs user code: never in a transaction,
never on the door's loop. An event that has to pass it is stored first and matched a moment later."""

import copy
import json
import logging
import time
import traceback
from dataclasses import dataclass, field
from typing import Any

from billiard.common import terminate_handler_fired

from project.lib import strict_json
from project.lib.text import made_storable
from triggers import registry, tallies
from triggers.calls import call
from triggers.envelope import LONGEST_NAME
from triggers.matching import RuleOutcome
from triggers.models import Event

logger = logging.getLogger("nightdesk.middleware")
SLOW = 0.05  # seconds; what takes longer is told
LONGEST = 5.0  # seconds; what takes longer is broken: else one that hangs holds up every round of the desk
SEVERITIES = ("info", "warning", "error", "critical")
MAY_CHANGE = ("data", "subject", "severity")
READ = ("id", "source", "type", "time", "headers", "correlationid", "hops", "received_at")


class Passing:
    """The event as a middleware sees it: CloudEvents names; `data`, `subject` and `severity` may be changed."""

    def __init__(self, event: Event) -> None:
        facts = {
            "id": event.ce_id,
            "source": event.source_slug,
            "type": event.type,
            "time": event.time,
            "headers": dict(event.headers),
            "correlationid": event.correlationid,
            "hops": event.hops,
            "received_at": event.received_at,
            "data": copy.deepcopy(event.data),
            "subject": event.subject,
            "severity": event.severity,
        }
        self.__dict__.update(facts)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in MAY_CHANGE:
            raise AttributeError(f"a middleware may change {', '.join(MAY_CHANGE)}, not {name}")
        self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"an event has no {name}; a middleware reads {', '.join((*READ, *MAY_CHANGE))}")


@dataclass
class Passed:
    """What came of it: `end` is empty when the event goes on, else `stopped` or `invalid` by the one named."""

    end: str = ""
    by: str = ""
    error: dict[str, str] = field(default_factory=dict)
    changed: dict[str, Any] = field(default_factory=dict)  # columns of the event

    @property
    def outcome(self) -> RuleOutcome:
        words = {"stopped": "it gave back None", "invalid": f"{self.error.get('type')}: {self.error.get('message')}"}
        return {"trigger": "", "outcome": self.end, "clause": f"middleware {self.by}", "detail": words[self.end]}


class Broke(Exception):
    """A middleware gave back what no event can be."""


def passed(event: Event) -> Passed:
    """Let every middleware see the event, in order, until one stops it or breaks."""
    view, result = Passing(event), Passed()
    before = wanted(view)
    for one in registry.in_order():
        result.by = one.name
        began = time.perf_counter()
        try:
            given = call(one.name, one.function, (view,), {}, LONGEST, what="middleware")
            result.end = "stopped" if given is None else ""
            if given is not None and given is not view:
                raise Broke(f"it gave back {type(given).__name__}, neither the event nor None")
            after = wanted(view)
        except (Exception, SystemExit) as error:  # user code: whatever it raises, the event is kept, and it is named
            if isinstance(error, SystemExit) and terminate_handler_fired():
                raise  # not its own: this worker is told to end, and the event comes again
            result.end, result.error = "invalid", told(error)
            logger.warning("Middleware %s failed on E-%s: %s", one.name, event.pk, error)
        took = time.perf_counter() - began
        note(one.name, result.end or "passed", took, event)
        if result.end:
            return result
    result.by, result.changed = "", {name: value for name, value in after.items() if value != before[name]}
    return result


def wanted(view: Passing) -> dict[str, Any]:
    """The columns of the event by what the middleware left. Raises Broke, or what JSON raises."""
    if view.severity not in SEVERITIES:
        raise Broke(f"severity is one of {', '.join(SEVERITIES)}")
    if not isinstance(view.subject, str) or len(view.subject) > LONGEST_NAME:
        raise Broke(f"subject is a text of at most {LONGEST_NAME} characters")
    text = json.dumps(view.data, ensure_ascii=False, allow_nan=False)
    strict_json.loads(text.encode("utf-8", "surrogatepass"))
    return {"data_json": text, "subject": made_storable(view.subject), "severity": view.severity}


def note(name: str, outcome: str, took: float, event: Event) -> None:
    """Count it; what was slow is told."""
    tallies.note("middleware", name, outcome)
    if took > SLOW:
        tallies.note("middleware", name, "slow")
        logger.warning("Middleware %s took %.0f ms for E-%s", name, took * 1000, event.pk)


def told(error: BaseException) -> dict[str, str]:
    """What broke, and where in the middleware's own file."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    said = str(error) or type(error).__name__
    return {"type": type(error).__name__, "message": made_storable(said[:1000]), "place": place[-255:]}
