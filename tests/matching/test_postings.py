"""The table against a dict, the lists against Python's lists."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from matching.called import Called
from recado.matching.kernels import postings as module
from recado.matching.kernels.postings import (
    CAPACITY,
    GRID,
    LENGTH,
    LIST_COLUMNS,
    LISTS_TOP,
    POSTINGS_TOP,
    START,
    TABLE_USED,
)

postings = Called(module)
KEYS = st.integers(1, 40) | st.sampled_from([-1, 2**62, 2**62 + 1, -(2**63), 2**63 - 1])


@given(st.lists(st.tuples(st.sampled_from(["put", "put", "copy"]), KEYS, st.integers(1, 2**31 - 1)), max_size=80))
@settings(max_examples=300)
def test_the_table_is_a_dict(steps):
    table, state = np.zeros((128, 2), np.int64), np.zeros(4, np.int64)
    model: dict[int, int] = {}
    for action, key, value in steps:
        if action == "put" and key not in model:
            postings.table_put(table, state, key, value)
            model[key] = value
        elif action == "copy":
            fresh = np.zeros((256 if len(table) == 128 else 128, 2), np.int64)
            postings.table_copy(table, fresh, state)
            table = fresh
        assert state[TABLE_USED] == len(model)
        assert postings.table_find(table, key) == model.get(key, 0)
    assert {key: int(postings.table_find(table, key)) for key in model} == model
    assert sorted(table[table[:, 0] != 0, 0].tolist()) == sorted(model)


class Lists(RuleBasedStateMachine):
    """Make lists, append, take out, give back; the model is a dict of lists."""

    @initialize()
    def start(self):
        self.lists = np.zeros((64, LIST_COLUMNS), np.int32)
        self.lists[:, GRID] = -1
        self.postings = np.zeros((4, 2), np.int32)
        self.heads = np.full(32, -1, np.int32)
        self.state = np.zeros(4, np.int64)
        self.state[LISTS_TOP] = 1
        self.model: dict[int, list[tuple[int, int]]] = {}
        self.entries = 0

    @precondition(lambda self: len(self.model) < 12)
    @rule()
    def make(self):
        number = int(postings.new_list(self.lists, self.state))
        assert number > 0
        assert number not in self.model
        self.model[number] = []

    @precondition(lambda self: self.model)
    @rule(data=st.data(), count=st.integers(1, 20), repeats=st.booleans())
    def append(self, data, count, repeats):
        number = data.draw(st.sampled_from(sorted(self.model)))
        for _ in range(count):
            self.entries += 1
            pc, entry = self.entries * 7, ~self.entries if repeats else self.entries
            while not postings.push(self.lists, self.postings, self.heads, self.state, number, pc, entry):
                grown = np.zeros((len(self.postings) * 2, 2), np.int32)
                grown[: len(self.postings)] = self.postings
                self.postings = grown
            self.model[number].append((pc, entry))

    @precondition(lambda self: any(self.model.values()))
    @rule(data=st.data())
    def take(self, data):
        number = data.draw(st.sampled_from(sorted(n for n, held in self.model.items() if held)))
        pc, entry = data.draw(st.sampled_from(self.model[number]))
        postings.take_out(self.lists, self.postings, number, entry)
        self.model[number].remove((pc, entry))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def give_back(self, data):
        number = data.draw(st.sampled_from(sorted(self.model)))
        for _, entry in self.model.pop(number):
            postings.take_out(self.lists, self.postings, number, entry)
        postings.drop_list(self.lists, self.postings, self.heads, self.state, number)

    @invariant()
    def agrees(self):
        if not hasattr(self, "model"):
            return
        taken: list[int] = []
        for number, held in self.model.items():
            start, length, capacity = self.lists[number, [START, LENGTH, CAPACITY]].tolist()
            assert length == len(held) <= capacity or length == capacity == 0
            assert sorted(map(tuple, self.postings[start : start + length].tolist())) == sorted(held)
            taken.extend(range(start, start + capacity))
        assert len(taken) == len(set(taken)), "two lists share postings"
        assert self.state[POSTINGS_TOP] <= len(self.postings)


TestLists = Lists.TestCase
TestLists.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)


def test_given_back_postings_are_used_again():
    lists, heads, state = np.zeros((8, LIST_COLUMNS), np.int32), np.full(32, -1, np.int32), np.zeros(4, np.int64)
    state[LISTS_TOP] = 1
    pool = np.zeros((512, 2), np.int32)
    for turn in range(100):
        number = postings.new_list(lists, state)
        assert number == 1
        for entry in range(60):
            assert postings.push(lists, pool, heads, state, number, turn, entry)
        for entry in range(60):
            postings.take_out(lists, pool, number, entry)
        postings.drop_list(lists, pool, heads, state, number)
    assert state[POSTINGS_TOP] <= 128


def test_taking_out_what_is_not_there_changes_nothing():
    lists, heads, state = np.zeros((8, LIST_COLUMNS), np.int32), np.full(32, -1, np.int32), np.zeros(4, np.int64)
    state[LISTS_TOP] = 1
    pool = np.zeros((16, 2), np.int32)
    number = postings.new_list(lists, state)
    postings.push(lists, pool, heads, state, number, 5, 3)
    before = lists.copy(), pool.copy()
    postings.take_out(lists, pool, number, ~3)
    assert (lists == before[0]).all()
    assert (pool == before[1]).all()


@given(st.lists(st.integers(-5, 5).map(float), max_size=12).map(sorted), st.integers(-6, 6), st.integers(0, 3))
@settings(max_examples=200)
def test_a_rank_counts_the_bounds_at_or_below(bounds, value, before):
    array = np.array([0.0] * before + bounds + [9.0], np.float64)
    assert postings.rank_of(array, before, len(bounds), float(value)) == bisect_right(bounds, value)


@pytest.mark.parametrize("numbers", [(1, 2, 255), (2**31 - 1, 2**30)])
def test_every_cell_has_a_key_of_its_own(numbers):
    cells = [(number, level, cell) for number in numbers for level in range(16) for cell in (0, 1, 4095, 4096, 65535)]
    keys = [int(postings.cell_key(*cell)) for cell in cells]
    assert len(set(keys)) == len(cells)
    assert 0 not in keys


def key(attribute, part, piece: bytes, before: bytes = b"") -> int:
    data = np.frombuffer(before + piece + b"zz", np.uint8)
    return int(postings.fragment_key(attribute, part, data, len(before), len(piece)))


@given(st.binary(min_size=1, max_size=8), st.binary(max_size=5), st.integers(0, 2**20 - 1), st.integers(0, 5))
@settings(max_examples=200)
def test_a_fragment_has_the_same_key_wherever_it_stands(piece, before, attribute, part):
    assert key(attribute, part, piece, before) == key(attribute, part, piece) != 0


def test_two_pieces_with_one_hash_still_differ_by_attribute_and_part():
    assert key(7, 0, b"wmcciwey") == key(7, 0, b"grlaowib")
    assert key(7, 0, b"wmcciwey") != key(7, 1, b"grlaowib")
    assert key(7, 0, b"wmcciwey") != key(6, 0, b"grlaowib")


def test_keys_tell_attributes_parts_and_pieces_apart():
    pieces = [bytes([a, b]) for a in range(97, 117) for b in range(97, 117)] + [b"a", b"abc", b"abcdefgh"]
    keys = [key(attribute, part, piece) for attribute in (0, 1, 4096) for part in range(6) for piece in pieces]
    assert len(set(keys)) == len(keys)
    assert {int(postings.cell_key(1, 0, 0))}.isdisjoint(keys)
