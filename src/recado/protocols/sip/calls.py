"""The caller's half of sessions: INVITE, re-INVITE, CANCEL and BYE (mobility document, 3.3-3.5; RFC 3261, 9 and 13-15).

A re-INVITE that meets one of the other side (491) is tried again after a random while; after a timeout or a fault of
the server it is tried again with growing pauses, while nothing newer is asked for. 481 and 408 mean that the other side
has forgotten the session. If the address has changed since a re-INVITE was sent, its answer cannot arrive any more: the
next one is sent at once instead of waiting for it.
"""

from __future__ import annotations

from contextlib import suppress

from recado.protocols.sip.dialog import Call, Calls, Dialog, dialog_of
from recado.protocols.sip.events import Ended, Established, Failed, Incoming, Progress, Updated, UpdateFailed
from recado.protocols.sip.messages import Request, Response, reply
from recado.protocols.sip.sdp import Media, Session, accept, choose_line, describe, read_sdp, write_sdp
from recado.protocols.sip.text import SipError, param, unquote
from recado.protocols.sip.transactions import Outgoing, Transaction, Transactions
from recado.protocols.sip.uri import Address, NameAddr, address_of_record, read_sip_uri

ALLOW = "INVITE, ACK, CANCEL, BYE, OPTIONS"


