"""What an agent knows, and the effects of the step it is in; the other modules of the agent work on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from recado.protocols.machine import CancelTimer, Effect, NodeId, Persist, Report, Send, SetTimer, TimerKey
from recado.protocols.session import messages as m
from recado.protocols.session.agent_inbox import Inbox
from recado.protocols.session.agent_outbox import Outbox, Request, Waiting
from recado.protocols.session.agent_table import SAVED, Table
from recado.protocols.session.agent_words import AgentSettings, Dropped

State = Literal["new", "dialling", "greeting", "connected", "waiting", "ended"]


class Own(NamedTuple):
    """The ref of a request that the agent makes by itself."""

    purpose: Literal["start", "check", "renew", "resubscribe", "ping"]
    sub_id: str = ""


class AgentState:
    """``begun`` is true once the start policy is carried out: only then requests of the application are sent."""

    def __init__(self, settings: AgentSettings, service: NodeId) -> None:
        self.settings = settings
        self.service = service
        self.state: State = "new"
        self.outbox = Outbox(settings.first_request, settings.outbox)
        self.inbox = Inbox(settings.remembered, settings.kept_nids)
        self.table = Table(settings.renew_at)
        self.window = self.granted = settings.window
        self.crowded = False
        self.begun = settings.existing == "leave"
        self.attempt = 0
        self.connected_at = 0.0
        self.heard_at = 0.0
        self.pinged = False
        self.oldest: int | None = None
        self.oldest_at = 0.0
        self.ack_set = False
        self.effects: list[Effect] = []
        self.sends: list[m.FromAgent] = []

    def done(self) -> Sequence[Effect]:
        """The effects of this step; what is to be sent goes as one frame, after everything that must be kept first."""
        effects = self.effects
        if self.sends:
            effects.append(Send(self.service, tuple(self.sends)))
            self.sends = []
        self.effects = []
        return effects

    def report(self, fact: Any) -> None:
        self.effects.append(Report(fact))

    def set_timer(self, timer: TimerKey, after_seconds: float) -> None:
        self.effects.append(SetTimer(timer, after_seconds))

    def cancel_timers(self, *timers: TimerKey) -> None:
        self.effects.extend(CancelTimer(timer) for timer in timers)

    def ask(self, message: Request, ref: Own) -> None:
        """Send a request of the agent's own."""
        self.outbox.add(message, ref)
        self.sends.append(message)

    def drop(self, waiting: Waiting, reason: str) -> None:
        """Give up a request; the application hears of those that it made."""
        if isinstance(waiting.message, m.Unsubscribe):
            self.table.left(waiting.message.sub_id)
        if not isinstance(waiting.ref, Own):
            self.report(Dropped(waiting.ref, reason, self.outbox.dropped))

    def keep(self, sub_id: str) -> None:
        """Persist what the table says of a subscription."""
        self.effects.append(Persist(SAVED + sub_id, self.table.saved(sub_id)))


def raw(record: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(record))
