"""The benchmark of semantic matching: its two sides agree, its targets, its tables, its command."""

import json

import pytest

from benchmarks.cli import main
from benchmarks.records import Rate, Target
from benchmarks.semantics import plan as plans
from benchmarks.semantics.plan import Plan, full_plan, quick_plan
from benchmarks.semantics.records import Many, NewShape, Subscribers
from benchmarks.semantics.run import run_plan
from benchmarks.semantics.tables import markdown, tables
from benchmarks.semantics.targets import targets
from benchmarks.semantics.workload import SAID, events, new_shape, shaped_events, subscriptions

TINY = Plan(subscribers=(0, 2), subscriptions=(300,), seconds=0.0, events=300, plain=1, new_shapes=1)


@pytest.fixture(scope="module")
def records():
    said = []
    found = list(run_plan(TINY, said.append))
    assert said == [
        "the lexicon",
        "0 subscribers, as in the work",
        "2 subscribers, as in the work",
        "300 subscriptions",
    ]
    return found


def test_both_sides_give_the_same_notifications(records):
    [many] = [record for record in records if isinstance(record, Many)]
    assert many.agreed
    assert many.matches_per_event > 0
    assert many.shapes == 12


def test_published_rates_stand_beside_ours(records):
    none, two = [record for record in records if isinstance(record, Subscribers)]
    assert (none.published_cache, two.published_no_cache) == (303.303, 286.316)
    assert none.plain is None
    assert two.rate.best > two.plain > 0


def test_known_names_cost_a_new_shape_less(records):
    [shape] = [record for record in records if isinstance(record, NewShape)]
    assert shape.known_seconds < shape.unknown_seconds
    assert shape.names == 21


def test_the_page_has_every_table(records):
    page = markdown(records, "python -m benchmarks semantics")
    assert len(tables(records)) == 5
    for grid in tables(records):
        assert f"### {grid.title}" in page
    assert "not measured in this run" in page


def test_targets_compare_with_the_work_and_with_exact_matching():
    rate = Rate(30_000.0, 29_000.0)
    few = Subscribers(50, 286.1, 44.1, rate, 1.0, 2.0)
    slow = Rate(10_000.0, 9_000.0)
    many = Many(100_000, 1.0, True, rate, rate, slow, rate, slow, slow, 12, 1.0, 1.0, 1, 1)
    assert [target.met for target in targets([few, many])] == [True, False, True]
    assert all(isinstance(target, Target) and target.met is None for target in targets([]))
    assert 100_000 in full_plan().subscriptions
    assert 50 in quick_plan().subscribers


def test_the_workload_is_what_it_says():
    exact, semantic = list(subscriptions(50, semantic=False)), list(subscriptions(50, semantic=True))
    names = [{part.name for part in one.filter.parts} for one in exact]
    assert all(name in SAID for some in names for name in some)
    assert [s.filter.parts[0].value for s in exact] == [s.filter.parts[0].value for s in semantic]
    assert all(s.semantic == {} for s in semantic)
    assert len({tuple(sorted(e.attributes)) for e in shaped_events(50)}) == 12
    assert len({tuple(e.attributes) for e in events(50)}) == 1
    assert new_shape(1).attributes.keys() != new_shape(2).attributes.keys()


def test_the_command(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(plans, "quick_plan", lambda: TINY)
    assert main(["semantics", "--quick", "--json", "--markdown", str(tmp_path / "page.md")]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["record"] == "machine"
    assert "python -m benchmarks semantics --quick" in (tmp_path / "page.md").read_text()
