"""The embedded registrar and proxy: agents and the broker find each other without other software.

It is ``recado.protocols.sip.proxy.Proxy`` on real sockets, UDP and TCP at one port. A server such as Kamailio does
more; for one machine or one network this one suffices.
"""

from __future__ import annotations

import secrets

from recado.datagrams.sip import Endpoint, open_endpoint
from recado.datagrams.sip_streams import StreamLimits
from recado.protocols.sip.address import Address
from recado.protocols.sip.digest import Guard
from recado.protocols.sip.limits import LIMITS, SipLimits
from recado.protocols.sip.location import Location
from recado.protocols.sip.proxy import Proxy


async def open_registrar(
    local: Address,
    domains: tuple[str, ...],
    *,
    guard: Guard | None = None,
    least_expires: int = 5,
    limits: SipLimits = LIMITS,
    streams: StreamLimits | None = None,
) -> Endpoint[Proxy]:
    """Listen on ``local`` for the users of these domains; with a guard they have to prove who they are."""

    def make(bound: Address) -> Proxy:
        location = Location(limits, least=least_expires)
        return Proxy(bound, domains, secrets.token_bytes(32), guard=guard, location=location, limits=limits)

    return await open_endpoint(make, local, tcp=True, limits=streams)
