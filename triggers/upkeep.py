"""What an admin does with a source or a trigger beside editing it: on, off, archive, a new secret."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import transaction

from project.lib import clock
from project.lib.live import changed
from triggers import fire
from triggers.configure import MOST_SECRETS, check_secrets
from triggers.errors import NotValid
from triggers.models import Source, Trigger
from triggers.silence import switched
from triggers.sources.details import check_secret

if TYPE_CHECKING:
    from project.people.models import User


def switch(row: Source | Trigger, *, on: bool, by: "User | None", reason: str = "") -> None:
    """Turn it on or off, off with a note; nothing happens when it is so. Raises NotValid for an archived one."""
    with transaction.atomic():
        held = lock(row)
        if held.archived_at is not None:
            raise NotValid("It is archived; make a new one instead.")
        if held.enabled == on:
            return
        plan = fire.replan(held, {"enabled": on}) if isinstance(held, Source) else {}
        if on:
            held.enable(by=by, **plan)
        else:
            held.disable(by=by, reason=reason, **plan)
        if isinstance(held, Source):
            switched(held, by=by, reason=reason)
        changed(topic_of(row), id=row.slug)


def archive(row: Source | Trigger, *, by: "User | None") -> None:
    """Take it out of use for good; what it did before stays readable. Runs of a trigger that have not started end with
    the next tick; those that have go on to their end, also when it was paused."""
    with transaction.atomic():
        held = lock(row)
        if held.archived_at is None:
            was_on = held.enabled
            held.archive(by=by, **(fire.replan(held, {"enabled": False}) if isinstance(held, Source) else {}))
            if isinstance(held, Source) and was_on:
                switched(held, by=by, reason="archived")
            if isinstance(held, Trigger):
                fresh = held.runs.filter(status="queued", started_at=None, cancel_requested_at=None)
                fresh.update(cancel_requested_at=clock.now(), cancel_reason="archived", ended_by=by)
            changed(topic_of(row), id=row.slug)


def add_secret(source: Source, value: str, *, by: "User | None", keep_old: bool, old_until: datetime | None) -> None:
    """Make `value` the newest secret. With `keep_old` the one before stays valid, at most until `old_until`."""
    check_secrets([{"value": value}], field="value", kind=source.kind)
    check_secret(source.provider, value, field="value")
    with transaction.atomic():
        held = Source.objects.select_for_update(no_key=True).get(pk=source.pk)
        before = in_force(held.secrets, clock.now())[: MOST_SECRETS - 1] if keep_old else []
        if any(item["value"] == value for item in before):
            raise NotValid("This secret is in force already.", field="value")
        if old_until is not None:
            before = [item | {"ends_at": earlier(item.get("ends_at"), old_until)} for item in before]
        held.change(by=by, verb="add secret", secrets=[{"value": value}, *before])
        changed("sources", id=source.slug)


def earlier(ends_at: str | None, until: datetime) -> str:
    """When an old secret ends that is kept `until` then: it may have an end of its own before."""
    return min(until, datetime.fromisoformat(ends_at) if ends_at else until).isoformat()


def end_secret(source: Source, number: int, hint: str, *, by: "User | None") -> None:
    """Forget one secret, known by its place in the list and its `hint`: what it signs is refused from now on."""
    with transaction.atomic():
        held = Source.objects.select_for_update(no_key=True).get(pk=source.pk)
        hints = [shown["hint"] for shown in held.secret_hints]
        if number not in range(len(hints)) or hints[number] != hint:
            raise NotValid("The secrets were changed meanwhile; look again.", field="hint")
        kept = [item for at, item in enumerate(held.secrets) if at != number]
        held.change(by=by, verb="end secret", secrets=kept)
        changed("sources", id=source.slug)


def in_force(secrets: list[dict[str, Any]], now: datetime) -> list[dict[str, Any]]:
    return [item for item in secrets if not item.get("ends_at") or datetime.fromisoformat(item["ends_at"]) > now]


def lock(row: Source | Trigger) -> Source | Trigger:
    held: Source | Trigger = type(row)._default_manager.select_for_update(of=("self",), no_key=True).get(pk=row.pk)
    return held


def topic_of(row: Source | Trigger) -> str:
    return "sources" if isinstance(row, Source) else "triggers"
