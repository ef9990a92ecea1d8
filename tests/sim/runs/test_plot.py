"""Plots: repeats become a point, what is not shown is not mixed up, the same rows draw the same file."""

import sys

import pytest

from recado.sim.runs.plot import Look, draw, select, series_of
from recado.sim.runs.scenario import ScenarioError

ROWS = [
    {"configuration": "base", "run": run, "topology.nodes": nodes, "topology.kind": kind, "messages": nodes + run}
    for kind in ("line", "ring")
    for nodes in (20, 10)
    for run in range(3)
]  # fmt: skip


def test_repeats_become_a_point_with_an_interval():
    lines = series_of(ROWS, "topology.nodes", "messages", ["topology.kind"])
    assert [line.label for line in lines] == ["line", "ring"]
    assert [(point.x, point.y.mean, point.y.count) for point in lines[0].points] == [(10, 11, 3), (20, 21, 3)]
    assert lines[0].points[0].y.half_width == pytest.approx(4.3027 / 3**0.5, rel=1e-4)


def test_what_is_not_shown_may_not_differ():
    with pytest.raises(ScenarioError, match=r"differ in topology.kind \('line', 'ring'\): add it to --by"):
        series_of(ROWS, "topology.nodes", "messages")
    chosen = select(ROWS, 'topology.kind == "ring"')
    assert len(series_of(chosen, "topology.nodes", "messages")) == 1


def test_parameters_that_follow_from_what_is_shown_may_differ():
    rows = [{**row, "workload.types": row["topology.nodes"]} for row in ROWS]
    assert series_of(rows, "topology.nodes", "messages", ["topology.kind"])


def test_columns_and_rows_that_are_not_there():
    with pytest.raises(ScenarioError, match=r"there is no column 'mesages'; the columns are configuration, run"):
        series_of(ROWS, "topology.nodes", "mesages")
    with pytest.raises(ScenarioError, match=r"no row has topology.nodes > 99"):
        select(ROWS, "topology.nodes > 99")
    with pytest.raises(ScenarioError, match="--where: "):
        select(ROWS, "topology.nodes >")


def test_words_on_the_x_axis_keep_their_order():
    rows = select(ROWS, "topology.nodes == 10")
    assert [point.x for point in series_of(rows, "topology.kind", "messages")[0].points] == ["line", "ring"]


@pytest.mark.parametrize("x", ["topology.nodes", "topology.kind"])
def test_the_same_rows_draw_the_same_file(tmp_path, x):
    by = ["topology.kind"] if x == "topology.nodes" else ["topology.nodes"]
    lines = series_of(ROWS, x, "messages", by)
    for name in ("one", "two"):
        draw(lines, Look(x, "messages", "A title", log_y=True), [tmp_path / f"{name}.svg", tmp_path / f"{name}.png"])
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert "A title" in (tmp_path / "one.svg").read_text()
    assert (tmp_path / "one.png").read_bytes()[:4] == b"\x89PNG"


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(ScenarioError, match=r"plots are written as .svg or .png"):
        draw(series_of(ROWS[:3], "topology.nodes", "messages"), Look("x", "y"), [tmp_path / "plot.pdf"])


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ScenarioError, match=r"pip install 'recado\[sim\]'"):
        draw([], Look("x", "y"), [tmp_path / "plot.svg"])
