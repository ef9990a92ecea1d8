"""The caller's half of sessions: INVITE, re-INVITE, CANCEL and BYE (mobility document, 3.3-3.5; RFC 3261, 9 and 13-15).

A re-INVITE that meets one of the other side (491) is tried again after a random while; after a timeout or a fault of
the server it is tried again with growing pauses, while nothing newer is asked for. 481 and 408 mean that the other side
has forgotten the session. If the address has changed since a re-INVITE was sent, its answer cannot arrive any more: the
next one is sent at once instead of waiting for it.
"""

from __future__ import annotations

from contextlib import suppress

from recado.protocols.sip.call import Call, Calls
from recado.protocols.sip.dialog import Dialog
from recado.protocols.sip.errors import SipError
from recado.protocols.sip.events import Ended, Established, Failed, Progress, Updated, UpdateFailed
from recado.protocols.sip.messages import Response
from recado.protocols.sip.outgoing import Outgoing
from recado.protocols.sip.sdp import Media, chosen, describe, read_sdp, write_sdp
from recado.protocols.sip.uri import NameAddr, read_sip_uri

ALLOW = "INVITE, ACK, CANCEL, BYE, OPTIONS"


class Caller:
    def __init__(self, calls: Calls) -> None:
        self._calls, self._wire, self._requests = calls, calls.wire, calls.requests
        self._settings, self._timers = calls.settings, calls.settings.timers

    # -- what is asked for

    def invite(self, uri: str, media: Media) -> str:
        if len(self._calls.table) >= self._settings.limits.calls:
            raise SipError(f"{self._settings.limits.calls} calls are open already; that is the limit", 503)
        target, name = read_sip_uri(uri), self._wire.token()
        hop = self._settings.home or target.address
        local = NameAddr(read_sip_uri(self._settings.aor), "", (("tag", name),))
        dialog = Dialog(self._wire.token(), local, NameAddr(target), str(target), hop)
        call = Call(name, dialog, "calling", ours=True, session_id=self._wire.rng.randrange(2**31))
        self._calls.add(call)
        self._send(call, media)
        return name

    def reinvite(self, call: Call, media: Media) -> None:
        if call.state not in ("connected", "updating", "answered"):
            raise SipError(f"the call {call.name!r} is {call.state}; only an established one can be changed")
        self._calls.stop(call, "retry")
        call.failures = 0
        if call.state == "connected":
            self._update(call, media)
        elif call.state == "updating" and call.sent_from != self._wire.local:
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
        call.media, call.sent_from, call.cancelled = media, self._wire.local, False
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
            self.timed_out(call)

    def retry(self, call: Call) -> None:
        if call.state == "connected" and call.media is not None:
            self._update(call, call.media)

    # -- what came back

    def provisional(self, call: Call, response: Response) -> None:
        if call.state == "calling" and response.status > 100 and not call.leaving:
            self._wire.report(Progress(call.name, response.status))
        if call.leaving:
            self._cancel(call)

    def accepted(self, call: Call, out: Outgoing, response: Response) -> None:
        if call.state == "calling":
            self._established(call, out, response)
        elif response.receiver.tag != call.dialog.remote.tag:
            self._turn_away(call, response)
        else:
            self._calls.ack(call, response.cseq.number, out.request)
            if call.state == "updating" and call.out is out:
                self._updated(call, response)

    def _established(self, call: Call, out: Outgoing, response: Response) -> None:
        """An answer that cannot be used is acknowledged and ended, as far as the other side can be reached."""
        self._calls.stop(call, "ring", "give up")
        try:
            call.dialog.established(response)
            self._calls.ack(call, response.cseq.number, out.request)
            remote = read_sdp(response.body, self._settings.limits)
            chosen(remote, self._settings.protocols)
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
        self._wire.report(Established(call.name, call.local, remote))

    def _updated(self, call: Call, response: Response) -> None:
        self._calls.stop(call, "ring", "give up")
        try:
            answer = read_sdp(response.body, self._settings.limits)
            chosen(answer, self._settings.protocols)
        except SipError as error:
            self._refused(call, error.status, str(error))
            return
        call.dialog.retarget(response)
        call.local, call.remote, call.agreed, call.failures = call.offer, answer, call.media, 0
        assert call.local is not None
        self._wire.report(Updated(call.name, call.local, call.remote))
        self.next(call)

    def _turn_away(self, call: Call, response: Response) -> None:
        """A proxy asked several, and this one answered too late (13.2.2.4): thanks, and goodbye."""
        dialog = Dialog(call.dialog.call_id, call.dialog.local, response.receiver, call.dialog.target)
        dialog.local_cseq = response.cseq.number
        dialog.established(response)
        other = Call(call.name, dialog, "ended", ours=True, session_id=0)
        self._calls.ack(other, response.cseq.number, None)
        self._calls.send_bye(dialog)

    def refused(self, call: Call, response: Response) -> None:
        status, reason = response.status, response.reason
        if call.state == "calling":
            self._fail(call, status, reason)
        elif call.state == "updating" and status in (408, 481):
            if status == 408:
                self._calls.send_bye(call.dialog)  # it may only have been out of reach
            self._calls.end(call, "the other side has forgotten the session")
        elif call.state == "updating":
            self._refused(call, status, reason)

    def _refused(self, call: Call, status: int, reason: str) -> None:
        wait = self._pause(call, status)
        call.failures += 1
        self._calls.stop(call, "ring", "give up")
        if wait is None:
            call.media = call.agreed
        else:
            self._calls.after(call, "retry", wait)
        self._wire.report(UpdateFailed(call.name, status, reason, wait))
        self.next(call)

    def _pause(self, call: Call, status: int) -> float | None:
        """Seconds until the next try; after a glare (491) the RFC's random times, in proportion to T1 (14.1)."""
        if status == 491:
            low, high = (2.1, 4.0) if call.ours else (0.0, 2.0)
            return self._wire.rng.uniform(low, high) * self._timers.t1 / 0.5
        if status >= 500 or status == 0:
            return min(self._timers.update_retry * float(2 ** min(call.failures, 30)), self._timers.update_retry_most)
        return None

    def timed_out(self, call: Call) -> None:
        if call.state == "calling":
            self._fail(call, 408, "no answer")
        elif call.state == "updating":
            self._refused(call, 0, "no answer")

    def _fail(self, call: Call, status: int, reason: str) -> None:
        self._calls.forget(call)
        self._wire.report(Ended(call.name, "cancelled") if call.leaving else Failed(call.name, status, reason))


class Invitation:
    """Asks for one INVITE of a call. What comes for an older one is only acknowledged."""

    def __init__(self, caller: Caller, call: Call) -> None:
        self._caller, self._call = caller, call

    def on_provisional(self, out: Outgoing, response: Response) -> None:
        if self._call.out is out:
            self._caller.provisional(self._call, response)

    def on_final(self, out: Outgoing, response: Response) -> None:
        if response.status < 300:
            self._caller.accepted(self._call, out, response)
        elif self._call.out is out:
            self._caller.refused(self._call, response)

    def on_timeout(self, out: Outgoing) -> None:
        if self._call.out is out:
            self._caller.timed_out(self._call)
