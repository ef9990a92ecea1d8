"""The semantic experiment: its files fit together, and a quick run of it gives the whole report."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from experiments.base import load
from experiments.cli import main
from experiments.expected import ExperimentError, judge
from experiments.semantics.dataset import QUICK, Size, generate
from experiments.semantics.grid import Counts, Policy, as_printed, as_recado, as_text, document_measure, grid_of, sweep
from experiments.semantics.languages import NOT_RUN, VARIABLE, inputs, languages, portuguese
from experiments.semantics.logs import lookups
from experiments.semantics.measure import measure
from experiments.semantics.own import CONFIGURATIONS, FAIL, SAME, best, evaluate
from experiments.semantics.reproduction import PUBLISHED, THRESHOLDS
from experiments.semantics.speed import SUBSCRIBERS, mean_of_words
from recado.semantics.engine import Semantics
from recado.semantics.settings import SemanticSettings

EXPERIMENT = load("semantics")
SMALL = Size(seeds=16, variants=4, subscription_seeds=6, subscription_variants=2)


@pytest.fixture(autouse=True)
def no_portuguese(monkeypatch, tmp_path):
    """What the user of this machine has imported is none of the tests' business."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("RECADO_DATA", str(tmp_path / "data"))


# -- what is published -------------------------------------------------------------------------------------------------


def test_all_published_rows_are_there():
    rows = EXPERIMENT.expected().rows
    quality = [row for row in rows if "F" in row.published]
    assert (len(quality), len(rows) - len(quality)) == (98, 16)
    for row in quality:
        p, c, f = (row.published[letter] for letter in "PCF")
        assert f == pytest.approx(2 * p * c / (p + c) if p + c else 0, abs=0.001)  # the document's own arithmetic (8.5)


def test_every_row_has_its_measurement():
    names = {f"{method}.{word}.{threshold:g}" for method, word in PUBLISHED for threshold in THRESHOLDS}
    names |= {f"speed.{word}.{count}" for word in ("on", "off") for count in SUBSCRIBERS}
    assert {row.measure for row in EXPERIMENT.expected().rows} <= names


def test_a_row_is_judged_by_its_columns_and_is_never_a_surprise():
    expected = EXPERIMENT.expected()
    row = next(row for row in expected.rows if row.id == "6.1-0.15")
    near = {"mean.jcn.0.15.P": 50, "mean.jcn.0.15.C": 91, "mean.jcn.0.15.F": 66}
    for numbers, verdict in (
        (near, "holds"), (near | {"mean.jcn.0.15.C": 80}, "differs"), ({}, "not measured"),
    ):  # fmt: skip
        judged = judge(row, numbers, columns=expected.columns)
        assert (judged.verdict, judged.surprising) == (verdict, False)
    speed = next(row for row in expected.rows if row.id == "7.1-50")
    assert judge(speed, {"speed.on.50.rate": 300, "speed.on.50.time": 2}, columns=expected.columns).verdict == "holds"


# -- similarities ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    grid = grid_of(generate(SMALL))
    return grid, Semantics()


def test_the_plain_loop_of_the_document_gives_the_measures_numbers(small):
    grid, semantics = small
    words = grid.vocabulary
    expected = as_printed(semantics, words, document_measure(semantics, "mean", "jcn"))
    for cache in (False, True):
        alike = mean_of_words(semantics, cache)
        found = [[alike(a, b) for b in words.event_values] for a in words.wanted_values]
        assert np.abs(expected.values - found).max() < 1e-9
        assert alike("measurement unit", "measurement unit") == pytest.approx(0.5562, abs=1e-3)


def test_equal_names_are_equal_in_recado_and_less_than_that_as_printed(small):
    grid, semantics = small
    words = grid.vocabulary
    row, column = words.wanted_names.index("measurement unit"), words.event_names.index("measurement unit")
    printed = as_printed(semantics, words, document_measure(semantics, "mean", "jcn"))
    ours = as_recado(semantics, words, SemanticSettings(measure="mean", options={"mode": "all"}))
    assert (round(printed.names[row, column], 3), ours.names[row, column]) == (0.556, 1.0)


def test_clipped_resnik_is_never_below_the_scaled_one(small):
    grid, semantics = small
    scaled, clipped = (
        as_printed(semantics, grid.vocabulary, document_measure(semantics, "mean", word)).names
        for word in ("res", "res-clipped")
    )
    assert (clipped >= scaled - 1e-9).all()
    assert clipped.max() <= 1


def test_equality_baselines(small):
    words = small[0].vocabulary
    exact, bare = as_text(words), as_text(words, bare=True)
    assert (bare.values >= exact.values).all()
    assert set(exact.names.ravel()) <= {0.0, 1.0}


