"""Samples for sources without an address: written where the desk reads, with what the source itself knows of it; a
schedule is rung.

A table that is no outbox is left alone: what its columns want, only its owner knows."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import formatdate
from imaplib import IMAP4
from typing import TYPE_CHECKING, Any

import redis
from django.utils.module_loading import import_string
from imap_tools import ImapToolsError

from project.lib.deferred import deferred
from project.lib.egress import EgressError
from project.lib.problem import Problem
from triggers import fire
from triggers.listeners import imap, redis_link
from triggers.listeners.thread import Trouble
from triggers.models import Event, Source
from triggers.sources.kafka import parse_topics
from triggers.sources.mail import parse_mailbox
from triggers.sources.stream import parse_stream

if TYPE_CHECKING:
    import confluent_kafka
else:
    confluent_kafka = deferred("confluent_kafka")

TAKEN_WITHIN = 5.0  # seconds in which a broker takes a record
TIMEOUT = 90.0  # seconds until the desk tells of it: a mailbox without IDLE is looked at every minute
FAULTS: tuple[type[Exception], ...] = (
    Trouble,
    Problem,
    EgressError,
    OSError,
    redis.RedisError,
    ImapToolsError,
    IMAP4.error,
)
ORDER = {"sku": "TEA-01", "cups": 2}


class NotWritten(Exception):
    """The sample could not be written, or nobody told of it; the message says why in one line."""


def into_stream(source: Source, number: int) -> None:
    config = parse_stream(source.config)
    data: dict[str, Any] = {config.data_field or "payload": json.dumps({"id": number, **ORDER})}
    with redis_link.connect(source, config) as client:
        client.xadd(config.stream, {config.type_field or "type": "order.created", **data})


def into_topic(source: Source, number: int) -> None:
    config = parse_topics(source.config)
    wait = {"acks": "all", "message.timeout.ms": int(TAKEN_WITHIN * 1000)}
    producer = confluent_kafka.Producer(config.cluster(source.password).settings(**wait))
    faults: list[Any] = []  # of a record that was given up: it is counted as flushed all the same
    value = json.dumps({"id": number, **ORDER}).encode()

    def heard(error: Any, record: Any) -> None:
        if error:
            faults.append(error)

    producer.produce(config.topics[0], key=f"order-{number}".encode(), value=value, on_delivery=heard)
    if producer.flush(TAKEN_WITHIN * 2) or faults:
        raise NotWritten(f"the brokers {', '.join(config.brokers)} do not take it")


def into_mailbox(source: Source, number: int) -> None:
    """Laid into the first folder over IMAP: no mail server is asked to carry it."""
    config = parse_mailbox(source.config)
    mail = EmailMessage()
    mail["From"], mail["To"] = "Mona <mona@example.org>", config.username
    mail["Subject"], mail["Date"] = f"Where is my order {number}?", formatdate()
    mail["Message-ID"] = f"<sample-{number}-{time.time_ns()}@example.org>"
    mail.set_content("It was promised for Monday.\n")
    mailbox = imap.sign_in(source, config)
    try:
        answer, told = mailbox.client.append(imap.quoted(config.folders[0]), "", "", mail.as_bytes())
    finally:
        mailbox.client.shutdown()
    if answer != "OK":
        raise NotWritten(f"{config.host} does not take it: {told}")


def into_table(source: Source, number: int) -> None:
    """What speaks to databases is loaded by whoever writes into one."""
    insert: Callable[[Source, dict[str, Any]], None] = import_string("project.sample_rows.insert")
    insert(source, {"id": number, **ORDER})


def on_the_clock(source: Source, number: int) -> None:
    fire.fire(source)


ENTRIES: dict[str, tuple[str, str, Callable[[Source, int], None]]] = {  # name -> kind, what it shows, how
    "redis-order": ("redis_stream", "an order as an entry of your first Redis stream", into_stream),
    "kafka-order": ("kafka", "an order as a record of your first topic", into_topic),
    "outbox-order": ("database", "an order as a row of your first outbox table", into_table),
    "schedule": ("schedule", "your first schedule, rung once now; its slots stay", on_the_clock),
    "mail-question": ("email", "a customer's mail, laid into the first folder of your first mailbox", into_mailbox),
}


def newest_of(source: Source) -> int:
    """The number of its newest event; 0 without any."""
    return source.events.order_by("-pk").values_list("pk", flat=True).first() or 0


def write(name: str, number: int) -> Event:
    """Write the sample where the first open source of its kind reads, and wait for the event. Raises NotWritten."""
    kind, _, _ = ENTRIES[name]
    rows = list(Source.objects.open().filter(kind=kind).order_by("pk"))
    source = next((row for row in rows if row.config.get("mode") == "outbox"), next(iter(rows), None))
    if source is None:
        raise NotWritten(f"this desk has no open source of kind {kind}; make one under Sources")
    newest = newest_of(source)
    write_into(source, number)
    deadline = time.monotonic() + TIMEOUT
    while (event := source.events.filter(pk__gt=newest).order_by("pk").first()) is None:
        if time.monotonic() > deadline:
            raise NotWritten(f"it was written at {datetime.now(UTC):%H:%M}, and nobody told of it for {TIMEOUT:.0f} s")
        time.sleep(0.2)
    return event


def write_into(source: Source, number: int) -> None:
    """Write the sample of its kind where this source reads. Raises NotWritten."""
    put = next((put for kind, _, put in ENTRIES.values() if kind == source.kind), None)
    if put is None:
        raise NotWritten(f"{source.slug}: what is written there, only whoever writes there knows")
    try:
        put(source, number)
    except all_faults() as error:
        raise NotWritten(f"{source.slug}: {getattr(error, 'detail', '') or error}") from error


def all_faults() -> tuple[type[Exception], ...]:
    """Kafka's own library is loaded by whoever comes here."""
    return (*FAULTS, confluent_kafka.KafkaException)
