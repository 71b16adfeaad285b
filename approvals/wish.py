"""What a handler asks for, read and checked before anybody sees it: the effect itself, and how it is undone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from approvals import hiding, kinds
from approvals.current import NOTHING, Met, looked_at
from approvals.errors import NotValid, Refused
from approvals.frozen import envelope, readable, storable
from approvals.models import Action, Connection
from approvals.rules import Ruling
from project.lib import crypto
from triggers.errors import Permanent
from triggers.models import Run

EXPIRES = timedelta(days=1)
LONGEST = timedelta(days=7)
LONGEST_KEY = 200
MOST_EVIDENCE = 200


@dataclass(frozen=True)
class Wish:
    """What a handler asks for, read and checked: nothing that could not run is ever shown to people."""

    kind: kinds.Kind
    connection: Connection | None
    typed: Any
    arguments: dict[str, Any]  # as they are shown
    hidden: list[tuple[hiding.Place, str]]
    key: str | None
    reason: str
    evidence: list[dict[str, Any]]
    expires: timedelta
    found: Met = NOTHING  # what it would meet, once somebody has looked
    has_looked: bool = False

    @classmethod
    def of(
        cls,
        kind: str,
        connection: str | None,
        key: str | None,
        reason: str,
        evidence: Iterable[Any],
        expires: timedelta | float | None,
        arguments: dict[str, Any],
        like: Action | None = None,
    ) -> Wish:
        """`like` is what was proposed for it already: whether its connection may carry that was asked then.

        Raises UnknownKind, NoConnection, Permanent: trying again would not mend a wrong argument."""
        sort = kinds.named(kind)
        try:
            typed = sort.read(arguments)
            plain = typed.model_dump(mode="json", by_alias=True, exclude_none=True)
            shown, hidden = hiding.hide(plain) if sort.hides else (plain, [])
            checked = (checked_key(key), readable(reason), as_evidence(evidence), how_long(expires))
            to = way_of(like, sort, connection or "") or way_for(sort, connection or "", typed)
            wish = cls(sort, to, typed, shown, hidden, *checked)
            wish.freeze()
        except NotValid as error:
            raise Permanent(error.detail) from error
        return wish

    @property
    def carrier(self) -> tuple[str, dict[str, Any] | None]:
        """The name and the config of its connection; empty and None without one."""
        return (self.connection.slug, self.connection.config) if self.connection else ("", None)

    @property
    def title(self) -> str:
        """The headline of the very text that people approve: names are in its order there, credentials are hidden."""
        return self.kind.headline_of(json.loads(self.freeze()[0])["arguments"])

    def freeze(self, like: Action | None = None) -> tuple[str, str]:
        """The canonical text and digest; under the versions of `like`, to compare with what it was proposed as."""
        return envelope(
            kind=self.kind.name,
            kind_version=like.kind_version if like else self.kind.version,
            connection=self.connection.slug if self.connection else None,
            connection_version=like.proposal_connection_version if like else version_of(self.connection),
            arguments=self.arguments,
            preconditions=like.proposal_preconditions if like else self.found.preconditions,
        )

    def having_looked(self, run: Run | None, ruling: Ruling, may: Callable[[], object]) -> Wish:
        """The same, bound to what its target is now; to be called before BEGIN, for what is not an action yet. What has
        looked does not look again, and nobody looks for what `may` or the policy refuses (`current.looked_at`).

        Raises NotSent, OutcomeUnknown when nobody can look at the moment, Permanent when it cannot be looked at."""
        if self.has_looked:
            return self
        try:
            found = looked_at(self.kind, self.connection, self.typed, run=run, ruling=ruling, may=may)
        except Refused as error:
            raise Permanent(f"{self.kind.name}: its target cannot be looked at: {error}") from error
        return replace(self, found=found, has_looked=True)

    def check_carrier(self) -> None:
        """May its connection carry these arguments? Nobody asked where they are not those it stands for already
        (`like`). Raises NoConnection, Permanent."""
        try:
            way_for(self.kind, self.connection.slug if self.connection else "", self.typed)
        except NotValid as error:
            raise Permanent(error.detail) from error

    def is_that_of(self, action: Action) -> bool:
        """Was `action` proposed with these arguments? Versions of code and credentials do not count."""
        return self.freeze(action)[1] == action.proposal_digest


def way_of(like: Action | None, kind: kinds.Kind, slug: str) -> Connection | None:
    """The connection that it was proposed for; None where that is another one than is asked for now."""
    found = like.connection if like is not None and like.kind == kind.name else None
    return found if found is not None and slug in ("", found.slug) else None


def way_for(kind: kinds.Kind, slug: str, typed: Any) -> Connection | None:
    """The connection that carries it; None for what the desk does itself. Raises NoConnection, NotValid."""
    if not kind.system:
        if slug:
            raise NotValid(f"{kind.name} is done by the desk itself and takes no connection")
        return None
    row = Connection.objects.all().named(kind.system, slug)
    if kind.fits:
        kind.fits(row.config, bool(row.sealed_secrets), typed)
    return row


def version_of(connection: Connection | None) -> int:
    return connection.version if connection else 0


def checked_key(key: str | None) -> str | None:
    if key is not None and (not key.strip() or len(key) > LONGEST_KEY or not key.isprintable()):
        raise NotValid(f"a key is 1 to {LONGEST_KEY} printable characters, not {key[:50]!r}")
    return key


def as_evidence(evidence: Iterable[Any]) -> list[dict[str, Any]]:
    """`[{text, for?, url?}]`; plain sentences are taken as texts."""
    items = [evidence] if isinstance(evidence, str | dict) else list(evidence)
    rows = [item if isinstance(item, dict) else {"text": str(item)} for item in items]
    if len(rows) > MOST_EVIDENCE:  # to leave some out might leave out what speaks against it
        raise NotValid(f"at most {MOST_EVIDENCE} pieces of evidence fit on a card, not {len(rows)}")
    try:
        json.dumps(rows, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotValid(f"the evidence is no JSON: {error}") from error
    return [storable(row) for row in rows]


def how_long(expires: timedelta | float | None) -> timedelta:
    if expires is None:
        return EXPIRES
    span = expires if isinstance(expires, timedelta) else timedelta(seconds=min(expires, LONGEST.total_seconds()))
    if span <= timedelta(0):
        raise NotValid("`expires` must lie in the future")
    return min(span, LONGEST)


def by_name(kind: kinds.Kind, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by their names. `arguments={…}` among them holds such as are called like a word of `act()` itself
    (`reason` of a refund), unless the kind has an argument of this very name. Raises Permanent for one said twice."""
    inner, shape = given.get("arguments"), kind.arguments
    if (
        not isinstance(inner, Mapping)
        or "arguments" in shape.model_fields
        or shape.model_config.get("extra") == "allow"
    ):
        return dict(given)
    rest = {name: value for name, value in given.items() if name != "arguments"}
    if twice := rest.keys() & inner.keys():
        raise Permanent(f"{kind.name}: {min(twice)}: said twice, in `arguments` and beside it")
    return {**rest, **inner}


@dataclass(frozen=True)
class Undo:
    """How an effect is to be undone, sealed, since its arguments may hold credentials; empty while only a callable
    knows it."""

    sealed: str = ""

    @classmethod
    def of(cls, given: Mapping[str, Any], *, knows_result: bool = False) -> Undo:
        """`{kind, connection?, key?, reason?, **arguments}`, checked like a wish of its own. Raises as Wish.of does,
        and as `by_name`.

        `knows_result`: it was made of what was done, and not before somebody could edit that."""
        rest = dict(given)
        names = {name: rest.pop(name, None) for name in ("kind", "connection", "key", "reason")}
        kind, reason = kinds.named(str(names["kind"])), str(names["reason"] or "")
        rest = by_name(kind, rest)
        Wish.of(kind.name, names["connection"], names["key"], reason, (), None, rest)
        plain = kind.read(rest).model_dump(mode="json", by_alias=True, exclude_none=True)
        more = {"reason": readable(reason), "arguments": plain, "knows_result": knows_result}
        return cls(crypto.seal({**names, **more}))
