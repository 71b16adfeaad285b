"""The rows of the machine, by noun."""

from triggers.models.audit import Audit
from triggers.models.bulk import Bulk, BulkItem
from triggers.models.config import ConfigVersion, Pulse, Switch
from triggers.models.dead_letter import DeadLetter
from triggers.models.event import Event, Seen
from triggers.models.run import Run
from triggers.models.source import Refusal, ScheduleFire, Source
from triggers.models.step import Step, Wait
from triggers.models.tally import Counted, Tally
from triggers.models.trigger import Trigger
from triggers.models.watch import Watch, WatchedFile
from triggers.models.words import EventWords, Pin

__all__ = [
    "Audit",
    "Bulk",
    "BulkItem",
    "ConfigVersion",
    "Counted",
    "DeadLetter",
    "Event",
    "EventWords",
    "Pin",
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
