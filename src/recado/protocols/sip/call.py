"""One session with another user agent, and the table of all of them (mobility document, sections 3.3 to 3.5 and 6.1).

States: ``calling`` (our INVITE has no final answer), ``incoming`` (theirs has none), ``answered`` (our 2xx is not
acknowledged yet), ``connected``, ``updating`` (our re-INVITE is under way), ``ended``. ``caller`` and ``callee`` move a
call between them; the name of a call is our tag in its dialog.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from recado.protocols.sip.address import Address
from recado.protocols.sip.dialog import Dialog
from recado.protocols.sip.errors import SipError
from recado.protocols.sip.events import Ended
from recado.protocols.sip.messages import Message, Request, Response
from recado.protocols.sip.outgoing import QUIET, Outgoing, Requests
from recado.protocols.sip.sdp import Media, Session
from recado.protocols.sip.settings import AgentSettings
from recado.protocols.sip.transactions import Transaction
from recado.protocols.sip.wire import TimerKey, Wire

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
    def __init__(self, settings: AgentSettings, wire: Wire, requests: Requests) -> None:
        self.settings, self.wire, self.requests = settings, wire, requests
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
        self.wire.after(self.timer(call, kind), seconds)

    def stop(self, call: Call, *kinds: str) -> None:
        for kind in kinds:
            self.wire.timers.cancel(self.timer(call, kind))

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
        self.wire.report(Ended(call.name, reason))

    def send_bye(self, dialog: Dialog) -> None:
        """Whatever comes back, it is over; also if the other side told a place that cannot be reached."""
        with suppress(SipError):
            self.requests.send(Outgoing(dialog.request("BYE"), dialog.next_hop(), QUIET, dialog))

    def contact_header(self) -> str:
        transport = ";transport=tcp" if self.wire.local.reliable else ""
        instance = f'+sip.instance="<urn:uuid:{self.settings.device}>"'
        return f"<sip:{self.settings.name}@{self.wire.contact_host()}{transport}>;{instance}"

    def ack(self, call: Call, cseq: int, invite: Request | None) -> None:
        """The ACK of a 2xx goes along the dialog's route, with the credentials of its INVITE (13.2.2.4, 22.1)."""
        known = call.acks.get(cseq)
        if known is None:
            known = self._new_ack(call.dialog, cseq, invite)
            call.acks = {**dict(list(call.acks.items())[-3:]), cseq: known}
        self.wire.transmit(known, call.dialog.next_hop(), "every 2xx to an INVITE is acknowledged")

    def _new_ack(self, dialog: Dialog, cseq: int, invite: Request | None) -> bytes:
        request = dialog.request("ACK", cseq)
        request.headers.push("via", str(self.wire.new_via(dialog.next_hop().transport)))
        for name in ("authorization", "proxy-authorization"):
            value = invite.headers.get(name) if invite is not None else None
            if value is not None:
                request.headers.add(name, value)
        return request.write()
