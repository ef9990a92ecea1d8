"""The data set of the semantic experiment, and the arrays against Algorithm 1 as it is written."""

import numpy as np
import pytest

from experiments.expected import ExperimentError
from experiments.semantics.dataset import (
    FULL,
    LANGUAGES,
    QUICK,
    SHARE,
    Size,
    event_seeds,
    generate,
    read_dataset,
    satisfies,
    thesaurus,
    write_dataset,
)
from experiments.semantics.grid import Counts, Policy, Similarities, grid_of, halves, macro, micro, sweep
from experiments.semantics.logs import lookups
from experiments.semantics.server import (
    EventService,
    MemoryMonitor,
    Receiver,
    Settings,
    load_subscriptions,
    run_workload,
)
from experiments.semantics.speed import rate_and_time, spread
from recado.semantics.alignment import choose
from recado.semantics.settings import SemanticSettings

SMALL = Size(seeds=16, variants=4, subscription_seeds=6, subscription_variants=2)


@pytest.fixture(scope="module")
def quick():
    return generate(QUICK)


def test_it_has_the_size_and_the_share_of_the_document():
    dataset = generate(FULL)
    assert len(dataset.events) == pytest.approx(15_000, rel=0.01)
    assert len(dataset.subscriptions) == 200
    assert len({one.seed for one in dataset.subscriptions}) == 20
    assert {len(one.pairs) for one in dataset.subscriptions} == {2, 3, 4}
    grid = grid_of(dataset)
    assert (grid.relevant & grid.judged).sum() / grid.judged.sum() == pytest.approx(SHARE, abs=0.01)
    assert (grid.relevant & ~grid.judged).sum() == 0


def test_the_same_seed_gives_the_same_data(quick):
    assert generate(QUICK) == quick
    assert generate(QUICK, "por") != quick


def test_labels_are_the_variants_of_the_seeds_that_have_the_values(quick):
    words = thesaurus()
    meanings = {
        (name, value): (concept, meaning.id)
        for concept, names in words.names.items()
        for name in names.eng
        for meaning in words.values[concept]
        for value in meaning.eng
    }
    events = {event.id: dict(meanings[pair] for pair in event.pairs) for event in quick.events}
    for one in quick.subscriptions[::7]:
        wanted = dict(meanings[pair] for pair in one.pairs)
        assert set(quick.labels[one.id]) == {id for id, event in events.items() if satisfies(event, wanted)}


def test_no_name_stands_for_two_attributes():
    words = thesaurus()
    for language in LANGUAGES:
        names = [name for one in words.names.values() for name in one.of(language)]
        assert len(names) == len(set(names))
    assert {meaning.family for meaning in words.values["type"]} == {family.id for family in words.families}


def test_mixed_speech_has_both_languages():
    words, mixed = thesaurus(), generate(SMALL, "mixed")
    portuguese = {name for one in words.names.values() for name in one.por}
    names = {name for event in mixed.events for name, _ in event.pairs}
    assert names & portuguese
    assert names - portuguese


def test_more_seeds_than_there_are_values_for():
    with pytest.raises(ExperimentError, match="too few values for"):
        event_seeds(thesaurus(), 400)


def test_files_give_back_what_was_written(quick, tmp_path):
    write_dataset(quick, tmp_path)
    line = (tmp_path / "events.txt").read_text().splitlines()[0]
    assert line.startswith("1-1\t{")
    assert read_dataset(tmp_path) == quick


# -- the arrays --------------------------------------------------------------------------------------------------------


def random_similarities(grid, seed):
    """With ties, zeros and ones, so that order and both ends count."""
    rng = np.random.default_rng(seed)
    words = grid.vocabulary
    shapes = (len(words.wanted_names), len(words.event_names)), (len(words.wanted_values), len(words.event_values))
    return Similarities(*(np.round(rng.choice([0, 0.2, 0.4, 0.6, 0.8, 1.0], shape), 9) for shape in shapes))


def by_algorithm_1(dataset, settings, alike):
    grid = grid_of(dataset)
    server = EventService(settings, *lookups(grid.vocabulary, alike), lambda *_: True, MemoryMonitor())
    found = []
    for number, one in enumerate(dataset.subscriptions):
        tp = fp = fn = 0
        for place, event in enumerate(dataset.events):
            if grid.judged[number, place]:
                match, relevant = server.match(event, one), bool(grid.relevant[number, place])
                tp, fp, fn = tp + (match and relevant), fp + (match and not relevant), fn + (relevant and not match)
        found.append(Counts(tp, fp, fn))
    return found


