"""Ways out are made, changed and archived here; pages and API ask first whether it is an admin in person."""

from typing import TYPE_CHECKING, Any

from django.db import transaction

from approvals.models import Connection
from approvals.reach import check_connection
from project.lib import crypto
from project.lib.live import changed
from triggers.configure import insert_named, refuse_stale
from triggers.models import Audit, ConfigVersion

if TYPE_CHECKING:
    from project.people.models import User


def make_connection(
    *, by: "User | None", slug: str, system: str, config: dict[str, Any], practice: bool, secrets: Any = None, name: str
) -> Connection:
    """Save a new connection. Raises NotValid, SlugTaken."""
    check_connection(system, config, secrets or {}, practice=practice)
    given = {"slug": slug, "system": system, "name": name, "config": config, "practice": practice}
    with transaction.atomic():
        row = Connection(**given, sealed_secrets=crypto.seal(secrets))
        insert_named(row)
        ConfigVersion.bump()
        Audit.write("create", row, by=by)
        changed("connections", id=slug)
    return row


def change_connection(row: Connection, *, by: "User | None", version: int, **fields: Any) -> Connection:
    """Write `fields` when `version` is still the row's. Raises NotValid, Stale.

    What is checked is `row` with `fields` over it: a row that was changed since has another version."""
    secrets = fields["secrets"] if "secrets" in fields else stored(row)
    config, practice = fields.get("config", row.config), fields.get("practice", row.practice)
    check_connection(row.system, config, secrets, practice=practice)
    with transaction.atomic():
        held = Connection.objects.select_for_update(no_key=True).get(pk=row.pk)
        refuse_stale(held.version, version)
        held.change(by=by, **fields)
        changed("connections", id=held.slug)
    return held


def stored(row: Connection) -> dict[str, str] | None:
    """The secrets that are kept when no new ones are given; None when their key is lost."""
    try:
        return row.secrets
    except crypto.Unreadable:
        return None


def archive_connection(row: Connection, *, by: "User | None") -> None:
    """Out of use for good: handlers that name it fail before anybody is asked."""
    with transaction.atomic():
        held = Connection.objects.select_for_update(no_key=True).get(pk=row.pk)
        if held.archived_at is None:
            held.archive(by=by)
            changed("connections", id=held.slug)
