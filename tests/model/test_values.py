from datetime import UTC, datetime, timedelta, timezone

import pytest

from recado.model.values import Kind, canonical, is_nan, kind_of, microseconds


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("", Kind.STRING),
        (0, Kind.NUMBER),
        (0.0, Kind.NUMBER),
        (True, Kind.BOOL),
        (datetime(2026, 1, 1, tzinfo=UTC), Kind.TIME),
    ],
)
def test_four_kinds(value, kind):
    assert kind_of(value) is kind


@pytest.mark.parametrize("value", [None, b"", [], (), {}, 1j])
def test_nothing_else_is_a_value(value):
    with pytest.raises(TypeError, match="is not a value; use str, int, float, bool or an aware datetime"):
        kind_of(value)


@pytest.mark.parametrize(
    ("value", "spelling"),
    [(1.0, 1), (-0.0, 0), (1.5, 1.5), (True, True), ("1", "1"), (2.0**64, 2.0**64), (float(2**63), 2**63)],
)
def test_equal_values_have_one_spelling(value, spelling):
    result = canonical(value)
    assert result == spelling
    assert type(result) is type(spelling)


def test_instants_are_spelt_in_utc():
    local = datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=-3)))
    assert canonical(local).tzinfo is UTC
    assert canonical(local) == local


def test_microseconds_are_exact():
    assert microseconds(datetime(1970, 1, 1, tzinfo=UTC)) == 0
    assert microseconds(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
    assert microseconds(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == 253_402_300_799_999_999


def test_nan_is_recognised():
    assert is_nan(float("nan"))
    assert not is_nan(0.0)
    assert not is_nan("nan")
