"""`notify.send`: a message to our own people, by the addresses (Apprise URLs) of a `notify` connection.

It is told at least once: where a service says no or nothing, it is tried again, because a message to ourselves that
comes twice does less harm than one that never comes. The addresses are the operator's own and may be on the inside.
"""

import logging
from typing import TYPE_CHECKING, Any

from django.conf import settings
from pydantic import Field

from approvals.errors import NotSent, Refused
from approvals.kinds import Arguments, Far, Kind, Result, facts, register
from approvals.tiers import Tier
from project.lib.deferred import deferred
from project.lib.language import spoken

if TYPE_CHECKING:
    import apprise
else:
    apprise = deferred("apprise")

SEVERITIES = {"info": "info", "warning": "warning", "error": "failure", "critical": "failure", "success": "success"}

logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its lines quote the addresses, which hold passwords


class Message(Arguments):
    """`channel` is the name of one entry of the connection's `channels`; empty means all addresses."""

    title: str = Field(default="", max_length=200)
    text: str = Field(min_length=1, max_length=20_000)
    severity: str = Field(default="info", pattern="^(info|warning|error|critical|success)$")
    channel: str = Field(default="", max_length=64, pattern=r"^[^:/]*$")


def addresses(far: Far, channel: str) -> list[str]:
    """The Apprise URLs of a channel, or all. The built-in connection reads NOTIFY_URLS. Raises Refused."""
    if far.config.get("from") == "NOTIFY_URLS":
        urls = list(settings.NOTIFY_URLS)
        channels: dict[str, Any] = {}
    else:
        urls = list(far.secrets.get("urls") or [])
        channels = far.secrets.get("channels") or {}
    if channel:
        if channel not in channels:
            raise Refused(f"the connection {far.slug} has no channel {channel!r}")
        urls = list(channels[channel])
    if not urls:
        raise Refused(f"the connection {far.slug} has no address to send to")
    return urls


def deliver(far: Far, message: Message, key: str) -> Result:
    told = 0
    services = apprise.Apprise()
    urls = addresses(far, message.channel)
    for url in urls:
        if not services.add(url):
            raise Refused(f"the connection {far.slug} holds an address that no notification service understands")
    for service in services:
        told += bool(service.notify(body=message.text, title=message.title, notify_type=SEVERITIES[message.severity]))
    if not told:
        raise NotSent(f"none of {len(urls)} notification services took the message")
    return {"told": told, "of": len(urls)}


NOTIFY_SEND = register(
    Kind(
        name="notify.send",
        system="notify",
        tier=Tier.LOW,
        safety="unsafe",
        arguments=Message,
        deliver=deliver,
        title=lambda message: f"Tell {message.channel or 'our people'}: {message.title or message.text}",
        preview=lambda message: facts([(message.title or spoken("Message"), message.text)]),
        pretend=lambda message, number: {"told": 1, "of": 1},
        blast_radius="our own people",
    )
)
