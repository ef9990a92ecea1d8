"""How an agent comes to be connected, notices that it is not, and tries again.

The waits are drawn from the whole of an interval that doubles (full jitter), so that the agents of a service that was
restarted do not all return at once. The doubling begins anew after a connection that lasted.
"""

from __future__ import annotations

from recado.protocols.machine import Persist, Rng
from recado.protocols.session import agent_words as words
from recado.protocols.session import messages as m
from recado.protocols.session.agent_care import greet_table
from recado.protocols.session.agent_state import AgentState, Own

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
