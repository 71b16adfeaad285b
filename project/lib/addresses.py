"""Which network addresses belong to the public internet; pure.

`ipaddress` alone is not enough: on Python 3.11 `is_private` is False for 100.100.100.200, and `is_global` is True for
`::ffff:100.100.100.200`, `64:ff9b::a9fe:a9fe`, `2002:7f00:1::`, `224.0.0.1` and `fec0::1`.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

IPAddress = IPv4Address | IPv6Address
IPNetwork = IPv4Network | IPv6Network

GLOBAL_UNICAST = IPv6Network("2000::/3")
NAT64 = IPv6Network("64:ff9b::/96")
NEVER: tuple[IPNetwork, ...] = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and the metadata service of one cloud
        "192.0.0.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "240.0.0.0/4",
        "2001::/32",  # Teredo: the address inside is somebody's home network
        "2001:db8::/32",
        "3fff::/20",
    )
)
WEB_PORTS = (80, 443)
OTHER_TRADES = frozenset(  # ports above 1023 where something other than a web server usually listens
    {1433, 1521, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 5432, 5672, 5900, 6000, 6379, 6380, 6667}
    | {9042, 9092, 9200, 9300, 11211, 26379, 27017}
)


def read_address(text: str) -> IPAddress:
    """An address as `getaddrinfo` returns it, perhaps with a zone (`fe80::1%eth0`)."""
    return ip_address(text.partition("%")[0])


def is_public(address: IPAddress) -> bool:
    """True only for unicast addresses of the public internet; an address inside an address counts as itself."""
    inner = embedded(address)
    if inner is not None:
        return is_public(inner)
    if isinstance(address, IPv6Address) and (address not in GLOBAL_UNICAST or address.is_site_local):
        return False
    if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        return False
    if address.is_private or address.is_reserved or not address.is_global:
        return False
    return not any(address in network for network in NEVER if network.version == address.version)


def embedded(address: IPAddress) -> IPv4Address | None:
    """The IPv4 address that a mapped, translated (NAT64) or tunnelled (6to4) IPv6 address leads to."""
    if not isinstance(address, IPv6Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour


def port_is_usual(port: int) -> bool:
    return port in WEB_PORTS or (port > 1023 and port not in OTHER_TRADES)


class AllowList:
    """Entries `host`, `host:port`, `address`, `[v6]:port` or CIDR that may be called although they are private."""

    def __init__(self, entries: Iterable[str]) -> None:
        self.networks: list[IPNetwork] = []
        self.hosts: set[tuple[str, int | None]] = set()
        for entry in (text.strip().lower() for text in entries):
            if entry:
                self._take(entry)

    def _take(self, entry: str) -> None:
        try:
            self.networks.append(ip_network(entry, strict=False))
        except ValueError:
            host, colon, port = entry.rpartition(":")
            if colon and port.isascii() and port.isdigit():
                self.hosts.add((host.strip("[]"), int(port)))
            else:
                self.hosts.add((entry.strip("[]"), None))

    def names(self, host: str, port: int) -> bool:
        """Is this very port of the host opened by name?"""
        return (host.lower().rstrip("."), port) in self.hosts

    def permits(self, host: str, port: int, address: IPAddress) -> bool:
        name = host.lower().rstrip(".").strip("[]")
        if (name, None) in self.hosts or (name, port) in self.hosts:
            return True
        reached: IPAddress = embedded(address) or address
        return any(reached in network for network in self.networks if network.version == reached.version)
