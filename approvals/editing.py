"""A reviewer mends what was asked for: another text under another digest, the next revision, and votes begin anew."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from approvals import hiding, policy
from approvals.errors import NotValid, PolicyMoved
from approvals.frozen import envelope
from approvals.kinds import KINDS
from approvals.models import Action, Decision
from approvals.rules import Ruling
from approvals.settle import show
from project.lib import canonical, crypto
from triggers.models import Audit

if TYPE_CHECKING:
    from project.people.models import User


@dataclass(frozen=True, slots=True)
class Draft:
    """Edited arguments, read, checked and frozen like those of a handler."""

    title: str
    arguments: dict[str, Any]  # as they are shown
    hidden: list[tuple[hiding.Place, str]]
    text: str
    digest: str


def drafted(action: Action, arguments: dict[str, Any]) -> Draft:
    """What `arguments` would make of the action. Raises NotValid naming the field."""
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
        kind_version=action.kind_version,
        connection=connection.slug if connection else None,
        connection_version=connection.version if connection else 0,
        arguments=shown,
        preconditions=action.envelope["preconditions"],
    )
    return Draft(kind.headline(typed), shown, hidden, text, digest)


def ruling_on_edit(action: Action, arguments: dict[str, Any]) -> Ruling | None:
    """What the policy says of what `arguments` would make of it; None when they make nothing. Before BEGIN."""
    with suppress(NotValid):
        draft = drafted(action, arguments)
        asked = policy.Asked.of(action, arguments=draft.arguments, title=draft.title)
        return policy.joined(policy.ruling(asked, at_least=action.tier), action)
    return None


def edit(
    action: Action, arguments: dict[str, Any], *, by: "User", now: datetime, ruling: Ruling | None, **words: Any
) -> Decision | None:
    """Write the edited text as the next revision, inside the caller's transaction; None when nothing differs.

    The decision keeps both texts: what was on the screen, and what was made of it. `ruling` is what the policy says of
    it. Raises NotValid, PolicyMoved."""
    draft = drafted(action, arguments)
    if same(draft.arguments, action.arguments):
        return None
    if ruling is None:
        raise PolicyMoved
    if ruling.denied_by:
        raise NotValid(f"The rule `{ruling.denied_by}` of the policy forbids this.", field="arguments")
    seen = {"digest": action.digest, "revision": action.revision, "before": action.canonical}
    decision = Decision.objects.create(action=action, by=by, verdict="edit", at=now, after=draft.text, **seen, **words)
    chain = [*action.requester_chain, *policy.chain_added(action, ruling)]
    action.move(
        "edit",
        title=draft.title,
        canonical=draft.text,
        sealed_arguments=crypto.seal(draft.hidden),
        digest=draft.digest,
        revision=action.revision + 1,
        connection_version=action.connection.version if action.connection else 0,
        requester_chain=chain,
        given=0,
        **policy.written(ruling),
    )
    Audit.write("edit", action, by=by, revision=action.revision, digest=action.digest, reason=words.get("reason", ""))
    show(action)
    return decision


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
