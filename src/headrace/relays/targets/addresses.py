"""Addresses of webhook receivers: a name is resolved by us, checked, and the connection goes to that very address.

Promises: no request reaches a private, loopback or link-local address unless the operator of the node allows its network, whatever the
definition of the relay says, whatever a name resolves to, and whatever it resolves to a moment later."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from headrace.core import DeliveryError, Invalid

Address: TypeAlias = IPv4Address | IPv6Address
NETWORKS_VARIABLE: Final = "HEADRACE_RELAY_NETWORKS"
RESOLVE_S: Final = 30.0
"""How long an answer of the resolver is used."""
# All that is assigned to networks of the internet. Elsewhere are addresses for sites, overlay networks and translators.
_INTERNET: Final = IPv6Network("2000::/3")
# Addresses that carry an IPv4 address inside: a gateway would translate them. And examples.
_NOT_PUBLIC: Final = (IPv6Network("2002::/16"), IPv6Network("2001::/32"), IPv6Network("3fff::/20"))
_ISATAP: Final = (0x00005EFE, 0x02005EFE)
"""Before the IPv4 address in the lower half of an address."""
_RELAYS_OF_6TO4: Final = IPv4Network("192.88.99.0/24")


def is_public(address: Address) -> bool:
    """True for an address that anybody on the internet may reach."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        is_isatap = int(address) >> 32 & 0xFFFFFFFF in _ISATAP
        if is_isatap or address not in _INTERNET or any(address in network for network in _NOT_PUBLIC):
            return False
    return address.is_global and not address.is_multicast and address not in _RELAYS_OF_6TO4


def allowed_networks(environ: Mapping[str, str] = os.environ) -> list[IPv4Network | IPv6Network]:
    """The private networks that the operator of this node allows. Raises Invalid for what is no network."""
    words = environ.get(NETWORKS_VARIABLE, "").replace(",", " ").split()
    try:
        return [ip_network(word) for word in words]
    except ValueError as error:
        raise Invalid(f"{NETWORKS_VARIABLE}: {error}; write networks such as 10.1.0.0/16, separated by spaces") from None


def is_allowed(address: Address) -> bool:
    """True for a public address, and for one in a network that the operator allows."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return is_public(address) or any(address in network for network in allowed_networks())


def literal_address(host: str) -> Address | None:
    """The address that a host is by itself, None for a name. In every form that a resolver takes: 127.1, 0x7f000001, 2130706433."""
    try:
        return ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


@dataclass
class Resolver:
    """The address of one host."""

    host: str
    port: int
    _address: Address | None = field(default=None, init=False)
    _resolved_at: float = field(default=0.0, init=False)

    async def address(self) -> Address:
        """The address to connect to. Raises DeliveryError if there is none, or only such as are not allowed."""
        if self._address is None or time.monotonic() - self._resolved_at > RESOLVE_S:
            self._address = await self._resolve()
            self._resolved_at = time.monotonic()
        return self._address

    async def _resolve(self) -> Address:
        literal = literal_address(self.host)
        addresses = [literal] if literal is not None else await self._look_up()
        for address in addresses:
            if is_allowed(address):
                return address
        raise DeliveryError(
            f"{self.host} has only private addresses ({', '.join(map(str, addresses))}), which are refused; "
            f"the operator of the node allows a network by {NETWORKS_VARIABLE}"
        )

    async def _look_up(self) -> list[Address]:
        try:
            rows = await asyncio.get_running_loop().getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise DeliveryError(f"{self.host} cannot be resolved: {error}") from None
        return [ip_address(str(row[4][0]).partition("%")[0]) for row in rows]
