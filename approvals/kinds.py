"""What can be done to the world: each kind's arguments, its risk, and how it is carried out once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from approvals.errors import NotValid, UnknownKind
from approvals.tiers import Tier
from project.lib.faults import first_fault
from project.lib.language import words
from project.lib.text import nearest
from project.lib.visible import plain

CALL_TIMEOUT = timedelta(seconds=30)
RESEND_WINDOW = timedelta(hours=24)  # how long far sides usually remember an idempotency key
TITLE_LENGTH = 120
ASKED_BY = "nightdesk-action"  # a header of what an action published: the action's number
OWN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,50}")  # of a kind of a family, behind the family's name
# Of the code of a kind: one action that cannot be told, or looked at, must not hide or hold up all others.
NO_WORDS = (NotValid, ValueError, TypeError, LookupError, AttributeError)

Result = dict[str, Any]
Safety = Literal["keyed", "natural", "probe", "unsafe"]


class Arguments(BaseModel):
    """What a kind takes; unknown names are refused, so that a typo is not silently dropped."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Far:
    """The far side as a connector sees it: where it is, and the credentials in clear."""

    slug: str
    config: dict[str, Any]
    secrets: dict[str, Any] = field(repr=False)
    timeout: timedelta = CALL_TIMEOUT
    trace: dict[str, Any] = field(default_factory=dict)  # hops, correlationid and traceparent, for the desk itself
    expected: str = ""  # the version its target must still have, for a far side that can be told
    action: int = 0  # the number of what is done, for the desk itself


@dataclass(frozen=True, slots=True)
class Now:
    """What a kind would meet: `target` says where, `version` names its state exactly, `state` is what people see."""

    target: str
    version: str
    state: Any


WhyUnbound = Literal["unread", "nameless", "held"]
WHY_UNBOUND: dict[str, str] = {  # the code is a part of what is digested; the words are the page's, in any language
    "unread": words("its state could not be read"),
    "nameless": words("its state has neither an ETag nor a Last-Modified"),
    "held": words("a switch was on when it was asked for"),
}


