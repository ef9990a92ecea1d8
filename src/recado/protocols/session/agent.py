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
from recado.protocols.session import agent_care, agent_link
from recado.protocols.session import agent_words as words
from recado.protocols.session import messages as m
from recado.protocols.session.agent_outbox import Request, Waiting
from recado.protocols.session.agent_state import AgentState, Own, raw
from recado.protocols.session.agent_words import AgentError, AgentSettings

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
                agent_link.link_up(self, now)
            case machine.LinkDown() | machine.SendFailed():
                agent_link.link_down(self, "the connection was lost", now, rng)
            case machine.Started(_, saved):
                self.inbox.restore(saved.get("inbox", {}))
                self.table.restore(saved)
                agent_link.dial(self)
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
                agent_link.silence(self, now, rng)
            case "greeting", "greeting":
                agent_link.hang_up(self, "no WELCOME came", now, rng)
            case "dial", "waiting":
                agent_link.dial(self)

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
                    agent_link.dial(self)
            case words.TurnedAway(code, text):
                if self.state == "dialling":
                    agent_link.not_welcome(self, m.Error(None, code, text), now, rng)
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
        agent_link.end(self, "the application left")

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
                    agent_link.connected(self, message, now)
                elif not self.settings.greets:
                    agent_link.welcomed(self, message)
            case m.Error():
                if self.state == "greeting":
                    agent_link.not_welcome(self, message, now, rng)
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
                agent_link.closing(self, reason, now, rng)

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
            agent_link.end(self, refused)

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
