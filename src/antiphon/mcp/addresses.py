"""Addresses of hosts: a name is resolved once, checked, and the connection goes to the result.

A name that gives another address the next time (DNS rebinding) changes nothing: nothing asks again.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import httpcore2  # loaded with the first session

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host, in the order of attempts; raises `OSError`."""


class Network(NamedTuple):
    """How connections are made; the default is the network of this machine."""

    resolve: Resolve
    backend: httpcore2.AsyncNetworkBackend | None = None
    """Opens connections to addresses."""
    tls: ssl.SSLContext | None = None
    """Which certificates are accepted; by default those of public authorities."""


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_IPV4_BITS = 0xFFFF_FFFF


async def resolve_name(host: str, port: int) -> Sequence[str]:
    """Ask the resolver of the operating system."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [*dict.fromkeys(str(address[4][0]) for address in found)]


NETWORK = Network(resolve_name)


def is_internal(address: str) -> bool:
    """Whether an address is anything but one of the public internet: private, loopback,
    link-local, shared, reserved or multicast, also in the IPv6 forms that contain an IPv4 address.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return True
    if isinstance(parsed, ipaddress.IPv4Address):
        return _is_not_public(parsed)
    only = _find_destination(parsed)
    if only is not None:
        return _is_not_public(only)
    embedded = [parsed.sixtofour, *(parsed.teredo or ())]
    return any(_is_not_public(each) for each in (parsed, *embedded) if each is not None)


def _is_not_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return not address.is_global or address.is_multicast or address.is_reserved


def _find_destination(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address only stands for (mapped, or translated by NAT64)."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & _IPV4_BITS)
    return address.ipv4_mapped
