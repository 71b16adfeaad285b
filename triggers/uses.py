"""When each secret of a source last fitted and how often: gathered in this process, written at most once a minute."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from triggers.models import Source

EVERY = 60.0  # seconds between two writes about one secret

written: dict[tuple[int, str], float] = {}  # (source, mark) -> Unix time that was last written
fresh: dict[tuple[int, str], float] = {}
counted: Counter[tuple[int, str]] = Counter()  # deliveries since the last write


def note(source_id: int, mark: str, now: float) -> None:
    """This secret fitted at Unix time `now`."""
    counted[source_id, mark] += 1
    if now - written.get((source_id, mark), 0.0) >= EVERY:
        fresh[source_id, mark] = now


def flush() -> None:
    """Write what is new into the rows; pages and the API show it as `used` and `count`."""
    while fresh:
        (source_id, mark), moment = fresh.popitem()
        written[source_id, mark] = moment
        with transaction.atomic():
            source = Source.objects.select_for_update(no_key=True).filter(pk=source_id).first()
            if source is not None:
                used = source.secret_usage | {mark: usage(source, mark, moment, counted.pop((source_id, mark), 0))}
                Source.objects.filter(pk=source_id).update(secret_usage=used)


def usage(source: Source, mark: str, moment: float, more: int) -> dict[str, Any]:
    at = datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
    return {"at": at, "count": source.used(mark)["count"] + more}
