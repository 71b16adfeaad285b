"""A reviewer mends what was asked for: another text under another digest, the next revision, and votes begin anew."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from approvals import current, hiding, policy
from approvals.current import Met
from approvals.errors import ApprovalProblem, DeliveryError, NotValid, PolicyMoved
from approvals.frozen import envelope
from approvals.kinds import KINDS
from approvals.models import Action, Decision
from approvals.rules import Ruling
from approvals.settle import show, shown_of
from project.lib import canonical, crypto
from triggers.models import Audit

if TYPE_CHECKING:
    from project.people.models import User


@dataclass(frozen=True, slots=True)
class Draft:
    """Edited arguments, read, checked and frozen like those of a handler."""

    title: str
    typed: Any
    arguments: dict[str, Any]  # as they are shown
    hidden: list[tuple[hiding.Place, str]]
    text: str
    digest: str


@dataclass(frozen=True, slots=True)
class Judged:
    """What the policy says of edited arguments, and what they would meet: both computed before the transaction."""

    ruling: Ruling
    found: Met | None  # None: nobody looked, since the edit will be refused


def drafted(action: Action, arguments: dict[str, Any], found: Met | None = None) -> Draft:
    """What `arguments` would make of the action, bound to `found` or to what it was bound to before.

    Raises NotValid naming the field."""
    kind = KINDS.get(action.kind)
    if kind is None or kind.is_question:
        raise NotValid(f"{action.kind} cannot be edited.", field="arguments")
    kept = crypto.unseal(action.sealed_arguments) or []
    typed = kind.read(hiding.restore(arguments, action.arguments, kept) if kind.hides else arguments)
    connection = action.connection
    if kind.fits is not None and connection is not None:
        kind.fits(connection.config, bool(connection.sealed_secrets), typed)
    plain = typed.model_dump(mode="json", by_alias=True, exclude_none=True)
    shown, hidden = hiding.hide(plain) if kind.hides else (plain, [])
    text, digest = envelope(
        kind=action.kind,
        kind_version=kind.version,
        connection=connection.slug if connection else None,
        connection_version=connection.version if connection else 0,
        arguments=shown,
        preconditions=action.preconditions if found is None else found.preconditions,
    )
    return Draft(kind.headline_of(json.loads(text)["arguments"]), typed, shown, hidden, text, digest)


def judged(action: Action, arguments: dict[str, Any], may: Callable[[], object]) -> Judged | None:
    """What is said of what `arguments` would make of it; None when they make nothing. Before BEGIN; `may` raises what
    the door would refuse the edit with. Raises NotValid when its target cannot be looked at."""
    try:
        draft = drafted(action, arguments)
    except NotValid:
        return None
    if same(draft.arguments, action.arguments):
        return None
    asked = policy.Asked.of(action, arguments=draft.arguments, title=draft.title)
    ruling = policy.joined(policy.ruling(asked, at_least=action.tier), action)
    return Judged(ruling, met_by(action, draft, ruling, may))


def met_by(action: Action, draft: Draft, ruling: Ruling, may: Callable[[], object]) -> Met | None:
    """What the edited arguments would meet. The same target stays as it was shown: a move since then is found out
    before anything starts. None when they may not be asked for; then nobody looks. Raises NotValid."""
    kept, kind = current.as_bound(action), KINDS[action.kind]
    if kind.current is None:
        return kept
    try:
        found = current.looked_at(kind, action.connection, draft.typed, run=action.run, ruling=ruling, may=may)
    except ApprovalProblem:
        return None
    except DeliveryError as error:
        raise NotValid(f"What it would change cannot be looked at now: {error}", field="arguments") from error
    target = found.preconditions.get("target")
    return kept if target is not None and target == kept.preconditions.get("target") else found


def edit(
    action: Action, arguments: dict[str, Any], *, by: "User", now: datetime, judged: Judged | None, **words: Any
) -> Decision | None:
    """Write the edited text as the next revision, inside the caller's transaction; None when nothing differs.

    The decision keeps both texts: what was on the screen, and what was made of it. Raises NotValid, PolicyMoved."""
    draft = drafted(action, arguments, judged.found if judged else None)
    if same(draft.arguments, action.arguments):
        return None
    if judged is None or judged.found is None:
        raise PolicyMoved
    ruling = judged.ruling
    if ruling.denied_by:
        raise NotValid(f"The rule `{ruling.denied_by}` of the policy forbids this.", field="arguments")
    seen = {"digest": action.digest, "revision": action.revision, "before": action.canonical}
    saw = {**shown_of(action), "digest": action.digest, "revision": action.revision}
    decision = Decision.objects.create(action=action, by=by, verdict="edit", at=now, after=draft.text, **seen, **words)
    chain = [*action.requester_chain, *policy.chain_added(action, ruling)]
    action.move(
        "edit",
        title=draft.title,
        canonical=draft.text,
        sealed_arguments=crypto.seal(draft.hidden),
        digest=draft.digest,
        state_json=judged.found.state_json,
        revision=action.revision + 1,
        connection_version=action.connection.version if action.connection else 0,
        requester_chain=chain,
        given=0,
        **policy.asked_as(KINDS.get(action.kind), ruling),
    )
    made = {"digest": action.digest, "revision": action.revision}
    Audit.write("edit", action, by=by, **made, reason=words.get("reason", ""), saw=saw)
    show(action)
    return decision


def changes_nothing(action: Action, arguments: dict[str, Any]) -> bool:
    """Are these the arguments as they stand?"""
    with suppress(NotValid):
        return same(drafted(action, arguments).arguments, action.arguments)
    return False


def edited_before(action: Action, by: "User", digest: str, revision: int, arguments: dict[str, Any]) -> Decision | None:
    """What the same person said with the same edit of the same revision: a second click, a retried request."""
    if action.revision != revision + 1:
        return None
    edits = action.decisions.filter(by=by, verdict="edit", revision=revision, digest=digest)
    with suppress(NotValid):
        if edits and same(drafted(action, arguments).arguments, action.arguments):
            yes = action.decisions.filter(by=by, verdict="approve", revision=action.revision)
            return yes.first() or edits.first()
    return None


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return canonical.text(one) == canonical.text(other)
