"""`kafka.publish`: one record, a CloudEvent in binary mode, written to a topic of the connection's cluster.

Its id is the action's key: who reads the topic can tell a repeat. Kafka itself cannot be asked whether a record is
there, so an unclear outcome is left to a person."""

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, JsonValue

from approvals.errors import NotSent, OutcomeUnknown, Refused
from approvals.kinds import Arguments, Far, Kind, Result, facts, register
from approvals.tiers import Tier
from project.lib import kafka
from project.lib.deferred import deferred
from project.lib.egress import Forbidden, Unreachable
from project.lib.language import spoken

if TYPE_CHECKING:
    import confluent_kafka
else:
    confluent_kafka = deferred("confluent_kafka")

TYPE = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"
SPARE = 5.0  # seconds of the kind's time that are left for connecting and parting


class Record(Arguments):
    """The topic is the first segment of `type`; what has one `correlationid`, else one `source`, keeps its order."""

    type: str = Field(pattern=TYPE, max_length=255)
    source: str = Field(default="/nightdesk", min_length=1, max_length=512)
    subject: str = Field(default="", max_length=512)
    correlationid: str = Field(default="", max_length=255)
    severity: Literal["info", "warning", "error", "critical"] = "info"
    data: JsonValue = None

    @property
    def topic(self) -> str:
        return self.type.partition(".")[0]

    @property
    def key(self) -> str:
        return self.correlationid or self.source


def deliver(far: Far, wish: Record, key: str) -> Result:
    """Raises NotSent while no broker was reached, Refused, or OutcomeUnknown once the record was on its way."""
    wait = max(1.0, far.timeout.total_seconds() - SPARE)
    told: list[tuple[confluent_kafka.KafkaError | None, confluent_kafka.Message]] = []
    producer = connected(far, wish.topic, wait)
    try:
        producer.produce(
            wish.topic,
            key=wish.key.encode(),
            value=json.dumps(wish.data, ensure_ascii=False).encode(),
            headers=headers(wish, key, far),
            on_delivery=lambda error, record: told.append((error, record)),
        )
    except (confluent_kafka.KafkaException, BufferError) as error:
        raise Refused(f"kafka {far.slug}: the record cannot be sent: {error}") from None
    producer.flush(wait)
    if not told:
        raise OutcomeUnknown(f"kafka {far.slug}: no answer to the record within {wait:g} s")
    refusal, record = told[0]
    if refusal is not None:
        raise failed(far, refusal)
    return {"topic": record.topic(), "partition": record.partition(), "offset": record.offset(), "id": key}


def connected(far: Far, topic: str, wait: float) -> "confluent_kafka.Producer":
    """A producer of a cluster that has said who it is and that it has the topic. Raises NotSent, Refused."""
    try:
        producer = confluent_kafka.Producer(
            cluster_of(far).settings(
                **{
                    "acks": "all",
                    "enable.idempotence": True,
                    "compression.type": "lz4",
                    "max.in.flight.requests.per.connection": 5,
                    "message.timeout.ms": int(wait * 1000),
                    "linger.ms": 0,
                }
            )
        )
        there = kafka.met(producer, wait=min(wait, kafka.PATIENCE), topic=topic)
    except Unreachable as error:
        raise NotSent(f"kafka {far.slug}: {error}") from None
    except (Forbidden, confluent_kafka.KafkaException, ValueError) as error:
        raise Refused(f"kafka {far.slug}: {error}") from None
    if missing := there[topic].error:
        raise failed(far, missing)
    return producer


@cache
def meanings() -> dict[str, set[int]]:
    """Codes of errors by what they mean: there is no such topic, not sent, or nobody knows."""
    code = confluent_kafka.KafkaError
    return {
        "no topic": {code.UNKNOWN_TOPIC_OR_PART, code._UNKNOWN_TOPIC},  # librdkafka would try again for ever
        "later": {
            code.LEADER_NOT_AVAILABLE,
            code._PURGE_QUEUE,
            code._QUEUE_FULL,
            code.NOT_ENOUGH_REPLICAS,
            code._ALL_BROKERS_DOWN,
        },
        "unclear": {
            *(code._MSG_TIMED_OUT, code._TIMED_OUT, code._TRANSPORT, code._PURGE_INFLIGHT),
            *(code.REQUEST_TIMED_OUT, code.NOT_ENOUGH_REPLICAS_AFTER_APPEND, code.NETWORK_EXCEPTION),
        },
    }


def failed(far: Far, error: "confluent_kafka.KafkaError") -> Exception:
    """What an answer other than yes means for the record."""
    words, code, means = f"kafka {far.slug}: {kafka.words(error)}", error.code(), meanings()
    if code in means["no topic"]:
        return Refused(f"{words}: there is no such topic")
    if code in means["later"]:
        return NotSent(words)
    return OutcomeUnknown(words) if code in means["unclear"] or error.retriable() else Refused(words)


def cluster_of(far: Far) -> kafka.Cluster:
    """Raises ValueError for a connection that names none."""
    return cluster(far.config, str(far.secrets.get("password") or ""))


def cluster(config: dict[str, Any], password: str) -> kafka.Cluster:
    brokers = tuple(str(broker) for broker in config.get("brokers") or ())
    security, mechanism = str(config.get("security") or "tls"), str(config.get("mechanism") or kafka.MECHANISMS[0])
    if not brokers:
        raise ValueError("it names no brokers")
    if security not in kafka.PROTOCOLS or mechanism not in kafka.MECHANISMS:
        raise ValueError("its encryption or its sign-in makes no sense")
    return kafka.Cluster(brokers, security, mechanism, str(config.get("username") or ""), password)


def headers(wish: Record, key: str, far: Far) -> list[tuple[str, str | bytes | None]]:
    """A CloudEvent in binary mode (CloudEvents Kafka binding 1.0.2)."""
    told = {
        "ce_specversion": "1.0",
        "ce_id": key,
        "ce_source": wish.source,
        "ce_type": wish.type,
        "ce_subject": wish.subject,
        "ce_correlationid": wish.correlationid,
        "ce_severity": wish.severity,
        "content-type": "application/json",
        **{f"ce_{name}": str(value) for name, value in far.trace.items() if value and not getattr(wish, name, "")},
    }
    return [(name, value.encode()) for name, value in told.items() if value]


def preview(wish: Record) -> list[dict[str, str]]:
    rows = [
        (spoken("Topic"), wish.topic),
        (spoken("Type"), wish.type),
        (spoken("Key"), wish.key),
        (spoken("Source"), wish.source),
        (spoken("Subject"), wish.subject),
        (spoken("Severity"), wish.severity),
    ]
    return [
        *facts(rows),
        {"label": spoken("Data"), "text": json.dumps(wish.data, indent=2, ensure_ascii=False), "form": "json"},
    ]


KAFKA_PUBLISH = register(
    Kind(
        name="kafka.publish",
        system="kafka",
        tier=Tier.LOW,
        safety="unsafe",
        arguments=Record,
        deliver=deliver,
        title=lambda wish: f"Write {wish.type} to topic {wish.topic}{f' about {wish.subject}' if wish.subject else ''}",
        preview=preview,
        pretend=lambda wish, number: {
            "topic": wish.topic,
            "partition": 0,
            "offset": number,
            "id": f"practice-{number}",
        },
        reversible="A record cannot be taken back.",
        blast_radius="everybody who reads the topic",
    )
)
