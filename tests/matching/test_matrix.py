"""Matrices against the naive matcher: every kind of bound and number, changes, batches, snapshots; their bits, too."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.workloads import Ranges, to_events
from matching.exact.check import long_lists
from matching.oracle import ids_by_event
from recado.matching.batch import match_batch, match_events
from recado.matching.index import Index, from_bytes, to_bytes
from recado.matching.kernels import matrix
from recado.matching.kernels.postings import GRID, LENGTH, LISTS_TOP, MATRIX, START
from recado.matching.naive import NaiveMatcher
from recado.model.event import Event
from recado.model.filter import And, Between, Compare, Exists, Filter, Not, Or, Regex
from recado.model.subscription import Subscription

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = [
    0, -0.0, 1, -1, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, 2**63 - 1, 2**62 + 1, -(2**63), 0.1,
    5e-324, 1.7976931348623157e308, math.inf, -math.inf,
]  # fmt: skip
SIZES = (1, 2, 7, 64, 1_000, 8_192)
LARGE = 4_000


def lists_with_matrix(index: Index) -> np.ndarray:
    lists = index.store.lists[: int(index.store.state[LISTS_TOP])]
    return np.flatnonzero(lists[:, MATRIX])


def range_filter(rng: random.Random, hostile: float = 0.2) -> Filter:
    """Some ranges with every kind of bound, and now and then a test of another kind."""
    parts = [one_range(rng, f"n{at}", hostile) for at in rng.sample(range(6), rng.randrange(2, 5))]
    extra = rng.random()
    if extra < 0.1:
        parts.append(Not(one_range(rng, f"n{rng.randrange(6)}", hostile)))
    elif extra < 0.15:
        parts.append(Compare("n0", "!=", rng.randrange(1_000)))
    elif extra < 0.2:
        parts.append(Regex("s", f"v{rng.randrange(4)}.*"))
    elif extra < 0.25:
        parts.append(Exists("s"))
    elif extra < 0.3:
        return Or((And(tuple(parts)), Compare("n5", "==", rng.randrange(1_000))))
    elif extra < 0.35:
        start = EPOCH + timedelta(minutes=rng.randrange(1_000))
        parts.append(Between("at", start, start + timedelta(minutes=300)))
    return And(tuple(parts))


def one_range(rng: random.Random, name: str, hostile: float) -> Filter:
    def bound() -> int | float:
        return rng.choice(HOSTILE) if rng.random() < hostile else rng.randrange(1_000) / rng.choice((1, 1, 4))

    kind = rng.randrange(5)
    if kind < 3:
        low = rng.randrange(700)
        return Between(name, low, low + 300) if kind else Between(name, bound(), bound())
    return Compare(name, rng.choice(("<", "<=", ">", ">=")), bound())


def some_event(rng: random.Random, number: int, mixed: bool = True) -> Event:
    attributes: dict[str, object] = {}
    for at in range(6):
        chance = rng.random()
        if chance < 0.75:
            attributes[f"n{at}"] = rng.randrange(1_000)
        elif chance < 0.9 and mixed:
            attributes[f"n{at}"] = rng.choice([*HOSTILE, math.nan, "text", True, EPOCH])
    if rng.random() < 0.5:
        attributes["s"] = f"v{rng.randrange(4)}x"
    if rng.random() < 0.5:
        attributes["at"] = EPOCH + timedelta(minutes=rng.randrange(1_300))
    return Event(f"e{number}", attributes=attributes)  # type: ignore[arg-type]


def both(filters: list[Filter]) -> tuple[Index, NaiveMatcher]:
    index, naive = Index(), NaiveMatcher()
    some = [Subscription(f"s{number}", filter) for number, filter in enumerate(filters)]
    index.add_many(some)
    for subscription in some:
        naive.add(subscription)
    return index, naive


def agree(index: Index, naive: NaiveMatcher, events: list[Event]) -> None:
    right = [naive.match(event) for event in events]
    assert [index.match(event) for event in events] == right
    assert ids_by_event(index, match_events(index, events)) == right


@pytest.fixture(scope="module")
def large() -> Iterator[tuple[Index, NaiveMatcher, random.Random]]:
    """Thousands of filters, with matrices also for lists that are shorter than usual, so that there are many."""
    rng = random.Random(11)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix, "LEAST", 128)
        yield *both([range_filter(rng) for _ in range(LARGE)]), rng


@pytest.fixture(scope="module")
def known(large) -> tuple[list[Event], list[list[str]]]:
    """Events and their answers, for batches of every size."""
    _, naive, _ = large
    rng = random.Random(12)
    events = [some_event(rng, number, mixed=False) for number in range(60)]
    return events, [naive.match(event) for event in events]


def test_thousands_of_ranges_with_every_bound(large):
    index, naive, rng = large
    assert len(lists_with_matrix(index)) > 10
    events = [some_event(rng, number) for number in range(150)]
    before = index.statistics()["candidates"]
    agree(index, naive, events)
    assert index.statistics()["candidates"] - before < 2 * 150 * LARGE / 4  # it leaves most of them out


@pytest.mark.parametrize("size", SIZES)
def test_batches_of_every_size(large, known, size):
    """Arrow batches made of few different events, whose answers are known."""
    index, _, _ = large
    events, right = known
    rng = random.Random(size)
    picked = [rng.randrange(len(events)) for _ in range(size)]
    rows = [dict(events[at].attributes) for at in picked]
    names = ["n0", "n1", "n2", "n3", "n4", "n5", "s", "at"]
    batch = pa.RecordBatch.from_pydict({name: [row.get(name) for row in rows] for name in names})
    assert ids_by_event(index, match_batch(index, batch)) == [right[at] for at in picked]


def test_changes_where_matrices_are(monkeypatch):
    """Adds, removals and replacements, many more than a matrix has room for, without an optimisation between them."""
    monkeypatch.setattr(matrix, "LEAST", 64)
    rng = random.Random(5)
    index, naive = both([range_filter(rng, 0.05) for _ in range(3_000)])
    for step in range(4):
        made = set(lists_with_matrix(index).tolist())
        assert made
        for _ in range(400):
            id = f"s{rng.randrange(3_600)}"
            if rng.random() < 0.45:
                assert index.remove(id) == naive.remove(id)
            else:
                subscription = Subscription(id, range_filter(rng, 0.05))
                index.add(subscription)
                naive.add(subscription)
        assert set(lists_with_matrix(index).tolist()) == made, "it was not optimised"
        agree(index, naive, [some_event(rng, number) for number in range(30)])
        check_bits(index)
        if step == 2:
            index = from_bytes(to_bytes(index))
            check_bits(index)


def five_ranges(number: int) -> Filter:
    """Five ranges, of which the first is the narrowest, so that all such filters hang in one list."""
    lows = [number * 7 % prime for prime in (631, 641, 643, 647, 653)]
    return And(tuple(Between(f"n{at}", low, low + (240 if at == 0 else 350)) for at, low in enumerate(lows)))


def test_a_list_outgrows_its_matrix():
    """What lies behind the places of a matrix is found, and comes under it when others go."""
    index, naive = both([five_ranges(number) for number in range(900)])
    (number,) = lists_with_matrix(index).tolist()
    room = int(index.store.matrices[index.store.lists[number, MATRIX] + matrix.ROW_WORDS]) * 64
    rng = random.Random(3)
    for at in range(900, room + 200):
        filter = five_ranges(at)
        for engine in (index, naive):
            engine.add(Subscription(f"s{at}", filter))
    index.store.link_all()
    assert index.store.lists[number, LENGTH] > room
    agree(index, naive, [some_event(rng, at) for at in range(50)])
    for at in range(0, room, 3):
        assert index.remove(f"s{at}") == naive.remove(f"s{at}")
    assert index.store.lists[number, LENGTH] < room
    agree(index, naive, [some_event(rng, at) for at in range(50)])
    check_bits(index)
    for at in range(room + 200):
        index.remove(f"s{at}")
        naive.remove(f"s{at}")
    agree(index, naive, [some_event(rng, 0)])
    check_bits(index)


def check_bits(index: Index) -> None:
    """Each bit of each matrix says what the entry's ranges say; free places have all bits set."""
    store = index.store
    seen = 0
    for number in lists_with_matrix(index).tolist():
        head, start, length = store.lists[number, [MATRIX, START, LENGTH]].tolist()
        columns, words = store.matrices[[head + matrix.COLUMNS, head + matrix.ROW_WORDS]].tolist()
        for column in range(columns):
            at = head + matrix.HEAD_WORDS + column * matrix.COLUMN_WORDS
            grid, edges, count, bits = store.matrices[at : at + matrix.COLUMN_WORDS].tolist()
            cuts = store.matrix_floats[edges : edges + count]
            assert (np.diff(cuts) > 0).all()
            assert np.isnan(store.matrix_floats[edges + count : edges + matrix.BINS]).all()
            rows = store.matrices[bits : bits + (count + 2) * words].reshape(count + 2, words)
            found = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little").astype(bool)
            right = np.ones_like(found)
            for place in range(min(length, words * 64)):
                for low, high in ranges_of(index, int(store.postings[start + place, 0]), grid):
                    first = np.searchsorted(cuts, math.nextafter(low, -math.inf), "right")
                    last = np.searchsorted(cuts, math.nextafter(high, math.inf), "right")
                    inside = np.arange(count + 2)
                    right[:, place] &= (inside >= first) & (inside <= last) & (inside <= count)
            assert np.array_equal(found, right)
            seen += 1
    assert seen or not len(lists_with_matrix(index))


