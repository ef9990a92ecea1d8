"""Targets, tables, page and picture from made-up records, without Spark."""

import io
import sys

from msgspec.structs import replace
from rich.console import Console

from benchmarks.harness import Machine, Rate, judge, make_tables, markdown, rich_table, write_page
from benchmarks.pipeline import SUBJECT
from benchmarks.pipeline.report import (
    EXCHANGE,
    HASH_JOIN,
    IMAGE,
    LOOP_JOIN,
    OWN_READER,
    PACKED,
    PARTITIONED,
    RECADO,
    ROWS_BEFORE,
    RULES,
    SINGLE,
    SPARKS_READER,
    Cost,
    Growth,
    Kernel,
    Loading,
    Outcome,
    Partitioning,
    Side,
    State,
    StateWay,
)


def rate(best):
    return Rate(best, best / 2)


def side(name, best, workload="mix", size=100_000):
    return Side(workload, size, name, 2, 40, 1_000, rate(best))


STOCK = Kernel("stock", 1_000_000, 2, 500_000, 161.0, rate(50_000), rate(40_000), rate(70_000), rate(49_000))
RECORDS = [
    Machine("A processor", 2, 8.0, "Linux x86_64", "3.11.2", {"pyspark": "4.3.0"}),
    side(RECADO, 120_000.0),
    side(LOOP_JOIN, 20.0),
    side(RULES, 200.0),
    side(RECADO, 90_000.0, "stock"),
    side(HASH_JOIN, 30_000.0, "stock"),
    STOCK,
    replace(STOCK, workload="wide", spark=rate(30_000)),
    Cost("wide", 1_000_000, "columns", EXCHANGE, 500_000, rate(40_000), 40e-6, 2e-6),
    *(
        Growth(cores, size, events, events / 1e5 / cores)
        for cores in (1, 2)
        for size in (10_000, 100_000)
        for events in (100_000, 1_000_000)
    ),
    Loading(2, 1_000_000, 80, 2, 3, 6, 3, 0.05, 150_000_000, 400_000_000, 280_000_000, 140_000_000),
    State(2, 100_000, 6, 1_200_000, 600_000, 50_000.0, 9.0, 4.0, 256, 5_000_000, 12_000_000),
]


def outcome(output, seconds, workload="stock", form="columns", reader=SPARKS_READER):
    return Outcome(workload, 1_000_000, form, output, reader, 2, 500_000, 20e-6, 20e-6, seconds, 10e-6, 30e-6)


def test_targets_are_ratios_of_the_run():
    outcomes = [
        outcome("rows", 32e-6),
        outcome(ROWS_BEFORE, 64e-6),
        outcome("nested", 20e-6),
        outcome("ordinals", 16e-6),
        outcome("ordinals", 18e-6, reader=OWN_READER),
        outcome("rows", 10e-6, workload="wide"),  # rows are not what is asked for
        outcome("nested", 20e-6, workload="wide"),
        outcome("nested", 15e-6, workload="wide", reader=OWN_READER),
        outcome("nested", 12.5e-6, workload="wide", form="JSON"),
    ]
    found = judge(SUBJECT, [*RECORDS, *outcomes])
    assert [(target.required, target.measured, target.met) for target in found] == [
        ("at least 100 x", "600 x", True),
        ("at least 60%", "63% (ordinals, Spark's reader; 50% of the CPU time)", True),
        ("at least 60%", "67% (nested, row groups by workers; 50% of the CPU time)", True),
        ("at least 80%", "80% (nested, Spark's reader; 50% of the CPU time)", True),
        ("at least 1.7 x", "2 x", True),
    ]
    assert "better of nested-loop join and Python rules" in found[0].name


def test_what_was_not_measured_says_so():
    quick = [
        side(RECADO, 9.0, size=4_000),
        side(RULES, 1.0, size=4_000),
        replace(outcome("rows", 1.0), subscriptions=2),
    ]
    assert [(target.measured, target.met) for target in judge(SUBJECT, quick)] == [("", None)] * 5
    assert [target.met for target in judge(SUBJECT, [side(RECADO, 9.0)])] == [None] * 5


