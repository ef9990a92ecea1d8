"""Bytes to messages (RFC 3261, section 7 and 18.3), with limits on everything.

``read_message`` reads one datagram, or what ``stream.Framer`` cut out of a stream. It checks the form of the start
line and of the header fields; what the headers say is judged by ``check``. Whatever the bytes are, it returns a
message or raises SipError, in time linear in their number. The error of a request carries the headers that could be
read, so that the sender can be told.
"""

from __future__ import annotations

import re

from recado.protocols.sip.limits import LIMITS, SipLimits
from recado.protocols.sip.messages import Headers, Request, Response, canonical
from recado.protocols.sip.text import SipError, is_token, read_number, shown

_VERSION = re.compile(r"SIP/\d+\.\d+", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def read_message(data: bytes, limits: SipLimits = LIMITS) -> Request | Response:
    """One whole message. Empty lines before it are allowed (7.5), bytes after its body are left out (18.3)."""
    if len(data) > limits.message_bytes:
        raise SipError(f"a message of {len(data)} bytes; at most {limits.message_bytes} are accepted", 513)
    start, lines, body = _cut(data, limits)
    if start[:4].upper() == "SIP/":
        headers = Headers(map(_field, lines))
        return _response(start, headers, _body(headers, body))
    try:
        headers = Headers(map(_field, lines))
        return _request(start, headers, _body(headers, body))
    except SipError as error:
        raise SipError(str(error), error.status, Headers(_readable(lines))) from error


def _cut(data: bytes, limits: SipLimits) -> tuple[str, list[str], bytes]:
    """The start line, the other lines with foldings undone, and what comes after the empty line."""
    head, end, body = data.lstrip(b"\r\n").partition(b"\r\n\r\n")
    if not end:
        raise SipError("no empty line after the headers; lines end with CR LF")
    lines: list[str] = []
    for line in head.decode("utf-8", "surrogateescape").split("\r\n"):
        if line[:1] in (" ", "\t") and len(lines) > 1:
            lines[-1] = f"{lines[-1].rstrip()} {line.strip()}"
        else:
            lines.append(line)
        if len(lines) > limits.headers + 1:
            raise SipError(f"more than {limits.headers} header fields")
        if len(lines[-1]) > limits.line_bytes:
            raise SipError(f"a line of more than {limits.line_bytes} characters")
    return lines[0], lines[1:], body


def _field(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not is_token(name.rstrip(" \t")):
        raise SipError(f"{shown(line)} is not a header field; it should look like Name: value")
    return name.rstrip(" \t"), value.strip(" \t")


def _readable(lines: list[str]) -> list[tuple[str, str]]:
    """The fields that are well formed, when some are not."""
    found = []
    for line in lines:
        try:
            found.append(_field(line))
        except SipError:
            continue
    return found


def _request(line: str, headers: Headers, body: bytes) -> Request:
    parts = line.split(" ")
    if not is_token(parts[0]):
        raise SipError(f"{shown(line)} does not begin with a method")
    if len(parts) == 3 and _VERSION.fullmatch(parts[2]) and parts[2].upper() != "SIP/2.0":
        raise SipError(f"the version is {shown(parts[2])}; only SIP/2.0 is spoken here", 505)
    if len(parts) != 3 or parts[2].upper() != "SIP/2.0" or not parts[1] or _CONTROL.search(line) or "<" in parts[1]:
        raise SipError(f"{shown(line)} is not a request line; it should be METHOD uri SIP/2.0 with single spaces")
    return Request(headers, body, parts[0], parts[1])


def _response(line: str, headers: Headers, body: bytes) -> Response:
    version, _, rest = line.partition(" ")
    status, _, reason = rest.partition(" ")
    if version.upper() != "SIP/2.0" or len(status) != 3:
        raise SipError(f"{shown(line)} is not a status line; it should be SIP/2.0 and a status of three digits")
    code = read_number(status, "a status", 699)
    if code < 100 or _CONTROL.search(reason):
        raise SipError(f"{shown(line)} is not a status line; a status is between 100 and 699")
    return Response(headers, body, code, reason)


def content_length(headers: Headers) -> int | None:
    if "content-length" not in headers:
        return None
    return read_number(headers.one("content-length"), "Content-Length", 2**31)


def _body(headers: Headers, rest: bytes) -> bytes:
    """Over datagrams the length may be missing, and then the body is all that is left."""
    length = content_length(headers)
    if length is not None and length > len(rest):
        raise SipError(f"Content-Length is {length}, but only {len(rest)} bytes follow the headers")
    return rest if length is None else rest[:length]


# --- Cutting messages out of a stream by their Content-Length (RFC 3261, section 18.3) -------------------------------
#
# ``Framer`` is given bytes as they come and yields whole messages. It never holds more than one message of the largest
# size and what came in the last call; a message that says no length, or too much of it, is an error after which the
# connection has to be closed, since nobody can know where the next message begins.


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
