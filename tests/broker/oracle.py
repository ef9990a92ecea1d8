"""The plain twin of the delivery policy: the spec's pseudo-code, and hours of the week read off Arrow's time zones."""

from datetime import UTC, datetime, time, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from recado.broker.constraints import UNITS, WEEKDAYS, Absolute, Daily, Frequency

DAY = 86_400_000_000
ZONES = (
    "UTC",
    "Europe/Berlin",
    "Europe/Dublin",  # winter time is the exception there
    "America/New_York",
    "America/Sao_Paulo",  # clocks jumped at midnight
    "Australia/Lord_Howe",  # by half an hour
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "Pacific/Apia",  # has no 30 December 2011
    "Pacific/Kiritimati",
)


def satisfied(constraints, occurred_at, now, last_notified, user_connected):
    """mobility.md 9.5, line by line."""
    active = [c for c in constraints if c.when == "always" or not user_connected]
    group = None
    for c in active:
        if isinstance(c, Frequency):
            if last_notified is not None and now - last_notified < timedelta(**{c.unit: c.amount}):
                return False
        else:
            group = (group or False) or contains(c, occurred_at)
    return group is not False


def contains(interval, instant):
    if isinstance(interval, Absolute):
        return interval.start <= instant and not interval.end <= instant
    return any(
        start <= week_clock(instant, interval.tz) - turn < end for start, end in _pieces(interval) for turn in _WEEKS
    )


_WEEKS = (0, -7 * DAY)  # an interval that starts on Sunday evening reaches into the next week


def _pieces(daily):
    """Where the interval lies in a week that begins on Monday, in microseconds."""
    start, end = _micros(daily.start), _micros(daily.end)
    length = end - start if end > start else end - start + DAY
    return [(day * DAY + start, day * DAY + start + length) for day in (daily.weekdays or range(7))]


def _micros(clock):
    return ((clock.hour * 60 + clock.minute) * 60 + clock.second) * 1_000_000 + clock.microsecond


def week_clock(instant, tz):
    """Microseconds since Monday 00:00 on the wall clock, by Arrow's reading of the zone."""
    local = pc.local_timestamp(pa.scalar(instant, pa.timestamp("us", tz=tz))).value
    return (local + 3 * DAY) % (7 * DAY)  # 1 January 1970 was a Thursday


# --- cases -----------------------------------------------------------------------------------------------------------

whens = st.sampled_from(["always", "disconnected"])
instants = st.datetimes(datetime(1990, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC))
clocks = st.one_of(st.times(), st.builds(time, st.integers(0, 23), st.sampled_from([0, 30])))
frequencies = st.builds(Frequency, st.integers(1, 3660), st.sampled_from(list(UNITS)), whens)
absolutes = st.builds(
    lambda start, length, when: Absolute(start, start + length, when),
    instants,
    st.timedeltas(timedelta(microseconds=1), timedelta(days=9000)),
    whens,
)
weekdays = st.lists(st.integers(0, len(WEEKDAYS) - 1), unique=True).map(lambda days: tuple(sorted(days)))
dailies = st.builds(Daily, clocks, clocks, st.sampled_from(ZONES), weekdays, whens)
intervals = st.one_of(absolutes, dailies)


@st.composite
def constraint_lists(draw, longest=4):
    """Any order, at most one frequency."""
    drawn = draw(st.lists(intervals, max_size=longest)) + draw(st.lists(frequencies, max_size=1))
    return tuple(draw(st.permutations(drawn)))
