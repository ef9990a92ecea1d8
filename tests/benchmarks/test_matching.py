"""The harness from end to end on tiny sizes: what it measures is not asserted, that it checks and reports is."""

import gc
import sys
from functools import partial

import msgspec
import pytest

from benchmarks import baselines, harness, oracle, timing
from benchmarks.baselines import BATCH_BASELINES, EVENT_BASELINES
from benchmarks.harness import Case, DisagreementError
from benchmarks.matching import NAMES, SUBJECT, full_plan, measure, quick_plan
from benchmarks.matching.measure import Plan, Settings
from benchmarks.matching.report import Churn, FromText, Load, Matching, Peer, Snapshot, Updates
from benchmarks.workloads import Boolean, Mix, Sensor, Stock, TextMatch, Wide, Words, growth

TINY = Settings(
    seconds=0.01, sample_subscriptions=60, sample_events=4, updates=20, churn_seconds=0.02, churn_rate=2_000
)


def tiny(name, workload, **rest):
    return Plan(name=name, workload=workload, naive_events=2, single_events=20, batch_events=64, batch_size=32, **rest)


@pytest.mark.parametrize(
    "case",
    [
        tiny("sensor", Sensor(size=60)),
        tiny("mix", Mix(size=60), peers=("numpy bitset", "python function")),
        tiny("wide", Wide(size=60, share=1e-3, words=4)),
        tiny("text", TextMatch(size=60)),
        tiny("boolean", Boolean(size=60), peers=("numpy bitset",)),
        tiny("growth", growth(60)),
    ],
    ids=lambda case: case.name,
)
def test_a_case_is_checked_and_measured(case):
    first, *others = measure.run_case(case, TINY)
    assert isinstance(first, Matching)
    assert first.case == case.workload.title
    assert first.checked > 0
    assert min(first.single.best, first.slots.best, first.batch.best, first.batch_ids.best, first.naive.best) > 0
    assert first.single.best >= first.single.median
    assert first.bytes > 0
    assert [other.peer for other in others] == list(case.peers)
    assert all((other.rate is None) == bool(other.note) for other in others)


def test_extras_come_with_the_case():
    case = tiny("stock", Stock(size=80, symbols=4), extras=("updates", "snapshot", "load"))
    kinds = [type(record) for record in measure.run_case(case, TINY)]
    assert kinds == [Matching, Updates, Snapshot, Load]


def test_churn_applies_changes_and_keeps_the_size():
    case = tiny("churn", Stock(size=500, symbols=4), extras=("churn",))
    (record,) = measure.run_case(case, TINY)
    assert isinstance(record, Churn)
    assert record.changes_per_second > 0
    assert record.slowdown > 0


def test_a_wrong_engine_stops_the_benchmark(monkeypatch):
    monkeypatch.setattr(oracle.Index, "match", lambda self, event: ["s1"])
    with pytest.raises(DisagreementError, match=r"sensor 60: index disagrees with the oracle on event \d"):
        list(measure.run_case(tiny("sensor", Sensor(size=60)), TINY))


def test_a_wrong_peer_stops_the_benchmark(monkeypatch):
    monkeypatch.setattr(EVENT_BASELINES["python function"], "match", lambda self, event: [0, 0])
    with pytest.raises(DisagreementError, match="python function disagrees"):
        list(measure.run_case(tiny("mix", Mix(size=60), peers=("python function",)), TINY))


def test_a_peer_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(measure, "version_of", lambda package: "")
    _, peer = measure.run_case(tiny("mix", Mix(size=60), peers=("polars",)), TINY)
    assert isinstance(peer, Peer)
    assert peer.rate is None
    assert peer.note == "polars is not installed; --peers installs it"


def test_texts_are_compared_and_timed():
    case = tiny("words", Words(size=200), extras=("texts",))
    *_, found = measure.run_case(case, TINY)
    assert isinstance(found, FromText)
    assert min(found.columns.best, found.with_ids.best, found.one_by_one.best) > 0


def test_the_plans_cover_every_workload():
    for plan in (full_plan, quick_plan):
        assert {case.name for case in plan()} == set(NAMES)
        assert all(peer in BATCH_BASELINES or peer in EVENT_BASELINES for case in plan() for peer in case.peers)
    sizes = {(case.name, case.workload.size) for case in full_plan()}
    assert {("sensor", 1_000_000), ("stock", 1_000_000), ("mix", 100_000), ("wide", 1_000_000)} <= sizes
    assert {("text", 100_000), ("boolean", 100_000), ("churn", 1_000_000), ("growth", 1_000)} <= sizes


