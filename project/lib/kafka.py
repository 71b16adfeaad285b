"""How brokers of Kafka are reached: checked addresses, encryption, credentials, as librdkafka is told.

librdkafka looks names up itself, so an address is checked before it is handed over: those that are named here, and
those that the cluster names in its answer."""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from django.conf import settings

from project.lib.addresses import AllowList
from project.lib.deferred import deferred
from project.lib.egress import Guard, Unreachable, system_resolver

if TYPE_CHECKING:
    import confluent_kafka
else:
    confluent_kafka = deferred("confluent_kafka")

PORTS = (9092, 9093, 9094, 9095, 9096, 9098)
PATIENCE = 10.0  # seconds for the cluster to say who it is
Security = Literal["tls", "sasl_tls", "plaintext", "sasl_plaintext"]
PROTOCOLS = {"tls": "SSL", "sasl_tls": "SASL_SSL", "plaintext": "PLAINTEXT", "sasl_plaintext": "SASL_PLAINTEXT"}
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
BROKER = re.compile(r"\[?([A-Za-z0-9_.:-]+?)\]?:(\d{1,5})")
TOPIC = r"[A-Za-z0-9._-]{1,249}"
logger = logging.getLogger("nightdesk.kafka")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where it is, and who we are there."""

    brokers: tuple[str, ...]
    security: str = "tls"
    mechanism: str = MECHANISMS[0]
    username: str = ""
    password: str = ""

    def settings(self, **more: Any) -> dict[str, Any]:
        """Raises Forbidden, Unreachable for a broker that may not be called."""
        refuse_closed(self.brokers)
        told: dict[str, Any] = {
            "bootstrap.servers": ",".join(self.brokers),
            "security.protocol": PROTOCOLS[self.security],
            "client.id": "nightdesk",
            "reconnect.backoff.max.ms": 5000,
            "logger": logger,
        }
        if self.security.startswith("sasl"):
            told |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password,
            }
        return {**told, **more}


def guard() -> Guard:
    return Guard(AllowList(settings.EGRESS_ALLOW), system_resolver, PORTS.__contains__, "Kafka")


def refuse_closed(brokers: Iterable[str]) -> None:
    """Raises Forbidden, Unreachable, ValueError for a broker that may not be called."""
    for broker in brokers:
        host, port = split(broker)
        guard().addresses(host, port)


def split(broker: str) -> tuple[str, int]:
    """Raises ValueError for what is no `host:port`."""
    found = BROKER.fullmatch(broker)
    if found is None or not 0 < int(found[2]) < 65536:
        raise ValueError(f"`{broker}` is not written host:9092")
    return found[1], int(found[2])


def met(client: Any, wait: float = PATIENCE, *, topic: str = "") -> Mapping[str, Any]:
    """The topics of the cluster (or the one that is named), once it has said who it is.

    Raises Forbidden for a cluster with a broker that may not be called, Unreachable when nobody answers."""
    try:
        told = client.list_topics(*filter(None, [topic]), timeout=wait)
    except confluent_kafka.KafkaException as error:
        raise Unreachable(words(error)) from None
    refuse_closed(f"{one.host}:{one.port}" for one in told.brokers.values())
    topics: Mapping[str, Any] = told.topics
    return topics


def words(error: "confluent_kafka.KafkaException | confluent_kafka.KafkaError") -> str:
    """What went wrong, in one line."""
    told = error.args[0] if isinstance(error, confluent_kafka.KafkaException) else error
    text = told.str() if isinstance(told, confluent_kafka.KafkaError) else str(told)
    return " ".join(text.removeprefix("Local: ").split())
