"""Ids and the entries they share, against a dict of sets."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from recado.matching.registry import Registry

IDS = st.sampled_from(["a", "b", "ab", "é", "日本", "😀", "a\x00", "\x00", "x" * 300]) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6
)
# Digests that collide in the table: equal first halves, equal low bits, negative ones.
DIGESTS = st.tuples(st.sampled_from([0, 1, 64, 128, -64, -(2**63), 2**63 - 1]), st.integers(0, 3))


class Model(RuleBasedStateMachine):
    """Subscribe and unsubscribe as the index does; the model is a dict from id to digest."""

    @initialize()
    def start(self):
        self.registry = Registry()
        self.model: dict[str, tuple[int, int]] = {}
        self.entries: dict[tuple[int, int], int] = {}
        self.free: list[int] = []
        self.top = 0

    @rule(id=IDS, digest=DIGESTS)
    def subscribe(self, id, digest):
        if id in self.model:
            self.unsubscribe(id)
        entry = self.registry.entry(digest)
        assert entry == self.entries.get(digest, -1)
        if entry < 0:
            entry = self.free.pop() if self.free else self.top
            self.top = max(self.top, entry + 1)
            self.registry.new_entry(entry, digest, self.registry.new_slot(id))
            self.entries[digest] = entry
        else:
            self.registry.join(entry, self.registry.new_slot(id))
        self.model[id] = digest

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def drop(self, data):
        self.unsubscribe(data.draw(st.sampled_from(sorted(self.model))))

    def unsubscribe(self, id):
        digest = self.model.pop(id)
        entry, left = self.registry.leave(self.registry.slot(id))
        assert entry == self.entries[digest]
        assert left == sum(other == digest for other in self.model.values())
        self.registry.drop_slot(id)
        if left == 0:
            self.registry.drop_entry(entry)
            self.free.append(self.entries.pop(digest))

    @rule(id=IDS)
    def look_for(self, id):
        assert (self.registry.slot(id) >= 0) == (id in self.model)

    @invariant()
    def agrees(self):
        if not hasattr(self, "registry"):
            return
        registry = self.registry
        assert registry.count == len(self.model)
        slots = {id: registry.slot(id) for id in self.model}
        assert len(set(slots.values())) == len(slots)
        for id, slot in slots.items():
            assert registry.id_of(slot) == id
            assert registry.entry_of[slot] == self.entries[self.model[id]]
        for digest, entry in self.entries.items():
            assert registry.entry(digest) == entry
            members = registry.slots(np.array([entry], np.int32))
            assert sorted(members.tolist()) == sorted(slots[id] for id in self.model if self.model[id] == digest)
        everything = registry.slots(np.array(sorted(self.entries.values()), np.int32))
        assert sorted(registry.id_array(everything).to_pylist()) == sorted(self.model)


TestRegistry = Model.TestCase
TestRegistry.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)


DIGEST = (1, 2)


def subscribe(registry: Registry, ids: list[str]) -> None:
    """All of them to entry 0, which the first one brings."""
    for id in ids:
        slot = registry.new_slot(id)
        if registry.entry(DIGEST) < 0:
            registry.new_entry(0, DIGEST, slot)
        else:
            registry.join(0, slot)


def unsubscribe(registry: Registry, ids: list[str]) -> None:
    for id in ids:
        entry, left = registry.leave(registry.slot(id))
        registry.drop_slot(id)
        if left == 0:
            registry.drop_entry(entry)


def test_the_first_subscription_comes_with_the_entry():
    registry = Registry()
    slot = registry.new_slot("a")
    registry.new_entry(300, (5, 6), slot)
    assert registry.entry((5, 6)) == registry.entry_of[slot] == 300
    assert registry.slots(np.array([300], np.int32)).tolist() == [slot]
    assert registry.leave(slot) == (300, 0)


def test_an_entry_that_is_used_again_starts_with_one_subscription():
    registry = Registry()
    subscribe(registry, ["a", "b", "c"])
    unsubscribe(registry, ["b", "a", "c"])
    assert registry.entry(DIGEST) == -1
    slot = registry.new_slot("d")
    registry.new_entry(0, (3, 4), slot)
    assert registry.slots(np.zeros(1, np.int32)).tolist() == [slot]
    assert (registry.entry(DIGEST), registry.entry((3, 4))) == (-1, 0)


def test_trimmed_arrays_grow_again():
    registry = Registry()
    subscribe(registry, [f"id-{number}" for number in range(70)])
    before = registry.nbytes()
    registry.trim()
    assert registry.nbytes() < before
    subscribe(registry, [f"id-{number}" for number in range(70, 300)])
    ids = registry.id_array(registry.slots(np.zeros(1, np.int32))).to_pylist()
    assert sorted(ids) == sorted(f"id-{number}" for number in range(300))


def test_thousands_of_ids_grow_every_table():
    registry = Registry()
    ids = [f"subscriber-{number}-é" for number in range(5000)]
    subscribe(registry, ids)
    slots = registry.slots(np.zeros(1, np.int32))
    assert sorted(registry.id_array(slots).to_pylist()) == sorted(ids)
    assert [registry.id_of(registry.slot(id)) for id in ids[::97]] == ids[::97]
    unsubscribe(registry, ids[1:])
    assert registry.slots(np.zeros(1, np.int32)).tolist() == [registry.slot(ids[0])]
    assert registry.count == 1
    assert registry.nbytes() > 0


def test_ids_that_went_are_packed_away():
    registry = Registry()
    for turn in range(40):
        ids = [f"{turn}-{number}-" + "x" * 200 for number in range(100)]
        subscribe(registry, ids)
        unsubscribe(registry, ids[1:])
        assert registry.count == turn + 1
    assert len(registry.pool) < 40 * 100 * 200 / 2
    kept = [f"{turn}-0-" + "x" * 200 for turn in range(40)]
    assert sorted(registry.id_array(registry.slots(np.zeros(1, np.int32))).to_pylist()) == sorted(kept)


def test_slots_are_reused():
    registry = Registry()
    for turn in range(500):
        subscribe(registry, [f"id-{turn}"])
        unsubscribe(registry, [f"id-{turn}"])
    assert registry.slots_top == 1


def test_blocks_of_members_are_reused():
    registry = Registry()
    for _ in range(50):
        ids = [f"id-{number}" for number in range(20)]
        subscribe(registry, ids)
        unsubscribe(registry, ids)
    assert len(registry.blocks) <= 128


def test_ids_of_many_slots_however_long():
    registry = Registry()
    ids = ["日" * 256, "", "a", "é" * 100]
    subscribe(registry, ids)
    slots = np.array([registry.slot(id) for id in ids] * 3, np.int32)
    assert registry.id_array(slots).to_pylist() == ids * 3
    assert registry.id_array(slots[:0]).to_pylist() == []


# -- the seed


def reference(data, seed):
    """SipHash-1-3 as its authors describe it, in Python's integers; without the sign bit."""
    mask = 2**64 - 1

    def rotated(value, count):
        return (value << count | value >> (64 - count)) & mask

    def turn(v0, v1, v2, v3):
        v0 = (v0 + v1) & mask
        v1 = rotated(v1, 13) ^ v0
        v0 = rotated(v0, 32)
        v2 = (v2 + v3) & mask
        v3 = rotated(v3, 16) ^ v2
        v0 = (v0 + v3) & mask
        v3 = rotated(v3, 21) ^ v0
        v2 = (v2 + v1) & mask
        v1 = rotated(v1, 17) ^ v2
        return v0, v1, rotated(v2, 32), v3

    k0, k1 = (key & mask for key in seed)
    v = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573
    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 0xFF])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v = turn(*v[:3], v[3] ^ word)
        v = v[0] ^ word, *v[1:]
    v = *v[:2], v[2] ^ 0xFF, v[3]
    for _ in range(3):
        v = turn(*v)
    return (v[0] ^ v[1] ^ v[2] ^ v[3]) & (2**63 - 1)