@dataclass(frozen=True, slots=True)
class Unbound:
    """There is a target, but nothing of it to bind: why, and what the far side answered."""

    why: WhyUnbound
    status: int | None = None


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One type of side effect.

    `deliver(far, arguments, key)` does it and returns JSON; it raises NotSent, Refused or OutcomeUnknown.
    `probe(far, arguments, keys)` looks whether it happened under one of these keys: the result, or None for no;
    it raises any of the three when it cannot tell. `safety` says what may follow an unclear outcome: `keyed` sends
    the same key again inside `window` (a connection's `key_window` replaces it), `probe` looks first, `natural` may be
    repeated whatever happened, `unsafe` asks a person. `is_natural(arguments)` says that these very ones are natural,
    `graded(arguments, config)` of which tier they are, where that is not always the kind's: by the connection as it is
    now, or by the arguments alone when no connection is at hand (None). `fits` must hold it.
    `preview(arguments)` is what people read on the card: `[{label, text, form}]`, form one of text, markdown, code,
    json. `fits(config, has_secrets, arguments)` raises NotValid when a connection may not carry them.
    `form(arguments)` is the JSON schema of the answer that people owe: such an action is carried out by being answered.
    `current(far, arguments)` reads what is there before people are asked, and again before anything starts: a state
    that moved since voids their yes. It changes nothing; Unbound: nothing of it can be bound; None: this call has no
    target; it raises NotSent, Refused or OutcomeUnknown. `after(arguments, state)` is what the state becomes, for the
    difference on the card.
    """

    name: str
    system: str  # which connections carry it; empty: the desk itself, without a connection
    tier: Tier
    safety: Safety
    arguments: type[Arguments]
    deliver: Callable[[Far, Any, str], Result]
    title: Callable[[Any], str]
    preview: Callable[[Any], list[dict[str, str]]]
    pretend: Callable[[Any, int], Result]  # what a practice connection answers for item number n
    probe: Callable[[Far, Any, list[str]], Result | None] | None = None
    is_natural: Callable[[Any], bool] | None = None
    graded: Callable[[dict[str, Any], dict[str, Any] | None], Tier] | None = None
    fits: Callable[[dict[str, Any], bool, Any], None] | None = None
    form: Callable[[Any], dict[str, Any]] | None = None
    current: Callable[[Far, Any], Now | Unbound | None] | None = None
    after: Callable[[Any, Any], Any] | None = None
    manner: tuple[str, ...] = ()  # arguments that say how it is done: without them it is the same effect
    hides: bool = False  # may arguments hold credentials, which must not be stored in clear?
    version: int = 1
    timeout: timedelta = CALL_TIMEOUT
    window: timedelta = RESEND_WINDOW
    take_back: timedelta | None = None  # None: the tier's usual window
    reversible: str = ""  # how it can be undone, in words
    blast_radius: str = ""  # who notices, in words

    def tier_of(self, arguments: dict[str, Any] | None, config: dict[str, Any] | None = None) -> Tier:
        """The tier of these very arguments through a connection of this `config`; of unknown ones the kind's."""
        return self.tier if self.graded is None or arguments is None else self.graded(arguments, config)

    @property
    def is_question(self) -> bool:
        """Does a person answer it, instead of a far side?"""
        return self.form is not None

    def safety_of(self, arguments: dict[str, Any], config: dict[str, Any]) -> Safety:
        """What may follow an unclear outcome of this very call through a connection of this `config`."""
        with suppress(NotValid):
            if self.is_natural is not None and self.is_natural(self.read(arguments)):
                return "natural"
        return "unsafe" if self.safety == "keyed" and not self.window_of(config) else self.safety

    def window_of(self, config: dict[str, Any]) -> timedelta:
        """How long the far side remembers a key; nothing: it knows no keys."""
        own = config.get("key_window")
        return self.window if own is None else timedelta(seconds=own)

    def asked(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The schema of the answer that people owe; raises NotValid, also when it is no question."""
        if self.form is None:
            raise NotValid(f"{self.name} is no question.", field="answer")
        return self.form(self.read(arguments))

    def read(self, arguments: dict[str, Any]) -> Any:
        """The typed arguments; raises NotValid naming the field, never repeating a value."""
        try:
            return self.arguments.model_validate(arguments)
        except ValidationError as error:
            place, said = first_fault(error)
            place = place or "arguments"
            raise NotValid(f"{self.name}: {place}: {said}", field=place) from None

    def headline(self, arguments: Any) -> str:
        """One line for lists, cards, mails and chats; what would hide or turn a part of it is written out."""
        try:
            title = self.title(arguments)
        except NO_WORDS:
            title = self.name
        line = " ".join(plain(title).split())
        return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1] + "…"

    def headline_of(self, arguments: dict[str, Any]) -> str:
        """The headline of stored arguments, which may have become none that it can read."""
        try:
            return self.headline(self.read(arguments))
        except NO_WORDS:
            return self.name

    def summary(self, arguments: dict[str, Any]) -> list[dict[str, str]]:
        """The preview of stored arguments; empty when no code finds words for them, and people read the payload."""
        try:
            return self.preview(self.read(arguments))
        except NO_WORDS:
            return []


class Catalogue(dict[str, Kind]):
    """Kinds by name. A name that begins with a family, as `external.deploy`, is a kind that nobody registered."""

    families: dict[str, Callable[[str], Kind]] = {}

    def __missing__(self, name: str) -> Kind:
        family, _, rest = name.partition(".")
        if family not in self.families or not OWN_NAME.fullmatch(rest):
            raise KeyError(name)
        return self.families[family](name)

    def get(self, name: str, default: Any = None) -> Any:
        """As of any dict, also for a kind of a family."""
        try:
            return self[name]
        except KeyError:
            return default


KINDS = Catalogue()


def facts(rows: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Short lines of a preview, each under its label; an empty one is left out."""
    return [{"label": label, "text": text, "form": "text"} for label, text in rows if text]


def register(kind: Kind) -> Kind:
    """Add `kind` to the catalogue; a second one of the same name replaces nothing and raises ValueError."""
    if KINDS.setdefault(kind.name, kind) is not kind:
        raise ValueError(f"kind {kind.name!r} is registered twice")
    return kind


def register_family(name: str, make: Callable[[str], Kind]) -> None:
    """Every `name.something` is the kind that `make` gives for this text."""
    KINDS.families[name] = make


def why_unknown(name: str) -> str:
    """Why nothing can be of this kind, or of any `family.*`, in a sentence; empty where something can."""
    if not name.endswith(".*"):
        return "" if KINDS.get(name) else f"There is no kind `{name}`{nearest(name, KINDS)}"
    families = {f"{each.partition('.')[0]}.*" for each in (*KINDS, *KINDS.families)}
    return "" if name in families else f"There is no kind `{name}`{nearest(name, families)}"


def named(name: str) -> Kind:
    """Raises UnknownKind."""
    try:
        return KINDS[name]
    except KeyError:
        raise UnknownKind(f"there is no kind {name!r}; known are {', '.join(sorted(KINDS))}") from None
