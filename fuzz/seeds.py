"""What fuzzing begins with: the filters of the documentation and the sample, its events and subscriptions."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import msgspec

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "src" / "recado" / "data" / "sample"
COMPILED = [f"recado.matching.{path.stem}" for path in (ROOT / "src" / "recado" / "matching").glob("*.py")]
COMPILED.remove("recado.matching.index")

_BLOCK = re.compile(r"^```(filter(?:-same|-error)?)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def documented() -> Iterator[str]:
    """The filters in the examples of docs/."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            lines = found[2].splitlines()
            for line in lines[:1] if found[1] == "filter-error" else lines:
                yield line.split(" => ")[0].strip()


def filters(first: str) -> Callable[[], Iterator[bytes]]:
    """The documented filters and those of the sample that begin with one of the characters; none: all others."""

    def seeds() -> Iterator[bytes]:
        texts = {*documented(), *(record["filter"] for record in _records() if "syntax" not in record)}
        for text in sorted(texts):
            if text[:1] == first or (not first and text[:1] not in ("{", "<")):
                yield text.encode()

    return seeds


def cesql() -> Iterator[bytes]:
    """CESQL of the sample and of docs/cesql.md, where it stands in single or double quotes or in backticks."""
    page = (ROOT / "docs" / "cesql.md").read_text(encoding="utf-8")
    texts = set(re.findall(r"`([^`\n]+)`", page)) | set(re.findall(r"\(\"([^\"\n]+)\"", page))
    texts |= {record["filter"] for record in _records() if record.get("syntax") == "cesql"}
    for text in sorted(texts):
        yield text.encode()


def events(cloud: bool) -> Callable[[], Iterator[bytes]]:
    """Events of the sample, CloudEvents or flat ones."""

    def seeds() -> Iterator[bytes]:
        for line in (SAMPLE / "events.ndjson").read_bytes().splitlines():
            if (b'"specversion"' in line) == cloud:
                yield line
        yield b'{"a": {"$time": "2026-01-01T12:00:00.5-03:00"}, "b": [[1, {"c": 2}], null, -1.5e300], "id": 7}'

    return seeds


def subscriptions() -> Iterator[bytes]:
    yield from (SAMPLE / "subscriptions.ndjson").read_bytes().splitlines()
    yield json.dumps(
        {
            "id": "all",
            "filters": [{"any": [{"exact": {"type": "a"}}, {"not": {"prefix": {"b": "c"}}}, {"sql": "a = 1"}]}],
            "owner": "user:ana@example.org",
            "expires_at": "2026-01-01T00:00:00Z",
            "constraints": [{"max_age": 5}],
            "semantic": {"threshold": 0.8},
        }
    ).encode()


def snapshots() -> Iterator[bytes]:
    """A small index, saved; and headers alone, which the target puts a right checksum before."""
    from targets import small_snapshot  # noqa: PLC0415  # it compiles kernels; the other targets need none

    data = small_snapshot()
    size = int.from_bytes(data[12:20], "little")
    yield b"\x00" + data
    yield b"\x01" + data[36 : 36 + size]
    yield b"\x02" + data[36 : 36 + size]


def numbers() -> Iterator[bytes]:
    """Which array, where in it, and what stands there instead."""
    for array in range(24):
        for value in (-1, 0, 1, 2**31 - 1):
            yield struct.pack("<HHi", array, 0, value) + struct.pack("<HHi", array, 5, value)


def sets() -> Iterator[bytes]:
    """The two files of a set."""
    from targets import good_details, small_snapshot  # noqa: PLC0415  # it compiles kernels; most targets need none

    yield b"\x00" + good_details()
    yield b"\x01" + small_snapshot()


def manifests() -> Iterator[bytes]:
    """A manifest with its digest, and the content alone, which the target puts a right digest before."""
    from recado.store.log import manifest  # noqa: PLC0415  # one target needs it

    at = datetime(2026, 1, 1, tzinfo=UTC)
    for name in ("0-5.parquet", "../x.parquet"):
        entry = manifest.SegmentEntry(name, 0, 5, 9, "ab", at, at, type_min="a", type_max="b")
        whole = manifest.Manifest(manifest.FORMAT, "log", 0, 5, (entry,), (manifest.Lost(1, 2, "why"),))
        yield manifest.encode(whole)
        yield msgspec.json.encode(whole)


def arrays() -> Iterator[bytes]:
    for dtype, shape in (("int32", [2, 2]), ("float64", [2]), ("uint8", [16]), ("uint8", [-1])):
        places = {"a": {"dtype": dtype, "shape": shape, "start": 0}}
        header = json.dumps({"about": {"of": "fuzz"}, "arrays": places}).encode()
        yield len(header).to_bytes(8, "little") + header + bytes(16)