def ranges_of(index: Index, pc: int, grid: int) -> list[tuple[float, float]]:
    """The plain ranges of a conjunction on a grid, read from its words."""
    from recado.matching.kernels.instructions import JUMPS, LAST, NEGATED, NUM, TIME, instruction_words

    found = []
    while pc >= 0:
        word = int(index.store.words[pc])
        if word & JUMPS:
            return []
        op = word & 63
        if op in (NUM, TIME) and not word & NEGATED and ((word >> 12) & 0xFFFFF) * 2 + op - NUM == grid:
            found.append((float(index.store.floats[pc + 1]), float(index.store.floats[pc + 2])))
        pc = -1 if word & LAST else pc + instruction_words(word)
    return found


numbers = st.sampled_from(HOSTILE) | st.integers(-5, 5) | st.sampled_from([0.5, 1.5, 2.5])
ranges = st.one_of(
    st.builds(Between, st.sampled_from("ab"), numbers, numbers),
    st.builds(Compare, st.sampled_from("ab"), st.sampled_from(["<", "<=", ">", ">="]), numbers),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(ranges, min_size=1, max_size=3).map(tuple).map(And), min_size=2, max_size=12),
    st.lists(st.dictionaries(st.sampled_from("ab"), numbers | st.just(math.nan)), min_size=1, max_size=5),
)
def test_small_lists_with_hostile_numbers(filters, rows):
    with long_lists(2):
        index, naive = both(list(filters))
        index.store.optimize()
        check_bits(index)
        agree(index, naive, [Event(f"e{at}", attributes=row) for at, row in enumerate(rows)])


