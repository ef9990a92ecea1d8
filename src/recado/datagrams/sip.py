"""SIP on real sockets: one endpoint drives a pure user agent, or the pure proxy, over UDP and TCP.

``open_endpoint`` binds a UDP socket (and, if asked, a TCP listener on the same port), makes the core for the address
that came of it, and from then on carries bytes to it, its effects to the network and its events to ``on_event``::

    endpoint = await open_endpoint(lambda local: UserAgent(settings, local), Address("udp", "127.0.0.1", 0), on_event)
    endpoint.do(endpoint.core.register)
    call = endpoint.do(endpoint.core.invite, "sip:broker@lac.example", media)
    await endpoint.rebind("127.0.0.3")        # the device has moved: new sockets, and the core is told
    await endpoint.close()

``do`` adds the clock and chance to a call and carries out what comes of it. Events are told one after the other; what
they lead to may be asked for inside of ``on_event``. A core whose socket is bound to every address (0.0.0.0) has to be
told where it can be reached: ``lambda bound: UserAgent(settings, bound._replace(host="10.0.0.1"))``.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from random import SystemRandom
from typing import Any, Generic, Protocol, TypeVar

from recado.datagrams.sip_names import Names
from recado.datagrams.sip_streams import StreamLimits, Streams
from recado.protocols.machine import Rng
from recado.protocols.sip.address import Address, is_numeric
from recado.protocols.sip.errors import SipError
from recado.protocols.sip.events import Effect, Event, Transmit

log = logging.getLogger("recado.sip")

_CHANCE = SystemRandom()
_TRIES = 16
_RECEIVE_BYTES = 1_048_576  # a burst waits in the socket while the process is busy, as far as the system lets it


class Core(Protocol):
    def receive(self, data: bytes, source: Address, now: float, rng: Rng) -> None: ...
    def tick(self, now: float, rng: Rng) -> None: ...
    def unreachable(self, address: Address, now: float, rng: Rng) -> None: ...
    def take(self) -> list[Effect]: ...
    def deadline(self) -> float | None: ...


C = TypeVar("C", bound=Core)
OnEvent = Callable[[Event], None]


class Endpoint(Generic[C]):
    def __init__(self, on_event: OnEvent | None, limits: StreamLimits, rng: Rng, *, tcp: bool) -> None:
        self.core: C
        self.local: Address
        self._on_event, self._rng = on_event, rng
        self._datagrams: asyncio.DatagramTransport | None = None
        self._streams = Streams(limits, self._received, self._unreachable)
        self._tcp = tcp
        self._names = Names()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    # -- for the application

    def do(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call a method of the core, such as ``core.invite``, with the clock and chance added."""
        result = method(*arguments, time.monotonic(), self._rng, **named)
        self._carry_out()
        return result

    async def rebind(self, host: str, port: int | None = None) -> Address:
        """Be at another address from now on; what comes to the old one is lost. The core is told by ``moved``.

        The port stays the same if it is free there. Raises OSError if the address cannot be used; then nothing changes.
        """
        old_datagrams, old_listener = self._datagrams, self._streams.listener
        try:
            await self.bind(self.local._replace(host=host, port=self.local.port if port is None else port))
        except OSError:
            if port is not None:
                raise
            await self.bind(self.local._replace(host=host, port=0))
        if old_datagrams is not None:
            old_datagrams.close()
        if old_listener is not None:
            old_listener.close()
        self._streams.cut()
        moved = getattr(self.core, "moved", None)
        if moved is not None:
            self.do(moved, self.local)
        return self.local

    async def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._datagrams is not None:
            self._datagrams.close()
        await self._streams.close()
        await self._names.close()
        await asyncio.sleep(0)  # a transport closes its socket in the next turn of the loop

    # -- sockets

    async def bind(self, wanted: Address) -> None:
        """UDP always, and TCP at the same port if it is wanted; port 0 means any that is free for both."""
        loop = asyncio.get_running_loop()
        for attempt in range(_TRIES):
            datagrams, _ = await loop.create_datagram_endpoint(
                lambda: _Datagrams(self._received), local_addr=(wanted.host, wanted.port)
            )
            port = datagrams.get_extra_info("sockname")[1]
            try:
                if self._tcp:
                    await self._streams.listen(wanted.host, port)
            except OSError:
                datagrams.close()
                if wanted.port or attempt == _TRIES - 1:
                    raise
                continue
            datagrams.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
            self._datagrams, self.local = datagrams, wanted._replace(port=port)
            self._names.family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
            return

    # -- between the core and the network

    def _received(self, data: bytes, source: Address) -> None:
        if not self._closed:
            self.do(self.core.receive, data, source)

    def _unreachable(self, address: Address) -> None:
        if not self._closed:
            self.do(self.core.unreachable, address)

    def _tick(self) -> None:
        self.do(self.core.tick)

    def _carry_out(self) -> None:
        for effect in self.core.take():
            if isinstance(effect, Transmit):
                self._transmit(effect.data, effect.to)
            elif self._on_event is not None:
                self._tell(self._on_event, effect.fact)
        self._set_timer()

    def _tell(self, on_event: OnEvent, fact: Event) -> None:
        """A fault of the application may not keep back what has to be sent."""
        try:
            on_event(fact)
        except Exception as error:  # noqa: BLE001 - it is told to whoever watches the loop
            what = {"message": f"the application failed on {type(fact).__name__}", "exception": error}
            asyncio.get_running_loop().call_exception_handler(what)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self.core.deadline()
        if deadline is not None and not self._closed:
            wait = max(0.0, deadline - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait, self._tick)

    def _transmit(self, data: bytes, to: Address) -> None:
        if self._closed:
            return
        if not is_numeric(to.host):
            self._names.resolve(to, lambda found: self._resolved(data, to, found))
        elif to.transport == "udp":
            self._send_datagram(data, to)
        else:
            self._streams.send(data, to, self.local.host)

    def _resolved(self, data: bytes, to: Address, found: Address | None) -> None:
        if found is None:
            self._unreachable(to)
        else:
            self._transmit(data, found)

    def _send_datagram(self, data: bytes, to: Address) -> None:
        """An error of the network is a loss like others: the timers of the protocol deal with it."""
        if self._datagrams is not None and not self._datagrams.is_closing():
            with suppress(OSError, ValueError):
                self._datagrams.sendto(data, (to.host, to.port))


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, received: Callable[[bytes, Address], None]) -> None:
        self._received = received

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        self._received(data, Address("udp", addr[0], addr[1]))

    def error_received(self, exc: Exception) -> None:
        log.debug("a datagram was not delivered: %s", exc)


async def open_endpoint(
    make: Callable[[Address], C],
    local: Address,
    on_event: OnEvent | None = None,
    *,
    tcp: bool = False,
    limits: StreamLimits | None = None,
    rng: Rng = _CHANCE,
) -> Endpoint[C]:
    """Bind ``local`` (port 0: any) and run the core that ``make`` makes for it."""
    if not is_numeric(local.host):
        raise SipError(f"an endpoint listens on a numeric address, not on {local.host!r}")
    endpoint: Endpoint[C] = Endpoint(on_event, limits or StreamLimits(), rng, tcp=tcp or local.reliable)
    await endpoint.bind(local)
    endpoint.core = make(endpoint.local)
    return endpoint
