"""What a chat says that somebody pressed, in the words the desk knows, whichever chat it was."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

APPROVE = "approve"
TEST = "test"
NAMES = (APPROVE, TEST)


@dataclass(frozen=True, slots=True)
class Call:
    """A call-back as it came: the exact bytes, the names of its headers in lower case."""

    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Pressed:
    """One button that somebody pressed: under which name of the far side, by whom, under which message."""

    claim: str
    identity: str
    name: str
    value: str
    message: dict[str, str]


@dataclass(frozen=True, slots=True)
class Heard:
    """What a proved call-back says: buttons of ours, and what the far side wants to read where it only tries us."""

    pressed: tuple[Pressed, ...] = ()
    answer: dict[str, Any] = field(default_factory=dict)
