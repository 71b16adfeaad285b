"""How the deliveries of one provider come and prove themselves, as the catalogue says it or a source describes it.

What follows from the words is worked out once: the door asks at every delivery. Pure."""

from functools import cached_property
from typing import Any

from triggers.sources.places import QUERY, Place, place_of

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
    def credentials(self) -> frozenset[str]:
        """The headers in which a secret travels: the usual ones, and where this scheme has its token."""
        own = self["signature"].get("header", "").lower() if self["scheme"] == "token" else ""
        return CREDENTIALS | {own} if own else CREDENTIALS

    @cached_property
    def answers(self) -> bool:
        """Whether this provider wants to hear more than a status."""
        return not self.keys().isdisjoint(("handshakes", "replies", "reply"))

    @cached_property
    def covers_body(self) -> bool:
        """Whether what was sent is what was signed; a token proves who sends, not what."""
        if self["scheme"] in SEALED:
            return True
        signed = self.get("signed", "")
        return self["scheme"] != "token" and ("{body}" in signed or "{form}" in signed)

    @cached_property
    def covers_id(self) -> bool:
        """Whether a delivery cannot come again under another id: the id is in what is signed."""
        others = (Scheme(self | other | {"also": ()}) for other in self.get("also", ()))
        if not all(other.covers_id for other in others):
            return False
        return self.covers_body and all(header in self.get("signed", "").lower() for header in self.id_headers)

    @cached_property
    def signs_id(self) -> bool:
        """Whether the id stands in a header that is signed: it cannot be taken away, and one body may have many."""
        return bool(self.id_headers) and self.covers_id

    @cached_property
    def id_may_go(self) -> bool:
        """Whether somebody who saw a delivery can send it again without its id."""
        return "delivery_id" in self and self.covers_body and not self.signs_id

    @cached_property
    def signs_form(self) -> bool:
        """Whether the fields of a form are signed, in whatever order they stand, and not its bytes."""
        return "{form}" in self.get("signed", "")

    @property
    def id_headers(self) -> list[str]:
        """The headers in which an id may stand, as the template of what is signed names them."""
        rules = self.get("delivery_id") or {}
        rules = rules if isinstance(rules, list) else [rules]
        return [f"{{h:{rule['header']}}}".lower() for rule in rules if "header" in rule]
