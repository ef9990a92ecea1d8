"""Requests and responses, and how they are written (RFC 3261, section 7).

The bytes of a message are UTF-8; other bytes are kept as they came. Content-Length is always written from the body.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from recado.protocols.sip.errors import SipError
from recado.protocols.sip.fields import CSeq, Via, read_cseq, read_via
from recado.protocols.sip.headers import Headers, spelled
from recado.protocols.sip.uri import NameAddr, read_name_addr

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
        lines += [f"{spelled(name)}: {value}" for name, value in self.headers if name != "content-length"]
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
