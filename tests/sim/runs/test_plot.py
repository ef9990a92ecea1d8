"""Plots: repeats become a point, what is not shown is not mixed up, the same rows draw the same file."""

import sys

import pytest

from recado.sim.runs.plot import (
    Estimate,
    Look,
    Point,
    Series,
    coinciding,
    draw,
    merge_equal,
    new_figure,
    select,
    series_of,
    styled,
)
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


def line(label, *ys, half_width=0.0):
    return Series(label, tuple(Point(x, Estimate(y, half_width, 3)) for x, y in enumerate(ys)))


def drawn(series, look=None):
    """The axes of a picture, and the figure that has to be laid out once."""
    from recado.sim.runs import plot  # what is not public is needed here alone

    with styled():
        figure, axes = new_figure(8.4)
        plot._draw_series(axes, series, look or Look("x", "y"))
        figure.draw_without_rendering()
    return figure, axes


def test_equal_lines_are_one_with_all_names():
    merged = merge_equal([line("a", 1, 2), line("b", 1, 3), line("c", 1, 2)])
    assert [one.label for one in merged] == ["a = c", "b"]


def test_lines_that_coincide_on_a_stretch_share_it():
    lines = [line("a", 1, 2, 3), line("b", 1, 2, 9), line("c", 5, 6, 7), line("d", 1, 6, 2)]
    assert coinciding(lines) == [[0, 1], [2], [3]]  # crossing in one point is not lying upon each other
    _, axes = drawn(lines)
    dashes = {one.get_label(): one._unscaled_dash_pattern for one in axes.lines}
    assert dashes["c"] == (0, None)
    (first, pattern), (second, same) = dashes["a"], dashes["b"]
    assert pattern == same == (3.0, 3.0)  # half of the way each,
    assert {first, second} == {0.0, 3.0}  # and not the same half
    sizes = {one.get_label(): one.get_markersize() for one in axes.lines}
    assert sizes["a"] > sizes["b"]


def test_bands_and_bars_of_counts_end_at_zero():
    _, axes = drawn([line("a", 1, 5, half_width=3.0), line("b", 2, 4, half_width=9.0)])
    for band in axes.collections:
        assert min(y for path in band.get_paths() for _, y in path.vertices) == 0
    assert axes.get_ylim()[0] == 0
    words = [Series("a", (Point("one", Estimate(1.0, 3.0, 3)), Point("two", Estimate(0.0, 0.0, 3))))]
    _, axes = drawn(words)
    assert min(y for bars in axes.collections for path in bars.get_paths() for _, y in path.vertices) == 0
    assert [text.get_text() for text in axes.texts] == ["0"]


def test_what_can_be_negative_keeps_its_interval():
    _, axes = drawn([line("a", -1, 5, half_width=3.0), line("b", 2, 4)])
    assert min(y for band in axes.collections for path in band.get_paths() for _, y in path.vertices) == -4


def test_the_legend_covers_no_data():
    figure, axes = drawn([line(f"a series of the name {name}", 1, name) for name in range(2, 9)])
    (legend,) = figure.legends
    assert axes.get_legend() is None
    assert legend.get_window_extent().x0 >= axes.get_window_extent().x1
