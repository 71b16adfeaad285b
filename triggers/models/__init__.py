"""The rows of the machine, by noun."""

from triggers.models.agent import Agent, AgentEvent, AgentSnapshot
from triggers.models.audit import Audit
from triggers.models.blob import Blob
from triggers.models.breaker import Breaker
from triggers.models.bulk import Bulk, BulkItem
from triggers.models.cause import Cause
from triggers.models.config import ConfigVersion, Pulse, Switch
from triggers.models.dead_letter import DeadLetter
from triggers.models.event import Event, Seen
from triggers.models.event_type import EventType, EventTypeVersion, Learnt
from triggers.models.pin import Pin
from triggers.models.rhythm import Rhythm
from triggers.models.run import Run
from triggers.models.slot import Gathered, Slot
from triggers.models.source import Refusal, ScheduleFire, Source
from triggers.models.step import Step, Wait
from triggers.models.tally import Counted, Tally
from triggers.models.trigger import Trigger
from triggers.models.trigger_version import TriggerVersion
from triggers.models.watch import Position, Watch, WatchedFile
from triggers.models.words import EventWords

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentSnapshot",
    "Audit",
    "Blob",
    "Breaker",
    "Bulk",
    "BulkItem",
    "Cause",
    "ConfigVersion",
    "Counted",
    "DeadLetter",
    "Event",
    "EventType",
    "EventTypeVersion",
    "EventWords",
    "Gathered",
    "Learnt",
    "Pin",
    "Position",
    "Pulse",
    "Refusal",
    "Rhythm",
    "Run",
    "ScheduleFire",
    "Seen",
    "Slot",
    "Source",
    "Step",
    "Switch",
    "Tally",
    "Trigger",
    "TriggerVersion",
    "Wait",
    "Watch",
    "WatchedFile",
]
