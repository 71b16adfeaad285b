"""Tell open browsers that something changed: a topic and an id, never the data."""

from collections.abc import Collection

from django.db import transaction

from project.lib import stream

MANY = "*"  # the id in a hint of many rows: the page of each of them looks again
MOST_NAMED = 20  # rows that are named one by one


def changed(topic: str, *, id: int | str = "", version: int = 0) -> None:
    """Publish `topic`, a list, once the current transaction commits. A lost hint costs a page one minute at most.

    `id` is the row that changed: its own page hears of it too. Without one it is what is in the list: a new row."""
    transaction.on_commit(lambda: stream.publish(topic, id, version), robust=True)


def all_changed(topic: str, ids: Collection[int | str]) -> None:
    """`changed` for each of these rows; beyond twenty one hint stands for many."""
    for id in ids if len(ids) <= MOST_NAMED else [MANY]:
        changed(topic, id=id)
