"""Messages as bytes and back."""

from contextlib import suppress
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.errors import FilterError
from recado.filters.cost import check_filter
from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.filter import In
from recado.model.limits import LIMITS
from recado.protocols.trees import MESSAGES, messages
from recado.protocols.wire import HEADER_BYTES, WireError, decoder, encode, read_filter, wire_size, write_filter

EVENT = Event(
    "e", "t", "s", datetime(2026, 1, 2, tzinfo=UTC), {"n": 1, "x": 1.5, "b": True, "a": ("u", 2)}, ("b",)
)  # fmt: skip
INTEREST = messages.Interest("s", 3, "t", "v > 1")
ALL = (
    messages.Q(INTEREST),
    messages.QYes("s", 3),
    messages.QNo("s", 3),
    messages.Join(INTEREST, "other"),
    messages.C("s", 3, lost=True),
    messages.N(1 << 62, 7, EVENT, ("s",), ((5, "t", 6),)),
    messages.MP(9, "t"),
    messages.MPYes(9, (INTEREST, INTEREST)),
    messages.MPNo(9),
    messages.Graft(9, INTEREST),
    messages.MB("t", (("s", 3),)),
    messages.Repair("s", 3, 9),
    messages.Redo(9),
    messages.Hello(1 << 62, True),
    messages.Cut(1 << 62),
    messages.Merge(0, 1, 2),
    messages.Seek(9, INTEREST, "127.0.0.1:7400", ("a", 4), 2),
    messages.Offer(9, "a", "127.0.0.1:7400", 3, ("a", 4)),
    messages.Attach("t", "v > 1"),
    messages.Call(9, "t"),
    messages.Answer(9, True, False, True, 3, 2, "t"),
    messages.Appoint(9, "t"),
    messages.StandIn(9, "t", 1 << 62),
)
decode = decoder(MESSAGES)


@pytest.mark.parametrize("message", ALL, ids=lambda message: type(message).__name__)
def test_there_and_back(message):
    assert decode(encode(message)) == message
    assert wire_size(message) == HEADER_BYTES + len(encode(message))


def test_every_message_is_tried():
    assert {type(message) for message in ALL} == set(MESSAGES.__args__)


def test_a_question_is_small():
    assert wire_size(messages.QYes("s", 3)) < 20


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        encode({"kind": "Q"}),
        encode(["no such kind", 1]),
        encode(["Q"]),
        encode(["Q_YES", 1, "s"]),
        encode(["N", 1, 1, 5]),
        encode(["N", 1, 1, {"id": ""}]),
        encode(["N", 1, 1, {"id": "e", "attributes": {"x": {"deep": 1}}}]),
        encode(["N", 1, 1, {"id": "e", "colour": "red"}]),
        encode(["N", 1, 1, {"id": "e", "attributes": [1]}]),
    ],
)
def test_what_is_no_message(body):
    with pytest.raises(WireError, match="bytes are no message of this protocol"):
        decode(body)


@given(st.binary(max_size=200))
def test_random_bytes(body):
    with suppress(WireError):
        decode(body)


@given(st.sampled_from(ALL), st.data())
def test_damaged_messages(message, data):
    body = bytearray(encode(message))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with suppress(WireError):
        decode(bytes(body))


def test_filters_travel_as_text():
    filter = parse('v > 1 and w == "x"')
    assert read_filter(write_filter(filter)) == filter
    assert read_filter("v > 1") is read_filter("v > 1")


def test_what_one_node_accepts_every_node_takes():
    """A set of texts within the limits of filters, whose expression is longer than a person may write one."""
    accepted = check_filter(In("name", tuple(f"station {number:04} of a long line" for number in range(1_000))))
    text = write_filter(accepted)
    assert len(text) > LIMITS.filter_chars
    assert read_filter(text) == accepted


@pytest.mark.parametrize("text", ["(" * 100_000, "not " * 2_000 + "a == 1", "a == 1 or " * 300 + "a == 1"])
def test_what_no_node_accepts_no_node_takes(text):
    with pytest.raises(FilterError):
        read_filter(text)


def test_a_field_of_no_known_kind():
    class Strange:
        pass

    class Message(msgspec.Struct, tag=True):
        field: Strange

    with pytest.raises(WireError, match="no reader for Strange"):
        decoder(Message)(encode({"type": "Message", "field": 1}))
