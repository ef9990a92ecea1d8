"""The agent's side of a session, as a pure machine (the mobility document, 6.2, 7, 8; WebSocket and RUDP alike).

The engine (the client library, the simulator) tells it LinkUp, LinkDown, Received with the messages of a frame,
TimerFired and Asked with a request of ``commands``; it answers with Send (the messages for one frame), timers,
Deliver (a NOTIFY for the application, once), Report (a fact of ``commands``) and Persist.

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
from recado.protocols.session import commands, renewal
from recado.protocols.session import messages as m
from recado.protocols.session.commands import AgentError, AgentSettings
from recado.protocols.session.state import AgentRequest, AgentState, Request, Waiting, raw

# --- How an agent comes to be connected, notices that it is not, and tries again -------------------------------------
#
# The waits are drawn from the whole of an interval that doubles (full jitter), so that the agents of a service that was
# restarted do not all return at once. The doubling begins anew after a connection that lasted. No wait is longer than
# half of the time that the agent has been without the service: after an outage of seconds it returns within seconds.


_FOR_GOOD = ("taken over", "ended")
_NOT_LET_IN = (400, 401, 403)  # trying again would change nothing


def dial(a: AgentState) -> None:
    a.state = "dialling"
    a.attempt += 1
    a.report(commands.Dial(a.attempt))


def link_up(a: AgentState, now: float) -> None:
    if a.state == "ended":
        a.report(commands.HangUp("the session has ended"))
        return
    a.heard_at = now
    a.pinged = False
    if not a.settings.greets:
        if a.state == "connected":  # the session was updated: the service may have given up answers before that
            renewal.greet_table(a)
        else:
            become_connected(a, None, now)
        return
    a.state = "greeting"
    settings = a.settings
    a.sends.append(m.Hello(settings.device, settings.token, a.inbox.seen, settings.window, a.inbox.log or None))
    a.set_timer("greeting", settings.greeting_seconds)


def become_connected(a: AgentState, welcome: m.Welcome | None, now: float) -> None:
    a.state = "connected"
    a.connected_at = now
    a.oldest = None
    a.inbox.start_connection()
    a.ack_set = False
    a.cancel_timers("greeting")
    a.granted = a.window
    if welcome is not None:
        take_welcome(a, welcome)
    if a.settings.silence_seconds:
        a.set_timer("silence", a.settings.silence_seconds)
    a.report(commands.Connected(not a.begun, welcome))
    renewal.greet_table(a)


def take_welcome(a: AgentState, welcome: m.Welcome) -> None:
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
        a.report(commands.BegunAnew(reason))
    if reason or welcome.log != inbox.log:
        inbox.log = welcome.log
        a.effects.append(Persist("inbox", inbox.dump()))


def link_down(a: AgentState, reason: str, now: float, rng: Rng) -> None:
    """What the agent asked by itself is forgotten: it looks at the table again on the next connection."""
    if a.state in ("waiting", "ended", "new"):
        return
    if a.state == "connected" and now - a.connected_at >= a.settings.steady_seconds:
        a.attempt = 0
        a.lost_at = now
    a.effects.append(Persist("inbox", a.inbox.dump()))  # what was done and is not confirmed
    a.outbox.parts.clear()
    a.outbox.busy.clear()  # everything that waits is sent again on the next connection
    for req, waiting in list(a.outbox.waiting.items()):
        if isinstance(waiting.ref, AgentRequest):
            del a.outbox.waiting[req]
    wait = rng.uniform(0.0, _longest_wait(a, now))
    a.state = "waiting"
    a.cancel_timers("silence", "greeting", "busy", "renew")  # renewals begin again when the table has been compared
    a.set_timer("dial", wait)
    a.report(commands.Disconnected(reason, wait))


def _longest_wait(a: AgentState, now: float) -> float:
    doublings = min(max(0, a.attempt - 1), 30)
    first = a.settings.first_wait_seconds
    return min(a.settings.longest_wait_seconds, first * 2.0**doublings, max(first, (now - a.lost_at) / 2))


def hang_up(a: AgentState, reason: str, now: float, rng: Rng) -> None:
    a.report(commands.HangUp(reason))
    link_down(a, reason, now, rng)


def end(a: AgentState, reason: str, code: int = 0) -> None:
    a.state = "ended"
    a.effects.append(Persist("inbox", a.inbox.dump()))
    a.cancel_timers("silence", "greeting", "dial", "renew", "ack", "busy")
    for waiting in a.outbox.clear():
        a.drop(waiting, f"the session has ended: {reason}")
    a.report(commands.Ended(reason, code))


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
        a.ask(m.Ping(a.outbox.number()), AgentRequest("ping"))
        a.set_timer("silence", a.settings.silence_seconds)


def _answer_missing(a: AgentState, now: float) -> bool:
    """Over RUDP the service may give up sending while we hear it again soon after: the answers between are lost."""
    oldest = a.outbox.oldest()
    if oldest != a.oldest:
        a.oldest, a.oldest_at = oldest, now
        return False
    return oldest is not None and now - a.oldest_at >= 2 * a.settings.silence_seconds


def take_closing(a: AgentState, reason: str, now: float, rng: Rng) -> None:
    """The service ends the connection: for good, if another connection of this device or an operator wanted it."""
    if reason in _FOR_GOOD:
        a.report(commands.HangUp(reason))
        end(a, reason)
    else:
        hang_up(a, f"the service closes the connection: {reason}", now, rng)


def take_refusal(a: AgentState, error: m.Error, now: float, rng: Rng) -> None:
    if error.code in _NOT_LET_IN:
        a.report(commands.HangUp(error.text))
        end(a, error.text, error.code)
    else:
        hang_up(a, f"the service refused the session: {error.text}", now, rng)


# --- What the application asks, what the service says, and what is due -----------------------------------------------

SERVICE = "service"
_BUSY, _TOO_MANY = 503, 429


def _fire(a: AgentState, timer: machine.TimerKey, now: float, rng: Rng) -> None:
    """A timer that no longer concerns the state it fires in does nothing."""
    match timer, a.state:
        case "ack", "connected":
            a.ack_set = False
            _confirm(a)
        case "busy", "connected":
            a.sends.extend(a.outbox.again())
        case "renew", "connected":
            renewal.renew_due(a, now)
        case "silence", "connected":
            silence(a, now, rng)
        case "greeting", "greeting":
            hang_up(a, "no WELCOME came", now, rng)
        case "dial", "waiting":
            dial(a)


# -- what the application asks


def _take_request(a: AgentState, request: Any, now: float, rng: Rng) -> None:
    match request:
        case commands.PublishEvent():
            _request(a, request)
        case commands.Took(nids):
            a.inbox.release(nids)
            _set_ack(a)
        case commands.Reachable():
            if a.state == "waiting":
                a.cancel_timers("dial")
                dial(a)
        case commands.TurnedAway(code, text):
            if a.state == "dialling":
                take_refusal(a, m.Error(None, code, text), now, rng)
        case commands.Leave(forget):
            _leave(a, forget)
        case _:
            _request(a, request)


def _request(a: AgentState, request: Any) -> None:
    if a.state == "ended":
        raise AgentError("the session has ended; connect again to make another request")
    if a.state != "connected":
        _make_room(a)
    message = _message_of(a, request)
    a.outbox.add(message, request.ref)
    if a.begun and a.state == "connected":
        a.sends.append(message)


def _message_of(a: AgentState, request: Any) -> Request:
    req = a.outbox.number()
    match request:
        case commands.PublishEvent(event):
            return m.Publish(req, event)
        case commands.MakeSubscription(record):
            return m.Subscribe(req, raw(record))
        case commands.CancelSubscription(sub_id):
            a.table.begin_leaving(sub_id)
            a.keep(sub_id)
            return m.Unsubscribe(req, sub_id)
        case commands.RenewSubscription(sub_id, ttl, expires_at):
            return m.Renew(req, sub_id, expires_at, ttl)
        case commands.ListSubscriptions():
            return m.QuerySubs(req)
        case commands.DiscardSubscriptions():
            return m.DiscardSubs(req)
        case commands.ReplayLog(record, position, since, limit):
            return m.Replay(req, raw(record), position, since, limit)
    raise AgentError(f"an agent knows no request {type(request).__name__}")


def _make_room(a: AgentState) -> None:
    if a.outbox.limit == 0:
        raise AgentError("there is no connection to the service, and the outbox is off")
    dropped = a.outbox.overflow()
    if dropped is not None:
        a.drop(dropped, f"the outbox holds {a.outbox.limit:,} requests, and newer ones came")


def _leave(a: AgentState, forget: bool) -> None:
    if a.state == "ended":
        return
    if a.state == "connected":
        _confirm(a, apart=True)
        a.sends.append(m.Bye(forget))
    end(a, "the application left")


# -- what the service says


def _receive(a: AgentState, messages: Sequence[m.FromService], now: float, rng: Rng) -> None:
    """Also while the agent counts as disconnected: over RUDP the service takes what arrived as delivered."""
    if a.state == "ended":
        return
    a.heard_at = now
    a.pinged = False
    for message in messages:
        if isinstance(message, m.Notify):
            if a.inbox.add(message):
                a.effects.append(Deliver(message))
        elif isinstance(message, m.Ok | m.Subscribed | m.Subs):
            _settle_request(a, message, now)
        else:
            _receive_other(a, message, now, rng)
    _set_ack(a)


def _receive_other(a: AgentState, message: m.FromService, now: float, rng: Rng) -> None:
    match message:
        case m.Welcome():
            if a.state == "greeting":
                become_connected(a, message, now)
            elif not a.settings.greets:
                take_welcome(a, message)
        case m.Error():
            if a.state == "greeting":
                take_refusal(a, message, now, rng)
            else:
                _settle_request(a, message, now)
        case m.Replayed():
            waiting = a.outbox.note_progress(message)
            if waiting is not None:
                a.report(commands.Streamed(waiting.ref, message))
        case m.Gap(notice):
            if a.inbox.add_notice(notice):
                a.report(commands.GapFound(message))
        case m.SubCancelled(notice, sub_ids, reason):
            if a.inbox.add_notice(notice):
                for sub_id in sub_ids:
                    renewal.take_cancellation(a, sub_id, reason or "expired")
        case m.Closing(reason):
            take_closing(a, reason, now, rng)


def _settle_request(a: AgentState, answer: commands.Answer, now: float) -> None:
    if isinstance(answer, m.Subs):
        whole = a.outbox.join_parts(answer)
        if whole is None:
            return
        answer = whole
    waiting = a.outbox.take(answer.req)
    if waiting is None:
        return
    message, ref, tries = waiting
    if not isinstance(message, m.Publish):
        later = (_BUSY, _TOO_MANY) if isinstance(ref, AgentRequest) else (_BUSY,)
        if isinstance(answer, m.Error) and answer.code in later and tries < a.settings.busy_tries:
            _put_off(a, waiting)
            return
        renewal.note(a, message, answer, now)
    if not isinstance(ref, AgentRequest):
        a.effects.append(Report(commands.Answered(ref, answer)))
        return
    refused = renewal.own_answer(a, ref, answer, now)
    if refused is not None:
        a.report(commands.HangUp(refused))
        end(a, refused)


def _put_off(a: AgentState, waiting: Waiting) -> None:
    if not a.outbox.busy:
        a.set_timer("busy", a.settings.busy_seconds)
    a.outbox.put_off(waiting.message.req, waiting)


# -- acknowledgements


def _set_ack(a: AgentState) -> None:
    """Confirm now if a quarter of the window is done, or the window should be another one; else soon.

    Without a connection it is kept at least: the service brings it again, and this may be another run of the program.
    """
    inbox, quarter = a.inbox, max(1, a.window // 4)
    inbox.advance()
    if a.state != "connected":
        a.effects.append(Persist("inbox", inbox.dump()))
        return
    apart = inbox.apart >= quarter
    wanted = _wanted_window(a, quarter)
    if inbox.unconfirmed >= quarter or apart or wanted != a.granted:
        _confirm(a, wanted, apart=apart)
    elif (inbox.unconfirmed or inbox.notices) and not a.ack_set:
        a.ack_set = True
        a.set_timer("ack", a.settings.ack_seconds)


def _wanted_window(a: AgentState, quarter: int) -> int:
    """Another one only where it is nearly full, or much too wide: then the reason is looked for."""
    inbox, granted = a.inbox, a.granted
    full = len(inbox.open) > granted - quarter
    if not full and (granted == a.window or len(inbox.open) >= granted - a.window - quarter):
        return granted
    known, holding = a.table.subscriptions, inbox.holding()
    alone = len(known) <= 1 and len(holding) <= 1 and not (known and holding.keys() - known.keys())
    wanted = a.window if alone else inbox.wanted_window(a.window, granted)
    if wanted < granted:
        a.crowded = False
    elif wanted == granted > a.window and len(inbox.open) >= granted and not a.crowded:
        a.crowded = True
        a.report(commands.Crowded(*holding.most_common(1)[0]))
    return wanted


def _confirm(a: AgentState, wanted: int | None = None, *, apart: bool = False) -> None:
    """What is confirmed is kept first: else a crash between the two could bring it to the application again."""
    upto, notices = a.inbox.confirm()
    nids = a.inbox.confirm_apart() if apart else ()
    if upto is not None or nids:
        a.effects.append(Persist("inbox", a.inbox.dump()))
    window = None if wanted in (None, a.granted) else wanted
    a.granted = window or a.granted
    if a.settings.confirms and (upto is not None or notices or nids or window is not None):
        a.sends.append(m.Ack(upto, notices, nids, window))


class Agent:
    """One device's session. ``service`` is whom messages are for, as the engine calls it; ``session`` is its state."""

    def __init__(self, settings: AgentSettings | None = None, service: NodeId = SERVICE) -> None:
        self.session = AgentState(settings or AgentSettings(), service)

    @property
    def status(self) -> Literal["CONNECTED", "DISCONNECTED"]:
        return "CONNECTED" if self.session.state == "connected" else "DISCONNECTED"

    def handle(self, stimulus: machine.Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        """One step; an Asked that cannot be done raises an AgentError and changes nothing."""
        a = self.session
        match stimulus:
            case machine.Received():
                _receive(a, stimulus.message, now, rng)
            case machine.Asked():
                _take_request(a, stimulus.request, now, rng)
            case machine.TimerFired(timer):
                _fire(a, timer, now, rng)
            case machine.LinkUp():
                link_up(a, now)
            case machine.LinkDown() | machine.SendFailed():
                link_down(a, "the connection was lost", now, rng)
            case machine.Started(_, saved):
                a.inbox.restore(saved.get("inbox", {}))
                a.table.restore(saved)
                a.lost_at = now
                dial(a)
        return a.done()

    def inspect(self) -> dict[str, Any]:
        a = self.session
        return {
            "state": a.state,
            "status": self.status,
            "attempt": a.attempt,
            "waiting_requests": len(a.outbox.waiting),
            "dropped_requests": a.outbox.dropped,
            "handed": a.inbox.handed,
            "repeated": a.inbox.repeated,
            "in_hand": len(a.inbox.held),
            "seen": a.inbox.seen,
            "subscriptions": {sub_id: held.expires_at for sub_id, held in a.table.subscriptions.items()},
        }
