"""What a desk keeps stays bounded, and numbers stay apart, however long it runs and whoever does not answer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from recado.broker import core as desk_module
from recado.broker.core import Desk
from recado.broker.mailbox import AGE, UNCONFIRMED, Bounds
from recado.broker.state import Push, Tell

START = datetime(2026, 11, 15, tzinfo=UTC)
FOREVER = START + timedelta(days=365)
DAY = timedelta(days=1)


def subscribed(desk, id, position=0, **more):
    return desk.subscribe("u", id, position=position, now=START, **{"expires_at": FOREVER, **more})


def publish(desk, position, now=START):
    desk.publish(position, b"x", now, list(desk.standings.values()))
    desk.flush(now)


def told(desk):
    return [notice for effect in desk.take_effects() if isinstance(effect, Tell) for notice in effect.notices]


def test_no_two_subscriptions_of_a_user_ever_have_the_same_ordinal(monkeypatch):
    """Ordinals begin anew after the greatest, and those of subscriptions that stay are passed over."""
    monkeypatch.setattr(desk_module, "_LAST_ORDINAL", 20)
    desk = Desk(Bounds())
    for position in range(100):
        subscribed(desk, "changing", position)
        if position in (3, 7):
            subscribed(desk, f"staying-{position}", position)
        desk.forget_closed(position)
        ordinals = [standing.ordinal for standing in desk.standings.values()]
        assert len(set(ordinals)) == len(ordinals) == len(desk.users["u"].ordinals)
        assert all(1 <= ordinal <= 20 for ordinal in ordinals)


def test_a_leg_that_confirms_nothing_is_told_of_so_many_gaps_and_then_of_whole_ones():
    desk = Desk(Bounds(length=10))
    subscribed(desk, "s")
    link = desk.attach("u", "d", "leg", window=10, now=START)
    count = 3 * UNCONFIRMED
    for position in range(count):
        publish(desk, position)
    first = told(desk)
    assert len(first) == len(link.told) == UNCONFIRMED
    desk.noticed("leg", [notice.id for notice in first])
    rest = told(desk)
    assert len(rest) <= 2
    nids = [nid for notice in first + rest for nid in notice.nids]
    waiting = [note.nid for note in desk.users["u"].boxes[""].waiting()]
    assert sorted(nids + waiting) == [position << 20 | 1 for position in range(count)]
    desk.noticed("leg", [notice.id for notice in rest])
    assert not link.told


def test_the_end_of_a_subscription_is_told_once_though_events_follow():
    """A sweep ended it while events that were accepted after its end were still to be dispatched."""
    desk = Desk(Bounds())
    subscribed(desk, "s", expires_at=START + timedelta(seconds=10))
    desk.attach("u", "d", "leg", window=10, now=START)
    late = START + timedelta(seconds=11)
    desk.sweep(5, late, DAY)
    for position in range(5):
        publish(desk, position, late)
    assert [notice.sub_ids for notice in told(desk)] == [("s",)]


def test_a_subscription_that_was_renewed_is_not_told_to_have_ended():
    desk = Desk(Bounds())
    standing = subscribed(desk, "s", expires_at=START + timedelta(seconds=10))
    desk.attach("u", "d", "leg", window=10, now=START)
    late = START + timedelta(seconds=11)
    desk.renew(standing, FOREVER, position=1, now=late)  # the event at 0 is accepted, and not dispatched
    publish(desk, 0, late)
    assert told(desk) == []


def test_boxes_that_nobody_needs_are_forgotten():
    desk = Desk(Bounds())
    for number in range(50):
        standing = subscribed(desk, f"hook-{number}", number, scope=f"webhook.{number}")
        desk.attach_alone("u", f"webhook.{number}", number, window=10, now=START)
        publish(desk, number)
        desk.acked(number, number + 1 << 20)
        desk.users["u"].boxes[f"webhook.{number}"].number = number + 1  # as the keeper does
        desk.cancel(standing, position=number + 1, now=START)
        desk.lost(number, START)
    subscribed(desk, "s", 50, scope="phone")
    publish(desk, 50)
    desk.sweep(51, START, DAY)
    assert list(desk.users["u"].boxes) == ["phone"]
    assert desk.take_changes().boxes == list(range(1, 51))


def test_a_user_of_whom_nothing_is_left_goes_with_all_boxes():
    desk = Desk(Bounds())
    standing = subscribed(desk, "s")
    publish(desk, 0)
    desk.users["u"].boxes[""].number = 7
    desk.attach("u", "d", "leg", window=10, now=START)
    desk.acked("leg", 1 << 20)
    desk.cancel(standing, position=1, now=START)
    desk.forget_closed(1)
    desk.ended("leg")
    desk.sweep(1, START, DAY)
    assert not desk.users
    assert desk.take_changes().boxes == [7]


def test_a_notice_that_nobody_confirms_goes_with_time_and_then_its_user():
    desk = Desk(Bounds(length=1))
    standing = subscribed(desk, "s")
    for position in range(3):
        publish(desk, position)
    desk.purge(desk.users["u"], tell=False)
    desk.cancel(standing, position=3, now=START)
    desk.forget_closed(3)
    desk.sweep(3, START, DAY)
    gap = next(iter(desk.users["u"].notices.values()))
    assert (gap.count, gap.at) == (2, START)
    desk.gap(desk.users["u"], "", [9 << 20], "full")  # it grows, so its age begins anew
    desk.sweep(3, START + AGE, DAY)
    desk.sweep(3, START + AGE + AGE, DAY)
    assert gap.count == 3
    assert list(desk.users["u"].notices) == [gap.id]
    desk.sweep(3, START + AGE + AGE + DAY, DAY)
    assert not desk.users
    assert desk.take_changes().notices[gap.id][1] is None


def test_a_sweep_in_steps_leaves_room_for_others(monkeypatch):
    """Users come and go between two steps, and the sums are those of the boxes all the time."""
    monkeypatch.setattr(desk_module, "SWEPT", 2)
    desk = Desk(Bounds(age=DAY))
    for number in range(10):
        end = START + DAY if number % 2 else FOREVER
        desk.subscribe(f"u{number}", "s", position=0, now=START, expires_at=end)
    publish(desk, 0)
    assert (desk.waiting.length, desk.waiting.bytes) == (10, 10 * 65)
    steps = 0
    for _ in desk.sweeping(1, START + 2 * DAY, DAY):
        steps += 1
        desk.users.pop("u9", None)
        desk.user(f"new-{steps}")
        boxes = [box for user in desk.users.values() for box in user.boxes.values()]
        assert desk.waiting.length == sum(box.length for box in boxes) + ("u9" not in desk.users)
    assert steps == 3 + 6  # for five that expired, and for the nine users and three that came meanwhile
    assert desk.active == 5
    assert desk.waiting.length == 1


def test_an_error_at_one_subscription_is_told_to_its_owner_alone():
    desk = Desk(Bounds())
    bad = desk.subscribe("a", "s", position=0, now=START, expires_at=FOREVER)
    bad.constraints = (None,)
    good = desk.subscribe("b", "s", position=0, now=START, expires_at=FOREVER)
    with pytest.raises(AttributeError):
        desk.publish(0, b"x", START, [bad, good])
    faults = []
    assert desk.publish(1, b"x", START, [bad, good], faults) == 1
    assert [standing for standing, _ in faults] == [bad]
    assert [list(n.nids) for n in desk.users["a"].notices.values()] == [[1 << 20 | 1]]
    assert (desk.users["a"].dropped, desk.users["b"].dropped) == ({"damaged": 1}, {})


def test_what_comes_with_the_end_of_a_subscription_has_not_waited():
    """The end of one subscription is met between two events of which another is told at once."""
    desk = Desk(Bounds())
    subscribed(desk, "s")
    subscribed(desk, "short", expires_at=START + timedelta(seconds=1))
    desk.attach("u", "d", "leg", window=10, now=START)
    desk.publish(0, b"x", START, [desk.standings[1]])
    desk.publish(1, b"x", START + timedelta(seconds=1), [desk.standings[2]])
    desk.flush(START)
    pushed = [effect for effect in desk.take_effects() if isinstance(effect, Push)]
    assert [(note.nid, note.nid < push.fresh) for push in pushed for note in push.notes] == [(1, False)]
    assert desk.users["u"].delivered_late == 0


def test_a_device_is_not_believed_to_have_what_was_never_given():
    """An older copy of the log is in use: nids that the device has are given again, to other events."""
    desk = Desk(Bounds())
    subscribed(desk, "s")
    desk.attach("u", "d", "first", window=10, now=START, seen=5 << 20 | 1, end=0)
    desk.lost("first", START)
    for position in range(8):
        publish(desk, position)
    desk.take_effects()
    desk.attach("u", "d", "second", window=10, now=START, seen=5 << 20 | 1, end=8 << 20)
    assert [note.nid >> 20 for effect in desk.take_effects() for note in effect.notes] == list(range(8))
    desk.lost("second", START)
    desk.attach("u", "d", "third", window=10, now=START, seen=6 << 20 | 1, end=8 << 20)
    assert [note.nid >> 20 for effect in desk.take_effects() for note in effect.notes] == [7]
