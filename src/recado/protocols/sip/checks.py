"""Is what the headers say well formed, and does it fit together (RFC 3261, sections 8.1.1, 8.2 and 20)?

``check_request`` and ``check_response`` raise SipError with the status that answers the fault; a response with a fault
is ignored. After the check every accessor of the message works: ``via``, ``cseq``, ``sender``, ``receiver`` and so on.
"""

from __future__ import annotations

import hashlib
import re
from math import ceil

from recado.protocols.sip.digest import Guard
from recado.protocols.sip.messages import BadRequestError, Headers, Message, Request, Response, read_via, reply, spell
from recado.protocols.sip.text import SipError, param, read_number, shown
from recado.protocols.sip.uri import Address, SipUri, read_name_addr, read_uri

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
            raise SipError(f"the header {spell(name)} is missing")
    for name in ONCE:
        if name in headers:
            headers.one(name)
    _check_names(message)
    _check_addresses(headers)
    for name, most in NUMBERS.items():
        value = headers.get(name)
        if value is not None:
            read_number(value, f"the header {spell(name)}", most)
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


# --- What a user agent refuses before it remembers anything about a request (RFC 3261, section 8.2) ------------------
#
# So a stranger costs no memory: an unknown method, an extension, a wrong kind of body, missing or wrong credentials are
# answered from the request alone. The tag of such an answer is drawn from the request, so that all copies get the same.


SERVED = ("INVITE", "ACK", "CANCEL", "BYE", "OPTIONS")
KNOWN = (*SERVED, "REGISTER", "INFO", "PRACK", "SUBSCRIBE", "NOTIFY", "UPDATE", "MESSAGE", "REFER", "PUBLISH")


def tag_for(headers: Headers) -> str:
    """Always the same for the same request, and of no use to anybody."""
    text = "\n".join([headers.get("call-id") or "", headers.get("from") or "", headers.get("cseq") or ""])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def refuse(request: Request, status: int, *fields: tuple[str, str]) -> Response:
    made = reply(request.headers, status, tag_for(request.headers))
    for name, value in fields:
        made.headers.add(name, value)
    return made


def screen(request: Request) -> Response | None:
    """None: go on."""
    method = request.method
    if method not in SERVED:
        return refuse(request, 405 if method in KNOWN else 501, ("allow", ", ".join(SERVED)))
    if method in ("CANCEL", "ACK"):
        return None
    extensions = request.headers.values("require")
    if extensions:
        return refuse(request, 420, ("unsupported", ", ".join(extensions)))
    if method == "INVITE":
        return _screen_body(request)
    return None


def _screen_body(request: Request) -> Response | None:
    headers = request.headers
    kind = (headers.get("content-type") or "application/sdp").partition(";")[0].replace(" ", "").lower()
    if request.body and kind != "application/sdp":
        return refuse(request, 415, ("accept", "application/sdp"))
    if (headers.get("content-encoding") or "identity").lower() != "identity":
        return refuse(request, 415, ("accept-encoding", "identity"))
    if "accept" in headers and not any(_takes_sdp(value) for value in headers.values("accept")):
        return refuse(request, 406)
    return None


def _takes_sdp(value: str) -> bool:
    return value.partition(";")[0].replace(" ", "").lower() in ("application/sdp", "application/*", "*/*")


def challenge(request: Request, source: Address, guard: Guard, header: str, now: float) -> Response | None:
    """401 or 407 for a request without good credentials, 403 for those of somebody else than it says it is from.

    Where too many wrong ones came from, 503 says for how long there is no other answer to them.
    """
    verdict, username = guard.judge(request, header, now)
    if verdict == "right":
        return None if guard.is_own(username, request.sender.uri) else refuse(request, 403)
    wait = guard.failed(source.host) if verdict == "wrong" else 0.0
    if wait:
        return refuse(request, 503, ("retry-after", str(ceil(wait))))
    status, name = (401, "www-authenticate") if header == "authorization" else (407, "proxy-authenticate")
    made = refuse(request, status)
    guard.challenge(made.headers, name, now, stale=verdict == "stale")
    return made


def complaint(error: SipError) -> Response | None:
    """The answer to a request that could not be understood, if so much of it could; None: it is ignored.

    The reason says what is wrong, as 21.4.1 asks for. ACK is never answered.
    """
    headers = error.headers if isinstance(error, BadRequestError) else None
    if headers is None or "via" not in headers or (headers.get("cseq") or "ACK").endswith("ACK"):
        return None
    made = reply(headers, error.status, tag_for(headers))
    printable = "".join(char if char.isprintable() else "?" for char in str(error))
    made.reason = f"{made.reason} - {printable}"[:200].encode("utf-8", "replace").decode()
    return made
