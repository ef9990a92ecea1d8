"""Lag: how much waits, by class, and where for longest, against a look at every mailbox after every step."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker.driver import Driver
from recado.broker import stimuli as s
from recado.broker.state import WAITING, Bounds

START = datetime(2026, 11, 15, tzinfo=UTC)
FOREVER = START + timedelta(days=365)
USERS, DEVICES = st.sampled_from(["ana", "ben", "eva"]), st.sampled_from(["phone", "pad"])


def class_of(mailbox):
    if not mailbox.cursors:
        return "away"
    return "webhook" if any(cursor.consumer.is_webhook for cursor in mailbox.cursors) else "connected"


def look_at_all(state):
    """By class: how many wait, and since when."""
    found = {"connected": [], "away": [], "webhook": []}
    for user in state.users.values():
        for mailbox in user.mailboxes.values():
            found[class_of(mailbox)] += [one.at for one in mailbox.notifications if one.state == WAITING]
    return {name: (len(ats), min(ats, default=None)) for name, ats in found.items()}


class LagMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.broker = Driver(Bounds(length=6, age=timedelta(seconds=40)), per_device=self.per_device)
        self.now, self.position, self.keys = START, 0, 0

    per_device = False

    @rule(user=USERS, scope=st.sampled_from(["", "phone", "webhook.x"]))
    def subscribe(self, user, scope):
        self.broker.subscribe(
            user, f"s{scope}", position=self.position, now=self.now, expires_at=FOREVER, scope=scope, device="phone"
        )

    @rule(user=USERS, device=DEVICES, window=st.integers(1, 4))
    def attach(self, user, device, window):
        self.keys += 1
        self.broker.attach(user, device, self.keys, window=window, now=self.now)

    @rule(user=USERS)
    def attach_webhook(self, user):
        self.keys += 1
        self.broker.attach_webhook(user, "webhook.x", self.keys, window=2, now=self.now)

    @rule(count=st.integers(1, 4), seconds=st.integers(0, 15))
    def publish(self, count, seconds):
        for _ in range(count):
            self.broker.publish(self.position, b"x", self.now, list(self.broker.subscriptions.values()))
            self.position += 1
        self.now += timedelta(seconds=seconds)

    def one_consumer(self, number):
        consumers = list(self.broker.consumers.values())
        return consumers[number % len(consumers)] if consumers else None

    @rule(number=st.integers(0, 9), count=st.integers(1, 4))
    def acknowledge(self, number, count):
        consumer = self.one_consumer(number)
        if consumer is not None and consumer.in_flight:
            upto = consumer.in_flight[min(count, len(consumer.in_flight)) - 1].nid
            self.broker.do(s.Acknowledge(consumer.key, upto), self.now)

    @rule(number=st.integers(0, 9), last=st.booleans())
    def acknowledge_one(self, number, last):
        consumer = self.one_consumer(number)
        if consumer is not None and consumer.in_flight:
            self.broker.do(s.AcknowledgeOne(consumer.key, consumer.in_flight[-1 if last else 0].nid), self.now)

    @rule(number=st.integers(0, 9), forget=st.booleans())
    def leave(self, number, forget):
        consumer = self.one_consumer(number)
        if consumer is not None:
            end = s.SessionEnded(consumer.key, forget) if not consumer.is_webhook else s.ConsumerLost(consumer.key)
            self.broker.do(end, self.now)

    @rule(user=USERS)
    def purge(self, user):
        self.broker.purge(user, self.now)

    @rule()
    def sweep(self):
        self.broker.sweep(self.position, self.now, timedelta(seconds=30))

    @rule()
    def ask(self):
        state = self.broker.state
        for name, totals in state.waiting.classes().items():
            while not totals.settle(1):
                pass
            assert (totals.length, totals.oldest()) == look_at_all(state)[name], name
            slowest = totals.slowest(100)
            there = [m for u in state.users.values() for m in u.mailboxes.values() if m.length and class_of(m) == name]
            assert sorted(map(id, slowest)) == sorted(map(id, there))
            ages = [mailbox.first_waiting().at for mailbox in slowest]
            assert ages == sorted(ages)

    @invariant()
    def totals_are_those_of_a_look_at_everything(self):
        state = self.broker.state
        found = look_at_all(state)
        for name, totals in state.waiting.classes().items():
            assert totals.length == found[name][0], name
        assert state.waiting.length == sum(count for count, _ in found.values())
        assert state.in_flight == sum(len(consumer.in_flight) for consumer in state.consumers.values())
        mailboxes = [mailbox for user in state.users.values() for mailbox in user.mailboxes.values()]
        assert all(mailbox.totals is state.waiting.of(mailbox) for mailbox in mailboxes)


class LagPerDeviceMachine(LagMachine):
    per_device = True


TestLag = pytest.mark.filterwarnings("default")(LagMachine.TestCase)
TestLag.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestLagPerDevice = LagPerDeviceMachine.TestCase
TestLagPerDevice.settings = TestLag.settings


def test_what_a_device_had_been_given_before_is_counted_as_redelivered():
    broker = Driver(Bounds())
    broker.subscribe("ana", "s", position=0, now=START, expires_at=FOREVER)
    for position in range(5):
        broker.publish(position, b"x", START, list(broker.subscriptions.values()))
    first = broker.attach("ana", "phone", "first", window=3, now=START)
    assert (len(first.in_flight), first.redelivered) == (3, 0)
    broker.do(s.Acknowledge("first", first.in_flight[0].nid), START)  # and so the fourth is given
    broker.do(s.ConsumerLost("first"), START)
    second = broker.attach("ana", "phone", "second", window=9, now=START)
    assert (len(second.in_flight), second.redelivered) == (4, 3)
    other = broker.attach("ana", "pad", "other", window=9, now=START)
    assert (len(other.in_flight), other.redelivered) == (4, 0)  # another device has them for the first time
    broker.do(s.Repeated("other", 2), START)
    assert (other.redelivered, broker.redelivered) == (2, 5)


def test_entries_of_mailboxes_that_come_and_go_do_not_pile_up_if_nobody_asks():
    broker = Driver(Bounds(), per_device=True, devices_per_user=4)
    broker.subscribe("ana", "s", position=0, now=START, expires_at=FOREVER)
    broker.subscribe("old", "s", position=0, now=START, expires_at=FOREVER)
    now = START
    for number in range(3_000):
        now += timedelta(seconds=1)
        broker.attach("ana", f"d{number}", number, window=9, now=now)
        broker.publish(number, b"x", now, list(broker.subscriptions.values()))
        broker.do(s.Acknowledge(number, (number + 1) << 20), now)
        broker.do(s.SessionEnded(number, True), now)
        if number % 100 == 0:
            broker.sweep(number, now, timedelta(days=1))
    assert sum(len(totals._mailboxes) for totals in broker.state.waiting.classes().values()) < 1_500
    assert broker.state.waiting.away.slowest(1)[0].user.name == "old"
