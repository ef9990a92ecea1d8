"""What is fuzzed: each target takes bytes and lets nothing but RecadoError be raised, which it swallows.

What was accepted is used, too: a filter that parses can be written, read again and evaluated, an event that reads can
be written and read again, and both come out the same.
"""

from __future__ import annotations

import atexit
import shutil
import struct
import tempfile
import tomllib
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np

from recado.errors import RecadoError
from recado.filters.cost import check_filter
from recado.filters.evaluate import matches
from recado.filters.records import read_subscription
from recado.filters.syntax import Syntax, format_filter, parse_filter
from recado.matching import index as snapshot
from recado.matching.index import Index
from recado.model.codec import read_batch, read_event, write_cloudevent, write_flat
from recado.model.event import Event
from recado.model.filter import And, Between, Compare, In, Not, Or, Regex, Sql, Text
from recado.model.subscription import Subscription
from recado.pipeline.sets import DETAIL_SCHEMA, DETAILS, INDEX, build, load_folder, write_folder
from recado.protocols.machine import Asked, Broadcast, Received, Send, SendFailed, SetTimer, Started, TimerFired
from recado.protocols.pubsub import ConfiguredProtocol, Publish, Subscribe
from recado.protocols.registry import find_protocol
from recado.protocols.rudp import RudpConnection, profile
from recado.protocols.rudp.packet import KEY_BYTES, TAG_BYTES, direction_key, seal
from recado.protocols.session import messages
from recado.protocols.sip.agent import UserAgent
from recado.protocols.sip.events import AgentSettings
from recado.protocols.sip.messages import read_message
from recado.protocols.sip.proxy import Proxy
from recado.protocols.sip.uri import Address
from recado.protocols.wire import WireError
from recado.semantics import files as semantics_files
from recado.server.config import make_config
from recado.store.log import manifest

EVENTS = [
    Event("e-1", attributes={}),
    Event("e-2", type="a", attributes={"a": 1, "b": "ab", "Price": 24.9, "Stock": "PETR4", "umidade": 61}),
    Event("e-3", source="/s", attributes={"a": ("x", True, 2**64 - 1), "b": float("nan"), "Price": "x" * 300}),
]


def text_of(data: bytes) -> str:
    """Bytes that are no UTF-8 become lone surrogates, which a Python program may pass as well."""
    return data.decode("utf-8", "surrogateescape")


def filter_text(syntax: Syntax, data: bytes) -> None:
    with suppress(RecadoError):
        filter = check_filter(parse_filter(text_of(data), syntax))
        written = parse_filter(format_filter(filter), "expression")
        for event in EVENTS:
            assert matches(filter, event) == matches(written, event), format_filter(filter)


def event_bytes(data: bytes) -> None:
    with suppress(RecadoError):
        read_batch(data)
    with suppress(RecadoError):
        read_event(text_of(data), default_id="line-1")
    with suppress(RecadoError):
        event = read_event(data)
        assert read_event(write_flat(event)) == event
        again = read_event(write_cloudevent(event))
        assert again.id == event.id


def subscription_line(data: bytes) -> None:
    with suppress(RecadoError):
        read_subscription(text_of(data))
    with suppress(RecadoError):
        subscription = read_subscription(data)
        for event in EVENTS:
            matches(subscription.whole_filter(), event)


def snapshot_bytes(data: bytes) -> None:
    """The first byte chooses: the file as it is, a header alone, or a header before the arrays of a good file."""
    kind, body = data[:1], data[1:]
    if kind in (b"\x01", b"\x02"):
        good = small_snapshot()
        arrays = good[36 + int.from_bytes(good[12:20], "little") :] if kind == b"\x02" else b""
        digest = blake2b(body, digest_size=16).digest()
        body = struct.pack("<8sIQ16s", snapshot.MAGIC, snapshot.VERSION, len(body), digest) + body + arrays
    with suppress(RecadoError):
        snapshot.from_bytes(body)


