"""Where a service may send: whoever writes a session description, or a Contact, chooses an address.

It need not be the writer's own.

A service on loopback sends to loopback alone, and one on a network never there; special addresses are refused always,
and private ones by a service that is not itself in a private network. Data needs more: the address of a session
description has to answer before it gets more than pings (``sip_consumer``), so that nobody can aim the service at a
third party.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address


def may_send(to: tuple[str, int], own: tuple[str, int]) -> bool:
    """``own`` is the service's socket, which is no place to send to either: it would talk to itself."""
    return to != own and may_reach(to[0], own[0])


def may_reach(host: str, own: str) -> bool:
    """May a service at ``own`` send to this host? Both are numeric."""
    there, here = ip_address(host), ip_address(own)
    if isinstance(there, IPv6Address) and there.ipv4_mapped is not None:
        there = there.ipv4_mapped
    if there.version != here.version or _is_special(there):
        return False
    if here.is_loopback or there.is_loopback:
        return here.is_loopback and there.is_loopback
    return here.is_private or not there.is_private


def _is_special(host: IPv4Address | IPv6Address) -> bool:
    return host.is_unspecified or host.is_multicast or host.is_reserved or host.is_link_local