def test_select_by_workload_and_title():
    assert {case.part for case in SUBJECT.select(True, ("mix", "growth"))} == {"mix", "growth"}
    assert len(SUBJECT.select(True)) == len(list(quick_plan()))
    (case,) = SUBJECT.select(False, (), "1 match in 10,000")
    assert case.title == "wide 1,000,000, 1 match in 10,000"
    assert SUBJECT.select(False, ("mix",), "1 match in 10,000") == []


def test_a_run_in_a_process_of_its_own_streams_records_and_ends_with_targets():
    announced = []
    case = Case("mix", "a small mix", partial(measure.run_apart, tiny("mix", Mix(size=60)), TINY))
    records = list(harness.run(SUBJECT, [case], announced.append))
    assert announced == ["a small mix"]
    assert [type(record).__name__ for record in records[:2]] == ["Machine", "Matching"]
    assert {type(record).__name__ for record in records[2:]} == {"Target"}
    assert msgspec.json.decode(msgspec.json.encode(records[1]), type=Matching) == records[1]


def test_what_the_process_does():
    (record,) = measure._run(tiny("growth", growth(60)), TINY)
    assert isinstance(record, Matching)


def test_a_case_stays_on_one_core(monkeypatch):
    asked = []
    monkeypatch.setattr(timing.os, "sched_getaffinity", lambda process: {0, 3}, raising=False)
    monkeypatch.setattr(timing.os, "sched_setaffinity", lambda process, cores: asked.append(cores), raising=False)
    timing._stay_on_one_core()
    assert asked == [{3}]


def test_threads_are_limited_only_while_a_case_runs(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    with timing._environment(timing.ONE_THREAD):
        assert timing.os.environ["OMP_NUM_THREADS"] == timing.os.environ["POLARS_MAX_THREADS"] == "1"
    assert timing.os.environ["OMP_NUM_THREADS"] == "7"
    assert "POLARS_MAX_THREADS" not in timing.os.environ


@pytest.mark.parametrize("uv", [None, "/bin/uv"])
def test_missing_peers_are_installed_into_this_python(monkeypatch, uv):
    commands = []

    def run(command, **_):
        commands.append(command)
        return baselines.subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(baselines, "peer_packages", lambda: ["no-such-peer", "numpy"])
    monkeypatch.setattr(baselines.subprocess, "run", run)
    monkeypatch.setattr(baselines.shutil, "which", lambda name: uv)
    assert baselines.install_missing() == "installed no-such-peer"
    assert commands[0][-1] == "no-such-peer"
    assert sys.executable in commands[0]


def test_peers_that_cannot_be_installed_are_left_out(monkeypatch):
    failed = baselines.subprocess.CompletedProcess([], 1, "", "no network")
    monkeypatch.setattr(baselines, "peer_packages", lambda: ["no-such-peer"])
    monkeypatch.setattr(baselines.subprocess, "run", lambda *_, **__: failed)
    assert baselines.install_missing() == "could not install no-such-peer; they are left out\nno network"


def test_nothing_is_installed_when_nothing_is_missing(monkeypatch):
    monkeypatch.setattr(baselines, "peer_packages", lambda: ["numpy"])
    assert baselines.install_missing() == ""


def test_measure_visits_the_units_in_turn_with_the_collector_off():
    seen = []

    def step(number):
        assert not gc.isenabled()
        seen.append(number)

    rate = timing.measure(step, 3, 10, 0.001)
    assert gc.isenabled()
    assert set(seen) == {0, 1, 2}
    assert rate.best >= rate.median > 0


def test_a_slow_unit_is_run_fewer_times():
    clock = []
    timing.measure(lambda number: clock.append(timing.time.sleep(0.02)), 5, 1, 0.005)
    assert len(clock) == 2 + timing.FEW_RUNS


def test_the_machine_is_described():
    described = harness.describe(SUBJECT.packages)
    assert described.cpu
    assert described.packages["numpy"]
    assert set(baselines.peer_packages()) == {"polars", "duckdb", "rule-engine", "common-expression-language"}
