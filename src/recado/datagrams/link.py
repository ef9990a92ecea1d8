"""One RUDP connection on an endpoint: outputs of the pure connection become datagrams and call-backs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from recado.datagrams.sockets import Address, check_address
from recado.protocols.rudp import (
    Acknowledged,
    Counters,
    Delivered,
    Failed,
    QueueFull,
    RudpConnection,
    Transmit,
    Unreachable,
)
from recado.protocols.rudp.outputs import show
from recado.protocols.rudp.packet import Packet

OnDone: TypeAlias = Callable[[Unreachable | None], None]


class Host(Protocol):
    """What a link needs of its endpoint."""

    def now(self) -> float: ...
    def transmit(self, datagram: bytes, address: Address) -> None: ...
    def arm(self, link: RudpLink) -> None: ...
    def forget(self, link: RudpLink) -> None: ...


class RudpLink:
    def __init__(
        self,
        host: Host,
        connection: RudpConnection,
        on_message: Callable[[bytes], None],
        on_failed: Callable[[Unreachable], None],
    ) -> None:
        self._host, self._connection = host, connection
        self._on_message, self._on_failed = on_message, on_failed
        self._waiting: dict[int, OnDone] = {}
        self._room = asyncio.Event()
        self.closed = False
        self.source: Address | None = None
        """Where the last packet of this connection came from; the peer may be elsewhere than it says."""
        self.on_source: Callable[[Address], None] = lambda source: None  # told when that changes
        self.armed_at: float | None = None
        """When the endpoint will look at this link's timer; it may look earlier than there is something to do."""

    # -- for those above

    def post(self, message: bytes, on_done: OnDone | None = None) -> None:
        self._check_open()
        handle = self._connection.send(message, self._host.now())
        self._after(handle, on_done)

    def post_ping(self, on_done: OnDone | None = None) -> None:
        self._check_open()
        self._after(self._connection.ping(self._host.now()), on_done)

    async def send(self, message: bytes) -> None:
        await self._settled(lambda done: self.post(message, done))

    async def ping(self) -> None:
        await self._settled(self.post_ping)

    def move(self, remote_address: Address) -> None:
        self._check_open()
        check_address(remote_address)
        self._connection.move(remote_address, self._host.now())
        self.flush()

    def resume(self) -> None:
        self.move(self.remote_address)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._host.forget(self)
        error = Unreachable(f"the connection to {show(self.remote_address)} was closed before this was acknowledged")
        waiting, self._waiting = self._waiting, {}
        for on_done in waiting.values():
            self._call(on_done, error)
        self._room.set()

    @property
    def connection_id(self) -> int:
        return self._connection.local_conn_id

    @property
    def failed(self) -> bool:
        return self._connection.failed

    @property
    def pending(self) -> int:
        return self._connection.pending

    @property
    def remote_address(self) -> Address:
        address: Address = self._connection.remote_address
        return address

    @property
    def rtt_seconds(self) -> float:
        return self._connection.rtt_seconds

    @property
    def counters(self) -> Counters:
        return self._connection.counters

    def inspect(self) -> dict[str, Any]:
        return self._connection.inspect()

    # -- for the endpoint

    def received(self, packet: Packet, source: Address) -> None:
        if source != self.source:
            self.source = source
            self._call(self.on_source, source)
        self._connection.received_packet(packet, source, self._host.now())
        self.flush()

    def timeout(self, now: float) -> None:
        self._connection.timeout(now)
        self.flush()

    def refused(self) -> None:
        self._connection.icmp_error(self._host.now())
        self.flush()

    def next_timeout(self) -> float | None:
        return self._connection.next_timeout()

    def flush(self) -> None:
        """Carry out what the connection wants. A call-back may post: then this runs inside itself, on what is new."""
        for output in self._connection.take():
            if isinstance(output, Transmit):
                self._host.transmit(output.datagram, output.address)
            elif self.closed:
                continue
            elif isinstance(output, Delivered):
                self._call(self._on_message, output.message)
            elif isinstance(output, Acknowledged):
                self._done(output.handle, None)
            elif isinstance(output, Failed):
                self._done(output.handle, output.error)
            else:
                self._call(self._on_failed, output.error)
        self._host.arm(self)

    # -- inside

    def _check_open(self) -> None:
        if self.closed:
            raise Unreachable(f"the connection to {show(self.remote_address)} was closed; open another")

    def _after(self, handle: int, on_done: OnDone | None) -> None:
        if on_done is not None:
            self._waiting[handle] = on_done
        self.flush()

    async def _settled(self, post: Callable[[OnDone], None]) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: Unreachable | None) -> None:
            if not future.done():
                future.set_result(None) if error is None else future.set_exception(error)

        while True:
            try:
                post(done)
                break
            except QueueFull:
                self._room.clear()
                await self._room.wait()
        await future

    def _done(self, handle: int, error: Unreachable | None) -> None:
        self._room.set()
        on_done = self._waiting.pop(handle, None)
        if on_done is not None:
            self._call(on_done, error)

    def _call(self, callback: Callable[[Any], None], value: Any) -> None:
        try:
            callback(value)
        except Exception as error:  # noqa: BLE001  # a call-back that fails must not stop the packets of all others
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"a call-back of the RUDP connection {self.connection_id:08x}", "exception": error}
            )