def test_the_arrays_choose_what_recado_aligns(small):
    """The same names and attributes through ``Semantics.align``."""
    dataset = generate(SMALL)
    grid, semantics = small
    settings = SemanticSettings(measure="feng", threshold=0.3, envelope=True)
    names, _ = lookups(grid.vocabulary, as_recado(semantics, grid.vocabulary, settings))
    for one in dataset.subscriptions[::3]:
        for event in dataset.events[::7]:
            attributes = [name for name, _ in event.pairs]
            found = semantics.align([name for name, _ in one.pairs], attributes, settings)
            for pair in found.pairs:
                scores = [names(pair.constraint, attribute) for attribute in attributes]
                chosen = attributes[scores.index(max(scores))] if max(scores) > 0.3 else None
                assert pair.attribute == (pair.constraint if pair.constraint in attributes else chosen)


def test_the_best_threshold_is_the_first_of_the_highest_f():
    found = [[Counts(1, 9, 9)], [Counts(5, 5, 5)], [Counts(5, 5, 5)]]
    assert best(found, SAME[:3]) == SAME[1]


def test_a_configuration_that_cannot_be_loaded_says_why_and_others_go_on(monkeypatch):
    from recado.errors import RecadoError

    def missing():
        raise RecadoError("no model: install it")

    monkeypatch.setattr("recado.semantics.measures.registry.load_model", missing)
    chosen = [one for one in CONFIGURATIONS if one.name in ("embedding", "token-set")]
    found = evaluate(generate(SMALL), ("eng",), chosen)
    assert found["embedding.missing"] == "no model: install it"
    assert found["token-set.F"] > 0


def test_a_threshold_that_is_given_is_not_chosen():
    shipped = next(one for one in CONFIGURATIONS if one.name == "hybrid, as shipped")
    assert shipped.thresholds == ((SemanticSettings().limit,) * 2,)
    assert shipped.policy == FAIL


# -- languages ---------------------------------------------------------------------------------------------------------


def test_without_a_portuguese_lexicon_the_variant_is_not_run():
    assert languages(True) == {"not run": NOT_RUN}
    assert inputs().endswith("none")


def test_a_file_of_portuguese_words_is_imported_for_the_experiment_alone(monkeypatch, tmp_path):
    file = tmp_path / "wn-data-por.tab"
    file.write_text("# Test\tpor\thttp://example.org\tCC BY\n08544813-n\tlemma\tpaís\n", encoding="utf-8")
    before = inputs()
    monkeypatch.setenv(VARIABLE, str(file))
    assert inputs() != before
    with portuguese() as there:
        assert there
        alike = Semantics().similarity("país", "country", SemanticSettings(measure="mean", languages=("eng", "por")))
    assert alike == 1.0
    monkeypatch.delenv(VARIABLE)
    with portuguese() as there:
        assert not there


def test_a_file_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nothing.tab"))
    with pytest.raises(ExperimentError, match=f"{VARIABLE} names .*nothing.tab, which cannot be read"):
        inputs()


# -- a whole run -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("semantics")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)
        patch.setenv("RECADO_DATA", str(folder / "data"))
        code = main(["run", "semantics", "--quick", "--out", str(folder), "--quiet", "--json"])
        yield code, folder


@pytest.mark.long
def test_a_quick_run_has_no_surprises(quick_run, capsys, monkeypatch):
    code, folder = quick_run
    monkeypatch.setenv("RECADO_DATA", str(folder / "data"))
    assert code == 0
    assert main(["report", "semantics", "--quick", "--out", str(folder), "--json"]) == 0
    *lines, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    verdicts = {line["id"]: line["verdict"] for line in lines}
    assert (verdicts["S1"], verdicts["R3"]) == ("holds", "holds")
    assert verdicts["R2"] == "not measured"  # there is no Portuguese lexicon here
    assert last["summary"]["not measured"] < 20


@pytest.mark.long
def test_the_report_is_whole(quick_run):
    folder = quick_run[1] / "report"
    text = (folder / "report.md").read_text()
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert {Path(picture).stem for picture in pictures} > {"mean-f", "feng-precision", "own-f", "plain", "rate", "time"}
    assert all((folder / picture).is_file() for picture in pictures)
    assert "| 6.1-0.15 | mean, Jiang & Conrath, threshold 0.15 | 49.8 |" in text
    assert "Not run: there is no Portuguese lexicon" in text


@pytest.mark.long
def test_numbers_of_a_run(quick_run, monkeypatch):
    from experiments.run import read_all

    monkeypatch.setenv("RECADO_DATA", str(quick_run[1] / "data"))
    results = read_all(EXPERIMENT, quick_run[1], quick=True)
    numbers = measure(results)
    assert numbers["reproduction.share"] == pytest.approx(30, abs=2)
    assert numbers["logs.difference"] < 1e-9
    assert numbers["best.F"] > numbers["own.equal names.F"]
    alone = sweep(grid_of(generate(QUICK)), as_text(grid_of(generate(QUICK)).vocabulary), [(0.5, 0.5)], Policy("EQ"))
    assert len(alone[0]) == numbers["reproduction.subscriptions"]
