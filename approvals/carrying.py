"""What a message to a person is, and what every way to carry one can do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from approvals.errors import NotValid
from approvals.kinds import Far
from approvals.pressing import Call, Heard, Pressed

Ref = dict[str, Any]  # how the far side calls a message; empty: it does not say


@dataclass(frozen=True, slots=True)
class Letter:
    """What a person reads: one line, a few more, and the page that opens. `follows` is the message it belongs to."""

    title: str
    lines: tuple[str, ...] = ()
    link: str = ""
    button: tuple[str, str] | None = None  # name and value of what a click says; only where the far side signs it
    follows: Ref | None = None
    key: str = ""  # the same for every try at the same message

    @property
    def text(self) -> str:
        return "\n".join([self.title, *self.lines, *([self.link] if self.link else [])])


@dataclass(frozen=True, slots=True)
class Clicks:
    """How a far side proves who pressed a button, and how only that person is told what came of it."""

    identify: Callable[[Far, str], str]  # how it calls the person in what it signs
    hear: Callable[[Mapping[str, Any], Mapping[str, Any], Call], Heard]  # by config and secrets; raises Forged
    whisper: Callable[[Far, Pressed, str], None] | None = None  # by a call of its own
    toast: Callable[[str], dict[str, Any]] | None = None  # in the answer to the call-back


@dataclass(frozen=True, slots=True)
class Carrier:
    """`asks` is what a person is asked for; empty where the connection leads to one group, whose members read along."""

    system: str
    words: str
    asks: str
    check: Callable[[str], str]  # the address as it is kept; raises NotValid
    send: Callable[[Far, str, Letter], Ref]
    replace: Callable[[Far, Ref, Letter], None] | None = None
    clicks: Clicks | None = None
    needs: str = ""  # the secret without which nothing can be sent


def refused(words: str) -> NotValid:
    return NotValid(words, field="address")


def harmless(text: str) -> str:
    """Feishu calls people by `<at …>` even in plain text."""
    return re.sub(r"<(?=\s*at\b)", "‹", text, flags=re.IGNORECASE)
