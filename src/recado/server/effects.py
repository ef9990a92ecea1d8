"""The effects of the broker, carried out: what goes to consumers, and what is counted."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from recado.broker.core import Broker
from recado.broker.state import ORDINAL_BITS, ORDINALS, Notice, QueuedNotification, SubscriptionState
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
from recado.server.spans import Spans

_log = logging.getLogger("recado.server")


class EffectRunner:
    """``ending`` gathers subscriptions that the matcher is to forget; ``faults`` counts what went wrong inside."""

    def __init__(
        self, broker: Broker, metrics: Metrics, clock: Callable[[], datetime], spans: Spans | None = None
    ) -> None:
        self.broker, self._spans = broker, spans
        self.matcher: Matcher | None = None  # it comes with recovery
        self.ending: list[SubscriptionState] = []
        self.faults = 0
        self._metrics, self._clock = metrics, clock
        self._waiting: deque[Effect] = deque()
        self._running = False
        self._text: tuple[datetime, str] | None = None

    def add(self, effects: Sequence[Effect]) -> None:
        """Carry these out with the next ``run``, before what comes with that."""
        self._waiting.extend(effects)

    def run(self, effects: Sequence[Effect] = ()) -> None:
        """Carry out effects, in their order. Consumers may call back meanwhile; what that gives joins the end."""
        waiting, metrics = self._waiting, self._metrics
        waiting.extend(effects)
        if self._running:
            return
        self._running = True
        try:
            while waiting:
                effect = waiting.popleft()
                try:
                    match effect:  # others are answers to whoever gave the stimulus
                        case Push(consumer, notifications, fresh):
                            metrics.notified += len(notifications)
                            consumer.push([self.outgoing(one, one.nid < fresh) for one in notifications])
                            if self._spans is not None and consumer.kind != "webhook":  # whose attempts have spans
                                for one in notifications:
                                    self._spans.notified(one.event, one.sub_id, consumer.kind, one.at.timestamp())
                        case Acknowledged(count, generated_at):
                            metrics.acknowledged += count
                            took = (self._clock() - generated_at).total_seconds()
                            metrics.delivery_seconds.observe(max(took, 0.0), count)
                        case Notified(count):
                            metrics.matched += count
                        case Tell(consumer, notices):
                            consumer.notice([_message(notice) for notice in notices])
                        case Close(consumer, reason):
                            metrics.by["sessions_closed"][reason] += 1
                            consumer.close(reason)
                        case Dropped(count, why):
                            metrics.by["dropped"][why] += count
                        case Ended(subscription):
                            self.ending.append(subscription)
                        case DispatchFailed():
                            self._report(effect)
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

    def outgoing(self, notification: QueuedNotification, queued: bool) -> OutgoingNotification:
        """The notification as consumers send it."""
        at = notification.at
        text = self._text
        if text is None or text[0] is not at:
            text = self._text = at, format_time(at)
        matcher = self.matcher
        if matcher is not None and matcher.renders_events:
            event, why = self._render(notification, matcher)
        else:
            event, why = notification.event, b""
        return OutgoingNotification(notification.nid, notification.sub_id, event, text[1], queued, why=why)

    @staticmethod
    def _render(notification: QueuedNotification, matcher: Matcher) -> RenderedEvent:
        """The event as the subscription wants it, if that is still there."""
        subscription = notification.mailbox.user.ordinals.get(notification.nid & ORDINALS)
        position = notification.nid >> ORDINAL_BITS
        if subscription is None or not subscription.since <= position < subscription.until:
            return RenderedEvent(notification.event)  # its ordinal may have passed to another one
        return matcher.render(notification.event, str(subscription.serial))

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
