"""Bytes to messages (RFC 3261, section 7 and 18.3), with limits on everything.

``read_message`` reads one datagram, or what ``stream.Framer`` cut out of a stream. It checks the form of the start
line and of the header fields; what the headers say is judged by ``check``. Whatever the bytes are, it returns a
message or raises SipError, in time linear in their number. The error of a request carries the headers that could be
read, so that the sender can be told.
"""

from __future__ import annotations

import re

from recado.protocols.sip.errors import SipError
from recado.protocols.sip.headers import Headers
from recado.protocols.sip.limits import LIMITS, SipLimits
from recado.protocols.sip.messages import Request, Response
from recado.protocols.sip.text import is_token, read_number, shown

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
