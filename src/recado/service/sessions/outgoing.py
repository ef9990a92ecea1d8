"""What waits to be sent on one connection, and how it becomes frames.

Answers and notifications are gathered during one turn of the event loop and leave as one frame, an array of messages:
under load that is what makes a connection fast. While the socket is full nothing is encoded. Answers are counted in
bytes and bounded, because only this connection wants them; notifications wait as references to the events that the
mailbox holds anyway, and their number is bounded by the window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from recado.protocols.session.messages import Gap, SubCancelled
from recado.service.legs import Notified

_encode = msgspec.json.Encoder().encode
FRAME_BYTES = 256 * 1024
"""A frame is closed when it has this much; one message alone may be larger."""
FRAME_MESSAGES = 1_000


class Batch(NamedTuple):
    """What leaves as one, and what is confirmed when it has arrived: the last nid in it (0: none) and the notices."""

    payload: bytes
    upto: int
    notices: list[int]


class Outgoing:
    """Messages in their order. ``send`` takes a frame; ``later`` runs a call at the end of the turn."""

    def __init__(
        self,
        send: Callable[[Batch], None],
        later: Callable[[Callable[[], None]], object],
        frame_bytes: int = FRAME_BYTES,
    ) -> None:
        self._send, self._later, self._frame_bytes = send, later, frame_bytes
        self._waiting: deque[bytes | Notified | Gap | SubCancelled] = deque()
        self._scheduled = self._paused = False
        self.answer_bytes = 0  # of what waits, notifications apart
        self.flushed: Callable[[], None] = lambda: None  # told when something was sent

    def put(self, messages: Iterable[bytes]) -> None:
        for message in messages:
            self._waiting.append(message)
            self.answer_bytes += len(message)
        self._schedule()

    def put_first(self, message: bytes) -> None:
        """Before everything that waits: WELCOME, which is known only when the first notifications are."""
        self._waiting.appendleft(message)
        self.answer_bytes += len(message)
        self._schedule()

    def put_notifications(self, notifications: Iterable[Notified]) -> None:
        self._waiting.extend(notifications)
        self._schedule()

    def put_notices(self, notices: Iterable[Gap | SubCancelled]) -> None:
        self._waiting.extend(notices)
        self._schedule()

    def drop(self, answers: bool = False) -> None:
        """Forget the notifications, which are still in the mailbox; with ``answers`` these, too."""
        kept = [] if answers else [message for message in self._waiting if isinstance(message, bytes)]
        self._waiting = deque(kept)
        self.answer_bytes = sum(map(len, kept))

    def __len__(self) -> int:
        return len(self._waiting)

    def pause(self) -> None:
        """The socket is full."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and not self._paused and self._waiting:
            self._scheduled = True
            self._later(self.flush)

    def flush(self) -> None:
        """Send frames until nothing waits or the socket is full."""
        self._scheduled = False
        while self._waiting and not self._paused:
            self._send(self._frame())
        self.flushed()

    def _frame(self) -> Batch:
        parts: list[bytes] = []
        notices: list[int] = []
        size = upto = 0
        while self._waiting and size < self._frame_bytes and len(parts) < FRAME_MESSAGES:
            message = self._waiting.popleft()
            if isinstance(message, bytes):
                self.answer_bytes -= len(message)
            elif isinstance(message, Notified):
                upto = message.nid
                message = message.message()
            else:
                notices.append(message.notice)
                message = _encode(message)
            parts.append(message)
            size += len(message)
        return Batch(parts[0] if len(parts) == 1 else b"[" + b",".join(parts) + b"]", upto, notices)
