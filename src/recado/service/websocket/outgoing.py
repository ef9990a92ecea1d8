"""What waits to be sent on one connection, and how it becomes frames.

Answers and notifications are gathered during one turn of the event loop and leave as one frame, an array of messages:
under load that is what makes a connection fast. While the socket is full nothing is encoded. Answers are counted in
bytes and bounded, because only this connection wants them; notifications wait as references to the events that the
mailbox holds anyway, and their number is bounded by the window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from recado.service.legs import Notified

FRAME_BYTES = 256 * 1024
"""A frame is closed when it has this much; one message alone may be larger."""
FRAME_MESSAGES = 1_000


class Outgoing:
    """Messages in their order. ``send`` takes the payload of a frame; ``later`` runs a call at the end of the turn."""

    def __init__(self, send: Callable[[bytes], None], later: Callable[[Callable[[], None]], object]) -> None:
        self._send, self._later = send, later
        self._waiting: deque[bytes | Notified] = deque()
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

    def _frame(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while self._waiting and size < FRAME_BYTES and len(parts) < FRAME_MESSAGES:
            message = self._waiting.popleft()
            if isinstance(message, bytes):
                self.answer_bytes -= len(message)
            else:
                message = message.message()
            parts.append(message)
            size += len(message)
        return parts[0] if len(parts) == 1 else b"[" + b",".join(parts) + b"]"
