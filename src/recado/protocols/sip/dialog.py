"""A dialog: what two user agents remember of each other while a session lasts (RFC 3261, section 12).

It is known by its Call-ID and both tags. It makes requests: with the numbers in order, along the route that the proxies
asked for, to the contact that the other side told last.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from recado.protocols.sip.events import AgentSettings, Ended, Step, TimerKey
from recado.protocols.sip.messages import Message, Request, Response
from recado.protocols.sip.sdp import Media, Session
from recado.protocols.sip.text import SipError, param, with_param
from recado.protocols.sip.transactions import QUIET, Outgoing, Requests, Transaction
from recado.protocols.sip.uri import Address, NameAddr, SipUri, Uri, read_name_addr, read_sip_uri


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

    def establish(self, response: Response) -> None:
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


# --- One session with another user agent, and the table of all of them (mobility document, sections 3.3 to 3.5 and
# 6.1)
#
# States: ``calling`` (our INVITE has no final answer), ``incoming`` (theirs has none), ``answered`` (our 2xx is not
# acknowledged yet), ``connected``, ``updating`` (our re-INVITE is under way), ``ended``. ``caller`` and ``callee``
# move a call between them; the name of a call is our tag in its dialog.


State: TypeAlias = Literal["calling", "incoming", "answered", "connected", "updating", "ended"]
TIMERS = ("ring", "give up", "ok", "ack", "retry")


@dataclass(slots=True, eq=False)
class Call:
    name: str
    dialog: Dialog
    state: State
    ours: bool
    """We called: the Call-ID is ours, which decides who waits longer after a glare."""
    session_id: int
    version: int = 0
    media: Media | None = None
    """Where we are, whether the other side knows or not."""
    agreed: Media | None = None
    """Where the other side knows that we are."""
    local: Session | None = None
    remote: Session | None = None
    # our INVITE
    out: Outgoing | None = None
    offer: Session | None = None
    sent_from: Address | None = None
    wanted: Media | None = None
    """A re-INVITE that waits until the one under way is over."""
    leaving: bool = False
    """``bye`` was asked for, and the other side does not know yet."""
    cancelled: bool = False
    failures: int = 0
    acks: dict[int, bytes] = field(default_factory=dict)
    # their INVITE
    invite: Transaction | None = None
    ok: Response | None = None
    ok_repeats: int = 0
    news: bool = False
    """Their INVITE that is being answered changes something."""


class Calls:
    def __init__(self, settings: AgentSettings, step: Step, requests: Requests) -> None:
        self.settings, self.step, self.requests = settings, step, requests
        self.table: dict[str, Call] = {}
        self._of_others: dict[tuple[str, str | None], Call] = {}

    def add(self, call: Call) -> None:
        self.table[call.name] = call
        if not call.ours:
            self._of_others[call.dialog.call_id, call.dialog.remote.tag] = call

    def get(self, name: str) -> Call:
        found = self.table.get(name)
        if found is None:
            raise SipError(f"there is no call {name!r}, or it is over")
        return found

    def find(self, message: Message) -> Call | None:
        """The call that a request of the other side belongs to."""
        found = self.table.get(message.receiver.tag or "")
        if found is None or found.dialog.call_id != message.call_id:
            return None
        return found if found.dialog.remote.tag == message.sender.tag else None

    def is_known(self, invite: Request) -> bool:
        """Did this call come already, on another way (8.2.2.2)?"""
        return (invite.call_id, invite.sender.tag) in self._of_others

    def timer(self, call: Call, kind: str) -> TimerKey:
        return ("call", call.name, kind)

    def after(self, call: Call, kind: str, seconds: float) -> None:
        self.step.set_timer(self.timer(call, kind), seconds)

    def stop(self, call: Call, *kinds: str) -> None:
        for kind in kinds:
            self.step.cancel_timer(self.timer(call, kind))

    def forget(self, call: Call) -> None:
        """Nothing waits for it any more. An INVITE that never got a final answer would wait for ever."""
        self.stop(call, *TIMERS)
        self.table.pop(call.name, None)
        if not call.ours:
            self._of_others.pop((call.dialog.call_id, call.dialog.remote.tag), None)
        call.state = "ended"
        if call.out is not None and call.out.transaction is not None and call.out.transaction.state == "proceeding":
            self.requests.abandon(call.out)

    def end(self, call: Call, reason: str) -> None:
        self.forget(call)
        self.step.report(Ended(call.name, reason))

    def send_bye(self, dialog: Dialog) -> None:
        """Whatever comes back, it is over; also if the other side told a place that cannot be reached."""
        with suppress(SipError):
            self.requests.send(Outgoing(dialog.request("BYE"), dialog.next_hop(), QUIET, dialog))

    def contact_header(self) -> str:
        transport = f";transport={self.step.local.transport}" if self.step.local.reliable else ""
        instance = f'+sip.instance="<urn:uuid:{self.settings.device}>"'
        return f"<sip:{self.settings.name}@{self.step.contact_host()}{transport}>;{instance}"

    def ack(self, call: Call, cseq: int, invite: Request | None) -> None:
        """The ACK of a 2xx goes along the dialog's route, with the credentials of its INVITE (13.2.2.4, 22.1)."""
        known = call.acks.get(cseq)
        if known is None:
            known = self._new_ack(call.dialog, cseq, invite)
            call.acks = {**dict(list(call.acks.items())[-3:]), cseq: known}
        self.step.transmit(known, call.dialog.next_hop(), "every 2xx to an INVITE is acknowledged")

    def _new_ack(self, dialog: Dialog, cseq: int, invite: Request | None) -> bytes:
        request = dialog.request("ACK", cseq)
        request.headers.push("via", str(self.step.new_via(dialog.next_hop().transport)))
        for name in ("authorization", "proxy-authorization"):
            value = invite.headers.get(name) if invite is not None else None
            if value is not None:
                request.headers.add(name, value)
        return request.write()
