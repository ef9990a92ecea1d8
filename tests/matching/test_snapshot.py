"""Snapshots: what is saved is what is loaded, and what is damaged is refused."""

from __future__ import annotations

import os
import platform
import random
import struct
import subprocess
import sys
from datetime import UTC, datetime
from hashlib import blake2b

import numpy as np
import pytest

from matching.oracle import engines, ids_by_event
from matching.workload import churned, random_event, random_filter
from recado.errors import RecadoError
from recado.filters import expression
from recado.filters.records import read_subscription
from recado.matching import index as snapshot
from recado.matching.batch import match_events
from recado.matching.index import Index, SnapshotError, from_bytes, to_bytes
from recado.matching.naive import NaiveMatcher
from recado.model.event import Event
from recado.model.filter import And, Between, Compare, In, Not, Or, Regex, Similar, Sql, Text
from recado.model.limits import LIMITS
from recado.model.subscription import Subscription

INSTANT = datetime(2026, 1, 1, tzinfo=UTC)
VALUES = [
    "a", "", "2026-01-01T00:00:00Z", "日本", INSTANT, datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC), 1, -(2**63), 2**64 - 1, 2**53 + 1, 1.5, float("inf"), True, False,
]  # fmt: skip


def small() -> tuple[Index, NaiveMatcher]:
    return engines(
        [
            Compare("x", "==", 1),
            And((Between("x", 0, 5), Text("y", "prefix", "a"))),
            Or((Compare("x", "==", 2), In("y", ("a", "b", True)))),
            Not(Regex("y", "a.*")),
            Sql("a + 1 < 3"),
        ]
    )


EVENTS = [
    Event("e", attributes=attributes)
    for attributes in ({}, {"x": 1}, {"x": 2, "y": "ab"}, {"y": "b", "a": 1}, {"x": (1, 2), "y": True}, {"x": 1.5})
]


def check(index: Index, naive: NaiveMatcher, events) -> None:
    expected = [naive.match(event) for event in events]
    assert [index.match(event) for event in events] == expected
    assert ids_by_event(index, match_events(index, events)) == expected


def test_every_kind_of_constant_survives():
    index, naive = engines([Compare("x", "==", value) for value in VALUES] + [In("x", tuple(VALUES))])
    events = [Event("e", attributes={"x": value}) for value in VALUES]
    check(from_bytes(to_bytes(index)), naive, events)


def test_opaque_filters_survive_with_their_constants():
    opaque = [Similar("x", "ação", 0.5), Regex("x", "日.*"), Sql("x = 'a'"), Compare("x", "<", 2**53 + 1)]
    opaque += [Not(Between("x", "a", "b")), Between("x", INSTANT, datetime(9000, 1, 1, 1, 1, 1, 1, tzinfo=UTC))]
    index, naive = engines(opaque)
    check(from_bytes(to_bytes(index)), naive, [Event("e", attributes={"x": value}) for value in VALUES])


LONG_SET = In("x", tuple(f"a text of which there are many, number {n}" for n in range(1_000)))
DIALECTS = b'{"id": "s", "filters": [{"any": [%s]}, {"sql": "LENGTH(y) = 2"}]}' % b", ".join(
    b'{"exact": {"x": "%s %d"}}' % (b"z" * 300, n) for n in range(100)
)


@pytest.mark.parametrize(
    "filter", [And((LONG_SET, Regex("y", "a.*"))), Not(And((Not(LONG_SET), Regex("y", "a.*")))), DIALECTS]
)
def test_filters_survive_that_are_longer_than_an_expression_may_be(filter):
    """What is accepted in another form may be; a loaded index reads it back from its text when it needs it."""
    if isinstance(filter, bytes):
        filter = read_subscription(filter).filter
    assert len(expression.format_expression(filter)) > LIMITS.filter_chars
    index, naive = engines([filter])
    events = [
        Event("e", attributes={"x": x, "y": y}) for x in (LONG_SET.values[7], "z" * 300 + " 5", "") for y in ("ab", "b")
    ]
    check(from_bytes(to_bytes(index)), naive, events)


