"""Algorithm 1 and its one-to-one cousin, against plain twins."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.semantics.alignment import choose
from recado.semantics.engine import Semantics, align
from recado.semantics.overrides import Given
from recado.semantics.settings import SemanticSettings

VALUES = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0])
MEAN = SemanticSettings("mean", threshold=0.15, vetoes=False)
EVENT = ["type", "measurement unit", "continent", "residential area", "country"]


@st.composite
def tables(draw, largest=4):
    rows, columns = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    return np.array([[draw(VALUES) for _ in range(columns)] for _ in range(rows)])


def algorithm_1(row, threshold):
    """The document's inner loop."""
    best, chosen = 0.0, -1
    for number, value in enumerate(row):
        if value == 1.0:
            return number
        if value > best and value > threshold:
            best, chosen = value, number
    return chosen


@given(tables(), VALUES)
def test_the_best_attribute_is_that_of_algorithm_1(table, threshold):
    settings = SemanticSettings("mean", threshold=threshold)
    assert choose(table, settings).chosen == [algorithm_1(row, threshold) for row in table]


def worth(table, threshold, chosen):
    return sum(table[row, column] for row, column in enumerate(chosen) if column >= 0)


@given(tables(), VALUES)
def test_one_to_one_is_the_best_of_all_assignments(table, threshold):
    settings = SemanticSettings("mean", threshold=threshold, assignment="one-to-one")
    chosen = choose(table, settings).chosen
    used = [column for column in chosen if column >= 0]
    assert len(used) == len(set(used))
    assert all(
        table[row, column] > threshold or table[row, column] == 1 for row, column in enumerate(chosen) if column >= 0
    )
    columns = [*range(table.shape[1]), *[-1] * len(table)]
    best = 0.0
    for picked in permutations(columns, len(table)):
        if all(c < 0 or table[r, c] > threshold or table[r, c] == 1 for r, c in enumerate(picked)):
            best = max(best, worth(table, threshold, picked))
    assert worth(table, threshold, chosen) == pytest.approx(best)


def test_ties_go_to_the_first(semantics):
    for names in (["cost", "price"], ["price", "cost"]):
        assert semantics.align(["toll"], names, MEAN).mapping() == {"toll": names[0]}
    one_to_one = SemanticSettings("mean", threshold=0.15, assignment="one-to-one")
    assert choose(np.array([[0.5, 0.5], [0.5, 0.5]]), one_to_one).chosen == [0, 1]


def test_an_identical_name_is_always_itself(semantics):
    assert semantics.align(["price"], ["cost", "price"], MEAN).mapping() == {"price": "price"}
    refused = Semantics(decided=[Given("price", "price", 0.0, "name", "refused")])
    assert refused.align(["price"], ["price"], MEAN).pairs[0].reason == "identical"


def test_a_pair_says_why(semantics):
    alignment = semantics.align(["nation", "countries", "continent", "invoice number"], EVENT, MEAN)
    nation, countries, continent, invoice = alignment.pairs
    assert (nation.attribute, nation.similarity, nation.reason) == ("country", 1.0, "similar")
    assert (countries.attribute, countries.reason) == ("country", "same words")
    assert (continent.attribute, continent.reason) == ("continent", "identical")
    assert (invoice.attribute, invoice.words) == ("measurement unit", ("invoice", "number"))
    assert alignment.measure == "mean(jcn, best, semcor)"
    assert "'invoice number' is 'measurement unit': 0.398, similar" in invoice.explain()
    assert continent.explain() == "'continent' is itself"


def test_a_missing_pair_says_why_not(semantics):
    alignment = semantics.align(
        ["invoice number", "time"], EVENT, SemanticSettings("mean", threshold=0.55, vetoes=False)
    )
    assert alignment.missing() == ["invoice number", "time"]
    invoice, time = (pair.explain() for pair in alignment.pairs)
    assert invoice.endswith("the nearest is 'measurement unit' at 0.398")
    assert "the envelope" in time
    assert semantics.align(["x"], [], MEAN).pairs[0].reason == "the event has no attribute to compare it with"


def test_the_envelope_takes_part_only_if_it_is_let(semantics):
    assert semantics.align(["kind", "type"], EVENT, MEAN).mapping() == {"kind": "measurement unit", "type": "type"}
    let = SemanticSettings("mean", threshold=0.15, envelope=True, vetoes=False)
    assert semantics.align(["kind", "type"], EVENT, let).mapping() == {"kind": "type", "type": "type"}
    assert semantics.align(["time"], ["time of day"], MEAN).mapping() == {}
    assert semantics.align(["time"], ["time of day"], let).mapping() == {"time": "time of day"}


def test_one_to_one_gives_an_attribute_once(semantics):
    names, there = ["cost", "price"], ["price", "product"]
    assert semantics.align(names, there, MEAN).mapping() == {"cost": "price", "price": "price"}
    once = SemanticSettings("mean", threshold=0.15, assignment="one-to-one")
    alignment = semantics.align(names, there, once)
    assert alignment.mapping() == {"price": "price"}
    crowded = semantics.align(["cost", "toll"], ["price", "qwzxrt"], once)
    assert crowded.mapping() == {"cost": "price"}
    assert "given to another name" in crowded.pairs[1].reason


def test_uncertain_pairs(semantics):
    alignment = semantics.align(
        ["invoice number", "nation"], EVENT, SemanticSettings("mean", threshold=0.38, vetoes=False)
    )
    assert [pair.constraint for pair in alignment.uncertain(0.05)] == ["invoice number"]
    assert alignment.uncertain(0.01) == []


@given(st.permutations(["nation", "cost", "event type", "city", "qwzxrt"]), st.permutations(EVENT[1:]))
def test_the_order_of_names_and_of_different_attributes_does_not_matter(semantics, names, attributes):
    usual = semantics.align(["nation", "cost", "event type", "city", "qwzxrt"], EVENT[1:], MEAN)
    assert semantics.align(names, attributes, MEAN).mapping() == usual.mapping()


def test_repeated_names_are_one(semantics):
    assert len(semantics.align(["cost", "cost"], ["price", "price"], MEAN).pairs) == 1


def test_the_shared_knowledge_answers_too():
    assert align(["nation"], EVENT, MEAN).mapping() == {"nation": "country"}
