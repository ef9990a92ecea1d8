"""A broker whose effects are gathered, with a short way to say each stimulus."""

from __future__ import annotations

from recado.broker import stimuli as s
from recado.broker.core import Broker
from recado.broker.persistence import add_notifications
from recado.broker.state import Bounds, BrokerSettings


class Driver:
    """What consumers are sent is gathered for ``take_effects``; ``all`` has every other effect."""

    def __init__(self, bounds: Bounds | None = None, **settings) -> None:
        self.broker = Broker(BrokerSettings(bounds=bounds or Bounds(), **settings))
        self.state = self.broker.state
        self.effects, self.all = [], []

    def __getattr__(self, name):
        return getattr(self.broker.state, name)

    def do(self, stimulus, now):
        """The effects of one step."""
        found = self.broker.handle(stimulus, now)
        self.effects += [effect for effect in found if isinstance(effect, s.Push | s.Tell | s.Close)]
        self.all += found
        return found

    def take_effects(self):
        effects, self.effects = self.effects, []
        return effects

    def take_batch(self, dispatched=0):
        batch, changes = self.broker.take_batch(dispatched)
        add_notifications(batch, changes)
        return batch

    def attach(self, user, device, consumer, *, window, now, **more):
        return _one(self.do(s.Attach(user, device, consumer, window, **more), now), s.Attached).consumer

    def attach_webhook(self, user, device, consumer, *, window, now):
        self.do(s.AttachWebhook(user, device, consumer, window), now)

    def subscribe(self, user, sub_id, *, position, now, expires_at, **more):
        return _one(self.do(s.Subscribe(user, sub_id, position, expires_at, **more), now), s.Subscribed).subscription

    def renew(self, subscription, expires_at, *, position, now):
        return _one(self.do(s.Renew(subscription, expires_at, position), now), s.Subscribed).subscription

    def cancel(self, subscription, *, position, now, reason=""):
        self.do(s.Cancel(subscription, position, reason), now)

    def publish(self, position, event, now, found):
        """How many notifications an event gives."""
        return self.publish_all([(position, event, found)], now)

    def publish_all(self, events, now):
        return sum(effect.count for effect in self.do(s.Dispatch(events), now) if isinstance(effect, s.Notified))

    def sweep(self, position, now, device_age):
        self.do(s.Sweep(position, device_age), now)

    def acknowledge(self, stimulus, now):
        """How many that are."""
        return sum(effect.count for effect in self.do(stimulus, now) if isinstance(effect, s.Acknowledged))

    def purge(self, user, now, device=None, *, tell=True):
        return _one(self.do(s.Purge(user, device, tell), now), s.Removed).count


def _one(effects, kind):
    (found,) = [effect for effect in effects if isinstance(effect, kind)]
    return found
