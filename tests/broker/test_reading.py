from datetime import UTC, datetime, time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.oracle import constraint_lists
from recado.broker.constraints import (
    Absolute,
    Daily,
    Frequency,
    decode_constraints,
    read_constraints,
    write_constraints,
)
from recado.errors import SubscriptionError
from recado.model.limits import Limits

FREQUENCY = {"kind": "frequency", "amount": 15, "unit": "seconds"}
ABSOLUTE = {"kind": "absolute", "from": "2026-11-15T10:00:00Z", "to": "2026-12-01T00:00:00+01:00"}
DAILY = {"kind": "daily", "from": "16:00", "to": "17:00"}


def instant(*parts):
    return datetime(*parts, tzinfo=UTC)


@pytest.mark.parametrize(
    ("item", "wanted"),
    [
        (FREQUENCY, Frequency(15, "seconds")),
        (FREQUENCY | {"unit": "days", "amount": 3660}, Frequency(3660, "days")),
        (FREQUENCY | {"when": "disconnected"}, Frequency(15, "seconds", "disconnected")),
        (FREQUENCY | {"when": "always"}, Frequency(15, "seconds")),
        (ABSOLUTE, Absolute(instant(2026, 11, 15, 10), instant(2026, 11, 30, 23))),
        (DAILY, Daily(time(16), time(17), "UTC")),
        (DAILY | {"tz": "Asia/Kathmandu"}, Daily(time(16), time(17), "Asia/Kathmandu")),
        (DAILY | {"to": "24:00"}, Daily(time(16), time())),
        (DAILY | {"from": "06:30:15.25"}, Daily(time(6, 30, 15, 250_000), time(17))),
        (DAILY | {"weekdays": ["sun", "mon"]}, Daily(time(16), time(17), weekdays=(0, 6))),
    ],
)
def test_reading(item, wanted):
    assert read_constraints([item]) == (wanted,)


def test_the_reader_says_which_zone_is_meant_where_none_is_named():
    items = [DAILY, DAILY | {"tz": "UTC"}, ABSOLUTE | {"from": "2026-11-15T10:00"}]
    assert read_constraints(items, tz="America/Sao_Paulo") == (
        Daily(time(16), time(17), "America/Sao_Paulo"),
        Daily(time(16), time(17), "UTC"),
        Absolute(instant(2026, 11, 15, 13), instant(2026, 11, 30, 23)),
    )


@pytest.mark.parametrize(
    ("local", "wanted"),
    [
        (
            "2026-03-29T02:30",
            instant(2026, 3, 29, 1, 30),
        ),  # skipped: counted on from before the jump, 03:30 on the wall
        ("2026-10-25T02:30:00", instant(2026, 10, 25, 0, 30)),  # repeated: the first one
        ("2026-07-01 00:00:00.5", instant(2026, 6, 30, 22, 0, 0, 500_000)),
    ],
)
def test_local_times_where_clocks_change(local, wanted):
    (read,) = read_constraints([ABSOLUTE | {"from": local, "tz": "Europe/Berlin"}])
    assert read.start == wanted


@given(constraint_lists())
def test_what_is_written_is_read_again(constraints):
    assert read_constraints(write_constraints(constraints), tz="Asia/Tokyo") == constraints
    assert decode_constraints(msgspec.json.encode(write_constraints(constraints))) == constraints


