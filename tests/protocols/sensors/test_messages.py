"""Messages of the sensor network: as bytes and back, their sizes and classes, and what is refused."""

import math
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.sensors.world import event
from recado.errors import RecadoError
from recado.protocols.registry import find_protocol
from recado.protocols.sensors import MESSAGES, check_message, messages, size_of, traffic_class
from recado.protocols.sensors.messages import (
    Data,
    Flood,
    Group,
    Hello,
    Item,
    Lookup,
    Query,
    Reply,
    RouteError,
    RouteReply,
    RouteRequest,
    Store,
)
from recado.protocols.wire import WireError, encode

ITEM = Item((3, 1), 2, "a1 > 1 and a2 < 5", 60.0)
EVENT = event("e", 1, 2, 3, 4)
ALL = (
    Store((3, 1), (ITEM,), 2),
    Query((3, 2), EVENT, 2, 1),
    Lookup((3, 3), (4, 1), 2, 1),
    Reply((3, 2), (ITEM,), (ITEM,)),
    Flood((3, 4), EVENT),
    RouteRequest((3, 1), 4, 7, 0, 1, 30, True, True),
    RouteReply(7, 4, 3, 1, math.inf),
    RouteError(((7, 5), ("x", 1))),
    Hello(4),
    Group((3, 1), EVENT, (1, 2, "x"), 30),
    Data((3, 1), EVENT, 3, 7, 30),
)
PROTOCOL = find_protocol("sensor-network").configure({})
name = lambda message: type(message).__name__  # noqa: E731


@pytest.mark.parametrize("message", ALL, ids=name)
def test_there_and_back(message):
    again = PROTOCOL.decode(PROTOCOL.encode(message))
    assert again == message
    hash(getattr(again, "id", getattr(again, "pid", 0)))


def test_every_message_is_tried_and_counted():
    kinds = set(MESSAGES.__args__)
    assert {type(message) for message in ALL} == kinds == set(messages.CLASSES) == set(messages.SIZES)


def test_classes_are_those_of_the_specification():
    assert {traffic_class(message) for message in ALL} == {
        "pampa.sub", "pampa.query", "pampa.pub", "pcache.reply", "aodv.rreq", "aodv.rrep", "aodv.rerr", "aodv.hello",
        "data.group", "data.single",
    }  # fmt: skip


def test_sizes_of_aodv_are_those_of_its_traces():
    assert size_of(RouteRequest((3, 1), 4, 7, 0, 1, 30)) == 48
    assert size_of(RouteReply(7, 4, 3, 1, 10.0)) == 44
    assert size_of(RouteError(((7, 5),))) == 20 + 4 + 8
    assert size_of(RouteError(((7, 5), (8, 5)))) == 20 + 4 + 16


def test_other_sizes_grow_with_what_is_carried():
    body = len("e") + 4 * (2 + 8)
    assert size_of(Data((3, 1), EVENT, 3, 7, 30)) == 28 + body
    assert size_of(Group((3, 1), EVENT, (1, 2, 3), 30)) == 29 + 12 + body
    assert size_of(Query((3, 2), EVENT, 2, 1)) == 30 + body
    text = len(ITEM.filter)
    assert size_of(Store((3, 1), (ITEM,), 2)) == 29 + 16 + text
    assert size_of(Store((3, 1), (msgspec.structs.replace(ITEM, lease=0.0),), 2)) == 29 + 12 + text
    assert size_of(Reply((3, 2), (ITEM, ITEM))) == 28 + 2 * (16 + text)


REFUSED = (
    Store((3, 1), (), 0),
    Store((3, 1), (ITEM,), -1),
    Store((3, 1), (ITEM,), 256),
    Store((3, -1), (ITEM,), 0),
    Store((-3, 1), (ITEM,), 0),
    Store(("", 1), (ITEM,), 0),
    Store(("x" * 10_000, 1), (ITEM,), 0),
    Store((3, 1), (ITEM,) * 1_025, 0),
    Store((3, 1), (Item((3, 1), 1, "a1 >"),), 0),
    Store((3, 1), (Item((3, 1), -1, "a1 > 1"),), 0),
    Store((3, 1), (Item((3, 1), 1, "a1 > 1", math.inf),), 0),
    Store((3, 1), (Item((3, 1), 1, "a1 > 1", math.nan),), 0),
    Store((3, 1), (Item((3, 1), 1, " or ".join(f"a{n} > 1" for n in range(100_000))),), 0),
    Query((3, 1), EVENT, 0, 1),
    Query((3, 1), EVENT, 256, 1),
    Query((3, 1), EVENT, 2, 0),
    Lookup((3, 1), (1, 1 << 63), 1, 1),
    Reply((3, 1), (ITEM,) * 1_025),
    Reply((3, 1), (), (Item((3, 1), 1, "("),)),
    RouteRequest((3, 1), -4, 7, 0, 1, 30),
    RouteRequest((3, 1), 4, 7, 1 << 63, 1, 30),
    RouteRequest((3, 1), 4, 7, 0, 300, 30),
    RouteRequest((3, 1), 4, 7, 0, 1, 0),
    RouteRequest((3, 1), 4, -7, 0, 1, 1),
    RouteReply(7, 4, 3, 1, math.nan),
    RouteReply(7, 4, 3, 1, -1.0),
    RouteError(((7, -5),)),
    RouteError(((7, 5),) * 1_025),
    Hello(-1),
    Group((3, 1), EVENT, (), 30),
    Group((3, 1), EVENT, (1, 1), 30),
    Group((3, 1), EVENT, tuple(range(1_025)), 30),
    Group((3, 1), EVENT, (1, 2), 256),
    Data((3, 1), EVENT, 3, 7, 0),
    Data((3, 1), EVENT, 3, -7, 1),
)


@pytest.mark.parametrize("message", REFUSED, ids=name)
def test_what_no_node_could_have_meant_is_refused(message):
    with pytest.raises(RecadoError):
        check_message(message)


@pytest.mark.parametrize("message", ALL, ids=name)
def test_what_nodes_say_is_not_refused(message):
    check_message(message)


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", encode(["ST"]), encode(["QU", [1, 2], {"id": ""}, 1, 1]), encode(["??"])]
)
def test_what_is_no_message(body):
    with pytest.raises(WireError):
        PROTOCOL.decode(body)


@given(st.sampled_from(ALL), st.data())
def test_damaged_frames_are_refused_or_read(message, data):
    body = bytearray(PROTOCOL.encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with suppress(WireError):
        check_message(PROTOCOL.decode(bytes(body)))
