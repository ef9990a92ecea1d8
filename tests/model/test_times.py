from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.model.values import format_own_time, format_time, own_offset, parse_time, read_time


@given(
    st.datetimes(timezones=st.timezones() | st.just(UTC), min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1))
)
def test_what_is_written_is_read_back(instant):
    assert parse_time(format_time(instant)) == instant.astimezone(UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-15T10:00:00Z", datetime(2026, 11, 15, 10, tzinfo=UTC)),
        ("2026-11-15t10:00:00z", datetime(2026, 11, 15, 10, tzinfo=UTC)),
        ("2026-11-15 10:00:00+01:00", datetime(2026, 11, 15, 9, tzinfo=UTC)),
        ("2026-11-15T10:00:00.5Z", datetime(2026, 11, 15, 10, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-11-15T10:00:00.123456999Z", datetime(2026, 11, 15, 10, 0, 0, 123_456, tzinfo=UTC)),
        ("2026-12-31T23:59:59.999999999Z", datetime(2026, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    ],
)
def test_rfc_3339_is_read_and_finer_digits_are_cut(text, expected):
    instant = parse_time(text)
    assert instant == expected
    assert instant.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "today",
        "2026-11-15",
        "2026-11-15T10:00:00",
        "2026-11-15T10:00Z",
        "20261115T100000Z",
        "2026-13-15T10:00:00Z",
        "2026-02-30T10:00:00Z",
        "2016-12-31T23:59:60Z",
        "2026-11-15T10:00:00+25:00",
        "0001-01-01T00:00:00+01:00",
        "٢٠٢٦-11-15T10:00:00Z",
        "2026-11-15T10:00:00." + "1" * 1000 + "Z",
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="is not an"):
        parse_time(text)


def test_written_in_utc_without_empty_digits():
    eastern = timezone(timedelta(hours=-3))
    assert format_time(datetime(2026, 1, 1, 9, tzinfo=eastern)) == "2026-01-01T12:00:00Z"
    assert format_time(datetime(2026, 1, 1, 9, 0, 0, 5, tzinfo=UTC)) == "2026-01-01T09:00:00.000005Z"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("2018-04-26T14:48:09+02:00", "2018-04-26T14:48:09+02:00"),
        ("2018-04-26t14:48:09.5-09:30", "2018-04-26T14:48:09.500000-09:30"),
        ("2018-04-26T14:48:09+00:00", "2018-04-26T14:48:09Z"),
        ("2018-04-26T14:48:09-00:00", "2018-04-26T14:48:09Z"),
    ],
)
def test_an_instant_can_keep_its_offset(text, kept):
    assert format_own_time(read_time(text)) == kept
    assert read_time(text) == parse_time(text)
    assert parse_time(text).tzinfo is UTC


def test_a_zone_becomes_the_offset_it_has_then():
    summer = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Lisbon"))
    assert format_own_time(own_offset(summer)) == "2026-07-01T12:00:00+01:00"
    early = datetime(1890, 1, 1, 12, tzinfo=ZoneInfo("Europe/Lisbon"))  # an offset with seconds, before zones were set
    assert format_own_time(own_offset(early)) == format_time(early)
    with pytest.raises(OverflowError):
        own_offset(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))))