def snapshot_numbers(data: bytes) -> None:
    """Numbers in the arrays of a good file are replaced, with right checksums: what is still loaded can be used."""
    raw = small_snapshot()
    size = int.from_bytes(raw[12:20], "little")
    header = msgspec.msgpack.decode(raw[36 : 36 + size])
    base = 36 + size + (-(36 + size) % snapshot.ALIGNMENT)
    content = bytearray(raw[base:])
    for at in range(0, len(data) - 7, 8):
        number, place, value = struct.unpack_from("<HHi", data, at)
        _, _, dtype, shape, offset, _ = header["arrays"][number % len(header["arrays"])]
        array = np.frombuffer(content, dtype, int(np.prod(shape)), offset)
        if len(array):
            array[place % len(array)] = np.array(value).astype(dtype)
    for info in header["arrays"]:
        bytes_there = int(np.prod(info[3])) * np.dtype(info[2]).itemsize
        info[5] = zlib.crc32(content[info[4] : info[4] + bytes_there])
    packed = msgspec.msgpack.encode(header)
    digest = blake2b(packed, digest_size=16).digest()
    prefix = struct.pack("<8sIQ16s", snapshot.MAGIC, snapshot.VERSION, len(packed), digest) + packed
    with suppress(RecadoError):
        index = snapshot.from_bytes(prefix + bytes(-len(prefix) % snapshot.ALIGNMENT) + bytes(content))
        for event in EVENTS:
            index.match(event)


def set_folder(data: bytes) -> None:
    """The first byte chooses: the details of a set, or its index, as bytes beside a good other half."""
    folder = good_set()
    (folder / INDEX).write_bytes(small_snapshot() if data[:1] != b"\x01" else data[1:])
    (folder / DETAILS).write_bytes(good_details() if data[:1] == b"\x01" else data[1:])
    with suppress(RecadoError):
        loaded = load_folder(folder)
        for name in DETAIL_SCHEMA.names:
            loaded.column(name).to_pylist()


def manifest_bytes(data: bytes) -> None:
    """The file as it is, and its content behind a right digest; what is accepted names files of its folder alone."""
    place = Path("/log/manifest.json")
    body = data.strip() or b"{}"
    sealed = b'{"digest":"%b","manifest":%b}' % (blake2b(body, digest_size=16).hexdigest().encode(), body)
    for raw in (data, sealed):
        with suppress(RecadoError):
            found = manifest.decode(raw, place)
            assert all((place.parent / entry.file).parent == place.parent for entry in found.segments)
            assert manifest.encode(found) == raw


def arrays_file(data: bytes) -> None:
    """The file as it is, and behind a right digest."""
    path = scratch() / "arrays"
    digest = blake2b(data, digest_size=16).hexdigest().encode()
    for raw in (data, semantics_files.MAGIC + digest + data):
        path.write_bytes(raw)
        with suppress(RecadoError):
            for array in semantics_files.load_arrays(path, {"of": "fuzz"}).values():
                array.sum()


@cache
def scratch() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="recado-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def good_set() -> Path:
    folder = scratch() / "set"
    folder.mkdir()
    one = Compare("a", "==", 1)
    write_folder(folder, *build([Subscription("a", one, owner="ana"), Subscription("b", Not(one))]))
    return folder


@cache
def good_details() -> bytes:
    return (good_set() / DETAILS).read_bytes()


@cache
def small_snapshot() -> bytes:
    index = Index()
    for number, filter in enumerate(
        [
            Compare("a", "==", 1),
            And((Between("a", 0, 5), Text("b", "prefix", "ab"))),
            Or((Compare("a", "==", 2.5), In("b", ("ab", True)))),
            Not(Regex("b", "a.*")),
            Sql("a + 1 < 3"),
        ]
    ):
        index.add(Subscription(f"s{number}", filter))
    return snapshot.to_bytes(index)


def sip_bytes(data: bytes) -> None:
    """A datagram at a user agent and at a registrar; whatever they answer is well formed."""
    source = Address("udp", "127.0.0.3", 5060)
    agent = UserAgent(AgentSettings(user="sip:broker@localhost", device="fuzz"), Address("udp", "127.0.0.2", 5060))
    for one in (agent, Proxy(Address("udp", "127.0.0.1", 5060), ("localhost",), b"key")):
        chance = Random(1)  # noqa: S311  # a fuzzer wants the same run again
        effects = list(one.handle(Received(source, data), 0.0, chance))
        for timer in [effect.timer for effect in effects if isinstance(effect, SetTimer)]:
            effects += one.handle(TimerFired(timer), 60.0, chance)
        for effect in effects:
            if isinstance(effect, Send):
                read_message(effect.message)