def sip() -> Iterator[bytes]:
    """A call and a registration, as they are on the wire."""
    sdp = b"v=0\r\no=a 1 1 IN IP4 127.0.0.3\r\ns=-\r\nc=IN IP4 127.0.0.3\r\nt=0 0\r\nm=application 9 UDP/RUDP eci\r\n"
    for method, body in ((b"INVITE", sdp), (b"REGISTER", b""), (b"OPTIONS", b""), (b"BYE", b""), (b"ACK", b"")):
        yield (
            method + b" sip:broker@localhost SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.3:5060;branch=z9hG4bK1;rport\r\n"
            b"Max-Forwards: 70\r\nFrom: <sip:ana@localhost>;tag=1\r\nTo: <sip:broker@localhost>\r\nCall-ID: c\r\n"
            b"CSeq: 1 " + method + b"\r\nContact: <sip:ana@127.0.0.3:5060>;expires=300\r\n"
            b"Content-Type: application/sdp\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )


def rudp() -> Iterator[bytes]:
    """What the two ends of a connection send each other, each datagram behind its length."""
    from recado.protocols.machine import Asked, Send  # noqa: PLC0415  # one target needs it
    from recado.protocols.rudp import Ping, RudpConnection, SendMessage, profile  # noqa: PLC0415

    peer = RudpConnection(profile("fast"), 2, 1, "here", 0.0, local_key=bytes(16), remote_key=bytes(16))
    requests = (SendMessage(b"one"), SendMessage(b"two"), SendMessage(b"x" * 100), Ping())
    effects = [one for request in requests for one in peer.handle(Asked(request), 0.0, Random(0))]  # noqa: S311
    sent = [one.message for one in effects if isinstance(one, Send)]
    yield b"".join(bytes([len(datagram)]) + datagram for datagram in sent)


def session() -> Iterator[bytes]:
    for message in (
        {"type": "HELLO", "device": "d", "seen": 7},
        [{"type": "PUBLISH", "req": 1, "event": {"id": "e", "a": 1}}, {"type": "ACK", "upto": 9, "notices": [1]}],
        {"type": "SUBSCRIBE", "req": 2, "sub": {"id": "s", "filter": "a > 1"}},
        {"type": "NOTIFY", "nid": 5, "sub_id": "s", "event": {}, "generated_at": "2026-01-01T00:00:00Z"},
        {"type": "GAP", "notice": 1, "count": 2, "nids": [1, 2], "reason": "full"},
    ):
        yield json.dumps(message).encode()


def radio() -> Iterator[bytes]:
    """A message of each kind, alone, and all in one after the other, each behind its length."""
    from recado.model.event import Event  # noqa: PLC0415  # one target needs it
    from recado.protocols.sensors import messages as m  # noqa: PLC0415
    from recado.protocols.wire import encode  # noqa: PLC0415

    event, item = Event("e", attributes={"a": 1}), m.Item(("n2", 1), 1, "a >= 1", 5.0)
    found = (
        m.Store(("n2", 1), (item,), 2),
        m.Store(("n2", 2), (m.Item(("n2", 1), 2, ""),), 0),
        m.Query(("n3", 1), event, 2, 1),
        m.Reply(("n0", 2), (item,), (m.Item(("n4", 1), 1, "a > 5"),)),
        m.Lookup(("n3", 2), ("n2", 1), 2, 1),
        m.Flood(("n3", 3), event),
        m.RouteRequest(("n3", 1), 4, "n0", 0, 1, 9),
        m.RouteReply("n2", 4, "n0", 1, 10.0),
        m.RouteError((("n2", 5),)),
        m.Hello(4),
        m.Group(("n3", 1), event, ("n0", "n2"), 9),
        m.Data(("n3", 2), event, "n3", "n2", 9),
    )
    frames = [encode(message) for message in found]
    framed = [len(frame).to_bytes(2, "little") + frame for frame in frames]
    yield from framed
    yield b"".join(framed)


def config() -> Iterator[bytes]:
    yield b'data = "d"\n[http]\nport = 1\n[mailbox]\nlength = 3\n[access]\ndefault_publish = ["a*"]\n'


def _records() -> Iterator[dict[str, str]]:
    for line in (SAMPLE / "subscriptions.ndjson").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "filter" in record:
            yield record


SEEDS: dict[str, Callable[[], Iterator[bytes]]] = {
    "expression": filters(""),
    "braces": filters("{"),
    "template": filters("<"),
    "cesql": cesql,
    "flat": events(cloud=False),
    "cloudevents": events(cloud=True),
    "subscription": subscriptions,
    "snapshot": snapshots,
    "numbers": numbers,
    "set": sets,
    "manifest": manifests,
    "arrays": arrays,
    "sip": sip,
    "rudp": rudp,
    "session": session,
    "radio": radio,
    "config": config,
}
