"""What a broker keeps stays bounded, and numbers stay apart, however long it runs and whoever does not answer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from broker.driver import Driver
from recado.broker import stimuli as s
from recado.broker import subscriptions as subscriptions_module
from recado.broker.notices import add_gap
from recado.broker.state import NOTICE_AGE, UNCONFIRMED, Bounds
from recado.broker.stimuli import Push, Tell
from recado.broker.subscriptions import forget_closed

START = datetime(2026, 11, 15, tzinfo=UTC)
FOREVER = START + timedelta(days=365)
DAY = timedelta(days=1)


def subscribed(broker, id, position=0, **more):
    return broker.subscribe("u", id, position=position, now=START, **{"expires_at": FOREVER, **more})


def publish(broker, position, now=START):
    broker.publish(position, b"x", now, list(broker.subscriptions.values()))


def told(broker):
    return [notice for effect in broker.take_effects() if isinstance(effect, Tell) for notice in effect.notices]


def test_no_two_subscriptions_of_a_user_ever_have_the_same_ordinal(monkeypatch):
    """Ordinals begin anew after the greatest, and those of subscriptions that stay are passed over."""
    monkeypatch.setattr(subscriptions_module, "_LAST_ORDINAL", 20)
    broker = Driver(Bounds())
    for position in range(100):
        subscribed(broker, "changing", position)
        if position in (3, 7):
            subscribed(broker, f"staying-{position}", position)
        forget_closed(broker.state, position)
        ordinals = [subscription.ordinal for subscription in broker.subscriptions.values()]
        assert len(set(ordinals)) == len(ordinals) == len(broker.users["u"].ordinals)
        assert all(1 <= ordinal <= 20 for ordinal in ordinals)


def test_a_leg_that_confirms_nothing_is_told_of_so_many_gaps_and_then_of_whole_ones():
    broker = Driver(Bounds(length=10))
    subscribed(broker, "s")
    consumer = broker.attach("u", "d", "consumer", window=10, now=START)
    count = 3 * UNCONFIRMED
    for position in range(count):
        publish(broker, position)
    first = told(broker)
    assert len(first) == len(consumer.told) == UNCONFIRMED
    broker.do(s.ConfirmNotices("consumer", [notice.id for notice in first]), START)
    rest = told(broker)
    assert len(rest) <= 2
    nids = [nid for notice in first + rest for nid in notice.nids]
    waiting = [one.nid for one in broker.users["u"].mailboxes[""].waiting()]
    assert sorted(nids + waiting) == [position << 20 | 1 for position in range(count)]
    broker.do(s.ConfirmNotices("consumer", [notice.id for notice in rest]), START)
    assert not consumer.told


def test_the_end_of_a_subscription_is_told_once_though_events_follow():
    """A sweep ended it while events that were accepted after its end were still to be dispatched."""
    broker = Driver(Bounds())
    subscribed(broker, "s", expires_at=START + timedelta(seconds=10))
    broker.attach("u", "d", "consumer", window=10, now=START)
    late = START + timedelta(seconds=11)
    broker.sweep(5, late, DAY)
    for position in range(5):
        publish(broker, position, late)
    assert [notice.sub_ids for notice in told(broker)] == [("s",)]


def test_a_subscription_that_was_renewed_is_not_told_to_have_ended():
    broker = Driver(Bounds())
    subscription = subscribed(broker, "s", expires_at=START + timedelta(seconds=10))
    broker.attach("u", "d", "consumer", window=10, now=START)
    late = START + timedelta(seconds=11)
    broker.renew(subscription, FOREVER, position=1, now=late)  # the event at 0 is accepted, and not dispatched
    publish(broker, 0, late)
    assert told(broker) == []


def test_boxes_that_nobody_needs_are_forgotten():
    broker = Driver(Bounds())
    for number in range(50):
        subscription = subscribed(broker, f"hook-{number}", number, scope=f"webhook.{number}")
        broker.attach_webhook("u", f"webhook.{number}", number, window=10, now=START)
        publish(broker, number)
        broker.acknowledge(s.Acknowledge(number, number + 1 << 20), START)
        broker.users["u"].mailboxes[f"webhook.{number}"].number = number + 1  # as the keeper does
        broker.cancel(subscription, position=number + 1, now=START)
        broker.do(s.ConsumerLost(number), START)
    subscribed(broker, "s", 50, scope="phone")
    publish(broker, 50)
    broker.sweep(51, START, DAY)
    assert list(broker.users["u"].mailboxes) == ["phone"]
    assert broker.take_batch().forgotten["boxes"] == list(range(1, 51))


def test_a_user_of_whom_nothing_is_left_goes_with_all_boxes():
    broker = Driver(Bounds())
    subscription = subscribed(broker, "s")
    publish(broker, 0)
    broker.users["u"].mailboxes[""].number = 7
    broker.attach("u", "d", "consumer", window=10, now=START)
    broker.acknowledge(s.Acknowledge("consumer", 1 << 20), START)
    broker.cancel(subscription, position=1, now=START)
    forget_closed(broker.state, 1)
    broker.do(s.SessionEnded("consumer"), START)
    broker.sweep(1, START, DAY)
    assert not broker.users
    assert broker.take_batch().forgotten["boxes"] == [7]


def test_a_notice_that_nobody_confirms_goes_with_time_and_then_its_user():
    broker = Driver(Bounds(length=1))
    subscription = subscribed(broker, "s")
    for position in range(3):
        publish(broker, position)
    broker.purge("u", START, tell=False)
    broker.cancel(subscription, position=3, now=START)
    forget_closed(broker.state, 3)
    broker.sweep(3, START, DAY)
    gap = next(iter(broker.users["u"].notices.values()))
    assert (gap.count, gap.at) == (2, START)
    add_gap(
        broker.state, broker.users["u"], [9 << 20], [], device="", reason="full"
    )  # it grows, so its age begins anew
    broker.sweep(3, START + NOTICE_AGE, DAY)
    broker.sweep(3, START + NOTICE_AGE + NOTICE_AGE, DAY)
    assert gap.count == 3
    assert list(broker.users["u"].notices) == [gap.id]
    broker.sweep(3, START + NOTICE_AGE + NOTICE_AGE + DAY, DAY)
    assert not broker.users
    assert broker.take_batch().forgotten["notices"] == [gap.id]


def test_a_sweep_in_steps_leaves_room_for_others():
    """Users come and go between two steps, and the sums are those of the mailboxes all the time."""
    broker = Driver(Bounds(age=DAY))
    for number in range(10):
        end = START + DAY if number % 2 else FOREVER
        broker.subscribe(f"u{number}", "s", position=0, now=START, expires_at=end)
    publish(broker, 0)
    assert (broker.waiting.length, broker.waiting.bytes) == (10, 10 * 65)
    steps = 0
    unfinished = True
    while unfinished:
        unfinished = s.SweepUnfinished() in broker.do(s.Sweep(1, DAY, 2), START + 2 * DAY)
        steps += 1
        broker.users.pop("u9", None)
        broker.user(f"new-{steps}")
        mailboxes = [mailbox for user in broker.users.values() for mailbox in user.mailboxes.values()]
        assert broker.waiting.length == sum(mailbox.length for mailbox in mailboxes) + ("u9" not in broker.users)
    assert steps == 3 + 5  # five that expired, and the ten users of when they were through
    assert broker.active == 5
    assert broker.waiting.length == 1


def test_an_error_at_one_subscription_is_told_to_its_owner_alone():
    broker = Driver(Bounds())
    bad = broker.subscribe("a", "s", position=0, now=START, expires_at=FOREVER)
    bad.constraints = (None,)
    good = broker.subscribe("b", "s", position=0, now=START, expires_at=FOREVER)
    assert broker.publish(1, b"x", START, [bad, good]) == 1
    (failed,) = [effect for effect in broker.all if isinstance(effect, s.DispatchFailed)]
    assert (failed.subscription, failed.position, type(failed.error)) == (bad, 1, AttributeError)
    assert [list(n.nids) for n in broker.users["a"].notices.values()] == [[1 << 20 | 1]]
    assert (broker.users["a"].dropped, broker.users["b"].dropped) == ({"damaged": 1}, {})


def test_what_comes_with_the_end_of_a_subscription_has_not_waited():
    """The end of one subscription is met between two events of which another is told at once."""
    broker = Driver(Bounds())
    subscribed(broker, "s")
    subscribed(broker, "short", expires_at=START + timedelta(seconds=1))
    broker.attach("u", "d", "consumer", window=10, now=START)
    late = START + timedelta(seconds=1)
    broker.publish_all([(0, b"x", [broker.subscriptions[1]]), (1, b"x", [broker.subscriptions[2]])], late)
    pushed = [effect for effect in broker.take_effects() if isinstance(effect, Push)]
    assert [(one.nid, one.nid < push.fresh) for push in pushed for one in push.notifications] == [(1, False)]
    assert broker.users["u"].delivered_late == 0


def test_a_device_is_not_believed_to_have_what_was_never_given():
    """An older copy of the log is in use: nids that the device has are given again, to other events."""
    broker = Driver(Bounds())
    subscribed(broker, "s")
    broker.attach("u", "d", "first", window=10, now=START, seen=5 << 20 | 1, end=0)
    broker.do(s.ConsumerLost("first"), START)
    for position in range(8):
        publish(broker, position)
    broker.take_effects()
    broker.attach("u", "d", "second", window=10, now=START, seen=5 << 20 | 1, end=8 << 20)
    assert [one.nid >> 20 for effect in broker.take_effects() for one in effect.notifications] == list(range(8))
    broker.do(s.ConsumerLost("second"), START)
    broker.attach("u", "d", "third", window=10, now=START, seen=6 << 20 | 1, end=8 << 20)
    assert [one.nid >> 20 for effect in broker.take_effects() for one in effect.notifications] == [7]
