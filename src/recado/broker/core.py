"""The broker: a machine that decides who gets which event, when, and what is told otherwise.

``Broker.handle`` takes a stimulus and returns effects (``recado.broker.stimuli``). The state is in
``recado.broker.state`` and the handlers, by subject, in ``consumers``, ``subscriptions`` and ``dispatch``. What must
survive a restart is gathered in ``state.changes`` and declared in ``recado.broker.persistence``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from recado.broker import consumers, dispatch, persistence, stimuli, subscriptions
from recado.broker.persistence import Batch, Loaded, Pairs
from recado.broker.state import BrokerSettings, Changes, State
from recado.broker.stimuli import Effect, Out, Stimulus

Handler = Callable[[State, Any, datetime, Out], None]

HANDLERS: dict[type, Handler] = {
    stimuli.Attach: consumers.attach,
    stimuli.AttachWebhook: consumers.attach_webhook,
    stimuli.Resize: consumers.resize,
    stimuli.ConsumerLost: consumers.lose,
    stimuli.SessionEnded: consumers.end_session,
    stimuli.ForgetDevice: consumers.forget_device,
    stimuli.Acknowledge: consumers.acknowledge,
    stimuli.AcknowledgeOne: consumers.acknowledge_one,
    stimuli.AcknowledgeSome: consumers.acknowledge_some,
    stimuli.Repeated: consumers.repeat,
    stimuli.ConfirmNotices: consumers.confirm_notices,
    stimuli.Purge: consumers.purge,
    stimuli.Release: consumers.release,
    stimuli.Recovered: consumers.finish_recovery,
    stimuli.Subscribe: subscriptions.subscribe,
    stimuli.Renew: subscriptions.renew,
    stimuli.Cancel: subscriptions.cancel,
    stimuli.Discard: subscriptions.discard,
    stimuli.Expire: subscriptions.expire_due,
    stimuli.Sweep: subscriptions.sweep,
    stimuli.Dispatch: dispatch.dispatch,
    stimuli.PassOver: dispatch.pass_over,
}


class Broker:
    """The state of one broker and its handlers. Queries read ``state``; only ``handle`` changes it."""

    __slots__ = ("_out", "handlers", "state")

    def __init__(
        self,
        settings: BrokerSettings | None = None,
        *,
        next_notice: int = 1,
        next_serial: int = 1,
        holding: bool = False,
    ) -> None:
        """``holding``: nothing goes out before ``Release``, and events have waited until ``Recovered``."""
        self.state = State(settings or BrokerSettings(), next_notice, next_serial)
        self.state.holding = self.state.recovering = holding
        self.handlers = HANDLERS
        self._out: Out = []

    def handle(self, stimulus: Stimulus, now: datetime) -> Sequence[Effect]:
        """Take one step; the effects are to be carried out in their order.

        Raises LimitError for a wish beyond a limit. Effects that came before an error are returned by the next call.
        """
        out = self._out
        self.handlers[type(stimulus)](self.state, stimulus, now, out)
        if not out:
            return ()
        self._out = []
        return out

    # -- over restarts

    def take_batch(self, dispatched: int) -> tuple[Batch, Changes]:
        """What is to be stored; see ``persistence.take_batch``."""
        return persistence.take_batch(self.state, dispatched)

    def restore(self, loaded: Loaded) -> Iterator[None]:
        """Put back what was stored, but for subscriptions, some at a time, while the broker holds."""
        yield from persistence.restore(self.state, loaded)
        persistence.tell_unreadable(self.state, loaded, self._out)

    def restore_subscriptions(self, pairs: Pairs) -> Iterator[None]:
        """Put back subscriptions, some at a time."""
        return persistence.restore_subscriptions(self.state, pairs)

    def inspect(self) -> dict[str, Any]:
        """The state as plain data, for people and tests."""
        state = self.state
        return {
            "subscriptions": state.active,
            "waiting": state.waiting.length,
            "users": {
                name: {
                    "connected": user.connected,
                    "devices": list(user.devices),
                    "subscriptions": list(user.subscriptions),
                    "waiting": sum(mailbox.length for mailbox in user.mailboxes.values()),
                    "notices": len(user.notices),
                }
                for name, user in state.users.items()
            },
        }
