"""The effects of the broker, carried out: what goes to consumers, and what is counted."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from recado.broker.core import Broker
from recado.broker.state import ORDINAL_BITS, Notice, QueuedNotification, SubscriptionState
from recado.broker.stimuli import (
    Acknowledged,
    Close,
    ConsumerLost,
    DispatchFailed,
    Dropped,
    Effect,
    Ended,
    Notified,
    Push,
    Tell,
)
from recado.model.values import format_time
from recado.protocols.session.messages import Gap, SubCancelled
from recado.server.consumer import OutgoingNotification
from recado.server.matching import Matcher, RenderedEvent
from recado.server.metrics import Metrics

_ORDINALS = (1 << ORDINAL_BITS) - 1
_log = logging.getLogger("recado.server")


class EffectRunner:
    """``ending`` gathers subscriptions that the matcher is to forget; ``faults`` counts what went wrong inside."""

    def __init__(self, broker: Broker, metrics: Metrics, clock: Callable[[], datetime]) -> None:
        self.broker = broker
        self.matcher: Matcher | None = None  # it comes with recovery
        self.ending: list[SubscriptionState] = []
        self.faults = 0
        self._metrics, self._clock = metrics, clock
        self._waiting: deque[Effect] = deque()
        self._running = False
        self._text: tuple[datetime, str] | None = None
        self._actions: dict[type, Callable[[Any], None]] = {
            Push: self._push,
            Acknowledged: self._count_acknowledged,
            Notified: self._count_notified,
            Tell: self._tell,
            Close: self._close,
            Dropped: self._count_dropped,
            Ended: self._end,
            DispatchFailed: self._report,
        }

    def add(self, effects: Sequence[Effect]) -> None:
        """Carry these out with the next ``run``, before what comes with that."""
        self._waiting.extend(effects)

    def run(self, effects: Sequence[Effect] = ()) -> None:
        """Carry out effects, in their order. Consumers may call back meanwhile; what that gives joins the end."""
        waiting = self._waiting
        waiting.extend(effects)
        if self._running:
            return
        self._running = True
        try:
            while waiting:
                effect = waiting.popleft()
                action = self._actions.get(type(effect))
                if action is None:
                    continue  # an answer to whoever gave the stimulus
                try:
                    action(effect)
                except Exception:  # noqa: BLE001  # one connection's fault must not become everybody's
                    self._give_up(effect)
        finally:
            self._running = False

    def _give_up(self, effect: Any) -> None:
        _log.exception("unexpected error while sending to a consumer; it is closed")
        consumer = getattr(effect, "consumer", None)
        if consumer is None:
            return
        self._waiting.extend(self.broker.handle(ConsumerLost(consumer), self._clock()))
        with suppress(Exception):  # else its device would wait on it for ever
            consumer.close("failed")

    # -- consumers

    def _push(self, effect: Push) -> None:
        notifications, fresh = effect.notifications, effect.fresh
        self._metrics.notified += len(notifications)
        effect.consumer.push([self.outgoing(one, one.nid < fresh) for one in notifications])

    def outgoing(self, notification: QueuedNotification, queued: bool) -> OutgoingNotification:
        """The notification as consumers send it."""
        at = notification.at
        text = self._text
        if text is None or text[0] is not at:
            text = self._text = at, format_time(at)
        matcher = self.matcher
        if matcher is not None and matcher.renders_events:
            event, why = self._rendered(notification, matcher)
        else:
            event, why = notification.event, b""
        return OutgoingNotification(notification.nid, notification.sub_id, event, text[1], queued, why=why)

    @staticmethod
    def _rendered(notification: QueuedNotification, matcher: Matcher) -> RenderedEvent:
        """The event as the subscription wants it, if that is still there."""
        subscription = notification.mailbox.user.ordinals.get(notification.nid & _ORDINALS)
        position = notification.nid >> ORDINAL_BITS
        if subscription is None or not subscription.since <= position < subscription.until:
            return RenderedEvent(notification.event)  # its ordinal may have passed to another one
        return matcher.render(notification.event, str(subscription.serial))

    @staticmethod
    def _tell(effect: Tell) -> None:
        effect.consumer.notice([_message(notice) for notice in effect.notices])

    def _close(self, effect: Close) -> None:
        self._metrics.by["sessions_closed"][effect.reason] += 1
        effect.consumer.close(effect.reason)

    # -- what is counted or reported

    def _count_acknowledged(self, effect: Acknowledged) -> None:
        self._metrics.acknowledged += effect.count
        took = (self._clock() - effect.generated_at).total_seconds()
        self._metrics.delivery_seconds.observe(max(took, 0.0), effect.count)

    def _count_notified(self, effect: Notified) -> None:
        self._metrics.matched += effect.count

    def _count_dropped(self, effect: Dropped) -> None:
        self._metrics.by["dropped"][effect.reason] += effect.count

    def _end(self, effect: Ended) -> None:
        self.ending.append(effect.subscription)

    def _report(self, effect: DispatchFailed) -> None:
        self.faults += 1
        subscription = effect.subscription
        _log.error(
            "unexpected error while giving event %d to subscription %r of user %r",
            *(effect.position, subscription.id, subscription.user.name),
            exc_info=effect.error,
        )


def _message(notice: Notice) -> Gap | SubCancelled:
    if notice.is_gap:
        return Gap(notice.id, notice.count, tuple(notice.nids), notice.reason)  # type: ignore[arg-type]  # one of them
    return SubCancelled(notice.id, notice.sub_ids, notice.reason)
