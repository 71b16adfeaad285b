"""How the deliveries of one provider come and prove themselves, as the catalogue says it or a source describes it.

What follows from the words is worked out once: the door asks at every delivery. Pure."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from triggers.sources.places import QUERY, Place, at, place_of

SEALED = ("feishu", "wechat", "sns")  # schemes that cover the whole body in their own way
CREDENTIALS = frozenset(
    {
        "authorization",
        "cookie",
        "proxy-authorization",
        "x-gitlab-token",
        "x-api-key",
        "x-telegram-bot-api-secret-token",
        QUERY,
    }
)


class Scheme(dict[str, Any]):
    """An entry of `providers.json`, with what the source says itself; what it may hold stands in docs/sources.md."""

    @cached_property
    def number(self) -> Place:
        """The delivery's id."""
        return place_of(self.get("delivery_id"))

    @cached_property
    def repeats(self) -> Place:
        """What makes a delivery the same again, where its id alone does not: one id may stand for several events."""
        return place_of(self.get("repeats"))

    @cached_property
    def kind_of_event(self) -> Place:
        return place_of(self.get("event_type"))

    @cached_property
    def same(self) -> Place:
        """What two deliveries of the same thing have in common, whatever their ids."""
        return place_of(self.get("same"))

    @cached_property
    def ways(self) -> tuple["Scheme", ...]:
        """Each way in which a delivery may prove itself, as a scheme of its own."""
        return (self, *(Scheme(self | other | {"also": ()}) for other in self.get("also", ())))

    def takes(self, secret: str) -> bool:
        return takes(self, secret)

    @cached_property
    def bare_proofs(self) -> tuple[Mapping[str, str], ...]:
        """Where a proof stands that covers no body, a token or the signature of a time: who reads it could send
        anything with it."""
        return tuple(way["signature"] for way in self.ways if "signature" in way and not way.covers_body)

    @cached_property
    def credentials(self) -> frozenset[str]:
        """The headers in which a secret travels: the usual ones, and where this scheme has a bare proof."""
        own = {where[name].lower() for where in self.bare_proofs for name in ("header", "else") if name in where}
        return CREDENTIALS | own

    @cached_property
    def inside(self) -> tuple[Mapping[str, str], ...]:
        """Where in a body a credential stands: what is named, but in bodies that hold what it says `unless`, and a bare
        proof."""
        named = [{"json": told} if isinstance(told, str) else told for told in self.get("credentials", ())]
        return (*named, *(where for where in self.bare_proofs if "json" in where))

    def inside_of(self, data: Any) -> list[str]:
        """The paths at which a credential stands in this body."""
        return [one["json"] for one in self.inside if "unless" not in one or at(data, one["unless"]) is None]

    @cached_property
    def answers(self) -> bool:
        """Whether this provider wants to hear more than a status."""
        return not self.keys().isdisjoint(("handshakes", "replies", "reply"))

    @cached_property
    def covers_body(self) -> bool:
        """Whether what was sent is what was signed; a token proves who sends, not what."""
        return self["scheme"] in SEALED or signs_body(self)

    @cached_property
    def covers_id(self) -> bool:
        """Whether a delivery cannot come again under another id: the id is in what is signed."""
        if not all(other.covers_id for other in self.ways[1:]):
            return False
        return self.covers_body and all(header in self.get("signed", "").lower() for header in self.id_headers)

    @property
    def id_headers(self) -> list[str]:
        """The headers in which an id may stand, as the template of what is signed names them."""
        rules = self.get("delivery_id") or {}
        rules = rules if isinstance(rules, list) else [rules]
        return [f"{{h:{rule['header']}}}".lower() for rule in rules if "header" in rule]


def signs_body(scheme: Mapping[str, Any]) -> bool:
    """Of a signature in one place: whether the body is in what it is over."""
    signed = scheme.get("signed", "")
    return scheme["scheme"] != "token" and ("{body}" in signed or "{form}" in signed)


def takes(scheme: Mapping[str, Any], secret: str) -> bool:
    """Whether a secret of this form may prove a delivery in this way: what keys a signature is never shown as a token
    is (`not_with`), and a token keys nothing (`only`)."""
    key = scheme.get("key", {})
    if scheme["scheme"] == "token" and "not_with" in scheme and secret.startswith(scheme["not_with"]):
        return False
    return not key.get("only") or secret.startswith(key["prefix"])