class Caller:
    def __init__(self, calls: Calls) -> None:
        self._calls, self._step, self._requests = calls, calls.step, calls.requests
        self._settings, self._timers = calls.settings, calls.settings.timers

    # -- what is asked for

    def invite(self, name: str, uri: str, media: Media) -> None:
        if name in self._calls.table:
            raise SipError(f"there is a call {name!r} already")
        if len(self._calls.table) >= self._settings.limits.calls:
            raise SipError(f"{self._settings.limits.calls} calls are open already; that is the limit", 503)
        target = read_sip_uri(uri)
        hop = self._settings.home or target.address
        local = NameAddr(read_sip_uri(self._settings.aor), "", (("tag", name),))
        dialog = Dialog(self._step.new_name(), local, NameAddr(target), str(target), hop)
        call = Call(name, dialog, "calling", ours=True, session_id=self._step.rng.randrange(2**31))
        self._calls.add(call)
        self._send(call, media)

    def reinvite(self, call: Call, media: Media) -> None:
        if call.state not in ("connected", "updating", "answered"):
            raise SipError(f"the call {call.name!r} is {call.state}; only an established one can be changed")
        self._calls.stop(call, "retry")
        call.failures = 0
        if call.state == "connected":
            self._update(call, media)
        elif call.state == "updating" and call.sent_from != self._step.local:
            assert call.out is not None
            self._requests.abandon(call.out)
            self._update(call, media)
        else:
            call.wanted = media

    def bye(self, call: Call) -> None:
        if call.state in ("connected", "updating"):
            self._calls.send_bye(call.dialog)
            self._calls.end(call, "ended here")
            return
        call.leaving = True
        if call.state == "calling":
            self._cancel(call)

    def next(self, call: Call) -> None:
        """The call is connected again: do what had to wait."""
        call.state = "connected"
        if call.leaving:
            self.bye(call)
        elif call.wanted is not None:
            self._update(call, call.wanted)

    # -- sending

    def _update(self, call: Call, media: Media) -> None:
        call.wanted = None
        self._send(call, media)
        call.state = "updating"

    def _send(self, call: Call, media: Media) -> None:
        hop = call.dialog.next_hop()
        call.version += 1
        call.media, call.sent_from, call.cancelled = media, self._step.local, False
        call.offer = describe(media, self._settings.name, call.session_id, call.version)
        request = call.dialog.request("INVITE")
        request.headers.add("contact", self._calls.contact_header())
        request.headers.add("allow", ALLOW)
        request.headers.add("content-type", "application/sdp")
        request.body = write_sdp(call.offer)
        self._calls.after(call, "ring", self._timers.ring)
        call.out = self._requests.send(Outgoing(request, hop, Invitation(self, call), call.dialog))

    def _cancel(self, call: Call) -> None:
        """Nothing may be cancelled before something came back (9.1)."""
        out = call.out
        if out is None or out.transaction is None or call.cancelled:
            return
        if out.transaction.state == "proceeding":
            call.cancelled = True
            self._requests.cancel(out)
            self._calls.after(call, "give up", self._timers.patience)

    # -- timers

    def ring_too_long(self, call: Call) -> None:
        self._cancel(call)

    def give_up(self, call: Call) -> None:
        if call.out is not None:
            self._requests.abandon(call.out)
            self.on_timed_out(call)

    def retry(self, call: Call) -> None:
        if call.state == "connected" and call.media is not None:
            self._update(call, call.media)

    # -- what came back

    def provisional(self, call: Call, response: Response) -> None:
        if call.state == "calling" and response.status > 100 and not call.leaving:
            self._step.report(Progress(call.name, response.status))
        if call.leaving:
            self._cancel(call)

    def on_accepted(self, call: Call, out: Outgoing, response: Response) -> None:
        if call.state == "calling":
            self._establish(call, out, response)
        elif response.receiver.tag != call.dialog.remote.tag:
            self._turn_away(call, response)
        else:
            self._calls.ack(call, response.cseq.number, out.request)
            if call.state == "updating" and call.out is out:
                self._take_update(call, response)

    def _establish(self, call: Call, out: Outgoing, response: Response) -> None:
        """An answer that cannot be used is acknowledged and ended, as far as the other side can be reached."""
        self._calls.stop(call, "ring", "give up")
        try:
            call.dialog.establish(response)
            self._calls.ack(call, response.cseq.number, out.request)
            remote = read_sdp(response.body, self._settings.limits)
            choose_line(remote, self._settings.protocols)
        except SipError as error:
            if response.cseq.number not in call.acks:
                with suppress(SipError):
                    self._calls.ack(call, response.cseq.number, out.request)
            self._calls.send_bye(call.dialog)
            self._fail(call, error.status, str(error))
            return
        call.local, call.remote, call.agreed = call.offer, remote, call.media
        if call.leaving:
            self._calls.send_bye(call.dialog)
            self._calls.end(call, "cancelled")
            return
        call.state = "connected"
        assert call.local is not None
        self._step.report(Established(call.name, call.local, remote))

    def _take_update(self, call: Call, response: Response) -> None:
        self._calls.stop(call, "ring", "give up")
        try:
            answer = read_sdp(response.body, self._settings.limits)
            choose_line(answer, self._settings.protocols)
        except SipError as error:
            self._refuse(call, error.status, str(error))
            return
        call.dialog.retarget(response)
        call.local, call.remote, call.agreed, call.failures = call.offer, answer, call.media, 0
        assert call.local is not None
        self._step.report(Updated(call.name, call.local, call.remote))
        self.next(call)

    def _turn_away(self, call: Call, response: Response) -> None:
        """A proxy asked several, and this one answered too late (13.2.2.4): thanks, and goodbye."""
        dialog = Dialog(call.dialog.call_id, call.dialog.local, response.receiver, call.dialog.target)
        dialog.local_cseq = response.cseq.number
        dialog.establish(response)
        other = Call(call.name, dialog, "ended", ours=True, session_id=0)
        self._calls.ack(other, response.cseq.number, None)
        self._calls.send_bye(dialog)

    def on_refused(self, call: Call, response: Response) -> None:
        status, reason = response.status, response.reason
        if call.state == "calling":
            self._fail(call, status, reason)
        elif call.state == "updating" and status in (408, 481):
            if status == 408:
                self._calls.send_bye(call.dialog)  # it may only have been out of reach
            self._calls.end(call, "the other side has forgotten the session")
        elif call.state == "updating":
            self._refuse(call, status, reason)

    def _refuse(self, call: Call, status: int, reason: str) -> None:
        wait = self._pause(call, status)
        call.failures += 1
        self._calls.stop(call, "ring", "give up")
        if wait is None:
            call.media = call.agreed
        else:
            self._calls.after(call, "retry", wait)
        self._step.report(UpdateFailed(call.name, status, reason, wait))
        self.next(call)

    def _pause(self, call: Call, status: int) -> float | None:
        """Seconds until the next try; after a glare (491) the RFC's random times, in proportion to T1 (14.1)."""
        if status == 491:
            low, high = (2.1, 4.0) if call.ours else (0.0, 2.0)
            return self._step.rng.uniform(low, high) * self._timers.t1 / 0.5
        if status >= 500 or status == 0:
            return min(self._timers.update_retry * float(2 ** min(call.failures, 30)), self._timers.update_retry_most)
        return None

    def on_timed_out(self, call: Call) -> None:
        if call.state == "calling":
            self._fail(call, 408, "no answer")
        elif call.state == "updating":
            self._refuse(call, 0, "no answer")

    def _fail(self, call: Call, status: int, reason: str) -> None:
        self._calls.forget(call)
        self._step.report(Ended(call.name, "cancelled") if call.leaving else Failed(call.name, status, reason))


