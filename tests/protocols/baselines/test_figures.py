"""The tests that the tree document gives for its baselines: sections 3.3 to 3.5, one broker at a time."""

from __future__ import annotations

from random import Random

import pytest

from protocols.baselines.common import sub
from recado.filters.expression import format_expression, parse
from recado.protocols.algebra import covers, merge, name_of
from recado.protocols.baselines.catalogue import make_baseline
from recado.protocols.baselines.node import Interests
from recado.protocols.machine import Asked, Received
from recado.protocols.pubsub import Subscribe, Unsubscribe
from recado.protocols.topology import parse_edges


class Broker:
    """B1 of a figure, alone: what it is told or asked goes in, what it tells its neighbours comes out."""

    def __init__(self, baseline, neighbours="B2 B3 S"):
        topology = parse_edges(" ".join(f"B1-{other}" for other in neighbours.split()))
        self.machine = make_baseline(baseline, topology)("B1")

    def told(self, neighbour, subscribe=(), unsubscribe=()):
        rows = tuple((name_of(text), text) for text in subscribe)
        return self._sent(Received(neighbour, Interests(rows, tuple(map(name_of, unsubscribe)))))

    def local(self, id, text):
        return self._sent(Asked(Subscribe(sub(id, text, type=""))))

    def cancel(self, id):
        return self._sent(Asked(Unsubscribe(id)))

    def _sent(self, stimulus):
        """Of each neighbour that is told something: the filters that it is told, and those that are taken back."""
        return {
            effect.receiver: (
                sorted(text for _, text in effect.message.subscribe),
                sorted(effect.message.unsubscribe),
            )
            for effect in self.machine.handle(stimulus, 0.0, Random(0))
        }


F, G = "x == 1", "x == 2"


def test_figure_3_4_a_filter_that_is_new_goes_to_the_other_neighbours():
    broker = Broker("identity")
    assert broker.told("S", [F]) == {"B2": ([F], []), "B3": ([F], [])}


def test_figure_3_5_a_filter_that_b3_has_told_goes_to_b3_only():
    broker = Broker("identity", "B2 B3")
    assert broker.told("B3", [F]) == {"B2": ([F], [])}
    assert broker.local("client", F) == {"B3": ([F], [])}


@pytest.mark.parametrize("baseline", ["covering", "merging"])
def test_figure_3_10_the_end_of_a_cover_brings_back_what_it_covered(baseline):
    cover, covered = "x >= 1 and x <= 9", "x >= 2 and x <= 3"
    broker = Broker(baseline, "B2 B3")
    assert broker.local("Y", cover) == {"B2": ([cover], []), "B3": ([cover], [])}
    assert broker.told("B2", [covered]) == {}
    assert broker.cancel("Y") == {"B2": ([], [name_of(cover)]), "B3": ([covered], [name_of(cover)])}


def test_covering_intersects_the_conditions_on_an_attribute_first():
    cover, covered = "x >= 5 and x <= 8", "x >= 4 and x <= 7 and x >= 6 and x <= 9"
    assert covers(cover, covered)
    assert not covers(cover, "x >= 4 and x <= 7")
    assert not covers(cover, "x >= 6 and x <= 9")
    broker = Broker("covering", "B2 B3")
    broker.local("Y", cover)
    assert broker.local("Z", covered) == {}


def test_covering_rules_a_to_c():
    broker = Broker("covering", "B2 B3")
    small, large = "x == 3", "x > 1"
    broker.told("B2", [small])
    assert broker.told("B2", [large], [small]) == {"B3": ([large], [name_of(small)])}  # b: what it covers goes
    assert broker.local("Y", small) == {"B2": ([small], [])}  # a: B3 has a cover already
    assert broker.cancel("Y") == {"B2": ([], [name_of(small)])}  # c: for B3 the cover still stands


def test_the_merge_example():
    one, other = "x == 5 and y in {2, 3}", "x == 5 and y in {4, 5}"
    merger = format_expression(parse("x == 5 and y in {2, 3, 4, 5}"))
    assert merge(one, other) == merger
    broker = Broker("merging", "B2 B3")
    broker.local("Y", one)
    assert broker.local("Z", other) == {
        "B2": ([merger], [name_of(one)]),
        "B3": ([merger], [name_of(one)]),
    }
    assert broker.cancel("Y") == {"B2": ([other], [name_of(merger)]), "B3": ([other], [name_of(merger)])}
    assert broker.cancel("Z") == {"B2": ([], [name_of(other)]), "B3": ([], [name_of(other)])}


def test_filters_that_differ_in_two_attributes_merge_imperfectly_only():
    texts = [f"x == {number} and y == {number} and z == {number % 2}" for number in range(5)]
    assert merge(texts[0], texts[1]) is None
    broker = Broker("merging-imperfect", "B2")
    for text in texts[:4]:
        assert broker.local(text, text) == {"B2": ([text], [])}
    joined = "x in {0, 2} and y in {0, 2} and z == 0"  # these two agree on z, and x == 0 and y == 2 comes with them
    told = broker.local("fifth", texts[4])
    assert told == {"B2": (sorted([texts[4], joined]), sorted([name_of(texts[0]), name_of(texts[2])]))}
    assert broker.cancel("fifth") == {"B2": ([texts[0], texts[2]], sorted([name_of(texts[4]), name_of(joined)]))}


class PrintedIdentity:
    """Section 3.3 as it is printed, over sets: the twin of the uniform way."""

    def __init__(self, neighbours):
        self.neighbours, self.table = neighbours, set()

    def admin(self, source, subscribe, unsubscribe):
        new, gone = set(), set()
        for filter in [*subscribe, *unsubscribe]:
            self.table -= {(filter, source)}
            open_to = [h for h in self.neighbours if not any(f == filter and u != h for f, u in self.table)]
            aim = {(filter, h) for h in open_to if h != source}
            if filter in unsubscribe:
                gone |= aim
            else:
                new |= aim
                self.table |= {(filter, source)}
        return new, gone


def test_the_uniform_way_sends_what_the_printed_identity_algorithm_sends():
    filters = [f"x == {number}" for number in range(4)]
    for seed in range(100):
        rng = Random(seed)
        broker, printed = Broker("identity", "B2 B3 B4"), PrintedIdentity(["B2", "B3", "B4"])
        for _ in range(40):
            source = rng.choice(["B2", "B3", "B4", "c1", "c2"])
            filter = rng.choice(filters)
            held = (filter, source) in printed.table
            new, gone = printed.admin(source, [] if held else [filter], [filter] if held else [])
            if source in printed.neighbours:
                told = broker.told(source, *(([], [filter]) if held else ([filter], [])))
            else:
                id = f"{source} {filter}"
                told = broker.cancel(id) if held else broker.local(id, filter)
            assert {(text, h) for h, (texts, _) in told.items() for text in texts} == new
            assert {(name, h) for h, (_, names) in told.items() for name in names} == {(name_of(f), h) for f, h in gone}
