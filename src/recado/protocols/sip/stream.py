"""Cutting messages out of a stream by their Content-Length (RFC 3261, section 18.3).

``Framer`` is given bytes as they come and yields whole messages. It never holds more than one message of the largest
size and what came in the last call; a message that says no length, or too much of it, is an error after which the
connection has to be closed, since nobody can know where the next message begins.
"""

from __future__ import annotations

from recado.protocols.sip.errors import SipError
from recado.protocols.sip.headers import canonical
from recado.protocols.sip.limits import LIMITS, SipLimits
from recado.protocols.sip.text import read_number

END = b"\r\n\r\n"


class Framer:
    def __init__(self, limits: SipLimits = LIMITS) -> None:
        self._limits = limits
        self._held = bytearray()
        self._searched = 0

    @property
    def pending(self) -> int:
        """Bytes of a message that is not complete."""
        return len(self._held)

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are complete now. Empty lines between messages are keep-alives and are left out."""
        self._held += data
        found = []
        while (message := self._next()) is not None:
            found.append(message)
        return found

    def _next(self) -> bytes | None:
        self._skip_empty_lines()
        end = self._held.find(END, max(0, self._searched - 3))
        self._searched = len(self._held)
        if end < 0:
            self._check(len(self._held))
            return None
        size = end + len(END) + self._length(bytes(self._held[:end]))
        self._check(size)
        if len(self._held) < size:
            self._searched = end
            return None
        message = bytes(self._held[:size])
        del self._held[:size]
        self._searched = 0
        return message

    def _skip_empty_lines(self) -> None:
        if self._held.startswith((b"\r", b"\n")):
            self._held, self._searched = self._held.lstrip(b"\r\n"), 0

    def _check(self, size: int) -> None:
        if size > self._limits.message_bytes:
            raise SipError(f"a message of more than {self._limits.message_bytes} bytes in a stream", 513)

    def _length(self, head: bytes) -> int:
        for line in head.split(b"\r\n"):
            name, colon, value = line.partition(b":")
            if colon and canonical(name.strip().decode("latin-1")) == "content-length":
                return read_number(value.strip().decode("latin-1"), "Content-Length", 2**31)
        raise SipError("a message without Content-Length in a stream; nobody can know where it ends")
