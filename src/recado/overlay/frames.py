"""Frames: how messages stand on a byte stream. Pure: bytes in, frames out.

A frame is four bytes and a payload. The header, read as a big-endian number, has the payload's length in its lower 31
bits; its highest bit is set if the payload is for the link itself (hello, ping, …) and not for the machine behind it.
The payload is one MessagePack value.

The decoder checks a length before it waits for the payload, so a hostile header costs four bytes. ``limit`` may change
between frames: it is small until the other side has proved who it is.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from recado.overlay.errors import LinkError

HEADER_BYTES = 4
_CONTROL = 1 << 31


class Frame(msgspec.Struct, frozen=True, gc=False):
    control: bool
    payload: bytes


def header(payload: bytes, *, control: bool = False) -> bytes:
    """The four bytes before a payload."""
    return (len(payload) | (_CONTROL if control else 0)).to_bytes(HEADER_BYTES, "big")


class FrameDecoder:
    """Collects what arrives and gives whole frames, however the bytes were cut."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._buffer = bytearray()
        self._at = 0

    def feed(self, data: bytes) -> None:
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    @property
    def waiting(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._buffer) - self._at

    def frames(self) -> Iterator[Frame]:
        """The frames that are whole by now; a LinkError if one is longer than the limit."""
        while (frame := self.next()) is not None:
            yield frame

    def next(self) -> Frame | None:
        start = self._at + HEADER_BYTES
        if len(self._buffer) < start:
            return None
        head = int.from_bytes(self._buffer[self._at : start], "big")
        length = head & ~_CONTROL
        if length > self.limit:
            raise LinkError(
                f"a frame claims {length:,} bytes and the limit here is {self.limit:,}: "
                "the other side speaks another protocol, or sends too much at once"
            )
        end = start + length
        if len(self._buffer) < end:
            return None
        self._at = end
        return Frame(bool(head & _CONTROL), bytes(memoryview(self._buffer)[start:end]))