def rudp_bytes(data: bytes) -> None:
    """Datagrams, each behind its length in a byte: as they are, and as the peer would have sent them."""
    none = bytes(KEY_BYTES)
    connection = RudpConnection(profile("fast"), 1, 2, "there", 0.0, local_key=none, remote_key=none)
    key = direction_key((1, none), (2, none))
    position, now = 0, 0.0
    while position < len(data):
        size = data[position]
        content = data[position + 1 : position + 1 + size]
        for datagram in (content, seal(content, key), seal(content[:-TAG_BYTES], key)):
            connection.handle(Received("there", datagram), now, Random(1))  # noqa: S311
        position, now = position + 1 + size, now + 0.1
        connection.handle(TimerFired("rudp"), now, Random(1))  # noqa: S311  # RUDP draws nothing


def session_frame(data: bytes) -> None:
    for read in (messages.from_agent, messages.from_service):
        with suppress(RecadoError):
            found = read(data)
            assert read(messages.encode(found)) == found


def radio_frames(data: bytes) -> None:
    """What a sensor node hears, each frame behind its length in two bytes, then what time and failed sends do to it.

    Whatever it sends can be read by its neighbours, and what it keeps stays bounded.
    """
    protocol = radio_protocol()
    node = protocol.protocol.make(protocol.settings, None)("n0")
    chance = Random(1)  # noqa: S311  # a fuzzer wants the same run again
    node.handle(Started((), {}), 0.0, chance)
    node.handle(Asked(Subscribe(Subscription("own", parse_filter("a > 0", "expression")))), 0.0, chance)
    node.handle(Asked(Publish(Event("e", attributes={"a": 1}))), 0.0, chance)
    position, now = 0, 0.0
    while position + 2 <= len(data):
        size = int.from_bytes(data[position : position + 2], "little")
        frame = data[position + 2 : position + 2 + size]
        position, now = position + 2 + size, now + 0.05
        try:
            message = protocol.decode(frame)
        except WireError:
            continue
        effects = list(node.handle(Received(f"n{size % 5 + 1}", message, -60.0), now, chance))
        now = _go_on(node, effects, now, chance)
    state = node.inspect()
    assert len(state["data_zone"]) <= 8
    assert len(state["routes"]) <= 32
    assert len(state["queries"]) <= 16


def _go_on(node: Any, effects: list[Any], now: float, chance: Random) -> float:
    """Timers fire at once, and every second send fails; what is sent passes the check of who would hear it."""
    protocol = radio_protocol()
    for _ in range(64):
        if not effects:
            break
        effect = effects.pop(0)
        if isinstance(effect, SetTimer):
            now += 0.01
            effects += node.handle(TimerFired(effect.timer), now, chance)
        elif isinstance(effect, Send | Broadcast):
            assert protocol.decode(protocol.encode(effect.message)) == effect.message
            if isinstance(effect, Send) and chance.random() < 0.5:
                effects += node.handle(SendFailed(effect.receiver, effect.message), now, chance)
    return now


@cache
def radio_protocol() -> ConfiguredProtocol:
    settings = {
        "capacity": 8, "max_routes": 32, "max_gathers": 16, "sender_per_second": 0, "covering": True, "shuffle": True,
        "p_shuffle": 1.0, "repair": "local", "aodv": "rfc3561", "route_expiry": True, "lease_seconds": 60.0,
    }  # fmt: skip
    return find_protocol("sensor-network").configure(settings)


def service_config(data: bytes) -> None:
    with suppress(RecadoError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        make_config(tomllib.loads(data.decode()))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "expression": partial(filter_text, "expression"),
    "braces": partial(filter_text, "braces"),
    "template": partial(filter_text, "template"),
    "cesql": partial(filter_text, "cesql"),
    "flat": event_bytes,
    "cloudevents": event_bytes,
    "subscription": subscription_line,
    "snapshot": snapshot_bytes,
    "numbers": snapshot_numbers,
    "set": set_folder,
    "manifest": manifest_bytes,
    "arrays": arrays_file,
    "sip": sip_bytes,
    "rudp": rudp_bytes,
    "session": session_frame,
    "radio": radio_frames,
    "config": service_config,
}