def test_the_page_has_all_tables():
    pictures = {"Growth": f"![Events a second over events]({IMAGE.as_posix()})"}
    records = [*RECORDS, *judge(SUBJECT, RECORDS)]
    page = markdown(SUBJECT, records, "python -m benchmarks run pipeline", pictures)
    assert page.startswith(
        "# The pipeline, measured\n\n```\npython -m benchmarks run pipeline\n```\n\nA processor, 2 cores, 8 GB"
    )
    for line in (
        "| mix 100,000 | recado | 2 | 1,000 | 120,000 | 600 x the better one | 40 |",
        "| mix 100,000 | nested-loop join | 2 | 1,000 | 20 | 6,000 x | 40 |",
        "| stock 100,000 | hash join | 2 | 1,000 | 30,000 | 3 x | 40 |",
        "| stock 1,000,000, columns | 161 | 50,000 | 40,000 | 70,000 | 49,000 | 2 | 61% | 70% |",
        "| wide 1,000,000, columns | and notifications back, ready made | 40,000 | 40 | 2 | 42 |",
        "| subscriptions | events | s on 1 core | events/s on 1 core | s on 2 cores | events/s on 2 cores |",
        "| 100,000 | 1,000,000 | 10 | 100,000 | 5 | 200,000 |",
        "| 2 | 3 | 80 | 2 | 6 | 3 | 0.05 | 150 | 280 | 140 | 400 |",
        "| 100,000 | 6 | 1,200,000 | 600,000 | 50,000 | 4 | 9 | 256 | 5 | 12 |",
    ):
        assert line in page
    assert f"({IMAGE.as_posix()})" in page


def test_the_picture_lies_beside_the_page_and_is_repeatable(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_page(SUBJECT, RECORDS, "python -m benchmarks run pipeline", tmp_path / folder / "page.md")
    pictures = [(tmp_path / folder / IMAGE).read_text() for folder in ("a", "b")]
    assert pictures[0] == pictures[1]
    assert "100,000 subscriptions, 2 cores" in pictures[0]


def test_a_run_without_growth_has_no_picture(tmp_path):
    write_page(SUBJECT, RECORDS[:6], "python -m benchmarks run pipeline", tmp_path / "page.md")
    assert not (tmp_path / IMAGE).exists()
    assert "images" not in (tmp_path / "page.md").read_text()


def test_growth_on_one_number_of_cores_leaves_cells_empty():
    points = [Growth(1, 10_000, 100_000, 2.0), Growth(2, 10_000, 1_000_000, 4.0)]
    (grid,) = make_tables(SUBJECT, points)
    assert grid.rows == [
        ("10,000", "100,000", "2", "50,000", "", ""),
        ("10,000", "1,000,000", "", "", "4", "250,000"),
    ]


def test_ways_and_partitions_stand_beside_ours():
    ways = [StateWay(way, 0, 2, 1_000, cpu, 1.0, 9, 8, 10**6) for way, cpu in ((PACKED, 2.0), ("key, rows", 8.0))]
    single = Partitioning("stock", 10, SINGLE, 100, 1.0, 10**6, 10**6, 10**6, 1.0, 1.0, 2.0, 7)
    parts = replace(single, way=PARTITIONED, cpu_seconds=4.0, visits=2.5)
    way_grid, partition_grid = make_tables(SUBJECT, [*ways, single, parts])
    assert [row[4] for row in way_grid.rows] == ["1", "4"]
    assert [row[9] for row in partition_grid.rows] == ["1", "0.5"]


def test_tables_on_a_terminal():
    out = io.StringIO()
    for grid in make_tables(SUBJECT, [*RECORDS, *judge(SUBJECT, RECORDS)]):
        Console(file=out, width=250).print(rich_table(grid))
    assert "600 x the better one" in out.getvalue()


def test_pages_need_no_spark():
    import subprocess

    code = "import sys, benchmarks.pipeline; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
