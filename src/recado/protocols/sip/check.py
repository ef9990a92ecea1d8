"""Is what the headers say well formed, and does it fit together (RFC 3261, sections 8.1.1, 8.2 and 20)?

``check_request`` and ``check_response`` raise SipError with the status that answers the fault; a response with a fault
is ignored. After the check every accessor of the message works: ``via``, ``cseq``, ``sender``, ``receiver`` and so on.
"""

from __future__ import annotations

import re

from recado.protocols.sip.errors import SipError
from recado.protocols.sip.fields import read_via
from recado.protocols.sip.headers import Headers, spelled
from recado.protocols.sip.messages import Message, Request, Response
from recado.protocols.sip.text import param, read_number, shown
from recado.protocols.sip.uri import SipUri, read_name_addr, read_uri

REQUIRED = ("via", "from", "to", "call-id", "cseq")
ONCE = (
    "from", "to", "call-id", "cseq", "max-forwards", "content-length", "content-type", "expires", "date", "min-expires",
    "content-disposition", "mime-version",
)  # fmt: skip
NUMBERS = {"max-forwards": 255, "expires": 2**32 - 1, "min-expires": 2**32 - 1}
_WORD = r"[A-Za-z0-9.!%*_+`'~()<>:\\\"/\[\]?{}-]+"
_CALL_ID = re.compile(rf"{_WORD}(?:@{_WORD})?")
_DATE = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4}"
    r" \d\d:\d\d:\d\d GMT",
    re.IGNORECASE,
)
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9.!%*_+`'~-]+ ?/ ?[A-Za-z0-9.!%*_+`'~-]+")


def check_request(request: Request) -> None:
    _check(request)
    if request.cseq.method != request.method:
        raise SipError(f"the method is {request.method}, but CSeq says {request.cseq.method}")
    uri = read_uri(request.uri)
    if not isinstance(uri, SipUri):
        raise SipError(f"the request is for {shown(request.uri)}; only the scheme sip is served here", 416)
    if uri.headers is not None:
        raise SipError(f"the request line has headers in its URI {shown(request.uri)}; they are not allowed there")


def check_response(response: Response) -> None:
    _check(response)


def _check(message: Message) -> None:
    headers = message.headers
    for name in REQUIRED:
        if name not in headers:
            raise SipError(f"the header {spelled(name)} is missing")
    for name in ONCE:
        if name in headers:
            headers.one(name)
    _check_names(message)
    _check_addresses(headers)
    for name, most in NUMBERS.items():
        value = headers.get(name)
        if value is not None:
            read_number(value, f"the header {spelled(name)}", most)
    _check_others(headers)


def _check_names(message: Message) -> None:
    for via in message.headers.values("via"):
        read_via(via)
    for address in (message.sender, message.receiver, message.cseq):
        assert address is not None
    if not _CALL_ID.fullmatch(message.call_id):
        raise SipError(f"the Call-ID {shown(message.call_id)} has a character that is not allowed")


def _check_addresses(headers: Headers) -> None:
    for name in ("route", "record-route"):
        for value in headers.values(name):
            read_name_addr(value)
    contacts = headers.values("contact")
    if "*" in contacts and len(contacts) > 1:
        raise SipError("the Contact * stands beside others; it has to be alone")
    for value in contacts:
        if value != "*":
            expires = param(read_name_addr(value).params, "expires")
            if expires is not None:
                read_number(expires, "expires of a Contact", 2**32 - 1)


def _check_others(headers: Headers) -> None:
    date, kind = headers.get("date"), headers.get("content-type")
    if date is not None and not _DATE.fullmatch(date):
        raise SipError(f"the Date {shown(date)} is not well formed; its zone has to be GMT")
    if kind is not None and not _MEDIA_TYPE.fullmatch(kind.partition(";")[0].strip()):
        raise SipError(f"the Content-Type {shown(kind)} is not well formed")
