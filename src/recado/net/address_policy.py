"""Where a service may send: whoever writes a session description, or a Contact, chooses an address.

It need not be the writer's own.

A service on loopback sends to loopback alone, and one on a network never there; special addresses are refused always,
and those that are not public by a service whose own address is. IPv6 addresses count as the IPv4 address inside them,
too (mapped, 6to4, Teredo, NAT64). Data needs more: the address of a session description has to answer before it gets
more than pings (``sip_consumer``), so that nobody can aim the service at a third party.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias

IpAddress: TypeAlias = IPv4Address | IPv6Address
_NAT64 = ip_network("64:ff9b::/96")


def may_send(to: tuple[str, int], own: tuple[str, int]) -> bool:
    """``own`` is the service's socket, which is no place to send to either: it would talk to itself."""
    return to != own and may_reach(to[0], own[0])


def may_reach(host: str, own: str) -> bool:
    """May a service at ``own`` send to this host? Both are numeric."""
    there, here = ip_address(host), ip_address(own)
    if isinstance(there, IPv6Address) and there.ipv4_mapped is not None:
        there = there.ipv4_mapped
    within = _addresses_in(there)
    if there.version != here.version or _is_special(there) or any(map(_is_special, within)):
        return False
    if here.is_loopback or there.is_loopback:
        return here.is_loopback and there.is_loopback
    if any(one.is_loopback for one in within):
        return False
    return is_public(there) or not is_public(here)


def is_public(address: IpAddress) -> bool:
    """Is it a public unicast address, and any IPv4 address inside it as well?"""
    if not address.is_global or address.is_multicast or address.is_reserved or address.is_unspecified:
        return False
    if isinstance(address, IPv6Address) and address.is_site_local:
        return False  # the private addresses of old, which is_global takes for public
    return all(map(is_public, _addresses_in(address)))


def _addresses_in(address: IpAddress) -> list[IPv4Address]:
    """The IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]


def _is_special(host: IpAddress) -> bool:
    reserved = host.is_reserved and not host.is_loopback  # Python counts ::1 as reserved
    return host.is_unspecified or host.is_multicast or reserved or host.is_link_local
