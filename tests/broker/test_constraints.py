"""Intervals at their edges: midnight, weekdays, clocks that jump or repeat, the ends of time."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker import oracle
from broker.oracle import ZONES, clocks, dailies, instants, weekdays
from recado.broker.constraints import UNITS, Absolute, Daily, Frequency

CLOSING = Daily(time(16), time(17))
NIGHT = Daily(time(22), time(2))
FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("daily", "clock", "wanted"),
    [
        (CLOSING, "15:59:59", False),
        (CLOSING, "16:00:00", True),
        (CLOSING, "16:59:59", True),
        (CLOSING, "16:59:59.999999", True),
        (CLOSING, "17:00:00", False),
        (NIGHT, "21:59:59", False),
        (NIGHT, "22:00", True),
        (NIGHT, "23:30", True),
        (NIGHT, "00:00", True),
        (NIGHT, "01:59", True),
        (NIGHT, "02:00", False),
        (Daily(time(5), time(5)), "04:59", True),
        (Daily(time(5), time(5)), "05:00", True),
        (Daily(time(16), time()), "23:59:59.999999", True),
        (Daily(time(16), time()), "00:00", False),
    ],
)
def test_hours_of_the_day(daily, clock, wanted):
    assert daily.contains(utc(f"2026-11-15T{clock}")) is wanted


@pytest.mark.parametrize(
    ("daily", "instant", "wanted"),
    [
        # 2026-11-13 is a Friday
        (Daily(time(16), time(17), weekdays=(4,)), "2026-11-13T16:30", True),
        (Daily(time(16), time(17), weekdays=(4,)), "2026-11-14T16:30", False),
        # what starts on Friday evening ends on Saturday
        (Daily(time(22), time(2), weekdays=(4,)), "2026-11-13T01:00", False),
        (Daily(time(22), time(2), weekdays=(4,)), "2026-11-13T23:00", True),
        (Daily(time(22), time(2), weekdays=(4,)), "2026-11-14T01:00", True),
        (Daily(time(22), time(2), weekdays=(4,)), "2026-11-14T23:00", False),
        # Sunday night reaches into Monday
        (Daily(time(22), time(2), weekdays=(6,)), "2026-11-16T01:00", True),
        # a whole day is a whole day from its beginning
        (Daily(time(), time(), weekdays=(4,)), "2026-11-13T00:00", True),
        (Daily(time(), time(), weekdays=(4,)), "2026-11-14T00:00", False),
        (Daily(time(6), time(6), weekdays=(4,)), "2026-11-14T05:59", True),
        (Daily(time(6), time(6), weekdays=(4,)), "2026-11-13T05:59", False),
        # the weekday is the zone's: Friday evening in UTC is Saturday morning on Kiritimati
        (Daily(time(), time(), "Pacific/Kiritimati", (5,)), "2026-11-13T10:00", True),
        # leap days
        (Daily(time(), time(), weekdays=(3,)), "2024-02-29T12:00", True),
        (Daily(time(23), time(1), weekdays=(3,)), "2024-03-01T00:30", True),
    ],
)
def test_weekdays(daily, instant, wanted):
    assert daily.contains(utc(instant)) is wanted


@pytest.mark.parametrize(
    ("zone", "start", "end", "instant", "wanted"),
    [
        # Berlin, 29 March 2026: 02:00 -> 03:00 at 01:00 UTC
        ("Europe/Berlin", "01:30", "02:30", "2026-03-29T00:59:59", True),
        ("Europe/Berlin", "01:30", "02:30", "2026-03-29T01:00:00", False),  # 03:00 on the wall
        ("Europe/Berlin", "02:15", "02:45", "2026-03-29T01:15:00", False),  # never 02:15
        ("Europe/Berlin", "02:30", "04:00", "2026-03-29T01:00:00", True),  # begins with the jump
        # Berlin, 25 October 2026: 03:00 -> 02:00 at 01:00 UTC
        ("Europe/Berlin", "02:00", "02:30", "2026-10-25T00:15:00", True),  # 02:15, first time
        ("Europe/Berlin", "02:00", "02:30", "2026-10-25T00:45:00", False),
        ("Europe/Berlin", "02:00", "02:30", "2026-10-25T01:15:00", True),  # 02:15 again
        ("Europe/Berlin", "02:00", "02:30", "2026-10-25T01:30:00", False),
        # New York, 8 March and 1 November 2026
        ("America/New_York", "02:00", "03:00", "2026-03-08T07:00:00", False),
        ("America/New_York", "01:00", "02:00", "2026-11-01T05:30:00", True),
        ("America/New_York", "01:00", "02:00", "2026-11-01T06:30:00", True),
        # São Paulo, 4 November 2018: midnight -> 01:00 at 03:00 UTC
        ("America/Sao_Paulo", "23:00", "00:30", "2018-11-04T02:59:59", True),
        ("America/Sao_Paulo", "23:00", "00:30", "2018-11-04T03:00:00", False),
        # Lord Howe, 5 April 2026: 02:00 -> 01:30 at 15:00 UTC the day before
        ("Australia/Lord_Howe", "01:30", "01:45", "2026-04-04T14:30:00", True),
        ("Australia/Lord_Howe", "01:30", "01:45", "2026-04-04T14:50:00", False),
        ("Australia/Lord_Howe", "01:30", "01:45", "2026-04-04T15:00:00", True),
        # a zone whose offset has minutes
        ("Asia/Kathmandu", "16:00", "17:00", "2026-06-01T10:15:00", True),
        ("Asia/Kathmandu", "16:00", "17:00", "2026-06-01T10:14:59", False),
    ],
)
def test_clocks_that_change(zone, start, end, instant, wanted):
    daily = Daily(time.fromisoformat(start), time.fromisoformat(end), zone)
    assert daily.contains(utc(instant)) is wanted


TRANSITIONS = {
    "Europe/Berlin": ["2026-03-29T01:00", "2026-10-25T01:00"],
    "Europe/Dublin": ["2026-03-29T01:00", "2026-10-25T01:00"],
    "America/New_York": ["2026-03-08T07:00", "2026-11-01T06:00"],
    "America/Sao_Paulo": ["2018-11-04T03:00", "2019-02-17T02:00"],
    "Australia/Lord_Howe": ["2026-10-03T15:30", "2026-04-04T15:00"],
    "Africa/Casablanca": ["2026-02-15T02:00", "2026-03-22T02:00"],
    "Pacific/Apia": ["2011-12-30T10:00", "2020-04-04T14:00"],
}
near_transitions = st.sampled_from([(zone, one) for zone, many in TRANSITIONS.items() for one in many]).flatmap(
    lambda pair: st.tuples(
        st.just(pair[0]),
        st.timedeltas(-timedelta(hours=26), timedelta(hours=26)).map(lambda shift: utc(pair[1]) + shift),
    )
)


@pytest.mark.parametrize(("zone", "instant"), [(zone, one) for zone, many in TRANSITIONS.items() for one in many])
def test_the_transitions_are_some(zone, instant):
    offsets = [(utc(instant) + timedelta(seconds=s)).astimezone(ZoneInfo(zone)).utcoffset() for s in (-1, 0)]
    assert offsets[0] != offsets[1]


@given(near_transitions, clocks, clocks, weekdays)
def test_around_transitions(where, start, end, days):
    zone, instant = where
    daily = Daily(start, end, zone, days)
    assert daily.contains(instant) is oracle.contains(daily, instant)


@given(dailies, instants)
def test_any_daily_interval(daily, instant):
    assert daily.contains(instant) is oracle.contains(daily, instant)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("instant", [FIRST, LAST], ids=["first", "last"])
def test_the_ends_of_time(zone, instant):
    halves = Daily(time(), time(12), zone), Daily(time(12), time(), zone)
    assert sorted(half.contains(instant) for half in halves) == [False, True]
    days = [Daily(time(), time(), zone, (day,)).contains(instant) for day in range(7)]
    assert days.count(True) == 1


@pytest.mark.parametrize(
    ("zone", "instant", "clock", "weekday"),
    [
        # by local mean time, and the day before Monday, 1 January of the year 1
        ("America/New_York", FIRST, time(19, 3, 58), 6),
        # the day after Friday, 31 December 9999
        ("Asia/Tokyo", LAST, time(8, 59, 59, 999_999), 5),
    ],
)
def test_beyond_the_calendar(zone, instant, clock, weekday):
    until = (datetime.combine(datetime(2000, 1, 1), clock) + timedelta(microseconds=1)).time()
    daily = Daily(clock, until, zone, (weekday,))
    assert daily.contains(instant)


def test_an_absolute_interval_is_closed_and_open():
    interval = Absolute(utc("2024-02-29T00:00"), utc("2024-03-01T00:00"))
    probes = ["2024-02-28T23:59:59.999999", "2024-02-29T00:00", "2024-02-29T23:59:59.999999", "2024-03-01T00:00"]
    assert [interval.contains(utc(one)) for one in probes] == [False, True, True, False]


def test_periods():
    seconds = {"seconds": 2, "minutes": 120, "hours": 7_200, "days": 172_800}
    assert {unit: Frequency(2, unit).period.total_seconds() for unit in UNITS} == seconds