SEEDS = st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 2)


@given(id=st.text(max_size=70), seed=SEEDS)
def test_an_id_lies_where_siphash_says(id, seed):
    registry = Registry(seed)
    slot = registry.new_slot(id)
    assert np.flatnonzero(registry.ids == slot).tolist() == [reference(id.encode(), seed) % len(registry.ids)]
    assert registry.slot(id) == slot
    assert registry.slots_of_ids([id.encode()]).tolist() == [slot]


def longest_run(table):
    """Of places in use: so long a look-up may take."""
    longest = run = 0
    for used in np.concatenate((table, table)) != -1:
        run = run + 1 if used else 0
        longest = max(longest, run)
    return longest


def test_ids_that_meet_under_one_seed_do_not_under_another():
    known, size = (1, 2), 2**12
    chosen = []
    for number in itertools.count():
        text = b"s%d" % number
        if reference(text, known) % size < 4:  # with 64 times as many places as there are of these
            chosen.append(text)
            if len(chosen) == 64:
                break
    runs = []
    for seed in (known, (3, 4)):
        registry = Registry(seed)
        registry.ids = np.full(size, -1, np.int32)
        registry.new_slots(chosen)
        assert sorted(registry.slots_of_ids(chosen).tolist()) == list(range(64))
        runs.append(longest_run(registry.ids))
    assert runs[0] >= 60, "the attack works where the seed is known"
    assert runs[1] < 8


def test_filters_whose_digests_agree_in_their_low_bits_do_not_meet():
    digests = np.array([(number << 20 | 7, number) for number in range(2_000)], np.int64)
    registry = Registry((-3402114876554563221, 8105223445201137733))
    slots = registry.new_slots([b"%d" % number for number in range(2_000)])
    registry.new_entries(np.arange(2_000, dtype=np.int32), digests, slots)
    assert registry.entries_of(digests).tolist() == list(range(2_000))
    assert longest_run(registry.key_table) < 200
    for entry in range(0, 2_000, 2):
        registry.drop_entry(entry)
    assert registry.entries_of(digests).tolist() == [-1 if entry % 2 == 0 else entry for entry in range(2_000)]


def test_the_seed_is_that_of_pythons_own_tables():
    ours = "from recado.matching.registry import default_seed; print(default_seed())"
    pythons = "print(tuple(hash(f'recado.matching.registry {number}') for number in range(2)))"

    def seed(code, given):
        return subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": given}, capture_output=True, check=True
        ).stdout

    assert seed(ours, "1") == seed(pythons, "1") != seed(pythons, "2")