def test_members_that_say_nothing_are_left_out():
    assert write_constraints(read_constraints([FREQUENCY, DAILY])) == [FREQUENCY, DAILY | {"tz": "UTC"}]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (7, '$.constraints[0]: 7 is not an object such as {"kind": "frequency", ...}'),
        ({}, '$.constraints[0]: lacks the member "kind", such as "kind": "frequency"'),
        ({"kind": "hourly"}, '$.constraints[0].kind: "hourly" is none of frequency, absolute, daily'),
        ({"kind": ["daily"]}, '$.constraints[0].kind: ["daily"] is none of frequency, absolute, daily'),
        (FREQUENCY | {"when": "never"}, '$.constraints[0].when: "never" is none of always, disconnected'),
        (FREQUENCY | {"when": None}, "$.constraints[0].when: null is none of always, disconnected"),
        (
            FREQUENCY | {"every": 5},
            '$.constraints[0]: "every": there is no such member here; there are kind, amount, unit, when',
        ),
        (
            {"kind": "frequency", "unit": "hours"},
            '$.constraints[0]: lacks the member "amount", such as "amount": 15',
        ),
        (FREQUENCY | {"amount": 0}, "$.constraints[0].amount: 0 is not a whole number from 1 to 316,224,000 (seconds)"),
        (
            FREQUENCY | {"amount": 1.5},
            "$.constraints[0].amount: 1.5 is not a whole number from 1 to 316,224,000 (seconds)",
        ),
        (
            FREQUENCY | {"amount": True, "unit": "days"},
            "$.constraints[0].amount: true is not a whole number from 1 to 3,660 (days)",
        ),
        (
            FREQUENCY | {"amount": 3661, "unit": "days"},
            "$.constraints[0].amount: 3661 is not a whole number from 1 to 3,660 (days)",
        ),
        (FREQUENCY | {"unit": "weeks"}, '$.constraints[0].unit: "weeks" is none of seconds, minutes, hours, days'),
        (
            ABSOLUTE | {"to": ABSOLUTE["from"]},
            (
                "$.constraints[0].to: 2026-11-15T10:00:00Z is not later than from, 2026-11-15T10:00:00Z: "
                "no event could occur then"
            ),
        ),
        (ABSOLUTE | {"from": 5}, '$.constraints[0].from: 5 is not a text such as "2026-11-15T10:00:00Z"'),
        (
            ABSOLUTE | {"from": "noon"},
            (
                "$.constraints[0].from: 'noon' is not an RFC 3339 timestamp such as 2026-11-15T10:00:00Z "
                "(a time zone is needed)"
            ),
        ),
        (ABSOLUTE | {"from": "2026-02-30T00:00"}, "$.constraints[0].from: day is out of range for month"),
        (DAILY | {"from": "16"}, '$.constraints[0].from: "16" is not a time of day such as 16:00 or 16:00:30'),
        (DAILY | {"to": "24:01"}, '$.constraints[0].to: "24:01" is not a time of day such as 16:00 or 16:00:30'),
        (DAILY | {"to": "１６:00"}, '$.constraints[0].to: "１６:00" is not a time of day such as 16:00 or 16:00:30'),
        (
            DAILY | {"weekdays": []},
            "$.constraints[0].weekdays: [] is not a list of different days of mon, tue, wed, thu, fri, sat, sun",
        ),
        (
            DAILY | {"weekdays": ["mon", "mon"]},
            (
                '$.constraints[0].weekdays: "mon" cannot stand at place 2 of a list of different days of '
                "mon, tue, wed, thu, fri, sat, sun"
            ),
        ),
    ],
)
def test_errors_say_where_and_what_would_be_right(item, message):
    with pytest.raises(SubscriptionError) as caught:
        read_constraints([item])
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "name",
    [
        "Nowhere/Else",
        "Europe",
        "",
        "..",
        "/etc/localtime",
        "../../etc/passwd",
        "localtime",
        "right/UTC",
        "a\0b",
        "x" * 9999,
    ],
)
def test_only_named_zones_are_zones(name):
    with pytest.raises(SubscriptionError) as caught:
        read_constraints([DAILY, DAILY | {"tz": name}])
    assert str(caught.value).startswith("$.constraints[1].tz: ")
    assert str(caught.value).endswith("is not a time zone; use an IANA name such as 'America/Sao_Paulo' or 'UTC'")
    assert len(str(caught.value)) < 250


def test_a_second_frequency_is_refused():
    with pytest.raises(
        SubscriptionError, match=r"\$.constraints\[2\]: is a second frequency beside \$.constraints\[0\]"
    ):
        read_constraints([FREQUENCY, DAILY, FREQUENCY | {"when": "disconnected"}])


def test_there_is_a_limit():
    assert len(read_constraints([DAILY] * 32)) == 32
    with pytest.raises(SubscriptionError, match=r"has 33 constraints; the limit is 32"):
        read_constraints([DAILY] * 33)
    with pytest.raises(SubscriptionError, match=r"has 2 constraints; the limit is 1"):
        read_constraints([DAILY] * 2, limits=Limits(constraints=1))


def test_long_values_are_cut_in_messages():
    with pytest.raises(SubscriptionError) as caught:
        read_constraints([DAILY | {"from": "9" * 100_000}])
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", ["", "{}", "[", '"daily"', b"\xff", "[" * 100_000])
def test_text_that_is_no_list(text):
    with pytest.raises(SubscriptionError, match=r"\$.constraints: is not a JSON list of objects"):
        decode_constraints(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
members = st.sampled_from(["kind", "amount", "unit", "from", "to", "tz", "weekdays", "when"])
plausible = st.sampled_from(
    ["frequency", "daily", "absolute", "seconds", "16:00", "UTC", "2026-11-15T10:00:00Z", ["mon"], 5]
)


@given(st.lists(st.dictionaries(members, plausible | json_values, max_size=8) | json_values, max_size=3))
def test_anything_is_read_or_refused(items):
    text = msgspec.json.encode(items)
    try:
        read = decode_constraints(text)
    except SubscriptionError as error:
        assert str(error).startswith("$.constraints")
    else:
        assert decode_constraints(msgspec.json.encode(write_constraints(read))) == read
