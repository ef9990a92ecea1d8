"""The agenda against a plain heap, however its entries are spread over time."""

from heapq import heappop, heappush
from random import Random

import pytest
from hypothesis import given, strategies

from recado.sim import kernel as module
from recado.sim.kernel import LATEST, Agenda

DELAYS = {
    "one moment": lambda rng: 0.0,
    "unit": lambda rng: 1.0,
    "spread": lambda rng: rng.uniform(0.5, 1.5),
    "tiny": lambda rng: rng.uniform(0.0, 1e-6),
    "huge": lambda rng: rng.uniform(0.0, 1e9),
    "of many sizes": lambda rng: 10 ** rng.uniform(-9, 6),
    "of all sizes": lambda rng: 10 ** rng.uniform(-320, 149),
    "almost one moment": lambda rng: rng.choice([0.0, 5e-324, 1e-300]),
    "mixed": lambda rng: rng.choice([0.0, 0.001, 1.0, rng.random(), 3600.0]),
}


def take(agenda):
    """What the kernel does inside its loop."""
    agenda.next_time()
    if agenda.late and (not agenda.near or agenda.late[0] < agenda.near[-1]):
        if len(agenda.late) > agenda.crowd:
            agenda.shorten()
            return take(agenda)
        return heappop(agenda.late)
    return agenda.near.pop()


@pytest.mark.parametrize("crowd", [4, 50, 4096])
@pytest.mark.parametrize("delays", DELAYS)
def test_entries_come_in_the_order_of_a_heap(delays, crowd, monkeypatch):
    monkeypatch.setattr(module, "CROWD", crowd)
    monkeypatch.setattr(module, "USUAL", 4)
    rng, agenda, heap = Random(delays), Agenda(), []
    now, number = 0.0, 0
    for _ in range(3000):
        if heap and rng.random() < (0.45 if number < 900 else 0.6):
            entry = heappop(heap)
            assert agenda.next_time() == entry[0]
            assert take(agenda) == entry
            now = entry[0]
        else:
            number += 1
            entry = (now + DELAYS[delays](rng), number, None, None, 0, None, None)
            heappush(heap, entry)
            agenda.put(entry)
        assert len(agenda) == len(heap)
    assert sorted(agenda) == sorted(heap)


def test_crowded_stretches_are_made_shorter():
    agenda, rng = Agenda(), Random(1)
    for number in range(20_000):
        agenda.put((rng.uniform(5.0, 6.0), number, None, None, 0, None, None))
    while not agenda.near:
        agenda.open()
    assert 10 < len(agenda.near) < 300
    assert agenda.scale > 100


def test_a_crowd_before_a_stretch_that_was_opened_early_is_spread_over_its_own(monkeypatch):
    """A look at the next time opens a far stretch; what is scheduled before it must not stay one heap for ever."""
    monkeypatch.setattr(module, "CROWD", 50)
    agenda = Agenda()
    agenda.put((1e6, 0, None, None, 0, None, None))
    assert agenda.next_time() == 1e6
    entries = [(7.0 * number, number, None, None, 0, None, None) for number in range(1, 400)]
    for entry in entries:
        agenda.put(entry)
    assert len(agenda.late) == 399
    assert [take(agenda) for _ in entries] == entries
    assert (agenda.crowd, agenda.edge) == (50, 399 * 7)
    assert take(agenda)[0] == 1e6


def test_what_happens_at_one_moment_cannot_be_parted():
    agenda = Agenda()
    for number in range(20_000):
        agenda.put((5.0, number, None, None, 0, None, None))
    agenda.open()
    assert (len(agenda.near), agenda.scale) == (20_000, 1.0)
    assert agenda.crowd == 40_000


def test_entries_can_be_taken_out():
    agenda, rng = Agenda(), Random(2)
    entries = [(rng.uniform(0, 9), number, None, None, 0, None, None) for number in range(500)]
    for entry in entries:
        agenda.put(entry)
    start = take(agenda)
    agenda.put((start[0], 500, None, None, 0, None, None))
    out = agenda.take_out(lambda entry: entry[1] % 3 == 0)
    assert [entry[1] for entry in out] == [number for number in range(0, 501, 3) if number != start[1]]
    left = [take(agenda) for _ in range(len(agenda))]
    assert left == sorted(left)
    assert all(entry[1] % 3 for entry in left)
    assert agenda.take_out(lambda entry: True) == []
    assert agenda.next_time() == float("inf")


TIMES = strategies.one_of(
    strategies.sampled_from([0.0, 1.0, 5e-324, 1e-9, 3600.0, 1e15, LATEST]), strategies.floats(0.0, LATEST)
)
DOINGS = strategies.lists(
    strategies.one_of(
        strategies.tuples(strategies.just("put"), TIMES),
        strategies.tuples(strategies.just("take"), strategies.integers(1, 8)),
        strategies.tuples(strategies.just("take out"), strategies.integers(2, 5)),
        strategies.tuples(strategies.just("look"), strategies.none()),
    ),
    max_size=80,
)


@given(DOINGS)
def test_any_schedule_gives_the_order_of_a_heap(doings):
    agenda, heap, now = Agenda(), [], 0.0
    agenda.crowd = 3
    for number, (what, value) in enumerate(doings):
        match what:
            case "put":
                entry = (min(now + value, LATEST), number, None, None, 0, None, None)
                heappush(heap, entry)
                agenda.put(entry)
            case "take":
                for _ in range(min(value, len(heap))):
                    first = heappop(heap)
                    now = first[0]
                    assert take(agenda) == first
            case "take out":
                out = agenda.take_out(lambda entry, value=value: entry[1] % value == 0)
                assert out == sorted((e for e in heap if e[1] % value == 0), key=lambda entry: entry[1])
                heap = sorted(entry for entry in heap if entry[1] % value)
            case "look":
                assert agenda.next_time() == (heap[0][0] if heap else float("inf"))
    assert sorted(agenda) == sorted(heap)
