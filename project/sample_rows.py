"""The sample of an outbox: a row of somebody else's table."""

import json
from typing import Any

from project.sample_entries import NotWritten
from triggers.listeners.link import FAULTS, link_to
from triggers.models import Source
from triggers.sources.database import parse_table


def insert(source: Source, data: dict[str, Any]) -> None:
    """Write one row; its key and whatever else it has must have values of their own. Raises NotWritten."""
    table = parse_table(source.config)
    if table.mode != "outbox" or not table.data_column:
        raise NotWritten(
            f"{source.slug}: a row is made up only for an outbox with a column for the data; what {table.table} wants, "
            "only its owner knows: insert or change a row there"
        )
    named = {table.type_column: "order.created"} if table.type_column else {}
    try:
        link = link_to(source, table)
        try:
            link.insert({**named, table.data_column: json.dumps(data)})
        finally:
            link.close()
    except FAULTS as error:
        raise NotWritten(f"{source.slug}: {error}") from error
