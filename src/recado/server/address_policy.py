"""Where data may be sent: whoever writes a session description chooses an address, and it need not be the writer's own.

A service on loopback sends to loopback alone, and one on a network never there; special addresses are refused always,
and private ones by a service that is not itself in a private network. Beyond that the address has to answer before it
gets more than pings (``sip_consumer``), so that nobody can aim the service at a third party.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

from recado.net import Address


def may_send(to: Address, own: Address) -> bool:
    """``own`` is the service's RUDP socket, which is no place for data either: it would talk to itself."""
    there, here = ip_address(to[0]), ip_address(own[0])
    if to == own or there.version != here.version or _is_special(there):
        return False
    if here.is_loopback or there.is_loopback:
        return here.is_loopback and there.is_loopback
    return here.is_private or not there.is_private


def _is_special(host: IPv4Address | IPv6Address) -> bool:
    return host.is_unspecified or host.is_multicast or host.is_reserved or host.is_link_local
