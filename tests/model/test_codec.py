import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.errors import EventError
from recado.model.codec import read_batch, read_event, split_batch, write_batch
from recado.model.event import Event
from recado.model.limits import LIMITS, Limits
from work import calls_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def test_a_specversion_makes_a_cloudevent():
    event = read_event('{"specversion": "1.0", "id": "e", "source": "/s", "type": "t", "data": {"a": 1}}')
    assert event == Event("e", "t", "/s", None, {"a": 1})
    assert read_event(b'{"id": "e", "data": {"a": 1}}').attributes == {"data.a": 1}


def test_a_batch_is_written_and_read_back():
    events = [Event(f"e-{n}", "t", "/s", None, {"n": n}) for n in range(3)]
    assert read_batch(write_batch(events)) == events
    assert read_batch("[]") == []


def test_a_batch_may_hold_flat_events():
    assert read_batch('[{"id": "a"}, {"id": "b"}]') == [Event("a"), Event("b")]


def test_an_error_in_a_batch_names_the_element():
    with pytest.raises(EventError, match=r"event 1 of the batch: \$\.id: the event has no id"):
        read_batch('[{"id": "a"}, {}]')


def test_a_batch_can_be_split_without_reading_it():
    assert split_batch('[{"id": "a"}, {"no": 1}]') == [b'{"id": "a"}', b'{"no": 1}']


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "ends too early"),
        (b'{"id": "e"', "ends too early"),
        (b'{"id": "e"} x', "trailing characters"),
        (b"{'id': 1}", "JSON is malformed"),
        (b"[]", "an event is a JSON object such as"),
        (b'"text"', "an event is a JSON object such as"),
        (b"null", "an event is a JSON object such as"),
        (b'{"id": "\xff"}', "the text is not UTF-8, at byte 1 of a string"),
        ('{"id": "\ud800"}', "the text has a lone surrogate at character 9"),
        (b'{"id": "e", "a": 1e999}', "out of range"),
        (b'{"id": "e", "a": NaN}', "JSON is malformed"),
    ],
)
def test_what_is_not_an_event_in_json(text, message):
    with pytest.raises(EventError, match=message):
        read_event(text)


def test_a_batch_must_be_an_array():
    with pytest.raises(EventError, match="must be a list, not an object"):
        read_batch('{"id": "e"}')


def test_sizes_are_checked_before_parsing():
    with pytest.raises(EventError, match="the event has 11 bytes; the limit is 10"):
        read_event('{"id": "e"}', limits=Limits(event_bytes=10))
    with pytest.raises(EventError, match="the batch has 2 bytes; the limit is 1"):
        read_batch("[]", limits=Limits(batch_bytes=1))


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000])
def test_hostile_nesting_is_refused_at_once(text):
    def refused():
        with pytest.raises(EventError, match="nested"):
            read_event(text)
        with pytest.raises(EventError, match="nested"):
            read_event(b'{"id": "e", "x": [' + text)

    assert calls_of(refused) < 2_000


def test_moderate_nesting_is_refused_by_the_limit_with_its_place():
    with pytest.raises(EventError, match=r"^\$\.x\[0\]\[0\].*: nested more than 16 levels deep$"):
        read_event('{"id": "e", "x": ' + "[" * 200 + "]" * 200 + "}")


def test_the_largest_event_is_read_with_work_that_grows_with_its_attributes():
    many = {f"attribute-{n}": "x" * 1500 for n in range(LIMITS.attributes)}
    text = json.dumps({"id": "e", **many})
    assert len(text) < LIMITS.event_bytes
    assert len(read_event(text).attributes) == LIMITS.attributes
    assert calls_of(lambda: read_event(text)) < 20 * LIMITS.attributes


@given(
    st.dictionaries(
        st.text(max_size=8) | st.sampled_from(["id", "type", "time", "specversion", "data"]), JSON, max_size=6
    )
)
def test_any_json_gives_an_event_or_an_event_error(members):
    try:
        event = read_event(json.dumps(members), default_id="x")
    except EventError as error:
        assert str(error)
    else:
        assert event.id


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_bytes_give_an_event_or_an_event_error(raw):
    with pytest.raises(EventError):
        read_event(b"?" + raw if isinstance(raw, bytes) else raw + "?")
