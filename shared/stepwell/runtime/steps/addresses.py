"""Which addresses an HTTP step may connect to: public ones, and loopback for this machine's own names.

A name is looked up once, all its addresses are checked, and the connection goes to one of those: a name that resolves
differently a moment later gains nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from stepwell.definition.targets import Target
from stepwell.runtime.steps.failures import CallError

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]

MOST_ADDRESSES = 8  # addresses to try per name
# Networks that carry IPv4 inside IPv6 may lead anywhere; NAT64 alone is decoded, for networks without IPv4.
_CARRIERS = [ip_network(text) for text in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "2002::/16", "2001::/32")]
_NAT64 = IPv6Network("64:ff9b::/96")
_OTHERS = [ip_network(text) for text in ("192.88.99.0/24", "64:ff9b:1::/48", "fec0::/10", "100::/64")]


def resolve(host: str, port: int) -> Sequence[str]:
    """Returns the name's addresses, in the system's order. Raises OSError."""
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def checked_addresses(target: Target, look_up: Resolve) -> Sequence[str]:
    """Returns the target's addresses. Raises CallError if there is none, or any of them is refused."""
    try:
        addresses = look_up(target.host, target.port)
    except (OSError, UnicodeError) as error:
        raise CallError("http_connection", "transient", f"{target.host} was not found: {error}") from error
    if not addresses:
        raise CallError("http_connection", "transient", f"{target.host} has no address")
    allowed = _is_loopback if target.is_loopback else is_public
    for address in addresses:
        if not allowed(address):
            message = f"{target.host} is at {address}, which is not a public address; nothing was sent"
            raise CallError("http_address", "step", message, {"host": target.host, "address": address})
    return addresses[:MOST_ADDRESSES]


def is_public(text: str) -> bool:
    """Tells whether the address is public: not this machine, its network, or a cloud's own services."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address in _NAT64:
        address = IPv4Address(int(address) & 0xFFFF_FFFF)
    if any(address in network for network in (*_CARRIERS, *_OTHERS) if network.version == address.version):
        return False
    refused = (address.is_multicast, address.is_reserved, address.is_loopback, address.is_link_local,
               address.is_private, address.is_unspecified)  # fmt: skip
    return address.is_global and not any(refused)


def _is_loopback(text: str) -> bool:
    try:
        return ip_address(text).is_loopback
    except ValueError:
        return False
