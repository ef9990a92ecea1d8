"""A dialog: what two user agents remember of each other while a session lasts (RFC 3261, section 12).

It is known by its Call-ID and both tags. It makes requests: with the numbers in order, along the route that the proxies
asked for, to the contact that the other side told last.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from recado.protocols.sip.address import Address
from recado.protocols.sip.errors import SipError
from recado.protocols.sip.messages import Request, Response
from recado.protocols.sip.text import param, with_param
from recado.protocols.sip.uri import NameAddr, SipUri, Uri, read_name_addr, read_sip_uri


@dataclass(slots=True)
class Dialog:
    call_id: str
    local: NameAddr
    """With our tag."""
    remote: NameAddr
    """With their tag, once it is known."""
    target: str
    """The URI that requests are sent for: the other side's contact."""
    hop: Address | None = None
    """Where to send while there is no route and no contact yet, that is, before the dialog is established."""
    routes: list[str] = field(default_factory=list)
    local_cseq: int = 0
    remote_cseq: int | None = None

    def request(self, method: str, cseq: int | None = None) -> Request:
        """A new request; ACK and CANCEL take the number of what they belong to."""
        if cseq is None:
            self.local_cseq += 1
            cseq = self.local_cseq
        made = Request(method=method, uri=self.target)
        made.headers.add("max-forwards", "70")
        made.headers.add("from", str(self.local))
        made.headers.add("to", str(self.remote))
        made.headers.add("call-id", self.call_id)
        made.headers.add("cseq", f"{cseq} {method}")
        self._route(made)
        return made

    def _route(self, request: Request) -> None:
        """Loose routing; a first hop that knows only RFC 2543 gets its own URI in the request line (12.2.1.1)."""
        routes = list(self.routes)
        if routes and not _is_loose(routes[0]):
            request.uri = str(read_name_addr(routes[0]).uri)
            routes = [*routes[1:], f"<{self.target}>"]
        for route in routes:
            request.headers.add("route", route)

    def next_hop(self) -> Address:
        """Raises SipError if the route or the contact cannot be reached from here."""
        if self.hop is not None:
            return self.hop
        if self.routes:
            uri = read_name_addr(self.routes[0]).uri
            if isinstance(uri, SipUri):
                return uri.address
        return read_sip_uri(self.target).address

    def established(self, response: Response) -> None:
        """The caller's dialog after the 2xx (12.1.2)."""
        self.remote = response.receiver
        self.routes = list(reversed(response.headers.values("record-route")))
        self.retarget(response)

    def retarget(self, message: Request | Response) -> None:
        """Raises SipError, and changes nothing, if the new contact cannot be reached."""
        contact = message.contact
        if contact is not None and read_sip_uri(str(contact.uri)).address:
            self.target, self.hop = str(contact.uri), None

    def accepts(self, request: Request) -> bool:
        """Is this the next request of the other side, and not an old one that comes late (12.2.2)?"""
        number = request.cseq.number
        if self.remote_cseq is not None and number <= self.remote_cseq:
            return False
        self.remote_cseq = number
        return True


def dialog_of(request: Request, tag: str) -> Dialog:
    """The dialog of the one who is called (12.1.1)."""
    contact = request.contact
    if contact is None:
        raise SipError("an INVITE without Contact cannot open a session")
    read_sip_uri(str(contact.uri))
    to = request.receiver
    return Dialog(
        request.call_id,
        NameAddr(to.uri, to.display, with_param(to.params, "tag", tag)),
        request.sender,
        str(contact.uri),
        routes=request.headers.values("record-route"),
        remote_cseq=request.cseq.number,
    )


def _is_loose(route: str) -> bool:
    uri: Uri = read_name_addr(route).uri
    return isinstance(uri, SipUri) and param(uri.params, "lr") is not None
