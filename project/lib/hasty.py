"""A commit that does not wait for the disk, for what is simply done again when the power takes it away.

Whatever is committed later in this database takes it along to the disk: nothing that is built on it can be there
without it. On SQLite only: there the power takes whoever committed, too, while a server that crashes alone would forget
a claim whose worker lives on, and give its fence to another."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DEFAULT_DB_ALIAS, connections

from project.lib.sqlite.base import DatabaseWrapper


@contextmanager
def hasty() -> Iterator[None]:
    """The transactions of SQLite that end within are hasty ones."""
    held = connections[DEFAULT_DB_ALIAS]
    if not isinstance(held, DatabaseWrapper):
        yield
        return
    held.is_hasty = True
    try:
        yield
    finally:
        held.is_hasty = False
