"""The vectors and scenarios of the mobility document that concern the broker: 17 (3 to 8, 10, 13), E5 to E9."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from broker.driver import Driver
from recado.broker import stimuli as s
from recado.broker.constraints import Absolute, Daily, Frequency
from recado.broker.state import Bounds
from recado.broker.stimuli import Close, Push, Tell
from recado.broker.subscriptions import forget_closed
from recado.errors import LimitError

START = datetime(2026, 11, 15, tzinfo=UTC)
FOREVER = START + timedelta(days=365)


def at(seconds):
    return START + timedelta(seconds=seconds)


class Story:
    """One user; every event matches every subscription."""

    def __init__(self, **settings):
        bounds = Bounds(settings.pop("length", 100), settings.pop("bytes", 2**20), settings.pop("age", None))
        self.broker = Driver(bounds, **settings)
        self.position = 0

    def subscribe(self, id="s", *constraints, now=START, expires_at=FOREVER, scope="", user="u"):
        return self.broker.subscribe(
            user, id, position=self.position, now=now, expires_at=expires_at, constraints=constraints, scope=scope
        )

    def publish(self, now, *, user=None):
        """How many notifications it gave."""
        found = [one for one in self.broker.subscriptions.values() if user in (None, one.user.name)]
        count = self.broker.publish(self.position, b"%d" % self.position, now, found)
        self.position += 1
        return count

    def attach(self, device="d", now=START, window=1000, seen=None, user="u"):
        consumer = f"{user}/{device}/{now}"
        self.broker.attach(user, device, consumer, window=window, now=now, seen=seen)
        return consumer

    def sent(self, consumer=None):
        """What was sent since the last call: positions, gaps as ("gap", reason, positions), cancelled ids."""
        found = []
        for effect in self.broker.take_effects():
            if consumer is not None and effect.consumer != consumer:
                continue
            match effect:
                case Push(_, notifications, _):
                    found += [one.nid >> 20 for one in notifications]
                case Tell(_, notices):
                    found += [
                        ("gap", n.reason, [nid >> 20 for nid in n.nids]) if n.is_gap else ("cancelled", *n.sub_ids)
                        for n in notices
                    ]
                case Close(_, reason):
                    found.append(("closed", reason))
        return found

    def waiting(self, device="", user="u"):
        mailbox = self.broker.users[user].mailboxes.get(device)
        return [one.nid >> 20 for one in mailbox.waiting()] if mailbox else []


def test_the_newest_survive_and_the_dropped_are_named():  # 17.3
    story = Story(length=3)
    story.subscribe()
    for second in range(5):
        story.publish(at(second))
    story.attach()
    assert story.sent() == [("gap", "full", [0, 1]), 2, 3, 4]
    assert story.broker.users["u"].dropped == {"full": 2}


def test_what_is_too_old_is_dropped_at_reconnection():  # 17.3
    story = Story(length=3, age=timedelta(minutes=20))
    story.subscribe()
    for minute in (0, 10, 12):
        story.publish(at(minute * 60))
    story.attach(now=at(25 * 60))
    assert story.sent() == [("gap", "age", [0]), 1, 2]


@pytest.mark.parametrize(
    ("constraints", "instants", "wanted"),
    [
        ([Frequency(15, "seconds")], [0, 10, 14.9, 15, 29, 31], [0, 15, 31]),  # 17.4
        (
            [Daily(time(16), time(17))],
            [57599, 57600, 61199, 61200],
            [57600, 61199],
        ),  # 17.5
        ([Daily(time(22), time(2))], [84600, 86400 + 7140, 86400 + 7200], [84600, 86400 + 7140]),
        (
            [Daily(time(8), time(9)), Daily(time(16), time(17)), Frequency(5, "minutes")],
            [30600, 43200, 59400, 59580, 59700],
            [30600, 59400, 59700],
        ),  # 17.6
        ([Absolute(at(10), at(20))], [9, 10, 19, 20], [10, 19]),
    ],
)
def test_constraints(constraints, instants, wanted):
    story = Story()
    story.subscribe("s", *constraints)
    assert [instant for instant in instants if story.publish(at(instant))] == wanted


def test_a_constraint_for_those_who_are_away():  # 17.7
    story = Story()
    story.subscribe("s", Frequency(60, "seconds", "disconnected"))
    consumer = story.attach()
    assert [story.publish(at(second)) for second in (0, 1, 2)] == [1, 1, 1]
    story.broker.acknowledge(s.Acknowledge(consumer, 2**62), START)
    story.broker.do(s.ConsumerLost(consumer), at(3))
    assert [story.publish(at(second)) for second in (10, 62, 63)] == [0, 1, 0]


@pytest.mark.parametrize("kind", ["frequency", "daily", "absolute"])
@pytest.mark.parametrize("when", ["always", "disconnected"])
@pytest.mark.parametrize("connected", [True, False])
def test_the_grid_of_constraints(kind, when, connected):  # E6
    constraint = {
        "frequency": Frequency(1, "hours", when),
        "daily": Daily(time(10), time(11), when=when),
        "absolute": Absolute(at(36000), at(39600), when),
    }[kind]
    story = Story()
    story.subscribe("s", constraint)
    if connected:
        story.attach()
    given = [story.publish(at(second)) for second in (0, 36000, 36001, 39600)]
    if when == "disconnected" and connected:
        assert given == [1, 1, 1, 1]
    elif kind == "frequency":
        assert given == [1, 1, 0, 1]
    else:
        assert given == [0, 1, 1, 0]


def test_expired_but_queued_is_delivered_and_then_the_cancellation():  # 17.8
    story = Story()
    story.subscribe(expires_at=at(100))
    assert story.publish(at(99)) == 1
    assert story.publish(at(100)) == 0
    assert not story.broker.active
    consumer = story.attach(now=at(120))
    assert story.sent() == [0, ("cancelled", "s")]
    story.broker.do(s.ConfirmNotices(consumer, list(story.broker.users["u"].notices)), START)
    story.attach("other", now=at(130))
    assert ("cancelled", "s") not in story.sent()


def test_two_devices_of_which_one_is_dead():  # 17.10, E7
    story = Story()
    story.subscribe()
    live, dead = story.attach("live"), story.attach("dead")
    story.publish(at(1))
    story.broker.acknowledge(s.Acknowledge(live, 2**62), START)
    story.broker.do(s.ConsumerLost(dead), at(5))
    assert story.broker.users["u"].connected
    assert story.waiting() == []
    story.broker.do(s.ConsumerLost(live), at(6))
    story.publish(at(7))
    assert not story.broker.users["u"].connected
    assert story.waiting() == [1]


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_every_live_device_gets_it(devices):  # E7
    story = Story()
    story.subscribe()
    consumers = [story.attach(f"d{number}") for number in range(devices)]
    story.publish(at(1))
    pushed = [effect.consumer for effect in story.broker.take_effects() if isinstance(effect, Push)]
    assert sorted(pushed) == sorted(consumers)


def test_half_of_a_thousand_expire():  # E8
    story = Story()
    for number in range(1000):
        story.subscribe(f"s{number}", expires_at=at(50) if number % 2 else FOREVER)
    assert story.publish(at(49)) == 1000
    assert story.publish(at(50)) == 500
    assert story.broker.active == 500
    assert sum(isinstance(effect, s.Ended) for effect in story.broker.all) == 500


def test_discard_and_recover():  # 17.13, E9
    story = Story()
    story.subscribe("all")
    story.subscribe("mine", scope="d")
    story.subscribe("others", scope="e")
    story.publish(at(1))
    assert len(story.broker.users["u"].subscriptions) == 3
    effects = story.broker.do(s.Discard("u", "d", story.position), at(2))
    assert sorted(effect.subscription.id for effect in effects if isinstance(effect, s.Ended)) == ["all", "mine"]
    assert s.Removed(2) in effects
    assert list(story.broker.users["u"].subscriptions) == ["others"]
    assert story.waiting() == story.waiting("d") == []
    assert story.waiting("e") == [0]


def test_disconnected_for_some_time():  # E5
    story = Story(length=50, age=timedelta(seconds=30))
    story.subscribe()
    for second in range(100):
        story.publish(at(second))
    story.attach(now=at(100))
    sent = story.sent()
    assert sent[-30:] == list(range(70, 100))
    dropped = [
        position for kind, _, positions in (one for one in sent if isinstance(one, tuple)) for position in positions
    ]
    assert sorted(dropped) == list(range(70))


def test_renewed_in_the_grace_but_not_after():
    story = Story(grace=timedelta(seconds=100))
    subscription = story.subscribe(expires_at=at(10))
    story.broker.sweep(story.position, at(20), timedelta(days=1))
    assert story.publish(at(30)) == 0
    renewed = story.broker.renew(subscription, at(200), position=story.position, now=at(40))
    assert renewed.id == "s"
    assert renewed.since == story.position
    assert story.publish(at(50)) == 1
    story.broker.sweep(story.position, at(200), timedelta(days=1))
    assert "s" in story.broker.users["u"].subscriptions
    story.broker.sweep(story.position, at(300), timedelta(days=1))
    assert "s" not in story.broker.users["u"].subscriptions


def test_a_take_over_closes_the_old_leg_and_repeats_what_was_on_its_way():
    story = Story()
    story.subscribe()
    story.attach(now=at(0))
    story.publish(at(1))
    story.sent()
    story.attach(now=at(2))
    assert story.sent() == [("closed", "taken over"), 0]


def test_what_the_device_has_seen_is_not_sent_again():
    story = Story()
    story.subscribe()
    for second in range(4):
        story.publish(at(second))
    story.attach(seen=(1 << 20) + 1)
    assert story.sent() == [2, 3]


def test_a_window_is_a_slice_and_others_are_served_in_between():
    story = Story(length=10_000)
    story.subscribe(user="u")
    for second in range(5_000):
        story.publish(at(second))
    story.subscribe(user="v")
    other = story.attach(user="v")
    consumer = story.attach(window=100)
    assert story.sent(consumer) == list(range(100))
    story.publish(at(5_000))
    assert story.sent(other) == [5_000]
    drained = 100
    while drained < 5_001:
        story.broker.acknowledge(s.Acknowledge(consumer, 2**62), START)
        got = story.sent(consumer)
        assert got == list(range(drained, min(drained + 100, 5_001)))
        drained += len(got)


def test_every_device_has_its_own_queue_if_so_configured():
    story = Story(per_device=True)
    story.subscribe()
    live, away = story.attach("live"), story.attach("away")
    story.broker.do(s.ConsumerLost(away), at(1))
    story.publish(at(2))
    story.broker.acknowledge(s.Acknowledge(live, 2**62), START)
    assert story.waiting("away") == [0]
    story.sent()
    story.attach("away", now=at(3))
    assert story.sent() == [0]


def test_a_link_that_takes_nothing_while_others_do_is_closed():
    story = Story(length=100)
    story.subscribe()
    story.attach("slow", window=1)
    quick = story.attach("quick")
    for second in range(1_000):
        story.publish(at(second))
        story.broker.acknowledge(s.Acknowledge(quick, 2**62), START)
    assert ("closed", "too slow") in story.sent()
    assert story.broker.users["u"].connected
    assert story.waiting() == []


def test_what_is_acknowledged_soon_is_never_kept():
    story = Story()
    story.subscribe()
    consumer = story.attach()
    story.publish(at(1))
    story.publish(at(2))
    story.broker.acknowledge(s.Acknowledge(consumer, 1), START)
    assert [one.nid for one in story.broker.take_batch().notifications] == [(1 << 20) + 1]
    story.broker.acknowledge(s.Acknowledge(consumer, 2**62), START)
    assert story.broker.take_batch().gone == [((1 << 20) + 1, 1)]


def test_an_event_before_the_subscription_or_after_its_end_is_not_for_it():
    story = Story()
    story.position = 5
    subscription = story.subscribe()
    assert story.broker.publish(4, b"", at(1), [subscription]) == 0
    assert story.broker.publish(5, b"", at(1), [subscription]) == 1
    story.broker.cancel(subscription, position=7, now=at(2))
    assert story.broker.publish(6, b"", at(2), [subscription]) == 1
    assert story.broker.publish(7, b"", at(2), [subscription]) == 0
    forget_closed(story.broker.state, 6)
    assert subscription.serial in story.broker.subscriptions
    forget_closed(story.broker.state, 7)
    assert subscription.serial not in story.broker.subscriptions


def test_limits_of_subscriptions_and_devices():
    story = Story(subscriptions_per_user=2, devices_per_user=1)
    story.subscribe("a")
    story.subscribe("b")
    story.subscribe("b")
    with pytest.raises(LimitError, match="has 2 subscriptions"):
        story.subscribe("c")
    one = story.attach("one")
    with pytest.raises(LimitError, match="has 1 connected devices"):
        story.attach("two")
    story.broker.do(s.ConsumerLost(one), at(1))
    story.attach("two")
    assert list(story.broker.users["u"].devices) == ["two"]


def test_a_bound_in_bytes():
    story = Story(bytes=3 * 65)
    story.subscribe()
    for second in range(5):
        story.publish(at(second))
    assert story.waiting() == [2, 3, 4]


def test_long_gaps_come_in_parts_and_none_is_lost():
    story = Story(length=1)
    story.subscribe()
    for second in range(10_001):
        story.publish(at(second))
    story.attach()
    parts = [positions for kind, _, positions in story.sent()[:-1]]
    assert [len(part) for part in parts] == [4096, 4096, 1808]
    assert [position for part in parts for position in part] == list(range(10_000))