def test_an_empty_index_survives():
    index = from_bytes(to_bytes(Index()))
    assert len(index) == 0
    index.add(Subscription("s", Compare("x", "==", 1)))
    assert index.match(EVENTS[1]) == ["s"]


def test_a_loaded_index_goes_on_changing():
    index, naive, rng = churned(seed=11, size=1500, steps=400)
    index = from_bytes(to_bytes(index))
    events = [random_event(rng) for _ in range(10)]
    check(index, naive, events)
    for number in range(2500):
        id = f"s{rng.randrange(2000)}"
        if number % 3:
            assert index.remove(id) == naive.remove(id)
        else:
            subscription = Subscription(id, random_filter(rng))
            index.add(subscription)
            naive.add(subscription)
    check(index, naive, events)
    check(from_bytes(to_bytes(index)), naive, events)
    index.store.optimize()
    check(index, naive, events)


def test_saving_is_repeatable_and_changes_nothing():
    index, naive = small()
    first = to_bytes(index)
    assert to_bytes(index) == first
    assert to_bytes(from_bytes(first)) == to_bytes(from_bytes(first))
    check(index, naive, EVENTS)


def test_two_loads_are_independent(tmp_path):
    index, naive = small()
    path = tmp_path / "index"
    index.save(path)
    before = path.read_bytes()
    one, two = Index.load(path), Index.load(path)
    one.remove("s0")
    one.add(Subscription("new", Compare("x", "==", 2)))
    one.store.optimize()
    check(two, naive, EVENTS)
    check(index, naive, EVENTS)
    assert path.read_bytes() == before
    data = to_bytes(index)
    three, four = from_bytes(data), from_bytes(data)
    three.remove("s1")
    check(four, naive, EVENTS)


def test_a_file_can_be_replaced_while_it_is_mapped(tmp_path):
    index, naive = small()
    path = tmp_path / "index"
    index.save(path)
    loaded = Index.load(path)
    Index().save(path)
    check(loaded, naive, EVENTS)
    assert len(Index.load(path, check=False)) == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["index"]


# -- damage


def test_every_flipped_byte_is_refused_or_harmless():
    """Only bytes that mean nothing, those between the arrays, may change unnoticed."""
    index, naive = small()
    data = to_bytes(index)
    reference = to_bytes(from_bytes(data))
    unnoticed = 0
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF if at % 2 else 0x01
        try:
            loaded = from_bytes(bytes(damaged))
        except SnapshotError:
            continue
        assert data[at] == 0, f"byte {at} was changed and not missed"
        assert to_bytes(loaded) == reference
        unnoticed += 1
    assert unnoticed < len(data) / 4
    check(loaded, naive, EVENTS)


def test_every_truncation_is_refused():
    data = to_bytes(small()[0])
    sizes = [*range(0, min(3000, len(data)), 1), *range(3000, len(data), 97)]
    refused = 0
    for size in sizes:
        try:
            from_bytes(data[:size])
        except SnapshotError:
            refused += 1
        else:
            assert not any(data[size:]), f"cut to {size} bytes and not missed"
    assert refused >= len(sizes) - 64


@pytest.mark.parametrize("version", [0, 3, 2**32 - 1])
def test_another_version_is_refused_by_its_number(version):
    data = bytearray(to_bytes(small()[0]))
    struct.pack_into("<I", data, len(snapshot.MAGIC), version)
    with pytest.raises(SnapshotError, match=f"version {version}; this program reads version {snapshot.VERSION}"):
        from_bytes(bytes(data))


def test_what_the_faulty_builder_wrote_is_refused_with_what_to_do():
    data = bytearray(to_bytes(small()[0]))
    struct.pack_into("<I", data, len(snapshot.MAGIC), 2)
    with pytest.raises(
        SnapshotError, match=r"Build it again from its subscriptions .*may hold filters that match wrongly"
    ):
        from_bytes(bytes(data))


