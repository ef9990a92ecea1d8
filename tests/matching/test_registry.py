"""Ids and the entries they share, against a dict of sets."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
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
