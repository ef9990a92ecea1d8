"""Trace context as extension attributes of an event."""

import pytest

from recado.model.codec import read_event, write_cloudevent, write_flat
from recado.model.tracing import is_traceparent, mark_trace, trace_of, with_trace, without_trace

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        (PARENT, True), ("01" + PARENT[2:], True), ("ff" + PARENT[2:], False), (PARENT.upper(), False),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", False), (f"00-{'a' * 32}-{'0' * 16}-01", False), (PARENT + "-x", False),
        (PARENT + "\n", False), ("", False), (None, False), (7, False),
    ],
)  # fmt: skip
def test_what_a_traceparent_is(text, valid):
    assert is_traceparent(text) is valid


def test_a_trace_is_an_extension_and_is_read_back():
    event = with_trace(read_event({"id": "1", "type": "t", "source": "/s", "x": 1}), PARENT, "a=b")
    assert trace_of(event) == {"traceparent": PARENT, "tracestate": "a=b"}
    assert read_event(write_flat(event)) == event
    assert f'"traceparent":"{PARENT}"'.encode() in write_cloudevent(event).partition(b'"data"')[0]
    assert read_event(write_cloudevent(event)) == event


def test_what_an_event_names_itself_stays():
    event = read_event({"id": "1", "traceparent": PARENT})
    assert with_trace(event, PARENT.replace("b7", "c8")) is event
    plain = read_event({"id": "1", "x": 1})
    assert with_trace(plain, "nonsense") is with_trace(plain, None) is plain
    assert trace_of(with_trace(plain, PARENT, "é")) == {"traceparent": PARENT}
    assert trace_of(read_event({"id": "1", "traceparent": [PARENT]})) == {}


def test_without_its_trace_it_is_the_same_event():
    event = read_event({"id": "1", "type": "t", "x": 1})
    assert without_trace(with_trace(event, PARENT, "a=b")) == event
    assert without_trace(event) is event


def test_a_trace_in_the_flat_form_is_an_extension_of_the_cloudevent():
    event = mark_trace(read_event({"id": "1", "type": "t", "source": "/s", "traceparent": PARENT}))
    assert event.extensions == ("traceparent",)
    assert mark_trace(event) is event
    assert mark_trace(read_event({"id": "1", "traceparent": "no"})).extensions == ()
