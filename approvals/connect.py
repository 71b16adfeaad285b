"""Ways out are made, changed and archived here; pages and API ask first whether it is an admin in person."""

from typing import TYPE_CHECKING, Any

from django.db import transaction

from approvals.models import Connection
from project.lib import crypto
from project.lib.live import changed
from triggers.configure import insert_named, refuse_stale
from triggers.models import Audit, ConfigVersion

if TYPE_CHECKING:
    from project.people.models import User


def make_connection(*, by: "User | None", slug: str, secrets: Any = None, **fields: Any) -> Connection:
    """Save a new connection. Raises SlugTaken."""
    with transaction.atomic():
        row = Connection(slug=slug, sealed_secrets=crypto.seal(secrets), **fields)
        insert_named(row)
        ConfigVersion.bump()
        Audit.write("create", row, by=by)
        changed("connections", id=slug)
    return row


def change_connection(row: Connection, *, by: "User | None", version: int, **fields: Any) -> Connection:
    """Write `fields` when `version` is still the row's. Raises Stale."""
    with transaction.atomic():
        held = Connection.objects.select_for_update().get(pk=row.pk)
        refuse_stale(held.version, version)
        held.change(by=by, **fields)
        changed("connections", id=held.slug)
    return held


def archive_connection(row: Connection, *, by: "User | None") -> None:
    """Out of use for good: handlers that name it fail before anybody is asked."""
    with transaction.atomic():
        held = Connection.objects.select_for_update().get(pk=row.pk)
        if held.archived_at is None:
            held.archive(by=by)
            changed("connections", id=held.slug)
