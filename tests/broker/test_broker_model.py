"""The broker against the plain model, by random stories."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.broker_model import Model
from broker.driver import Driver
from recado.broker import stimuli as s
from recado.broker.constraints import Frequency
from recado.broker.state import Bounds
from recado.broker.stimuli import Close, Push, Tell

START = datetime(2026, 11, 15, tzinfo=UTC)
DEVICES = st.sampled_from(["a", "b"])
IDS = st.sampled_from(["s1", "s2", "s3"])


class Consumer:
    def __init__(self, twin):
        self.twin = twin
        self.got, self.told, self.closed = [], {}, None


class BrokerMachine(RuleBasedStateMachine):
    @initialize(length=st.integers(1, 6), age=st.integers(5, 60))
    def begin(self, length, age):
        self.seconds, self.position = 0, 0
        self.model = Model(length, age, grace=30)
        bounds = Bounds(length, 2**20, timedelta(seconds=age))
        self.broker = Driver(bounds, grace=timedelta(seconds=30))
        self.consumers = {}
        self.gaps, self.cancelled = {}, {}

    @property
    def now(self):
        return START + timedelta(seconds=self.seconds)

    def perform(self):
        for effect in self.broker.take_effects():
            if isinstance(effect, Push):
                consumer = effect.consumer
                assert len(consumer.got) + len(effect.notifications) - consumer.got_acked <= consumer.twin.window
                consumer.got += [one.nid for one in effect.notifications]
            elif isinstance(effect, Tell):
                for notice in effect.notices:
                    effect.consumer.told[notice.id] = notice
                    if notice.is_gap:
                        assert notice.count == len(notice.nids)
                        self.gaps[notice.id] = dict.fromkeys(notice.nids, notice.reason)
                    else:
                        self.cancelled[notice.id] = notice.sub_ids
            else:
                assert isinstance(effect, Close)
                effect.consumer.closed = effect.reason

    @rule(seconds=st.integers(0, 20))
    def wait(self, seconds):
        self.seconds += seconds

    @rule(
        id=IDS,
        scope=st.sampled_from(["", "", "a", "b"]),
        ttl=st.integers(1, 80),
        period=st.sampled_from([None, None, 7]),
    )
    def subscribe(self, id, scope, ttl, period):
        constraints = () if period is None else (Frequency(period, "seconds"),)
        self.broker.subscribe(
            "u",
            id,
            position=self.position,
            now=self.now,
            expires_at=self.now + timedelta(seconds=ttl),
            scope=scope,
            constraints=constraints,
        )
        self.model.subscribe(id, scope, self.seconds + ttl, period, self.position)
        self.model.subs[id].ordinal = self.broker.users["u"].subscriptions[id].ordinal

    @rule(id=IDS, ttl=st.integers(1, 80))
    def renew(self, id, ttl):
        subscription = self.broker.users["u"].subscriptions.get(id) if "u" in self.broker.users else None
        assert (subscription is not None) == (id in self.model.subs)
        if subscription is None:
            return
        new = self.broker.renew(subscription, self.now + timedelta(seconds=ttl), position=self.position, now=self.now)
        sub = self.model.subs[id]
        if sub.active and self.seconds < sub.expires:
            assert new is subscription
            sub.expires = self.seconds + ttl
        else:
            self.model.subscribe(id, sub.scope, self.seconds + ttl, sub.period, self.position)
            self.model.subs[id].ordinal = new.ordinal

    @rule(id=IDS)
    def cancel(self, id):
        subscription = self.broker.users["u"].subscriptions.get(id) if "u" in self.broker.users else None
        if subscription is not None:
            self.broker.cancel(subscription, position=self.position, now=self.now)
            del self.model.subs[id]

    @rule()
    def keep(self):
        self.broker.take_batch(self.position)

    @rule(count=st.integers(1, 4))
    def publish(self, count):
        """A few at once: the broker sends them together, and drops none that could have gone one by one."""
        events = []
        for _ in range(count):
            events.append((self.position, b"{}", list(self.broker.subscriptions.values())))
            self.model.publish(self.position, self.seconds)
            self.position += 1
        self.broker.publish_all(events, self.now)
        self.perform()

    @rule(device=DEVICES, window=st.integers(1, 3))
    def attach(self, device, window):
        if device in self.consumers:
            self.model.detach(device)
        old = self.consumers.get(device)
        consumer = self.consumers[device] = Consumer(None)
        consumer.got_acked = 0
        # the model is told of a take-over as of a loss followed by a new consumer
        consumer.twin = self.model.attach(device, window, self.seconds)
        self.broker.attach("u", device, consumer, window=window, now=self.now)
        self.perform()
        if old is not None:
            assert old.closed == "taken over"

    @rule(device=DEVICES, clean=st.booleans())
    def detach(self, device, clean):
        consumer = self.consumers.pop(device, None)
        if consumer is not None:
            self.model.detach(device)
            if clean:
                self.broker.do(s.SessionEnded(consumer), START)
            else:
                self.broker.do(s.ConsumerLost(consumer), self.now)
            self.perform()

    @rule(device=DEVICES, which=st.integers(0, 2), one=st.booleans())
    def acknowledge(self, device, which, one):
        consumer = self.consumers.get(device)
        if consumer is None or which >= len(consumer.twin.in_flight):
            return
        nid = consumer.twin.in_flight[which]
        nids = [nid] if one else [n for n in consumer.twin.in_flight if n <= nid]
        consumer.got_acked += len(nids)
        if one:
            assert self.broker.acknowledge(s.AcknowledgeOne(consumer, nid), START) == 1
        else:
            assert self.broker.acknowledge(s.Acknowledge(consumer, nid), START) == len(nids)
        self.perform()
        self.model.ack(consumer.twin, nids)

    @rule(device=DEVICES, chosen=st.sets(st.integers(0, 5), max_size=4), strange=st.booleans())
    def acknowledge_some(self, device, chosen, strange):
        """Some of those on their way, in no order, and perhaps one that never was."""
        consumer = self.consumers.get(device)
        if consumer is None:
            return
        nids = [nid for number, nid in enumerate(consumer.twin.in_flight) if number in chosen]
        consumer.got_acked += len(nids)
        named = [*reversed(nids), *([2**60] if strange else [])]
        assert self.broker.acknowledge(s.AcknowledgeSome(consumer, named), self.now) == len(nids)
        self.perform()
        self.model.ack(consumer.twin, nids)

    @rule(device=DEVICES, window=st.integers(1, 6))
    def widen(self, device, window):
        consumer = self.consumers.get(device)
        if consumer is not None:
            consumer.twin.window = window
            self.broker.do(s.Resize(consumer, window), self.now)
            self.perform()
            self.model.pump()

    @rule(device=DEVICES)
    def confirm(self, device):
        consumer = self.consumers.get(device)
        if consumer is not None:
            self.broker.do(s.ConfirmNotices(consumer, list(consumer.told)), START)

    @rule()
    def sweep(self):
        self.broker.sweep(self.position, self.now, timedelta(days=1))
        self.perform()
        self.model.sweep(self.seconds)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def purge(self, data):
        mailbox = data.draw(st.sampled_from(["", "a", "b"]))
        if "u" in self.broker.users and mailbox in self.broker.users["u"].mailboxes:
            count = self.broker.purge("u", self.now, mailbox)
            assert count == len(self.model.mailboxes[mailbox])
            for nid in list(self.model.mailboxes[mailbox]):
                self.model.drop(mailbox, nid, "purged")
            self.model.pump()
            self.perform()

    @invariant()
    def legs_got_the_same(self):
        for consumer in getattr(self, "consumers", {}).values():
            assert consumer.got == consumer.twin.got
            assert consumer.got == sorted(set(consumer.got))

    @invariant()
    def the_same_waits(self):
        if hasattr(self, "model") and "u" in self.broker.users:
            for device, mailbox in self.broker.users["u"].mailboxes.items():
                waiting = {one.nid: (one.at - START).seconds for one in mailbox.waiting()}
                assert waiting == self.model.mailboxes[device]
                assert mailbox.length == len(waiting)
                assert mailbox.bytes == sum(len(one.event) + 64 for one in mailbox.waiting())
            mailboxes = self.broker.users["u"].mailboxes.values()
            assert self.broker.waiting.length == sum(mailbox.length for mailbox in mailboxes)
            assert self.broker.waiting.bytes == sum(mailbox.bytes for mailbox in mailboxes)

    @invariant()
    def what_was_dropped_is_told_or_about_to_be(self):
        if hasattr(self, "model"):
            known = dict(self.gaps)
            cancelled = dict(self.cancelled)
            for user in self.broker.users.values():
                for id, notice in user.notices.items():
                    if notice.is_gap:
                        known[id] = dict.fromkeys(notice.nids, notice.reason)
                    else:
                        cancelled[id] = notice.sub_ids
            told = [pair for gap in known.values() for pair in gap.items()]
            assert sorted(told) == sorted(self.model.dropped.items())
            assert sorted(id for ids in cancelled.values() for id in ids) == sorted(self.model.cancelled)


BrokerMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=50, deadline=None)
TestBrokerAgainstModel = BrokerMachine.TestCase
