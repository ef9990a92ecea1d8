"""The called side of sessions: answers to INVITE, re-INVITE, ACK, CANCEL and BYE (mobility document, 3.3 to 3.5).

A 2xx to an INVITE is repeated until its ACK comes, since it travels outside of the transaction (RFC 3261, 13.3.1.4);
without one the session ends. A re-INVITE is answered at once with our own description; one whose ``o=`` version is not
newer is answered in the same way and changes nothing.
"""

from __future__ import annotations

from recado.protocols.sip.address import Address
from recado.protocols.sip.call import Call, Calls
from recado.protocols.sip.caller import ALLOW, Caller
from recado.protocols.sip.dialog import dialog_of
from recado.protocols.sip.errors import SipError
from recado.protocols.sip.events import Ended, Established, Incoming, Updated
from recado.protocols.sip.messages import Request, reply
from recado.protocols.sip.sdp import Media, Session, accept, chosen, read_sdp, write_sdp
from recado.protocols.sip.text import param, unquote
from recado.protocols.sip.transactions import Transaction, Transactions
from recado.protocols.sip.uri import address_of_record


class Callee:
    def __init__(self, calls: Calls, transactions: Transactions, caller: Caller, *, proven: bool) -> None:
        self._calls, self._wire, self._transactions, self._caller = calls, calls.wire, transactions, caller
        self._settings, self._timers, self._proven = calls.settings, calls.settings.timers, proven

    # -- a new call

    def invited(self, transaction: Transaction) -> None:
        """Raises SipError with the status that refuses it."""
        request = transaction.request
        if self._calls.is_known(request):
            raise SipError("the same call came on two ways", 482)
        offer = self._offer(request)
        name = self._wire.token()
        dialog = dialog_of(request, name)
        dialog.next_hop()
        call = Call(name, dialog, "incoming", ours=False, session_id=self._wire.rng.randrange(2**31))
        call.remote, call.invite = offer, transaction
        transaction.owner = call
        self._calls.add(call)
        self._calls.after(call, "ring", self._timers.ring)
        self._wire.report(self._incoming(call, request, offer, transaction.peer))

    def _offer(self, request: Request) -> Session:
        if not request.body:
            raise SipError("an INVITE without a session description; the offer has to come with it", 488)
        offer = read_sdp(request.body, self._settings.limits)
        chosen(offer, self._settings.protocols)
        return offer

    def _incoming(self, call: Call, request: Request, offer: Session, source: Address) -> Incoming:
        return Incoming(
            call.name,
            address_of_record(request.sender.uri),
            offer.media.device or _instance(request),
            offer,
            source,
            self._proven,
        )

    def answer(self, call: Call, media: Media) -> None:
        if call.state != "incoming" or call.invite is None or call.remote is None:
            raise SipError(f"the call {call.name!r} is {call.state}; only an incoming one can be answered")
        answer = accept(call.remote, media, self._settings.name, call.session_id, call.version + 1)
        call.media, call.agreed, call.local = media, media, answer
        call.version, call.news = call.version + 1, True
        call.state = "answered"
        self._calls.stop(call, "ring")
        self._send_ok(call)

    def reject(self, call: Call, status: int, reason: str | None) -> None:
        if call.state != "incoming" or call.invite is None:
            raise SipError(f"the call {call.name!r} is {call.state}; only an incoming one can be rejected")
        if not 300 <= status <= 699:
            raise SipError(f"a call is rejected with a status between 300 and 699, not {status}")
        self._transactions.respond(call.invite, reply(call.invite.request.headers, status, call.name, reason))
        self._calls.forget(call)

    def nobody_answered(self, call: Call) -> None:
        self.reject(call, 480, None)
        self._wire.report(Ended(call.name, "it was not answered here"))

    # -- 2xx and its ACK

    def _send_ok(self, call: Call) -> None:
        assert call.invite is not None
        assert call.local is not None
        call.ok = reply(call.invite.request.headers, 200, call.name)
        call.ok.headers.add("contact", self._calls.contact_header())
        call.ok.headers.add("allow", ALLOW)
        call.ok.headers.add("content-type", "application/sdp")
        call.ok.body = write_sdp(call.local)
        call.ok_repeats = 0
        self._transactions.respond(call.invite, call.ok)
        self._calls.after(call, "ok", self._timers.t1)
        self._calls.after(call, "ack", self._timers.patience)

    def repeat_ok(self, call: Call) -> None:
        if call.ok is None or call.invite is None:
            return
        call.ok_repeats += 1
        self._wire.transmit(call.ok.write(), call.invite.peer, "no ACK came yet")
        self._calls.after(call, "ok", min(self._timers.t1 * 2 ** min(call.ok_repeats, 30), self._timers.t2))

    def no_ack(self, call: Call) -> None:
        self._calls.send_bye(call.dialog)
        self._calls.end(call, "the answer was never acknowledged")

    def acknowledged(self, call: Call, request: Request) -> None:
        if call.ok is None or request.cseq.number != call.ok.cseq.number:
            return
        self._calls.stop(call, "ok", "ack")
        call.ok = call.invite = None
        if call.news and not call.leaving:
            assert call.local is not None
            assert call.remote is not None
            fact = Established if call.state == "answered" else Updated
            self._wire.report(fact(call.name, call.local, call.remote))
        call.news = False
        if call.state == "answered":
            self._caller.next(call)

    # -- an established call

    def reinvited(self, call: Call, transaction: Transaction) -> None:
        """Raises SipError with the status that refuses it."""
        request = transaction.request
        if call.state == "updating":
            raise SipError("a request of this side is under way", 491)
        if call.state == "incoming" or not call.dialog.accepts(request):
            raise SipError("the requests came out of order", 500)
        offer = self._offer(request) if request.body else None
        assert call.remote is not None
        assert call.media is not None
        news = offer is not None and offer.newer_than(call.remote)
        if offer is not None and news:
            call.dialog.retarget(request)
            call.version += 1
            call.local = accept(offer, call.media, self._settings.name, call.session_id, call.version)
            call.remote, call.agreed = offer, call.media
        call.news = call.news or news
        call.invite = transaction
        transaction.owner = call
        self._send_ok(call)

    def said_goodbye(self, call: Call, transaction: Transaction) -> None:
        if not call.dialog.accepts(transaction.request):
            raise SipError("the requests came out of order", 500)
        self._transactions.respond(transaction, reply(transaction.request.headers, 200, call.name))
        self._calls.end(call, "the other side ended it")

    def cancelled(self, transaction: Transaction) -> None:
        """Both are answered: the CANCEL with 200, what it cancels with 487 if that has no answer yet (9.2)."""
        invite = self._transactions.invite_of(transaction.request)
        if invite is None:
            raise SipError("there is nothing to cancel", 481)
        call = invite.owner if isinstance(invite.owner, Call) else None
        tag = call.name if call is not None else self._wire.token()
        self._transactions.respond(transaction, reply(transaction.request.headers, 200, tag))
        if call is not None and call.state == "incoming":
            self._transactions.respond(invite, reply(invite.request.headers, 487, call.name))
            self._calls.end(call, "the caller changed its mind")


def _instance(request: Request) -> str | None:
    """The device in ``+sip.instance="<urn:uuid:...>"`` of the Contact (RFC 5626)."""
    contact = request.contact
    value = unquote(param(contact.params, "+sip.instance") or "") if contact is not None else ""
    return value.removeprefix("<urn:uuid:").removesuffix(">") or None
