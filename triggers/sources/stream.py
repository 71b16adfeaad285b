"""A Redis stream as a source: what is read, as which group, and how an entry becomes an event."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from project.lib.text import UNSTORABLE
from triggers.sources.farside import FarSide, address_of, parse, refuse_closed, split

PORT = 6379
PORTS = (PORT, 6380)
WRITTEN = "redis://host:6379/0, or rediss:// with TLS"


class StreamSource(FarSide):
    """The `config` of a source of kind `redis_stream`; the password is its secret."""

    url: str = Field(
        title="Address",
        description="redis://host:6379/0, rediss:// with TLS. The password is the secret.",
        max_length=500,
    )
    stream: str = Field(title="Stream", description="The key of the stream.", min_length=1, max_length=200)
    group: str = Field(
        "nightdesk",
        title="Consumer group",
        description="Made when it is not there. Desks that share a group share the entries.",
        min_length=1,
        max_length=200,
    )
    start: Literal["new", "all"] = Field(
        "new", title="A new group begins with", description="new: what comes from now on. all: what lies there too."
    )
    claim_after: int = Field(
        60,
        title="Take over after",
        description="Seconds after which an entry that somebody took and never acknowledged is taken over.",
        ge=1,
        le=86400,
    )
    type_field: str = Field(
        "type", title="Field with the type", description="Its text follows the source's name.", max_length=200
    )
    data_field: str = Field(
        "", title="Field with the data", description="Read as JSON. Empty: all fields are the data.", max_length=200
    )

    @field_validator("url")
    @classmethod
    def url_is_of_redis(cls, value: str) -> str:
        parts = address_of(value, ("redis", "rediss"), WRITTEN)
        if not parts.hostname:
            raise ValueError(f"it is written {WRITTEN}")
        if not (parts.path.strip("/") or "0").isdecimal() or parts.query or parts.fragment:
            raise ValueError("behind the host stands nothing but the number of the database, such as /0")
        return value

    @field_validator("stream", "group")
    @classmethod
    def can_be_kept(cls, value: str) -> str:
        if UNSTORABLE.search(value):
            raise ValueError("it holds a character that cannot be stored")
        return value

    @property
    def host(self) -> str:
        return split(self.url).hostname or ""

    @property
    def port(self) -> int:
        return split(self.url).port or PORT

    @property
    def database(self) -> int:
        return int(split(self.url).path.strip("/") or 0)

    @property
    def place(self) -> str:
        """Which database of which server it is, whoever reads it."""
        return f"{self.host}:{self.port}/{self.database}"

    @property
    def username(self) -> str | None:
        return split(self.url).username

    @property
    def is_encrypted(self) -> bool:
        return self.url.startswith("rediss:")


def parse_stream(config: Mapping[str, Any]) -> StreamSource:
    """Raises NotValid."""
    return parse(StreamSource, config)


def checked_stream(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config as it is saved: readable, and its address may be called. Raises NotValid."""
    stream = parse_stream(config)
    refuse_closed("url", stream.host, stream.port, PORTS, "Redis")
    return stream.model_dump(mode="json", exclude_defaults=True)
