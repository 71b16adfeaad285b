"""A scheme that somebody describes: where the signature stands, over what, with which digest; saved as `config`."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from project.lib.faults import first_fault
from triggers.errors import NotValid
from triggers.sources.scheme import Scheme

HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # RFC 9110, a token
SIGNED = re.compile(r"body|h:(?P<header>.+)|sig\.(?P<pair>[a-z0-9]+)|secret")
TOLD = re.compile(r"\{(?:h:(?P<header>[^{}]+)|json:(?P<json>[^{}]+)|sig\.(?P<pair>[a-z0-9]+))\}")
DIGESTS = {"hmac-sha256": "sha256", "hmac-sha1": "sha1", "hmac-sha512": "sha512", "sha256": "sha256"}
BRACES = re.compile(r"\{([^{}]*)\}")


class CustomScheme(BaseModel):
    """How a `custom` source proves itself.

    `template` says what is signed, in `{body}`, `{h:Header}`, `{sig.t}` (a part of the signature header, when that
    holds `t=…,v1=…`: `prefix` then names the part that is the signature) and, for a plain hash, `{secret}`.
    `timestamp`, `delivery_id`, `event_type` and `actor` (who did it) are one such place each; `delivery_id` and
    `event_type` may be `{json:a.b}`, and `actor` is."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    header: str
    algorithm: Literal["hmac-sha256", "hmac-sha1", "hmac-sha512", "sha256", "token"] = "hmac-sha256"
    encoding: Literal["hex", "base64"] = "hex"
    prefix: str = Field(default="", max_length=50)
    template: str = Field(default="{body}", max_length=500)
    tolerance: int | None = Field(default=None, ge=1, le=7 * 86400)  # seconds
    timestamp: str = Field(default="", max_length=120)
    delivery_id: str = Field(default="", max_length=120)
    event_type: str = Field(default="", max_length=120)
    actor: str = Field(default="", max_length=120)

    @field_validator("header")
    @classmethod
    def header_is_a_name(cls, value: str) -> str:
        if not HEADER.fullmatch(value):
            raise ValueError("the name of a header, such as X-Signature")
        return value

    @field_validator("prefix")
    @classmethod
    def prefix_is_plain(cls, value: str) -> str:
        if not (value.isascii() and value.isprintable()):
            raise ValueError("a prefix is plain ASCII, such as sha256=")
        return value

    @field_validator("template")
    @classmethod
    def template_can_be_filled_in(cls, value: str) -> str:
        for name in BRACES.findall(value):
            found = SIGNED.fullmatch(name)
            if not found or (found["header"] and not HEADER.fullmatch(found["header"])):
                raise ValueError(f"`{{{name}}}` is unknown; there are {{body}}, {{h:Header}}, {{sig.t}}, {{secret}}")
        if BRACES.sub("", value).count("{") or BRACES.sub("", value).count("}"):
            raise ValueError("a brace is open or closed alone")
        return value

    @field_validator("timestamp", "delivery_id", "event_type")
    @classmethod
    def place_can_be_read(cls, value: str) -> str:
        found = TOLD.fullmatch(value) if value else None
        if value and (not found or (found["header"] and not HEADER.fullmatch(found["header"]))):
            raise ValueError("one place such as {h:X-Delivery-Id} or {json:event.id}")
        return value

    @field_validator("actor")
    @classmethod
    def actor_stands_in_the_body(cls, value: str) -> str:
        found = TOLD.fullmatch(value) if value else None
        if value and not (found and found["json"]):
            raise ValueError("who did it stands in the body: {json:user.login}")
        return value

    @model_validator(mode="after")
    def holds_together(self) -> Self:
        for wrong, said in self.token_faults() if self.algorithm == "token" else self.digest_faults():
            if wrong:
                raise ValueError(said)
        return self

    def token_faults(self) -> list[tuple[bool, str]]:
        timed = self.tolerance is not None or bool(self.timestamp)
        return [(timed, "tolerance: a token signs nothing, so no time in the delivery can be believed")]

    def digest_faults(self) -> list[tuple[bool, str]]:
        """What would make the scheme unreadable, or worth nothing; each sentence begins with its field."""
        keyed = ("{secret}" in self.template) == (self.algorithm == "sha256")
        paired = (self.tolerance is None) == (not self.timestamp)
        named = re.fullmatch(r"[a-z0-9]+=", self.prefix)
        return [
            ("{body}" not in self.template, "template: it does not hold {body}: anybody could change what is sent"),
            (not keyed, "template: {secret} stands in that of sha256 and in no other: an HMAC keys it by itself"),
            (
                not paired,
                "timestamp: it goes with the tolerance: where the time stands, and how old it may be",
            ),
            (self.timestamp.startswith("{json:"), "timestamp: it is read before the body is: {h:Header} or {sig.t}"),
            (self.timestamp not in self.template, "timestamp: the template does not hold it, so it proves nothing"),
            (self.in_pairs and not named, "prefix: with {sig.…} it names the signature's own part, such as v1="),
            (self.delivery_id.startswith("{sig."), "delivery_id: an id stands in a header or in the body"),
            (self.event_type.startswith("{sig."), "event_type: a type stands in a header or in the body"),
        ]

    @property
    def in_pairs(self) -> bool:
        return "{sig." in self.template

    def as_scheme(self) -> dict[str, Any]:
        """The same in the words of the catalogue, for the one verifier."""
        if self.algorithm == "token":
            scheme: dict[str, Any] = {"scheme": "token", "signature": {"header": self.header, "prefix": self.prefix}}
        else:
            where = {"header": self.header, "encoding": self.encoding}
            where |= {"pair": self.prefix[:-1]} if self.in_pairs else {"prefix": self.prefix}
            kind = "hash" if self.algorithm == "sha256" else "hmac"
            scheme = {"scheme": kind, "digest": DIGESTS[self.algorithm], "signed": self.template, "signature": where}
        if self.timestamp:
            scheme["timestamp"] = {**place(self.timestamp), "tolerance": self.tolerance, "unit": "any"}
        for name in ("delivery_id", "event_type"):
            if text := getattr(self, name):
                scheme[name] = place(text)
        return scheme | ({"actor": place(self.actor)["json"]} if self.actor else {})


def place(text: str) -> dict[str, str]:
    """`{h:X-Id}` as `{"header": "X-Id"}`, `{json:a.b}` as `{"json": "a.b"}`, `{sig.t}` as `{"pair": "t"}`."""
    found = TOLD.fullmatch(text)
    assert found is not None
    return {name: value for name, value in found.groupdict().items() if value}


def parse_custom(config: Mapping[str, Any]) -> CustomScheme:
    """Raises NotValid, naming the field, when the scheme makes no sense or proves nothing."""
    try:
        return CustomScheme.model_validate(dict(config))
    except ValidationError as error:
        field, said = first_fault(error)
        if not field:  # said of the whole, the sentence itself begins with the field
            field, _, said = said.partition(": ")
        raise NotValid(f"{field}: {said}", field=field) from error


def custom_scheme(config: Mapping[str, Any]) -> Scheme:
    """The scheme of a saved config; worked out once, since the door asks for each delivery."""
    return kept_scheme(tuple(sorted(config.items())))


@lru_cache(maxsize=1000)
def kept_scheme(items: tuple[tuple[str, Any], ...]) -> Scheme:
    return Scheme(parse_custom(dict(items)).as_scheme())