class Invitation:
    """Asks for one INVITE of a call. What comes for an older one is only acknowledged."""

    def __init__(self, caller: Caller, call: Call) -> None:
        self._caller, self._call = caller, call

    def on_provisional(self, out: Outgoing, response: Response) -> None:
        if self._call.out is out:
            self._caller.provisional(self._call, response)

    def on_final(self, out: Outgoing, response: Response) -> None:
        if response.status < 300:
            self._caller.on_accepted(self._call, out, response)
        elif self._call.out is out:
            self._caller.on_refused(self._call, response)

    def on_timeout(self, out: Outgoing) -> None:
        if self._call.out is out:
            self._caller.on_timed_out(self._call)


# --- The called side of sessions: answers to INVITE, re-INVITE, ACK, CANCEL and BYE (mobility document, 3.3 to 3.5)
#
# A 2xx to an INVITE is repeated until its ACK comes, since it travels outside of the transaction (RFC 3261, 13.3.1.4);
# without one the session ends. A re-INVITE is answered at once with our own description; one whose ``o=`` version is
# not newer is answered in the same way and changes nothing.


class Callee:
    def __init__(self, calls: Calls, transactions: Transactions, caller: Caller, *, proven: bool) -> None:
        self._calls, self._step, self._transactions, self._caller = calls, calls.step, transactions, caller
        self._settings, self._timers, self._proven = calls.settings, calls.settings.timers, proven

    # -- a new call

    def on_invite(self, transaction: Transaction) -> None:
        """Raises SipError with the status that refuses it."""
        request = transaction.request
        if self._calls.is_known(request):
            raise SipError("the same call came on two ways", 482)
        offer = self._offer(request)
        name = self._step.new_name()
        dialog = dialog_of(request, name)
        dialog.next_hop()
        call = Call(name, dialog, "incoming", ours=False, session_id=self._step.rng.randrange(2**31))
        call.remote, call.invite = offer, transaction
        transaction.owner = call
        self._calls.add(call)
        self._calls.after(call, "ring", self._timers.ring)
        self._step.report(self._incoming(call, request, offer, transaction.peer))

    def _offer(self, request: Request) -> Session:
        if not request.body:
            raise SipError("an INVITE without a session description; the offer has to come with it", 488)
        offer = read_sdp(request.body, self._settings.limits)
        choose_line(offer, self._settings.protocols)
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
        self._step.report(Ended(call.name, "it was not answered here"))

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
        self._step.transmit(call.ok.write(), call.invite.peer, "no ACK came yet")
        self._calls.after(call, "ok", min(self._timers.t1 * 2 ** min(call.ok_repeats, 30), self._timers.t2))

    def no_ack(self, call: Call) -> None:
        self._calls.send_bye(call.dialog)
        self._calls.end(call, "the answer was never acknowledged")

    def on_ack(self, call: Call, request: Request) -> None:
        if call.ok is None or request.cseq.number != call.ok.cseq.number:
            return
        self._calls.stop(call, "ok", "ack")
        call.ok = call.invite = None
        if call.news and not call.leaving:
            assert call.local is not None
            assert call.remote is not None
            fact = Established if call.state == "answered" else Updated
            self._step.report(fact(call.name, call.local, call.remote))
        call.news = False
        if call.state == "answered":
            self._caller.next(call)

    # -- an established call

    def on_reinvite(self, call: Call, transaction: Transaction) -> None:
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

    def on_bye(self, call: Call, transaction: Transaction) -> None:
        if not call.dialog.accepts(transaction.request):
            raise SipError("the requests came out of order", 500)
        self._transactions.respond(transaction, reply(transaction.request.headers, 200, call.name))
        self._calls.end(call, "the other side ended it")

    def on_cancel(self, transaction: Transaction) -> None:
        """Both are answered: the CANCEL with 200, what it cancels with 487 if that has no answer yet (9.2)."""
        invite = self._transactions.invite_of(transaction.request)
        if invite is None:
            raise SipError("there is nothing to cancel", 481)
        call = invite.owner if isinstance(invite.owner, Call) else None
        tag = call.name if call is not None else self._step.new_name()
        self._transactions.respond(transaction, reply(transaction.request.headers, 200, tag))
        if call is not None and call.state == "incoming":
            self._transactions.respond(invite, reply(invite.request.headers, 487, call.name))
            self._calls.end(call, "the caller changed its mind")


def _instance(request: Request) -> str | None:
    """The device in ``+sip.instance="<urn:uuid:...>"`` of the Contact (RFC 5626)."""
    contact = request.contact
    value = unquote(param(contact.params, "+sip.instance") or "") if contact is not None else ""
    return value.removeprefix("<urn:uuid:").removesuffix(">") or None
