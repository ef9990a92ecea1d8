"""The benchmark of semantic matching: its two sides agree, its targets, its tables, its command."""

import pytest

from benchmarks import harness
from benchmarks.harness import DisagreementError, Rate, Target, judge, make_tables, markdown
from benchmarks.semantics import (
    FULL_SIZE,
    QUICK_SIZE,
    SAID,
    SUBJECT,
    Many,
    NewShape,
    SemanticMatcher,
    Size,
    Subscribers,
    events,
    make_cases,
    new_shape,
    shaped_events,
    subscriptions,
)

TINY = Size(subscribers=(0, 2), subscriptions=(300,), seconds=0.0, events=300, plain=1, new_shapes=1)


@pytest.fixture(scope="module")
def records():
    said = []
    found = list(harness.run(SUBJECT, make_cases(TINY), said.append))
    assert said == [
        "the lexicon",
        "0 subscribers, as in the work",
        "2 subscribers, as in the work",
        "300 subscriptions",
    ]
    return found


def test_both_sides_give_the_same_notifications(records):
    [many] = [record for record in records if isinstance(record, Many)]
    assert many.matches_per_event > 0
    assert many.shapes == 12


def test_published_rates_stand_beside_ours(records):
    none, two = [record for record in records if isinstance(record, Subscribers)]
    assert (none.published_cache, two.published_no_cache) == (303.303, 286.316)
    assert none.plain is None
    assert two.rate.best > two.plain > 0


def test_a_new_shape_is_timed_with_known_and_with_unknown_names(records):
    [shape] = [record for record in records if isinstance(record, NewShape)]
    assert shape.known_seconds > 0
    assert shape.unknown_seconds > 0
    assert shape.names == 21


def test_the_page_has_every_table(records):
    page = markdown(SUBJECT, records, "python -m benchmarks run semantics")
    assert len(make_tables(SUBJECT, records)) == 5
    for grid in make_tables(SUBJECT, records):
        assert f"### {grid.title}" in page
    assert "not measured in this run" in page


def test_targets_compare_with_the_work_and_with_exact_matching():
    rate = Rate(30_000.0, 29_000.0)
    few = Subscribers(50, 286.1, 44.1, rate, 1.0, 2.0)
    slow = Rate(10_000.0, 9_000.0)
    many = Many(100_000, 1.0, rate, rate, slow, rate, slow, slow, 12, 1.0, 1.0, 1, 1)
    assert [target.met for target in judge(SUBJECT, [few, many])] == [True, False, True]
    assert all(isinstance(target, Target) and target.met is None for target in judge(SUBJECT, []))
    assert 100_000 in FULL_SIZE.subscriptions
    assert 50 in QUICK_SIZE.subscribers


def test_the_workload_is_what_it_says():
    exact, semantic = list(subscriptions(50, semantic=False)), list(subscriptions(50, semantic=True))
    names = [{part.name for part in one.filter.parts} for one in exact]
    assert all(name in SAID for some in names for name in some)
    assert [s.filter.parts[0].value for s in exact] == [s.filter.parts[0].value for s in semantic]
    assert all(s.semantic == {} for s in semantic)
    assert len({tuple(sorted(e.attributes)) for e in shaped_events(50)}) == 12
    assert len({tuple(e.attributes) for e in events(50)}) == 1
    assert new_shape(1).attributes.keys() != new_shape(2).attributes.keys()


def test_sides_that_differ_end_the_run(monkeypatch):
    match_many = SemanticMatcher.match_many
    calls = []

    def forgetful(self, some):
        calls.append(self)
        found = match_many(self, some)
        return found if len(calls) == 1 else [ids[1:] for ids in found]

    monkeypatch.setattr(SemanticMatcher, "match_many", forgetful)
    *_, case = make_cases(TINY)
    with pytest.raises(DisagreementError, match="300 subscriptions"):
        list(case.run(None))
