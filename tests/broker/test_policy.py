from datetime import UTC, datetime, time, timedelta
from itertools import permutations
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker import oracle
from broker.oracle import constraint_lists, instants
from recado.broker.constraints import Absolute, Daily, Frequency, explain, frequency_of, refused_by, satisfied

T0 = datetime(2026, 11, 15, tzinfo=UTC)
FIFTEEN = (Frequency(15, "seconds"),)
TRADING = (Daily(time(8), time(9)), Daily(time(16), time(17)))


def at(seconds):
    return T0 + timedelta(seconds=seconds)


def notified(constraints, events, last=None, connected=True):
    """The events that become notifications, one after the other."""
    given = []
    for seconds in events:
        if satisfied(constraints, at(seconds), at(seconds), last, connected):
            given.append(seconds)
            last = at(seconds)
    return given


def hour(text):
    return datetime.combine(T0.date(), time.fromisoformat(text), UTC)


def test_frequency_keeps_notifications_apart():
    assert notified(FIFTEEN, [0, 10, 14.9, 15, 29, 31]) == [0, 15, 31]


def test_a_frequency_for_the_disconnected_counts_notifications_made_while_connected():
    constraints = (Frequency(60, "seconds", "disconnected"),)
    assert notified(constraints, [0, 1, 2]) == [0, 1, 2]
    assert notified(constraints, [10, 62, 63], last=at(2), connected=False) == [62]


@pytest.mark.parametrize(("clock", "wanted"), [("08:30", True), ("12:00", False), ("16:30", True)])
def test_intervals_complement_each_other(clock, wanted):
    assert satisfied(TRADING, hour(clock), hour(clock), None, True) is wanted


def test_intervals_and_a_frequency_must_both_agree():
    constraints = (*TRADING, Frequency(5, "minutes"))
    last, seen = None, []
    for clock in ("12:00", "16:30", "16:33", "16:35"):
        if satisfied(constraints, hour(clock), hour(clock), last, True):
            last = hour(clock)
            seen.append(clock)
    assert seen == ["16:30", "16:35"]


GRID = [
    # kind, when, connected, is the constraint looked at?
    (one, when, connected, when == "always" or not connected)
    for one in (Frequency(1, "hours"), Daily(time(8), time(9)), Absolute(at(-200), at(-100)))
    for when in ("always", "disconnected")
    for connected in (True, False)
]


@pytest.mark.parametrize(("one", "when", "connected", "active"), GRID)
def test_when_a_constraint_holds(one, when, connected, active):
    kind = type(one)
    constraint = kind(*[getattr(one, name) for name in one.__struct_fields__[:-1]], when)
    assert satisfied((constraint,), at(0), at(0), at(-10), connected) is not active


def test_nothing_asked_is_satisfied():
    assert satisfied((), at(0), at(0), at(0), False)


def test_a_late_event_is_too_early_after_the_last_notification():
    assert not satisfied(FIFTEEN, at(-100), at(-100), at(0), True)


@given(constraint_lists(), instants, instants, st.none() | instants, st.booleans())
def test_the_policy_is_the_spec(constraints, occurred_at, now, last, connected):
    wanted = oracle.satisfied(constraints, occurred_at, now, last, connected)
    assert satisfied(constraints, occurred_at, now, last, connected) is wanted
    assert (explain(constraints, occurred_at, now, last, connected) is None) is wanted


@given(constraint_lists(longest=3), instants, instants, st.booleans())
def test_order_changes_no_result(constraints, now, last, connected):
    results = {satisfied(order, now, now, last, connected) for order in permutations(constraints)}
    assert len(results) == 1


@given(constraint_lists(), instants, st.none() | instants, st.booleans())
def test_what_refuses_refuses_alone(constraints, now, last, connected):
    refusing = refused_by(constraints, now, now, last, connected)
    assert set(refusing) <= set(constraints)
    assert not refusing or not satisfied(refusing, now, now, last, connected)


def test_refusals_are_explained():
    constraints = (*TRADING, Frequency(5, "minutes"))
    assert explain(constraints, at(0), at(0), at(-90), True) == (
        "at most one every 5 minutes; this is 90 s after the last one"
    )
    assert explain(constraints, at(0), at(0), at(20), True) == (
        "at most one every 5 minutes; this is 20 s before the last one"
    )
    assert explain(constraints, at(0), at(0), None, True) == (
        "2026-11-15T00:00:00Z is not in daily 08:00 to 09:00 UTC, nor in daily 16:00 to 17:00 UTC"
    )
    week = (Absolute(at(60), at(120)), Daily(time(8), time(9, 0, 30), "Asia/Kathmandu", (0, 6)))
    assert explain(week, at(0), at(0), None, True) == (
        "2026-11-15T00:00:00Z is not in 2026-11-15T00:01:00Z to 2026-11-15T00:02:00Z, "
        "nor in mon sun 08:00 to 09:00:30 Asia/Kathmandu"
    )
    assert explain(constraints, hour("08:00"), hour("08:00"), None, True) is None


@pytest.mark.parametrize("zone", [None, ZoneInfo("Europe/Berlin"), ZoneInfo("UTC")])
def test_local_times_are_refused(zone):
    wrong = datetime(2026, 11, 15, tzinfo=zone)
    with pytest.raises(ValueError, match="instants are in UTC"):
        satisfied((), wrong, at(0), None, True)
    with pytest.raises(ValueError, match="instants are in UTC"):
        satisfied((), at(0), at(0), wrong, True)


def test_the_frequency_is_found():
    assert frequency_of((*TRADING, *FIFTEEN)) == FIFTEEN[0]
    assert frequency_of(TRADING) is None
