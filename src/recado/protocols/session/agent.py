"""The agent's side of a session, as a pure machine (the mobility document, 6.2, 7, 8; WebSocket and RUDP alike).

The engine (the client library, the simulator) tells it LinkUp, LinkDown, Received with the messages of a frame,
TimerFired and Asked with a request of ``agent_words``; it answers with Send (the messages for one frame), timers,
Deliver (a NOTIFY for the application, once), Report (a fact of ``agent_words``) and Persist.

==============  =========================================  =====================================================
state           means                                      leaves it
==============  =========================================  =====================================================
``dialling``    the engine tries to connect (``Dial``)     LinkUp -> greeting or connected; LinkDown -> waiting
``greeting``    HELLO is sent                              WELCOME -> connected; ERROR, silence, LinkDown -> waiting
``connected``   the Agent Status is CONNECTED              LinkDown, silence -> waiting; CLOSING -> waiting or ended
``waiting``     backing off                                the timer, ``Reachable`` -> dialling
``ended``       left, taken over, or not allowed in        never
==============  =========================================  =====================================================

On the first connection the start policy goes before everything else. On every later one the agent asks which
subscriptions the service still holds and treats the missing ones as cancelled; and it sends again, in order and with
the same ``req``, whatever was not answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from recado.protocols import machine
from recado.protocols.machine import Deliver, Effect, NodeId, Persist, Report, Rng
from recado.protocols.session import commands as words
from recado.protocols.session import messages as m
from recado.protocols.session import renewal as agent_care
from recado.protocols.session.commands import AgentError, AgentSettings
from recado.protocols.session.renewal import greet_table
from recado.protocols.session.state import AgentState, Own, Request, Waiting, raw

# --- How an agent comes to be connected, notices that it is not, and tries again -------------------------------------
#
# The waits are drawn from the whole of an interval that doubles (full jitter), so that the agents of a service that was
# restarted do not all return at once. The doubling begins anew after a connection that lasted.


_FOR_GOOD = ("taken over", "ended")
_NOT_LET_IN = (400, 401, 403)  # trying again would change nothing


def dial(a: AgentState) -> None:
    a.state = "dialling"
    a.attempt += 1
    a.report(words.Dial(a.attempt))


def link_up(a: AgentState, now: float) -> None:
    if a.state == "ended":
        a.report(words.HangUp("the session has ended"))
        return
    a.heard_at = now
    a.pinged = False
    if not a.settings.greets:
        if a.state == "connected":  # the session was updated: the service may have given up answers before that
            greet_table(a)
        else:
            connected(a, None, now)
        return
    a.state = "greeting"
    settings = a.settings
    a.sends.append(m.Hello(settings.device, settings.token, a.inbox.seen, settings.window, a.inbox.log or None))
    a.set_timer("greeting", settings.greeting_seconds)


def connected(a: AgentState, welcome: m.Welcome | None, now: float) -> None:
    a.state = "connected"
    a.connected_at = now
    a.oldest = None
    a.inbox.connected()
    a.ack_set = False
    a.cancel_timers("greeting")
    a.granted = a.window
    if welcome is not None:
        welcomed(a, welcome)
    if a.settings.silence_seconds:
        a.set_timer("silence", a.settings.silence_seconds)
    a.report(words.Connected(not a.begun, welcome))
    greet_table(a)


def welcomed(a: AgentState, welcome: m.Welcome) -> None:
    """Where nobody said HELLO the service grants a window of its own, which the next ACK may change."""
    a.window, a.granted = min(a.settings.window, welcome.window), welcome.window
    _check_log(a, welcome)


def _check_log(a: AgentState, welcome: m.Welcome) -> None:
    """Is this the log that our numbers are of? Else they mean nothing, and would hide what is new."""
    inbox = a.inbox
    reason = ""
    if inbox.log and welcome.log and inbox.log != welcome.log:
        reason = "the service has another log than the one that this device knew"
    elif welcome.end is not None and inbox.seen is not None and inbox.seen >= welcome.end << m.ORDINAL_BITS:
        reason = "the service's log ends before what this device has seen, so an older copy of it is in use"
    if reason:
        inbox.begin_anew()
        a.report(words.BegunAnew(reason))
    if reason or welcome.log != inbox.log:
        inbox.log = welcome.log
        a.effects.append(Persist("inbox", inbox.saved()))


def link_down(a: AgentState, reason: str, now: float, rng: Rng) -> None:
    """What the agent asked by itself is forgotten: it looks at the table again on the next connection."""
    if a.state in ("waiting", "ended", "new"):
        return
    if a.state == "connected" and now - a.connected_at >= a.settings.steady_seconds:
        a.attempt = 0
    a.outbox.parts.clear()
    a.outbox.busy.clear()  # everything that waits is sent again on the next connection
    for req, waiting in list(a.outbox.waiting.items()):
        if isinstance(waiting.ref, Own):
            del a.outbox.waiting[req]
    wait = rng.uniform(0.0, _longest_wait(a))
    a.state = "waiting"
    a.cancel_timers("silence", "greeting", "busy", "renew")  # renewals begin again when the table has been compared
    a.set_timer("dial", wait)
    a.report(words.Disconnected(reason, wait))


def _longest_wait(a: AgentState) -> float:
    doublings = min(max(0, a.attempt - 1), 30)
    return min(a.settings.longest_wait_seconds, a.settings.first_wait_seconds * 2.0**doublings)


def hang_up(a: AgentState, reason: str, now: float, rng: Rng) -> None:
    a.report(words.HangUp(reason))
    link_down(a, reason, now, rng)


def end(a: AgentState, reason: str, code: int = 0) -> None:
    a.state = "ended"
    a.cancel_timers("silence", "greeting", "dial", "renew", "ack", "busy")
    for waiting in a.outbox.clear():
        a.drop(waiting, f"the session has ended: {reason}")
    a.report(words.Ended(reason, code))


def silence(a: AgentState, now: float, rng: Rng) -> None:
    """Nothing heard for so long: ask with PING; no answer to that either: the connection is dead (6.2).

    It is dead, too, if an answer does not come for twice as long.
    """
    left = a.heard_at + a.settings.silence_seconds - now
    if _answer_missing(a, now):
        hang_up(a, "an answer of the service did not come", now, rng)
    elif left > 0:
        a.set_timer("silence", left)
    elif a.pinged:
        hang_up(a, "the service is silent", now, rng)
    else:
        a.pinged = True
        a.ask(m.Ping(a.outbox.number()), Own("ping"))
        a.set_timer("silence", a.settings.silence_seconds)


def _answer_missing(a: AgentState, now: float) -> bool:
    """Over RUDP the service may give up sending while we hear it again soon after: the answers between are lost."""
    oldest = a.outbox.oldest()
    if oldest != a.oldest:
        a.oldest, a.oldest_at = oldest, now
        return False
    return oldest is not None and now - a.oldest_at >= 2 * a.settings.silence_seconds


def closing(a: AgentState, reason: str, now: float, rng: Rng) -> None:
    """The service ends the connection: for good, if another connection of this device or an operator wanted it."""
    if reason in _FOR_GOOD:
        a.report(words.HangUp(reason))
        end(a, reason)
    else:
        hang_up(a, f"the service closes the connection: {reason}", now, rng)


def not_welcome(a: AgentState, error: m.Error, now: float, rng: Rng) -> None:
    if error.code in _NOT_LET_IN:
        a.report(words.HangUp(error.text))
        end(a, error.text, error.code)
    else:
        hang_up(a, f"the service refused the session: {error.text}", now, rng)


# --- The agent's side of a session, as a pure machine (the mobility document, 6.2, 7, 8; WebSocket and RUDP alike)

SERVICE = "service"
_BUSY, _TOO_MANY = 503, 429


class Agent(AgentState):
    """One device's session. ``service`` is whom messages are for, as the engine calls it."""

    def __init__(self, settings: AgentSettings | None = None, service: NodeId = SERVICE) -> None:
        super().__init__(settings or AgentSettings(), service)

    @property
    def status(self) -> Literal["CONNECTED", "DISCONNECTED"]:
        return "CONNECTED" if self.state == "connected" else "DISCONNECTED"

    def handle(self, stimulus: machine.Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        """One step; an Asked that cannot be done raises an AgentError and changes nothing."""
        match stimulus:
            case machine.Received():
                self._received(stimulus.message, now, rng)
            case machine.Asked():
                self._asked(stimulus.request, now, rng)
            case machine.TimerFired(timer):
                self._timer(timer, now, rng)
            case machine.LinkUp():
                link_up(self, now)
            case machine.LinkDown() | machine.SendFailed():
                link_down(self, "the connection was lost", now, rng)
            case machine.Started(_, saved):
                self.inbox.restore(saved.get("inbox", {}))
                self.table.restore(saved)
                dial(self)
        return self.done()

    def inspect(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "status": self.status,
            "attempt": self.attempt,
            "waiting_requests": len(self.outbox.waiting),
            "dropped_requests": self.outbox.dropped,
            "handed": self.inbox.handed,
            "repeated": self.inbox.repeated,
            "in_hand": len(self.inbox.held),
            "seen": self.inbox.seen,
            "subscriptions": {sub_id: held.expires_at for sub_id, held in self.table.held.items()},
        }

    def _timer(self, timer: machine.TimerKey, now: float, rng: Rng) -> None:
        """A timer that no longer concerns the state it fires in does nothing."""
        match timer, self.state:
            case "ack", "connected":
                self.ack_set = False
                self._confirm()
            case "busy", "connected":
                self.sends.extend(self.outbox.again())
            case "renew", "connected":
                agent_care.renew_due(self, now)
            case "silence", "connected":
                silence(self, now, rng)
            case "greeting", "greeting":
                hang_up(self, "no WELCOME came", now, rng)
            case "dial", "waiting":
                dial(self)

    # -- what the application asks

    def _asked(self, request: Any, now: float, rng: Rng) -> None:
        match request:
            case words.PublishEvent():
                self._request(request)
            case words.Took(nids):
                self.inbox.took(nids)
                self._set_ack()
            case words.Reachable():
                if self.state == "waiting":
                    self.cancel_timers("dial")
                    dial(self)
            case words.TurnedAway(code, text):
                if self.state == "dialling":
                    not_welcome(self, m.Error(None, code, text), now, rng)
            case words.Leave():
                self._leave()
            case _:
                self._request(request)

    def _request(self, request: Any) -> None:
        if self.state == "ended":
            raise AgentError("the session has ended; connect again to make another request")
        if self.state != "connected":
            self._make_room()
        message = self._message(request)
        self.outbox.add(message, request.ref)
        if self.begun and self.state == "connected":
            self.sends.append(message)

    def _message(self, request: Any) -> Request:
        req = self.outbox.number()
        match request:
            case words.PublishEvent(event):
                return m.Publish(req, event)
            case words.MakeSubscription(record):
                return m.Subscribe(req, raw(record))
            case words.CancelSubscription(sub_id):
                self.table.begin_leaving(sub_id)
                self.keep(sub_id)
                return m.Unsubscribe(req, sub_id)
            case words.RenewSubscription(sub_id, ttl, expires_at):
                return m.Renew(req, sub_id, expires_at, ttl)
            case words.ListSubscriptions():
                return m.QuerySubs(req)
            case words.DiscardSubscriptions():
                return m.DiscardSubs(req)
            case words.ReplayLog(record, position, since, limit):
                return m.Replay(req, raw(record), position, since, limit)
        raise AgentError(f"an agent knows no request {type(request).__name__}")

    def _make_room(self) -> None:
        if self.outbox.limit == 0:
            raise AgentError("there is no connection to the service, and the outbox is off")
        dropped = self.outbox.overflow()
        if dropped is not None:
            self.drop(dropped, f"the outbox holds {self.outbox.limit:,} requests, and newer ones came")

    def _leave(self) -> None:
        if self.state == "ended":
            return
        if self.state == "connected":
            self._confirm(apart=True)
            self.sends.append(m.Bye())
        end(self, "the application left")

    # -- what the service says

    def _received(self, messages: Sequence[m.FromService], now: float, rng: Rng) -> None:
        """Also while the agent counts as disconnected: over RUDP the service takes what arrived as delivered."""
        if self.state == "ended":
            return
        self.heard_at = now
        self.pinged = False
        for message in messages:
            if isinstance(message, m.Notify):
                if self.inbox.came(message):
                    self.effects.append(Deliver(message))
            elif isinstance(message, m.Ok | m.Subscribed | m.Subs):
                self._answered(message, now)
            else:
                self._said(message, now, rng)
        self._set_ack()

    def _said(self, message: m.FromService, now: float, rng: Rng) -> None:
        match message:
            case m.Welcome():
                if self.state == "greeting":
                    connected(self, message, now)
                elif not self.settings.greets:
                    welcomed(self, message)
            case m.Error():
                if self.state == "greeting":
                    not_welcome(self, message, now, rng)
                else:
                    self._answered(message, now)
            case m.Replayed():
                waiting = self.outbox.streamed(message)
                if waiting is not None:
                    self.report(words.Streamed(waiting.ref, message))
            case m.Gap(notice):
                if self.inbox.noticed(notice):
                    self.report(words.GapFound(message))
            case m.SubCancelled(notice, sub_ids, reason):
                if self.inbox.noticed(notice):
                    for sub_id in sub_ids:
                        agent_care.cancelled(self, sub_id, reason)
            case m.Closing(reason):
                closing(self, reason, now, rng)

    def _answered(self, answer: words.Answer, now: float) -> None:
        if isinstance(answer, m.Subs):
            whole = self.outbox.joined(answer)
            if whole is None:
                return
            answer = whole
        waiting = self.outbox.take(answer.req)
        if waiting is None:
            return
        message, ref, tries = waiting
        if not isinstance(message, m.Publish):
            later = (_BUSY, _TOO_MANY) if isinstance(ref, Own) else (_BUSY,)
            if isinstance(answer, m.Error) and answer.code in later and tries < self.settings.busy_tries:
                self._put_off(waiting)
                return
            agent_care.note(self, message, answer, now)
        if not isinstance(ref, Own):
            self.effects.append(Report(words.Answered(ref, answer)))
            return
        refused = agent_care.own_answer(self, ref, answer, now)
        if refused is not None:
            self.report(words.HangUp(refused))
            end(self, refused)

    def _put_off(self, waiting: Waiting) -> None:
        if not self.outbox.busy:
            self.set_timer("busy", self.settings.busy_seconds)
        self.outbox.put_off(waiting.message.req, waiting)

    # -- acknowledgements

    def _set_ack(self) -> None:
        """Confirm now if a quarter of the window is done, or the window should be another one; else soon."""
        inbox, quarter = self.inbox, max(1, self.window // 4)
        inbox.advance()
        if self.state != "connected":
            return
        apart = inbox.apart >= quarter
        wanted = self._wanted_window(quarter)
        if inbox.unconfirmed >= quarter or apart or wanted != self.granted:
            self._confirm(wanted, apart=apart)
        elif (inbox.unconfirmed or inbox.notices) and not self.ack_set:
            self.ack_set = True
            self.set_timer("ack", self.settings.ack_seconds)

    def _wanted_window(self, quarter: int) -> int:
        """Another one only where it is nearly full, or much too wide: then the reason is looked for."""
        inbox, granted = self.inbox, self.granted
        full = len(inbox.open) > granted - quarter
        if not full and (granted == self.window or len(inbox.open) >= granted - self.window - quarter):
            return granted
        known, holding = self.table.held, inbox.holding()
        alone = len(known) <= 1 and len(holding) <= 1 and not (known and holding.keys() - known.keys())
        wanted = self.window if alone else inbox.wanted_window(self.window, granted)
        if wanted < granted:
            self.crowded = False
        elif wanted == granted > self.window and len(inbox.open) >= granted and not self.crowded:
            self.crowded = True
            self.report(words.Crowded(*holding.most_common(1)[0]))
        return wanted

    def _confirm(self, wanted: int | None = None, *, apart: bool = False) -> None:
        """What is confirmed is kept first: else a crash between the two could bring it to the application again."""
        upto, notices = self.inbox.confirm()
        nids = self.inbox.confirm_apart() if apart else ()
        if upto is not None or nids:
            self.effects.append(Persist("inbox", self.inbox.saved()))
        window = None if wanted in (None, self.granted) else wanted
        self.granted = window or self.granted
        if self.settings.confirms and (upto is not None or notices or nids or window is not None):
            self.sends.append(m.Ack(upto, notices, nids, window))
