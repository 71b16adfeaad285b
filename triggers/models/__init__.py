"""The rows of the machine, by noun."""

from triggers.models.audit import Audit
from triggers.models.config import ConfigVersion, Pulse, Switch
from triggers.models.dead_letter import DeadLetter
from triggers.models.event import Event, Seen
from triggers.models.run import Run
from triggers.models.source import Refusal, ScheduleFire, Source
from triggers.models.step import Step, Wait
from triggers.models.tally import Counted, Tally
from triggers.models.trigger import Trigger
from triggers.models.watch import Watch, WatchedFile

__all__ = [
    "Audit",
    "ConfigVersion",
    "Counted",
    "DeadLetter",
    "Event",
    "Pulse",
    "Refusal",
    "Run",
    "ScheduleFire",
    "Seen",
    "Source",
    "Step",
    "Switch",
    "Tally",
    "Trigger",
    "Wait",
    "Watch",
    "WatchedFile",
]
