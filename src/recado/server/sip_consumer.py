"""One SIP session as the consumer of a device: frames of messages over RUDP.

The device confirms notifications with ACK if its session description says so, and else RUDP's acknowledgements do.

invited --ACK, and the peer was heard at its address--> attached --RUDP fails--> lost --session update--> attached

The RUDP connection is open from the invitation on, but nothing except pings goes out before a packet of the peer came
from the address that its session description names; a service must not be aimed at others. The same holds for a new
address: data goes there when the device was heard there. Heard means a packet with the tag that only both sides of the
session can make, and that is no repetition. A failure of RUDP is what tells that a device is away (section
6.1): the consumer is lost, what was not acknowledged waits in the mailbox, and a session update attaches it again. A
device that speaks though it counts as lost does not know that; its session is ended, and it opens another one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from recado.errors import LimitError, RecadoError
from recado.net import Address, RudpEndpoint, RudpLink
from recado.protocols.rudp import Unreachable
from recado.protocols.rudp.packet import show
from recado.protocols.session import messages as m
from recado.protocols.sip.sdp import Media
from recado.server.gateway import Gateway
from recado.server.permissions import Principal
from recado.server.problems import status_of, text_of
from recado.server.session import Batch, Outgoing, Session

FRAME_BYTES = 32 * 1024
UNACKED_BYTES = 512 * 1024
"""Frames that are not acknowledged, before the next one waits."""
UNACKED_FRAMES = 256
GOODBYE_SECONDS = 2.0
UPDATE_SECONDS = 2.0
"""A lost device that speaks has so long to update its session."""
_encode = msgspec.json.Encoder().encode


class SipConsumer(Session):
    kind = "rudp"

    def __init__(self, gateway: Gateway, who: Principal, device: str, hang_up: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        out = Outgoing(self._post, self._loop.call_soon, FRAME_BYTES)
        super().__init__(gateway, who, m.Hello(device), address="", out=out, end=self.finish)
        out.flushed, self.answered = self.sent, self._read
        out.pause()
        self._hang_up = hang_up
        self._established = self._there = self.attached = self.closed = False
        self._unread: deque[bytes] = deque()
        self._unread_bytes = self._unacked_bytes = 0
        self._seen: tuple[int | None, str | None] = None, None
        self._next: Address | None = None  # where the device says it is, and was not heard yet
        self._timer: asyncio.TimerHandle | None = None

    def connect(self, rudp: RudpEndpoint, media: Media, ours: Media) -> None:
        """``media`` and ``ours`` are the two sides' descriptions; both have a connection and a key."""
        to = media.host, media.port
        assert media.connection is not None
        assert ours.connection is not None
        assert media.key is not None
        assert ours.key is not None
        self.link: RudpLink = rudp.open(
            to,
            ours.connection,
            media.connection,
            self._receive_frame,
            self._on_failure,
            local_key=ours.key,
            remote_key=media.key,
        )
        self.link.on_source = self._came_from
        self.address, self._seen, self._confirms = show(to), (media.seen, media.log), media.confirms

    # -- what SIP tells ------------------------------------------------------------------------------------------------

    def established(self) -> None:
        """The session is up: show the peer, and any relay between, where we are (section 12)."""
        self._established = True
        self.link.post_ping()
        self._settle()

    def updated(self, media: Media) -> None:
        """The device says that it is there, perhaps where it was."""
        to, self._seen = (media.host, media.port), (media.seen, media.log)
        if to in (self.link.remote_address, self.link.source):
            self._move(to)
        else:
            self._next = to

    def over(self) -> None:
        """There is no session any more."""
        self.closed = True
        self._cancel_timer()
        self._engine.end(self)
        self.abandon()
        self.link.close()

    # -- where the device is -------------------------------------------------------------------------------------------

    def _came_from(self, source: Address) -> None:
        if source == self._next:
            self._move(source)
        self._settle()

    def _move(self, to: Address) -> None:
        self._next = None
        self.address = show(to)
        self._cancel_timer()
        self.link.move(to)
        self._settle()

    def _settle(self) -> None:
        """Attach if everything is as it should be for that."""
        if self.link.source == self.link.remote_address:
            self._there = True
        if not self._there or self.attached or self.closed or self.link.failed:
            return
        self._out.resume()
        if not self._established:
            return
        self.attached = True
        try:
            self.begin(*self._seen)
        except RecadoError as error:
            self.finish(text_of(error))

    def _on_failure(self, error: Unreachable) -> None:
        """The device is away (section 6.3)."""
        self.attached = False
        self._out.pause()
        self._out.drop(answers=True)
        self._engine.lose(self, str(error))
        self._arm(self._gateway.config.sessions.leg_ttl_seconds)

    # -- out -----------------------------------------------------------------------------------------------------------

    def _post(self, frame: Batch) -> None:
        size = len(frame.payload)
        try:
            self.link.post(frame.payload, lambda error: self._finish_frame(frame, error))
        except LimitError as error:
            self.finish(f"{error}; connect by WebSocket")
            return
        except Unreachable:
            return  # what it was waits in the mailbox, or is asked for again
        self._unacked_bytes += size
        self._gateway.metrics.frames_out += 1
        self._gateway.metrics.bytes_out += size
        if self._full:
            self._out.pause()

    @property
    def _full(self) -> bool:
        return self._unacked_bytes >= UNACKED_BYTES or self.link.pending >= UNACKED_FRAMES

    def _finish_frame(self, frame: Batch, error: Unreachable | None) -> None:
        self._unacked_bytes -= len(frame.payload)
        if error is not None:
            return
        if frame.upto and not self._confirms:
            self._engine.acknowledge(self, frame.upto)
        if frame.notices and not self._confirms:
            self._engine.confirm_notices(self, frame.notices)
        if not self._full and not self.link.failed:
            self._out.resume()

    # -- in ------------------------------------------------------------------------------------------------------------

    def _receive_frame(self, message: bytes) -> None:
        self._gateway.metrics.frames_in += 1
        self._gateway.metrics.bytes_in += len(message)
        if self.closed:
            return
        if self.link.failed:
            self._receive_from_lost()
        self._unread.append(message)
        self._unread_bytes += len(message)
        if self._unread_bytes > self._gateway.config.limits.outgoing_bytes:
            self.finish("more was sent than could be answered; wait for answers")
        self._read()

    def _receive_from_lost(self) -> None:
        if self._gateway.config.sessions.resume_on_data:
            self._move(self.link.remote_address)
        else:
            self._arm(UPDATE_SECONDS)

    def _read(self) -> None:
        """Frames in their order, while there is not too much unanswered."""
        while self._unread and not self.busy and not self.closed:
            frame = self._unread.popleft()
            self._unread_bytes -= len(frame)
            try:
                self.receive(m.from_agent(frame))
            except RecadoError as error:
                self.say(m.refusals(error, status_of(error), text_of(error)))

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish(self, reason: str) -> None:
        """Say CLOSING, and end the session when that has arrived or has had its time."""
        if self.closed:
            return
        self.closed = True
        self._engine.lose(self, reason)
        self.abandon()
        self._out.drop()
        if self.link.failed or self.link.closed or not self._there:
            self._hang_up()
            return
        self._out.put([_encode(m.Closing(reason))])
        self._out.resume()
        self._out.flush()
        self._arm(GOODBYE_SECONDS)
        self.link.post_ping(lambda error: self._hang_up())

    def _arm(self, seconds: float) -> None:
        self._cancel_timer()
        self._timer = self._loop.call_later(seconds, self._hang_up)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
