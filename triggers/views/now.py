"""The box on top of a run's page."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Now:
    """What holds the run at this moment: `tone` colours the box, `until` is counted down."""

    tone: str
    icon: str
    lead: str
    text: str = ""
    until: datetime | None = None
    link: str = ""
    button: str = ""
    action_id: int | None = None
    letter_id: int | None = None
    brief: str = ""  # the same in a few words, for a line that says more than this
