"""The experiment on mobility: a quick run holds every line of the document that a quick run can tell."""

import pytest

from experiments.base import Results, load
from experiments.expected import judge
from experiments.mobility.town import DELAY, Town, percentile
from experiments.report import write_report


@pytest.fixture(scope="module")
def results():
    experiment = load("mobility")
    return Results({}, {name: study(True) for name, study in experiment.studies.items()}, True)


def test_every_line_holds(results):
    experiment = load("mobility")
    measured = experiment.measure(results)
    judged = [judge(line, measured, quick=True) for line in experiment.expected().lines]
    assert [one.line.id for one in judged if one.verdict == "differs"] == []
    unknown = [one.line.id for one in judged if one.verdict == "not measured" and one.line.quick]
    assert unknown == []


def test_the_report_is_written(results, tmp_path):
    written = write_report(load("mobility"), results, tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert written.surprises == []
    assert "| B3 |" in text
    assert (tmp_path / "losses.svg").exists()


def test_a_notification_takes_two_delays_from_publisher_to_device():
    town = Town()
    town.subscribe()
    began = town.simulation.now
    town.publish()
    town.run(1)
    assert [now - began for now, _, _ in town.heard] == [pytest.approx(2 * DELAY)]


def test_percentiles_of_nothing():
    assert percentile([], 95) == 0.0
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
