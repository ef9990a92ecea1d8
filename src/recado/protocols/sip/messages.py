"""Requests and responses, and how they are written (RFC 3261, section 7).

The bytes of a message are UTF-8; other bytes are kept as they came. Content-Length is always written from the body.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from recado.protocols.sip.limits import LIMITS, SipLimits
from recado.protocols.sip.text import (
    Params,
    SipError,
    is_token,
    param,
    read_number,
    read_params,
    shown,
    split,
    with_param,
    write_params,
)
from recado.protocols.sip.uri import DEFAULT_PORT, Address, NameAddr, add_brackets, read_host_port, read_name_addr

# --- The headers of a message: an ordered list of fields whose names are compared without case -----------------------
#
# Compact names (RFC 3261, section 7.3.3, and the later ones) become the long ones. A field that may hold several values
# separated by commas is cut by ``values``; ``one`` insists on a field that may stand there once only.


COMPACT = {
    "a": "accept-contact", "b": "referred-by", "c": "content-type", "d": "request-disposition",
    "e": "content-encoding", "f": "from", "i": "call-id", "j": "reject-contact", "k": "supported",
    "l": "content-length", "m": "contact", "n": "identity-info", "o": "event", "r": "refer-to", "s": "subject",
    "t": "to", "u": "allow-events", "v": "via", "x": "session-expires", "y": "identity",
}  # fmt: skip
_SPELLED = {
    "call-id": "Call-ID",
    "cseq": "CSeq",
    "www-authenticate": "WWW-Authenticate",
    "mime-version": "MIME-Version",
}


def canonical(name: str) -> str:
    low = name.lower()
    return COMPACT.get(low, low)


def spell(name: str) -> str:
    """A name as it is written on the wire."""
    return _SPELLED.get(name) or "-".join(part.capitalize() for part in name.split("-"))


class Headers:
    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._fields = [(canonical(name), value) for name, value in fields]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __contains__(self, name: str) -> bool:
        return any(key == name for key, _ in self._fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self._fields == other._fields

    __hash__ = None  # type: ignore[assignment]  # they change

    def __repr__(self) -> str:
        return f"Headers({self._fields!r})"

    def copy(self) -> Headers:
        made = Headers()
        made._fields = list(self._fields)
        return made

    def get(self, name: str) -> str | None:
        """The first field of that name."""
        return next((value for key, value in self._fields if key == name), None)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self._fields if key == name]

    def one(self, name: str) -> str:
        found = self.all(name)
        if len(found) != 1:
            amount = "missing" if not found else f"there {len(found)} times"
            raise SipError(f"the header {spell(name)} is {amount}; it has to be there once")
        return found[0]

    def values(self, name: str) -> list[str]:
        """All values of a header that is a list, in order."""
        found = [one for field in self.all(name) for one in split(field, ",", LIMITS.values)]
        if len(found) > LIMITS.values:
            raise SipError(f"the header {spell(name)} has more than {LIMITS.values} values")
        if "" in found:
            raise SipError(f"the header {spell(name)} has an empty value between its commas")
        return found

    def add(self, name: str, value: str) -> None:
        self._fields.append((canonical(name), value))

    def set(self, name: str, value: str) -> None:
        """Instead of all fields of that name, at the place of the first."""
        places = [at for at, (key, _) in enumerate(self._fields) if key == name]
        self.remove(name)
        self._fields.insert(places[0] if places else len(self._fields), (name, value))

    def push(self, name: str, value: str) -> None:
        """Before all fields of that name."""
        places = [at for at, (key, _) in enumerate(self._fields) if key == name]
        self._fields.insert(places[0] if places else 0, (name, value))

    def pop(self, name: str) -> str:
        """Take away the first value of a list."""
        first, *rest = self.values(name)
        self.remove(name)
        for at, value in enumerate(rest):
            self._fields.insert(at, (name, value))
        return first

    def remove(self, name: str) -> None:
        self._fields = [field for field in self._fields if field[0] != name]


# --- Headers that have a structure of their own: Via (RFC 3261, 20.42, and 3581) and CSeq (20.16) --------------------


COOKIE = "z9hG4bK"
_SENT_PROTOCOL = re.compile(r"SIP ?/ ?2\.0 ?/ ?([A-Za-z0-9.!%*_+`'~-]+) (.*)", re.IGNORECASE | re.DOTALL)
_SPACES = re.compile(r"[ \t]+")


class Via(msgspec.Struct, frozen=True):
    transport: str
    host: str
    port: int | None = None
    params: Params = ()

    def __str__(self) -> str:
        return f"SIP/2.0/{self.transport} {self.sent_by}{write_params(self.params)}"

    @property
    def sent_by(self) -> str:
        return add_brackets(self.host) + ("" if self.port is None else f":{self.port}")

    @property
    def branch(self) -> str | None:
        """The name of the transaction; None for a sender that knows only RFC 2543, or that gave the cookie alone."""
        branch = param(self.params, "branch") or ""
        return branch if branch.lower().startswith(COOKIE.lower()) and len(branch) > len(COOKIE) else None

    def stamp(self, source: Address) -> Via:
        """With the address that the request really came from (18.2.1; RFC 3581, section 4).

        A ``received`` that the sender wrote itself goes: it would send the answer to somebody else.
        """
        params = tuple(one for one in self.params if one[0] != "received")
        if param(params, "rport") is not None:
            params = with_param(with_param(params, "rport", str(source.port)), "received", add_brackets(source.host))
        elif self.host != source.host:
            params = with_param(params, "received", add_brackets(source.host))
        return msgspec.structs.replace(self, params=params)

    @property
    def reply_to(self) -> Address:
        """Where a response goes to that has this Via on top (18.2.2)."""
        host = (param(self.params, "received") or self.host).strip("[]")
        rport = param(self.params, "rport")
        port = int(rport) if rport and rport.isascii() and rport.isdigit() and len(rport) < 6 else self.port
        return Address(self.transport.lower(), host, port or DEFAULT_PORT)


@lru_cache(512)  # one message is asked for its Via several times
def read_via(text: str) -> Via:
    first, *rest = split(text, ";")
    found = _SENT_PROTOCOL.fullmatch(_SPACES.sub(" ", first))
    if found is None:
        raise SipError(f"{shown(text)} is not a Via; it should look like SIP/2.0/UDP host:port;branch=...")
    host, port = read_host_port(found[2].strip())
    return Via(found[1].upper(), host, port, read_params(rest))


class CSeq(msgspec.Struct, frozen=True):
    number: int
    method: str


@lru_cache(512)
def read_cseq(text: str) -> CSeq:
    number, _, method = _SPACES.sub(" ", text).partition(" ")
    if not is_token(method):
        raise SipError(f"{shown(text)} is not a CSeq; it should be a number and a method")
    return CSeq(read_number(number, "the number in CSeq", 2**31 - 1), method)


# --- Requests and responses, and how they are written (RFC 3261, section 7) ------------------------------------------

REASONS = {
    100: "Trying", 180: "Ringing", 200: "OK", 202: "Accepted", 301: "Moved Permanently", 302: "Moved Temporarily",
    400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    406: "Not Acceptable", 407: "Proxy Authentication Required", 408: "Request Timeout", 413: "Body Too Large",
    414: "Request-URI Too Long", 415: "Unsupported Media Type", 416: "Unsupported URI Scheme", 420: "Bad Extension",
    423: "Interval Too Brief", 480: "Temporarily Unavailable", 481: "Call/Transaction Does Not Exist",
    482: "Loop Detected", 483: "Too Many Hops", 486: "Busy Here", 487: "Request Terminated",
    488: "Not Acceptable Here", 491: "Request Pending", 500: "Server Internal Error", 501: "Not Implemented",
    503: "Service Unavailable", 505: "Version Not Supported", 513: "Message Too Large", 603: "Decline",
}  # fmt: skip


@dataclass(slots=True)
class Message(ABC):
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""

    @property
    @abstractmethod
    def start_line(self) -> str: ...

    def write(self) -> bytes:
        lines = [self.start_line]
        lines += [f"{spell(name)}: {value}" for name, value in self.headers if name != "content-length"]
        lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + self.body

    @property
    def via(self) -> Via:
        """The topmost one."""
        return read_via(self.headers.values("via")[0]) if "via" in self.headers else read_via("")

    @property
    def cseq(self) -> CSeq:
        return read_cseq(self.headers.one("cseq"))

    @property
    def call_id(self) -> str:
        return self.headers.one("call-id")

    @property
    def sender(self) -> NameAddr:
        return read_name_addr(self.headers.one("from"))

    @property
    def receiver(self) -> NameAddr:
        return read_name_addr(self.headers.one("to"))

    @property
    def contact(self) -> NameAddr | None:
        values = self.headers.values("contact")
        return read_name_addr(values[0]) if values and values[0] != "*" else None


@dataclass(slots=True)
class Request(Message):
    method: str = ""
    uri: str = ""

    @property
    def start_line(self) -> str:
        return f"{self.method} {self.uri} SIP/2.0"

    def copy(self) -> Request:
        return Request(self.headers.copy(), self.body, self.method, self.uri)


@dataclass(slots=True)
class Response(Message):
    status: int = 0
    reason: str = ""

    @property
    def start_line(self) -> str:
        return f"SIP/2.0 {self.status} {self.reason}"

    def copy(self) -> Response:
        return Response(self.headers.copy(), self.body, self.status, self.reason)


def reply(headers: Headers, status: int, tag: str | None = None, reason: str | None = None) -> Response:
    """A response to the request with these headers (8.2.6): Via, From, To, Call-ID and CSeq are its own."""
    made = Response(status=status, reason=REASONS.get(status, "Unknown") if reason is None else reason)
    for name, value in headers:
        if name in ("via", "from", "call-id", "cseq", "record-route"):
            made.headers.add(name, value)
        if name == "to":
            made.headers.add(name, value if tag is None or _has_tag(value) else f"{value};tag={tag}")
    if status == 100 or status >= 300:
        made.headers.remove("record-route")
    return made


def _has_tag(to: str) -> bool:
    try:
        return read_name_addr(to).tag is not None
    except SipError:
        return False


# --- Bytes to messages (RFC 3261, sections 7 and 18.3), with limits on everything ------------------------------------
#
# ``read_message`` reads one datagram, or what a ``Framer`` cut out of a stream. It checks the form of the start line
# and of the header fields; what the headers say is judged by ``checks``. Whatever the bytes are, it returns a message
# or raises SipError, in time linear in their number. What looks like a request raises BadRequestError, so that the
# sender can be told.


class BadRequestError(SipError):
    """A request that cannot be accepted; ``headers`` is what could be read of it, so that it can be answered."""

    def __init__(self, message: str, status: int, headers: Headers) -> None:
        super().__init__(message, status)
        self.headers = headers


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
        raise BadRequestError(str(error), error.status, Headers(_readable(lines))) from error


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
