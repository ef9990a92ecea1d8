"""What a user agent refuses before it remembers anything about a request (RFC 3261, section 8.2).

So a stranger costs no memory: an unknown method, an extension, a wrong kind of body, missing or wrong credentials are
answered from the request alone. The tag of such an answer is drawn from the request, so that all copies get the same.
"""

from __future__ import annotations

import hashlib
from math import ceil

from recado.protocols.sip.address import Address
from recado.protocols.sip.digest import Guard
from recado.protocols.sip.errors import SipError
from recado.protocols.sip.headers import Headers
from recado.protocols.sip.messages import Request, Response, reply

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
    headers = error.headers
    if headers is None or "via" not in headers or (headers.get("cseq") or "ACK").endswith("ACK"):
        return None
    made = reply(headers, error.status, tag_for(headers))
    printable = "".join(char if char.isprintable() else "?" for char in str(error))
    made.reason = f"{made.reason} - {printable}"[:200].encode("utf-8", "replace").decode()
    return made
