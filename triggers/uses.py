"""When each secret of a source last fitted: gathered in this process, written at most once a minute for each."""

from datetime import UTC, datetime

from django.db import transaction

from triggers.models import Source

EVERY = 60.0  # seconds between two writes about one secret

written: dict[tuple[int, str], float] = {}  # (source, hint) -> Unix time that was last written
fresh: dict[tuple[int, str], float] = {}


def note(source_id: int, hint: str, now: float) -> None:
    """This secret fitted at Unix time `now`."""
    if now - written.get((source_id, hint), 0.0) >= EVERY:
        fresh[source_id, hint] = now


def flush() -> None:
    """Write what is new into the rows; pages and the API show it as `used`."""
    while fresh:
        (source_id, hint), moment = fresh.popitem()
        written[source_id, hint] = moment
        with transaction.atomic():
            source = Source.objects.select_for_update(no_key=True).filter(pk=source_id).first()
            if source is not None:
                used = {**source.secret_usage, hint: datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")}
                Source.objects.filter(pk=source_id).update(secret_usage=used)
