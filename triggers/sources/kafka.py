"""Topics of Kafka as a source: which are read, as which group, and where a new group begins."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from project.lib import kafka
from project.lib.egress import EgressError
from triggers.errors import NotValid
from triggers.sources.farside import FarSide, parse


class TopicSource(FarSide):
    """The `config` of a source of kind `kafka`; the password is its secret."""

    brokers: list[str] = Field(title="Brokers", description="One a line: host:9092.", min_length=1, max_length=50)
    topics: list[str] = Field(title="Topics", description="One a line.", min_length=1, max_length=100)
    group: str = Field(
        "nightdesk",
        title="Consumer group",
        description="Desks that share a group share the records.",
        min_length=1,
        max_length=200,
    )
    offset_reset: Literal["latest", "earliest"] = Field(
        "latest", title="A new group begins at", description="latest: what comes from now on. earliest: all there is."
    )
    security: kafka.Security = Field("tls", title="Encryption", description="sasl_…: with user name and password.")
    mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] = Field("SCRAM-SHA-512", title="Sign-in")
    username: str = Field("", title="User name", description="The password is the secret.", max_length=300)

    @field_validator("brokers")
    @classmethod
    def brokers_are_addresses(cls, value: list[str]) -> list[str]:
        for broker in value:
            kafka.split(broker)
        return list(dict.fromkeys(value))

    @field_validator("topics")
    @classmethod
    def topics_have_names(cls, value: list[str]) -> list[str]:
        if not all(re.fullmatch(kafka.TOPIC, name) for name in value):
            raise ValueError("a topic has up to 249 letters, digits, dots, - and _")
        return list(dict.fromkeys(value))

    def cluster(self, password: str) -> kafka.Cluster:
        return kafka.Cluster(tuple(self.brokers), self.security, self.mechanism, self.username, password)


def parse_topics(config: Mapping[str, Any]) -> TopicSource:
    """Raises NotValid."""
    return parse(TopicSource, config)


def checked_topics(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config as it is saved: readable, and its brokers may be called. Raises NotValid."""
    topics = parse_topics(config)
    try:
        kafka.refuse_closed(topics.brokers)
    except EgressError as error:
        raise NotValid(f"brokers: {error}", field="brokers") from error
    return topics.model_dump(mode="json", exclude_defaults=True)