@pytest.mark.parametrize("data", [b"", b"R", b"\x00" * 1000, b"RECADOIX", b"not a snapshot, but a text of some length"])
def test_something_else_is_refused(data):
    with pytest.raises(SnapshotError, match="is not a snapshot"):
        from_bytes(data)


@pytest.mark.parametrize("header", [b"", b"\xc0", b"\x80", b"\x93\x01\x02\x03", b"\x81\xa6arrays\x90"])
def test_a_header_that_does_not_fit_is_refused(header):
    """The checksum is right, as in a file of some other program that borrowed the format."""
    digest = blake2b(header, digest_size=16).digest()
    prefix = struct.pack("<8sIQ16s", snapshot.MAGIC, snapshot.VERSION, len(header), digest)
    with pytest.raises(SnapshotError):
        from_bytes(prefix + header)


def test_files_that_cannot_be_read(tmp_path):
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    with pytest.raises(SnapshotError, match="empty"):
        Index.load(empty)
    with pytest.raises(SnapshotError, match=r"missing.*cannot be read: No such file"):
        Index.load(tmp_path / "missing")
    with pytest.raises(SnapshotError, match="cannot be read"):
        Index.load(tmp_path)
    damaged = tmp_path / "damaged"
    data = bytearray(to_bytes(small()[0]))
    damaged.write_bytes(data[: len(data) // 2])
    with pytest.raises(SnapshotError, match="damaged"):
        Index.load(damaged)


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(RecadoError, match="cannot be written"):
        Index().save(tmp_path / "no such folder" / "index")
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_random_damage_of_a_large_snapshot():
    rng = random.Random(5)
    index, _, _ = churned(seed=12, size=2000, steps=0)
    data = to_bytes(index)
    for _ in range(2000):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 5)):
            at = rng.randrange(len(damaged))
            damaged[at : at + rng.randrange(4)] = rng.randbytes(rng.randrange(4))
        try:
            loaded = from_bytes(bytes(damaged))
        except SnapshotError:
            continue
        assert len(loaded) == len(index)


def test_drafts_of_processes_that_were_killed_are_removed(tmp_path):
    """Only of processes on this machine that are gone, and only those of the same name."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    here = platform.node()
    stale = tmp_path / f"index.{here}.{gone.pid}.1.tmp"
    others = [f"index.{here}.{os.getpid()}.1.tmp", f"other.{here}.{gone.pid}.1.tmp", f"index.elsewhere-{here}.7.1.tmp"]
    others += [f"index.{here}.x.1.tmp", f"index.{here}.{gone.pid}.1"]
    for path in (stale, *map(tmp_path.joinpath, others)):
        path.write_bytes(b"draft")
    Index().save(tmp_path / "index")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, "index"])


def test_saving_to_a_folder_that_is_not_there_says_so(tmp_path):
    with pytest.raises(SnapshotError, match="cannot be written: No such file"):
        Index().save(tmp_path / "nowhere" / "index")


def test_the_seed_of_the_tables_is_kept(monkeypatch):
    monkeypatch.setattr("recado.matching.registry.default_seed", lambda: (11, -12))
    index, naive = small()
    data = to_bytes(index)
    monkeypatch.undo()
    loaded = from_bytes(data)
    assert loaded.registry.seed.tolist() == [11, -12]
    check(loaded, naive, EVENTS)
    ids = loaded.registry.id_array(np.arange(loaded.registry.slots_top, dtype=np.int32)).to_pylist()
    assert [loaded.registry.slot(one) for one in ids] == list(range(len(ids)))


def test_a_seed_of_another_length_is_refused():
    index, _ = small()
    index.registry.seed = np.zeros(1, np.int64)
    with pytest.raises(RecadoError, match="the seed has a wrong length"):
        from_bytes(to_bytes(index))
