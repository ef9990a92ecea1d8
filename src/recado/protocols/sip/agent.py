"""The user agent, a machine. ``recado.protocols.sip`` describes how it is used.

This module only joins the parts: messages are read and checked, and given to the transaction layer; what the layer
tells goes to the part that it concerns.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from recado.protocols.machine import Asked, Effect, Received, Rng, SendFailed, Stimulus, TimerFired
from recado.protocols.sip.calls import ALLOW, Callee, Caller
from recado.protocols.sip.checks import challenge, check_request, check_response, complaint, refuse, screen
from recado.protocols.sip.dialog import Call, Calls
from recado.protocols.sip.digest import Authenticator, Guard
from recado.protocols.sip.events import (
    AgentSettings,
    Answer,
    Bye,
    Ended,
    Invite,
    MoveTo,
    OptionsAnswered,
    QueryOptions,
    Register,
    Reinvite,
    Reject,
    Step,
    TimerKey,
    Unregister,
)
from recado.protocols.sip.messages import BadRequestError, Request, Response, read_message
from recado.protocols.sip.registration import REFRESH, Registration
from recado.protocols.sip.text import SipError
from recado.protocols.sip.transactions import Outgoing, Requests, Transaction, Transactions
from recado.protocols.sip.uri import Address, NameAddr, SipUri, read_sip_uri


class UserAgent:
    def __init__(self, settings: AgentSettings, local: Address, guard: Guard | None = None) -> None:
        """With a guard, whoever calls has to prove who it is."""
        self.settings, self._guard = settings, guard
        self._step = Step(local)
        self._transactions = Transactions(self._step, settings.timers, settings.limits, self)
        self._requests = Requests(self._step, self._transactions, Authenticator(settings.credentials))
        self._registration = Registration(settings, self._step, self._requests)
        self._calls = Calls(settings, self._step, self._requests)
        self._caller = Caller(self._calls)
        self._callee = Callee(self._calls, self._transactions, self._caller, proven=guard is not None)

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        """One step. Only an Asked raises: SipError, if it makes no sense."""
        self._step.begin(now, rng)
        match stimulus:
            case Received(Address() as source, bytes() as data):
                self._receive(data, source)
            case TimerFired(tuple() as key):
                self._fire(key)
            case SendFailed(Address() as address):
                self._transactions.unreachable(address)
            case Asked(request):
                self._ask(request)
        return self._step.take()

    def _ask(self, request: Any) -> None:
        match request:
            case Register():
                self._registration.start()
            case Unregister():
                self._registration.stop()
            case MoveTo(local):
                self._step.local = local
                if self._registration.wanted:
                    self._registration.start()
            case Invite(call, uri, media):
                self._caller.invite(call, uri, media)
            case Reinvite(call, media):
                self._caller.reinvite(self._calls.get(call), media)
            case Answer(call, media):
                self._callee.answer(self._calls.get(call), media)
            case Reject(call, status, reason):
                self._callee.reject(self._calls.get(call), status, reason)
            case Bye(call):
                self._bye(self._calls.get(call))
            case QueryOptions(name, uri):
                self._requests.send(Question(self._step, name, read_sip_uri(uri), self.settings).out)
            case _:
                raise SipError(f"a user agent knows no request {type(request).__name__}")

    def _bye(self, call: Call) -> None:
        if call.state == "incoming":
            self._callee.reject(call, 480, None)
            self._step.report(Ended(call.name, "ended here"))
        else:
            self._caller.bye(call)

    @property
    def local(self) -> Address:
        return self._step.local

    def inspect(self) -> dict[str, Any]:
        """The state as plain data."""
        return {
            "local": str(self._step.local),
            "calls": {call.name: call.state for call in self._calls.table.values()},
            "clients": {one.key: one.state for one in self._transactions.clients.values()},
            "servers": {one.key: one.state for one in self._transactions.servers.values()},
            "timers": [" ".join(key) for key in self._step.timers],
        }

    # -- from the transport

    def _receive(self, data: bytes, source: Address) -> None:
        if not data.strip(b"\r\n\0 "):
            return  # a keep-alive
        try:
            self._receive_message(read_message(data, self.settings.limits), source)
        except SipError as error:
            self._complain(error, source)

    def _receive_message(self, message: Request | Response, source: Address) -> None:
        if isinstance(message, Response):
            check_response(message)
            self._transactions.receive_response(message)
            return
        try:
            check_request(message)
        except SipError as error:
            raise BadRequestError(str(error), error.status, message.headers) from error
        self._transactions.receive_request(message, source)

    def _complain(self, error: SipError, source: Address) -> None:
        answer = complaint(error)
        if answer is not None:
            self._step.transmit(answer.write(), source, "it was not understood")

    def _fire(self, key: TimerKey) -> None:
        if key not in self._step.timers:
            return
        del self._step.timers[key]
        with suppress(SipError):  # the other side told a place that cannot be reached; its timers end the matter
            self._do_due(key)

    def _do_due(self, key: TimerKey) -> None:
        if key == REFRESH:
            self._registration.fire()
        elif key[0] != "call":
            self._transactions.fire(key)
        else:
            call = self._calls.get(key[1])
            match key[2]:
                case "ok":
                    self._callee.repeat_ok(call)
                case "ack":
                    self._callee.no_ack(call)
                case "retry":
                    self._caller.retry(call)
                case "give up":
                    self._caller.give_up(call)
                case _ if call.state == "incoming":
                    self._callee.nobody_answered(call)
                case _:
                    self._caller.ring_too_long(call)

    # -- from the transaction layer

    def screen(self, request: Request, source: Address) -> Response | None:
        refused = screen(request)
        if refused is not None:
            return refused
        if request.method == "OPTIONS":
            return self._capabilities(request)
        if request.method == "CANCEL":
            return None if self._transactions.invite_of(request) is not None else refuse(request, 481)
        if request.method != "INVITE" or request.receiver.tag is not None:
            return None if self._calls.find(request) is not None else refuse(request, 481)
        if len(self._calls.table) >= self.settings.limits.calls:
            return refuse(request, 503, ("retry-after", "5"))
        if self._guard is None:
            return None
        return challenge(request, source, self._guard, "authorization", self._step.now)

    def on_request(self, transaction: Transaction) -> None:
        request = transaction.request
        try:
            self._serve(transaction, request)
        except SipError as error:
            made = refuse(request, error.status)
            if error.status in (491, 500):
                made.headers.add("retry-after", "1")
            self._transactions.respond(transaction, made)

    def _serve(self, transaction: Transaction, request: Request) -> None:
        call = self._calls.find(request)
        if request.method == "CANCEL":
            self._callee.on_cancel(transaction)
        elif request.method == "INVITE" and request.receiver.tag is None:
            self._callee.on_invite(transaction)
        elif call is None:
            raise SipError("there is no such session here", 481)
        elif request.method == "INVITE":
            self._callee.on_reinvite(call, transaction)
        else:
            self._callee.on_bye(call, transaction)

    def _capabilities(self, request: Request) -> Response:
        made = refuse(request, 200)
        made.headers.add("contact", self._calls.contact_header())
        made.headers.add("allow", ALLOW)
        made.headers.add("accept", "application/sdp")
        return made

    def on_response(self, transaction: Transaction, response: Response) -> None:
        self._requests.on_response(transaction, response)

    def on_timeout(self, transaction: Transaction) -> None:
        out: Outgoing = transaction.owner
        out.asker.on_timeout(out)

    def on_ack(self, request: Request) -> None:
        call = self._calls.find(request)
        if call is not None:
            self._callee.on_ack(call, request)

    def on_stray(self, response: Response) -> None:
        """A 2xx of an INVITE that was given up: the other side waits for its ACK."""
        call = self._calls.table.get(response.sender.tag or "")
        if call is None or call.state not in ("connected", "updating"):
            return
        if (call.dialog.call_id, call.dialog.remote.tag) == (response.call_id, response.receiver.tag):
            self._calls.ack(call, response.cseq.number, None)


class Question:
    """One OPTIONS outside of a dialog: is anybody there?"""

    def __init__(self, step: Step, name: str, target: SipUri, settings: AgentSettings) -> None:
        self._step, self.name, self.local_cseq = step, name, 1
        request = Request(method="OPTIONS", uri=str(target))
        request.headers.add("max-forwards", "70")
        request.headers.add("from", str(NameAddr(read_sip_uri(settings.aor), "", (("tag", self.name),))))
        request.headers.add("to", str(NameAddr(target)))
        request.headers.add("call-id", step.new_name())
        request.headers.add("cseq", "1 OPTIONS")
        request.headers.add("accept", "application/sdp")
        self.out = Outgoing(request, settings.home or target.address, self, self)

    def on_provisional(self, out: Outgoing, response: Response) -> None:
        pass

    def on_final(self, out: Outgoing, response: Response) -> None:
        self._step.report(OptionsAnswered(self.name, response.status))

    def on_timeout(self, out: Outgoing) -> None:
        self._step.report(OptionsAnswered(self.name, 408))