def test_the_ranges_of_the_benchmark_get_a_matrix_and_no_cells():
    workload = Ranges(size=12_000)
    index = Index()
    index.add_many(workload.subscriptions())
    assert len(lists_with_matrix(index)) == 20
    assert (index.store.lists[lists_with_matrix(index), GRID] == -1).all()
    events = to_events(workload.events(50))
    before = index.statistics()["candidates"]
    found = sum(len(index.match(event)) for event in events)
    assert index.statistics()["candidates"] - before < 2 * found


def test_lists_of_one_range_or_of_narrow_ranges_have_none():
    rng = random.Random(1)
    one = [Between("n0", low := rng.randrange(700), low + 300) for _ in range(2_000)]
    index, _ = both(one)
    assert len(lists_with_matrix(index)) == 0
    narrow = [
        And((Compare("k", "==", rng.randrange(40)), Between("n0", low := rng.randrange(900), low + 9)))
        for _ in range(4_000)
    ]
    index, _ = both(narrow)
    assert len(lists_with_matrix(index)) == 0


def test_a_snapshot_keeps_matrices(large, tmp_path):
    index, naive, rng = large
    index.save(tmp_path / "index")
    loaded = Index.load(tmp_path / "index")
    assert lists_with_matrix(loaded).tolist() == lists_with_matrix(index).tolist()
    assert np.array_equal(loaded.store.matrices, index.store.matrices)
    agree(loaded, naive, [some_event(rng, number) for number in range(30)])


def test_the_edges_of_few_values_are_exact():
    """Where filters ask for few values, bins are as fine as these: nothing is left that cannot match."""
    filters = [And((Between("a", x, x + 12), Between("b", y, y + 12))) for x in range(25) for y in range(25)]
    with long_lists(2):
        index, naive = both(filters)
        assert len(lists_with_matrix(index)) > 0
        event = Event("e", attributes={"a": 17, "b": 19})
        before = index.statistics()["candidates"]
        assert index.match(event) == naive.match(event)
        assert index.statistics()["candidates"] - before == len(naive.match(event)) == 13 * 13
