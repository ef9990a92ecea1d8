"""Targets and pages from made-up records: arithmetic, wording, and what was not measured."""

import io

from msgspec.structs import replace
from rich.console import Console

from benchmarks.harness import Machine, Rate, judge, make_tables, markdown, number, rich_table
from benchmarks.matching import SUBJECT
from benchmarks.matching.report import Churn, FromText, Load, Matching, Peer, Snapshot, Updates

MILLION = 1_000_000
MACHINE = Machine("A processor", 2, 8.0, "Linux x86_64", "3.11.2", {"numpy": "2.4"})


def flat(rate):
    return Rate(best=rate, median=rate)


def matching(workload, size, **rest):
    record = Matching(
        case=f"{workload} {size:,}",
        workload=workload,
        subscriptions=size,
        checked=9,
        matches_per_event=7.0,
        candidates_per_event=70.0,
        candidates_per_match=10.0,
        build_seconds=1.5,
        bytes=100 * size,
        process_bytes=120 * size,
        batch_size=8_192,
        single=flat(30_000.0),
        slots=flat(40_000.0),
        batch=flat(400_000.0),
        batch_ids=flat(300_000.0),
        naive=flat(10.0),
    )
    return replace(record, **rest)


def peer(workload, size, name, ratio):
    return Peer(
        case=f"{workload} {size:,}", workload=workload, subscriptions=size, peer=name, version="1", rate=flat(1.0),
        single_ratio=ratio / 2, batch_ratio=ratio, build_seconds=0.1, bytes=5_000_000,
    )  # fmt: skip


GOOD = [
    MACHINE,
    matching("mix", 10_000),
    peer("mix", 10_000, "numpy bitset", 4.5),
    peer("mix", 10_000, "blocked bitset", 3.0),
    peer("mix", 10_000, "polars", 120.0),
    matching("mix", 100_000),
    peer("mix", 100_000, "numpy bitset", 5.0),
    matching("ranges", 100_000),
    peer("ranges", 100_000, "numpy bitset", 4.0),
    matching("boolean", 10_000),
    peer("boolean", 10_000, "python function", 60.0),
    matching("stock", MILLION),
    matching("wide", MILLION),
    matching("growth", 1_000),
    matching("growth", MILLION, slots=flat(8_000.0), batch=flat(50_000.0)),
    Updates("stock", MILLION, 5e-5, 2e-4, 1e-5, 5e-5),
    Snapshot("stock", MILLION, 10**8, 0.5, 0.01, 0.002),
    Load("stock", MILLION, 10**8, 19.0),
    matching("words", 100_000, single=flat(160_000.0), slots=flat(170_000.0), batch_ids=flat(800_000.0)),
    FromText("words", 100_000, flat(500_000.0), flat(300_000.0), flat(50_000.0)),
    Churn("churn", MILLION, 10_000.0, 600.0, 1_000.0, 800.0, 1_000.0),
]


def found(records):
    return {target.name: target for target in judge(SUBJECT, records)}


def test_every_target_is_met_by_good_records():
    results = found(GOOD)
    assert all(target.met for target in results.values()), [t for t in results.values() if not t.met]
    assert results["mix 10,000: batch against the NumPy bitset"].measured == "4.5 x (3 x against the blocked one)"
    assert results["mix 100,000: memory of the index"].measured == "10 MB"
    assert results["churn: slowdown by 10,000 changes a second"].measured == "1.67 x"
    assert results["stock 1,000,000: against the naive evaluator"].measured == "3,000 x"


def test_targets_that_are_missed():
    bad = [
        peer("mix", 10_000, "numpy bitset", 3.9),
        matching("ranges", 100_000, single=flat(4_999.0), bytes=101_000_000),
        peer("ranges", 100_000, "numpy bitset", 3.9),
        matching("stock", MILLION, naive=flat(31.0), bytes=201 * MILLION, batch_ids=flat(80_000.0)),
        matching("growth", 1_000),
        matching("growth", MILLION, slots=flat(3_000.0)),
        Load("stock", MILLION, 1, 21.0),
        Updates("stock", MILLION, 1e-4, 1.1e-3, 1e-4, 1.2e-3),
        Churn("churn", MILLION, 10_000.0, 400.0, 1_000.0, 800.0, 1_000.0),
    ]
    missed = {target.name for target in judge(SUBJECT, bad) if target.met is False}
    assert missed == {
        "mix 10,000: batch against the NumPy bitset",
        "ranges 100,000: batch against the NumPy bitset",
        "ranges 100,000: single events",
        "ranges 100,000: memory of the index",
        "stock 1,000,000: against the naive evaluator",
        "stock 1,000,000: batch against single events",
        "stock 1,000,000: bytes a subscription",
        "growth: cost of 1,000 times the subscriptions, single events",
        "1,000,000 subscriptions from NDJSON",
        "one insert among 1,000,000, 99 of 100",
        "one delete among 1,000,000, 99 of 100",
        "churn: slowdown by 10,000 changes a second",
    }


def test_fewer_changes_than_asked_miss_the_target():
    slow = found([Churn("churn", MILLION, 6_000.0, 900.0, 1_000.0, 900.0, 1_000.0)])
    target = slow["churn: slowdown by 10,000 changes a second"]
    assert target.met is False
    assert target.measured == "only 6,000 changes a second were possible"


def test_a_run_without_figures_measures_no_target():
    assert {target.met for target in judge(SUBJECT, [MACHINE])} == {None}


def test_the_page_has_the_command_the_machine_and_all_tables():
    records = [
        *GOOD,
        replace(peer("mix", 10_000, "duckdb", 1.0), rate=None, note="not | installed"),
        *judge(SUBJECT, GOOD),
    ]
    page = markdown(SUBJECT, records, "python -m benchmarks run matching")
    assert page.startswith(
        "# Matching, measured\n\n```\npython -m benchmarks run matching\n```\n\nA processor, 2 cores (one used), 8 GB"
    )
    for title in ("Engines", "Peers in the same run", "Growth at equal matches", "Changes, snapshots", "Targets"):
        assert f"### {title}" in page
    assert "| mix 10,000 | 7 | 30,000 | 40,000 | 400,000 | 8,192 | 10 | 10 | 3,000 | 10 | 1.5 | 100 |" in page
    assert "not \\| installed" in page
    assert "| one insert, median / 99% | 50 / 200 us |" in page


def test_tables_without_rows_are_left_out():
    assert [grid.title for grid in make_tables(SUBJECT, [MACHINE, matching("growth", 1_000)])] == [
        "Growth at equal matches per event"
    ]


def test_tables_on_a_terminal():
    out = io.StringIO()
    for grid in make_tables(SUBJECT, [*GOOD, *judge(SUBJECT, GOOD)]):
        Console(file=out, width=200).print(rich_table(grid))
    assert "against the Polars counting join" in out.getvalue()


def test_numbers_show_three_digits():
    assert [number(v) for v in (None, 0.03344, 7.0, 99.94, 1234567.0)] == ["", "0.0334", "7", "99.9", "1,234,567"]
