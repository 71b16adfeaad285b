"""Tell open browsers that something changed: a topic and an id, never the data."""

from django.db import transaction

from project.lib import stream


def changed(topic: str, *, id: int | str = "", version: int = 0) -> None:
    """Publish `topic` once the current transaction commits. A lost hint costs a page one minute at most."""
    transaction.on_commit(lambda: stream.publish(topic, id, version), robust=True)
