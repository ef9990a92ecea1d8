"""The labelled names: enough of them, of every sort, and split once and for all."""

from hashlib import blake2b

from experiments.semanticsnames.data import (
    HALVES,
    SORTS,
    half_of,
    read_blind,
    read_new,
    read_pairs,
    read_schemas,
    read_trades,
)
from experiments.semanticsnames.experiment import before
from experiments.semanticsnames.score import MEASURES, Judgement, quality


def test_there_are_enough_of_every_sort_in_both_halves():
    pairs, schemas = read_pairs(), read_schemas()
    assert len(pairs) >= 300
    assert len(schemas) >= 20
    assert len({frozenset((one.a, one.b)) for one in pairs}) == len(pairs)
    for half in HALVES:
        assert {one.sort for one in pairs if one.half == half} == set(SORTS)
        assert sum(one.half == half for one in schemas) >= 10


def test_the_split_does_not_depend_on_the_order_of_a_pair():
    for one in read_pairs():
        first, second = sorted((one.a, one.b))
        assert one.half == HALVES[blake2b(f"{first}|{second}".encode(), digest_size=1).digest()[0] % 2]
    assert half_of("a") in HALVES


def test_quality_counts_what_is_found_and_what_is_wanted():
    judged = [
        Judgement("right", True, True, True, "synonym"),
        Judgement("unit without conversion", True, False, True, "unit"),
        Judgement("lost", False, False, True, "synonym"),
        Judgement("contrary", True, False, False, "contrary"),
    ]
    found = quality(judged)
    assert (found["P"], found["R"], found["unit errors"], found["contrary errors"]) == (1 / 3, 1 / 3, 1, 1)


def test_every_measure_has_figures_of_before():
    assert all(f"{name}.final.overall.F" in before() for name in MEASURES)


def test_trades_are_split_by_vocabulary_and_share_no_pair_with_the_rest():
    known = {frozenset((one.a, one.b)) for one in read_pairs()}
    sources = []
    for half in HALVES:
        trades = read_trades(half)
        assert len(trades) >= 100
        assert known.isdisjoint({frozenset((one.a, one.b)) for one in trades})
        sources.append({one.sources[0] for one in trades})
        assert {"unit", "contrary", "sibling", "synonym"} <= {one.sort for one in trades}
    assert sources[0].isdisjoint(sources[1])


def test_new_names_are_in_no_pair_of_the_tuning_half():
    seen = {name for one in read_pairs() if one.half == "tuning" for name in (one.a, one.b)}
    new = read_new()
    assert len(new) >= 100
    assert all(one.half == "final" and seen.isdisjoint((one.a, one.b)) for one in new)


def test_blind_pairs_are_nowhere_else():
    known = {frozenset((one.a, one.b)) for one in (*read_pairs(), *read_trades("tuning"), *read_trades("final"))}
    blind = read_blind()
    assert len(blind) >= 100
    assert known.isdisjoint({frozenset((one.a, one.b)) for one in blind})
    for half in HALVES:
        assert {"unit", "contrary", "language"} <= {one.sort for one in blind if one.half == half}
