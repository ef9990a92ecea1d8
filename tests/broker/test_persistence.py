"""What a broker keeps over restarts: all that is declared comes back, and nothing else is needed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from broker.driver import Driver
from recado.broker import stimuli as s
from recado.broker.core import Broker
from recado.broker.persistence import (
    KINDS,
    SUBSCRIPTIONS,
    Batch,
    Loaded,
    read_subscriptions,
    start_position,
    wanted_from,
)
from recado.broker.state import Bounds, BrokerSettings, Changes

START = datetime(2026, 11, 15, tzinfo=UTC)
FOREVER = START + timedelta(days=365)


class Store:
    """Rows by table and key, as a store has them."""

    def __init__(self):
        self.rows = {kind.table: {} for kind in KINDS}
        self.notifications, self.events, self.dispatched = {}, {}, None

    def write(self, batch: Batch):
        for kind in KINDS:
            for row in batch.rows.get(kind.table, ()):
                self.rows[kind.table][kind.key_of(row)] = row
            for key in batch.forgotten.get(kind.table, ()):
                self.rows[kind.table].pop(key, None)
        for row in batch.notifications:
            self.notifications[row.nid, row.mailbox] = row
        for key in batch.gone:
            self.notifications.pop(key, None)
        self.events.update(batch.events)
        self.dispatched = batch.dispatched

    def load(self):
        rows = {table: list(found.values()) for table, found in self.rows.items()}
        mail = [self.notifications[key] for key in sorted(self.notifications)]
        return Loaded(self.dispatched, rows, mail, self.events, [], [])


def restart(store, settings):
    broker = Broker(settings, next_notice=1 << 32, holding=True)
    loaded = store.load()
    for _ in broker.restore(loaded):
        pass
    pairs = read_subscriptions(loaded)
    for _ in broker.restore_subscriptions(pairs):
        pass
    effects = [*broker.handle(s.Release(), START), *broker.handle(s.Recovered(), START)]
    return broker, pairs, effects


def plain(state):
    """Everything of a state that is to survive, as plain data."""
    return {
        name: {
            "devices": {device.id: (device.seen_at, device.beyond) for device in user.devices.values()},
            "mailboxes": {
                mailbox.device: [(one.nid, one.sub_id, one.event, one.at) for one in mailbox.waiting()]
                for mailbox in user.mailboxes.values()
                if mailbox.length
            },
            "subscriptions": {
                one.id: (one.serial, one.ordinal, one.expires_at, one.since, one.until, one.reason, one.record)
                for one in user.subscriptions.values()
            },
            "notices": {
                one.id: (one.device, one.reason, one.after, one.sub_ids, one.count, list(one.nids))
                for one in user.notices.values()
            },
        }
        for name, user in state.users.items()
    }


def test_a_restarted_broker_is_the_one_that_was_stored():
    driver, store = Driver(Bounds(length=3)), Store()
    for user in ("ana", "ben"):
        driver.subscribe(user, "s", position=0, now=START, expires_at=FOREVER, record={"type": "t"})
        driver.attach(user, "phone", f"{user}/phone", window=10, now=START)
    driver.subscribe("ana", "short", position=0, now=START, expires_at=START + timedelta(seconds=3))
    driver.do(s.ConsumerLost("ana/phone"), START)
    for position in range(6):
        now = START + timedelta(seconds=position)
        driver.publish(position, b"%d" % position, now, list(driver.state.subscriptions.values()))
        if position == 3:
            store.write(driver.take_batch(position + 1))
    driver.acknowledge(s.Acknowledge("ben/phone", 4 << 20), START)
    store.write(driver.take_batch(6))
    broker, pairs, _ = restart(store, driver.state.settings)
    assert plain(broker.state) == plain(driver.state)
    assert broker.state.waiting.length == driver.state.waiting.length == 5
    assert broker.state.active == driver.state.active == 2
    assert [one.id for one in wanted_from(pairs, 6)] == ["1", "2"]
    assert start_position(store.load(), 0, 9) == (6, [])


def test_what_was_not_stored_is_dispatched_again_with_the_same_nids():
    driver, store = Driver(), Store()
    driver.subscribe("ana", "s", position=0, now=START, expires_at=FOREVER)
    store.write(driver.take_batch(0))
    for position in range(3):
        driver.publish(position, b"x", START, list(driver.state.subscriptions.values()))
    broker, _, _ = restart(store, BrokerSettings())
    start, _ = start_position(store.load(), 0, 3)
    for position in range(start, 3):
        broker.handle(s.Dispatch([(position, b"x", list(broker.state.subscriptions.values()))]), START)
    assert plain(broker.state) == plain(driver.state)


def test_every_change_is_of_a_declared_kind():
    """A new member of ``Changes`` needs a place among the kinds, or is one of the two of notifications."""
    tables = {"mailboxes" if kind.table == "boxes" else kind.table for kind in KINDS}
    assert set(vars(Changes())) == tables | {"notifications", "gone"}
    assert KINDS[-1] is SUBSCRIPTIONS  # mailboxes are delivered from before subscriptions are read