@pytest.mark.parametrize("operator", ["SM", "EQ", "ANY"])
@pytest.mark.parametrize("unmatched", ["ignore", "fail"])
def test_the_arrays_say_what_algorithm_1_says(operator, unmatched):
    dataset = generate(SMALL)
    grid = grid_of(dataset)
    for seed in range(3):
        alike = random_similarities(grid, seed)
        thresholds = [(0.0, 0.0), (0.4, 0.4), (0.5, 0.1), (1.0, 1.0)]
        for found, (names, values) in zip(
            sweep(grid, alike, thresholds, Policy(operator, unmatched)), thresholds, strict=True
        ):
            assert found == by_algorithm_1(dataset, Settings(names, values, operator, unmatched), alike)


def test_one_to_one_is_recados_own_assignment():
    dataset = generate(SMALL)
    grid = grid_of(dataset)
    alike = random_similarities(grid, 7)
    settings = SemanticSettings(threshold=0.3, assignment="one-to-one")
    found = sweep(grid, alike, [(0.3, 0.3)], Policy("ANY", "fail", "one-to-one"))[0]
    expected = []
    for number, wanted in enumerate(grid.wanted):
        places = np.flatnonzero(grid.judged[number])
        counted = Counts(0, 0, 0)
        for place in places:
            there = [name for name in grid.names[place] if name < len(grid.vocabulary.event_names)]
            values = alike.names[np.ix_([name for name, _ in wanted], there)]
            match, relevant = -1 not in choose(values, settings).chosen, grid.relevant[number, place]
            counted = Counts(
                counted.tp + int(match and relevant),
                counted.fp + int(match and not relevant),
                counted.fn + int(relevant and not match),
            )
        expected.append(counted)
    assert found == expected


def test_any_lets_every_attribute_that_is_alike_answer():
    dataset = generate(SMALL)
    grid = grid_of(dataset)
    alike = random_similarities(grid, 3)
    best, any_ = (sweep(grid, alike, [(0.5, 0.5)], Policy("SM", "fail", how))[0] for how in ("best", "any"))
    assert all(a.tp + a.fp >= b.tp + b.fp for a, b in zip(any_, best, strict=True))
    assert any_ != best


def test_a_seed_is_in_one_half():
    grid = grid_of(generate(SMALL))
    odd, even = halves(grid)
    assert not (odd.events & even.events).any()
    assert (odd.events | even.events).all()
    assert sorted((*odd.subscriptions, *even.subscriptions)) == list(range(len(grid.wanted)))
    assert set(grid.event_seeds[odd.events]) == {seed for seed in set(grid.event_seeds) if seed % 2}


def test_quality():
    found = [Counts(8, 2, 2), Counts(0, 0, 10), Counts(0, 0, 0)]
    assert (micro(found).precision, micro(found).recall) == (80, 40)
    assert (macro(found).precision, macro(found).recall) == (80, 40)
    assert macro(found).f == pytest.approx(2 * 80 * 40 / 120)
    assert (micro([]).f, macro([Counts(0, 0, 5)]).f) == (0, 0)


# -- the harness -------------------------------------------------------------------------------------------------------


def test_the_server_logs_its_three_points_and_the_end():
    dataset = generate(SMALL)
    monitor, receiver = MemoryMonitor(), Receiver()
    server = EventService(Settings(0.5, 0.5), lambda a, b: 1.0, lambda a, b: 1.0, receiver, monitor)
    load_subscriptions(server, dataset.subscriptions[:2])
    run_workload(server, dataset.events[:3])
    points = [record.point for record in monitor.records]
    assert points == ["subscription_in"] * 2 + ["event_in", "event_out", "event_out", "event_done"] * 3
    assert receiver.received == 6
    assert [record.matches for record in monitor.records if record.point == "event_done"] == [2, 2, 2]


def test_a_callback_that_fails_is_no_delivery_and_stops_nobody():
    dataset = generate(SMALL)
    monitor = MemoryMonitor()
    one, other = dataset.subscriptions[:2]
    server = EventService(
        Settings(0.5, 0.5), lambda a, b: 1.0, lambda a, b: 1.0, lambda id, event: id == other.id, monitor
    )
    load_subscriptions(server, (one, other))
    server.publish(dataset.events[0])
    assert [record.subscription for record in monitor.records if record.point == "event_out"] == [other.id]


def test_nobody_is_slower_than_the_offer():
    dataset = generate(SMALL)
    monitor = MemoryMonitor()
    server = EventService(Settings(0.5, 0.5), lambda a, b: 0.0, lambda a, b: 0.0, Receiver(), monitor)
    run_workload(server, dataset.events[:20], rate=1_000)
    rate, time_ms = rate_and_time(monitor.records)
    assert 0 < rate < 1_100
    assert time_ms > 0
    assert rate_and_time([]) == (0.0, 0.0)
    run_workload(server, dataset.events, seconds=0.0)
    assert sum(record.point == "event_in" for record in monitor.records) == 20


def test_spread_takes_from_all_over():
    items = list(range(10))
    assert spread(items, 5) == [0, 2, 4, 6, 8]
    assert spread(items, 0) == []
    assert len(spread(items, 25)) == 25
