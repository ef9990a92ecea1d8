"""How an agent looks after its subscriptions: the start policy, renewals, and those that were cancelled (8.3 to 8.5).

One that expired is renewed (the service keeps it for a grace period), or made again, or left, as ``on_cancelled`` says;
where a renewal comes too late it is made again. One that somebody ended, and one whose own ``expires_at`` has come,
stays ended whatever the setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from recado.protocols.session import commands
from recado.protocols.session import messages as m
from recado.protocols.session.state import AgentRequest, AgentState, Request, own_record, raw

_GONE = (404, 410)


def greet_table(a: AgentState) -> None:
    """Start policy on the first connection; afterwards, look what was cancelled and send again what waits."""
    if not a.begun:
        kind = m.DiscardSubs if a.settings.existing == "discard" else m.QuerySubs
        a.ask(kind(a.outbox.number()), AgentRequest("start"))
        return
    waiting = a.outbox.all()
    if a.table.subscriptions:
        a.ask(m.QuerySubs(a.outbox.number()), AgentRequest("check"))
    a.sends.extend(waiting)


def begin(a: AgentState) -> None:
    a.begun = True
    a.report(commands.Started(tuple(a.table.subscriptions)))
    a.sends.extend(one.message for one in a.outbox.waiting.values() if not isinstance(one.ref, AgentRequest))


def note(a: AgentState, message: Request, answer: commands.Answer, now: float) -> None:
    """Keep the table as the service has it, whoever asked."""
    match message, answer:
        case m.Subscribe(_, record), m.Subscribed(_, sub_id, expires_at):
            a.table.put({**msgspec.json.decode(record), "id": sub_id}, expires_at, now)
        case m.Renew(_, sub_id), m.Subscribed(_, _, expires_at):
            a.table.extend(sub_id, expires_at, now)
        case m.Unsubscribe(_, sub_id), _:
            a.table.left(sub_id)
            return
        case m.DiscardSubs(), m.Ok():
            for sub_id in list(a.table.subscriptions):
                _remove(a, sub_id)
            return
        case _:
            return
    a.keep(sub_id)
    set_renewal(a, now)


def own_answer(a: AgentState, ref: AgentRequest, answer: commands.Answer, now: float) -> str | None:
    """The answer to something that the agent asked by itself; a reason, if the session cannot begin."""
    match ref.purpose, answer:
        case "start", m.Error(_, _, text):
            return f"the service refused the start: {text}"
        case (("start" | "check"), _):
            if isinstance(answer, m.Subs):
                reconcile(a, answer, now)
            if ref.purpose == "start":
                begin(a)
        case (("renew" | "resubscribe"), m.Subscribed(_, _, expires_at)):
            a.report(commands.Renewed(ref.sub_id, expires_at))
        case "renew", m.Error(_, code) if code in _GONE and ref.sub_id in a.table.subscriptions:
            take_cancellation(a, ref.sub_id, "expired", renewable=False)
        case (("renew" | "resubscribe"), m.Error(_, code, text)):
            _remove(a, ref.sub_id)
            a.report(commands.RenewalRefused(ref.sub_id, code, text))
    return None


def reconcile(a: AgentState, answer: m.Subs, now: float) -> None:
    """Compare the table with what the service holds: what it lacks was cancelled (8.5)."""
    server = {str(one["id"]): one for one in answer.subs if "id" in one}
    for sub_id, one in server.items():
        held = a.table.subscriptions.get(sub_id)
        if held is None and (a.settings.existing != "recover" or _elsewhere(a, one)):
            continue
        record = own_record(one) if held is None else held.record
        a.table.put(record, str(one.get("expires_at") or ""), now)
        a.keep(sub_id)
    for sub_id in [sub_id for sub_id in a.table.subscriptions if sub_id not in server]:
        take_cancellation(a, sub_id, "expired")
    set_renewal(a, now)


def _elsewhere(a: AgentState, members: Mapping[str, Any]) -> bool:
    """Is it for another device of the user, which looks after it itself?"""
    return members.get("scope") == "this device" and members.get("device") not in (None, a.settings.device)


def take_cancellation(a: AgentState, sub_id: str, reason: str, renewable: bool = True) -> None:
    held = a.table.subscriptions.get(sub_id)
    policy = a.settings.on_cancelled
    if held is None or reason != "expired" or "expires_at" in held.record or policy in ("ignore", "callback"):
        _remove(a, sub_id)
        a.report(commands.Cancelled(sub_id, reason, "none"))
    elif policy == "renew" and renewable:
        a.report(commands.Cancelled(sub_id, reason, "renew"))
        _renew(a, sub_id)
    else:
        a.report(commands.Cancelled(sub_id, reason, "resubscribe"))
        a.ask(m.Subscribe(a.outbox.number(), raw(held.record)), AgentRequest("resubscribe", sub_id))


def renew_due(a: AgentState, now: float) -> None:
    for sub_id in a.table.due(now):
        _renew(a, sub_id)
    set_renewal(a, now)


def set_renewal(a: AgentState, now: float) -> None:
    due = a.table.next_due()
    if due is not None:
        a.set_timer("renew", max(0.0, due - now))


def _renew(a: AgentState, sub_id: str) -> None:
    a.ask(m.Renew(a.outbox.number(), sub_id, ttl=a.table.subscriptions[sub_id].ttl), AgentRequest("renew", sub_id))


def _remove(a: AgentState, sub_id: str) -> None:
    if a.table.remove(sub_id) is not None:
        a.keep(sub_id)
