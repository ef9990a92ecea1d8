"""What stands around the measuring: timing, files of events, sessions, the memory of a process."""

import itertools
import os
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import harness
from benchmarks import pipeline as pipeline_subject
from benchmarks.baselines import UnsuitableError
from benchmarks.harness import Case, DisagreementError, Machine, Step, Target
from benchmarks.pipeline import DISAGREED, PARTS, SUBJECT, full_plan, quick_plan, sessions, start_child
from benchmarks.pipeline.compare import as_table, has_key
from benchmarks.pipeline.fixture import Cpu, Data, rate_of, spark_cpu, spark_processes, with_envelope, write_files
from benchmarks.pipeline.growth import WorkerState, mappings, since, state_here
from benchmarks.pipeline.report import Growth
from benchmarks.workloads import Mix, Stock, Wide
from recado.model.filter import Between, In, Not
from recado.model.subscription import Subscription


def test_a_run_grows_until_it_is_long_enough():
    asked = []

    def job(count):
        asked.append(count)
        return count / 1_000

    count, rate = rate_of(job, 10, 4.0, 3, lambda count: count)
    assert asked == [10, 10, 160, 2_560, 2_560, 2_560]
    assert (count, rate.best, rate.median) == (2_560, 1_000.0, 1_000.0)


def test_the_best_and_the_middle_run_are_told():
    seconds = iter([9.0, 4.0, 2.0, 8.0])
    _, rate = rate_of(lambda count: next(seconds), 8, 4.0, 3, lambda count: count)
    assert (rate.best, rate.median) == (4.0, 2.0)


def test_counts_are_fitted():
    times = itertools.chain([0.1, 0.1], itertools.repeat(9.0))
    assert rate_of(lambda count: next(times), 10, 1.0, 1, lambda count: -(-count // 64) * 64)[0] == 128


def test_events_are_a_prefix_in_files(tmp_path):
    data = Data(tmp_path, 100)
    folder = data.event_folder(Stock(size=10), 30)
    table = pq.read_table(folder)
    assert len(list(folder.iterdir())) == 8
    assert table["Price"].to_pylist() == Stock(size=10).events(100).column("Price").to_pylist()[:30]
    assert table["id"].to_pylist() == [f"e{number}" for number in range(30)]
    assert table.schema.field("time").type == pa.timestamp("us", "UTC")


def test_few_rows_make_few_files(tmp_path):
    write_files(tmp_path, with_envelope(Stock(size=10).events(3)))
    assert [pq.read_metadata(path).num_rows for path in sorted(tmp_path.iterdir())] == [1, 1, 1]


def test_more_events_are_whole_blocks(tmp_path):
    data = Data(tmp_path, 800)
    assert [data.fit(Stock(size=1), count) for count in (1, 800, 801, 1_700)] == [1, 800, 1_600, 2_400]
    assert data.block(Wide(size=1)) == 100


def test_subscriptions_are_published_once(tmp_path):
    data = Data(tmp_path, 10)
    data.subscriptions(Stock(size=5))
    assert data.subscriptions(Stock(size=5)).versions() == [1]


def test_subscriptions_as_columns():
    subscriptions = [
        Subscription("a", Between("i0", 1, 5)),
        Subscription("b", In("s0", ("x", "y"))),
    ]
    table = as_table(subscriptions, Mix(size=1).events(1).schema)
    assert table.to_pylist() == [
        {"subscription_id": "a", "s0_in": None, "i0_lo": 1, "i0_hi": 5},
        {"subscription_id": "b", "s0_in": ["x", "y"], "i0_lo": None, "i0_hi": None},
    ]
    assert not has_key(table)
    with pytest.raises(UnsuitableError):
        as_table([Subscription("c", Not(Between("i0", 1, 5)))], table.schema)


def test_stock_has_a_key_and_mix_has_none():
    for workload, key in ((Stock(size=20), True), (Mix(size=20), False)):
        assert has_key(as_table(workload.subscriptions(), workload.events(1).schema)) is key


def test_new_loads_are_told_from_old_ones():
    before = {1: WorkerState(1, 3, 0.5, 0, 0, 0)}
    after = {1: WorkerState(1, 4, 0.75, 7, 8, 9), 2: WorkerState(2, 1, 0.125, 0, 0, 0)}
    assert since(before, after) == [WorkerState(1, 1, 0.25, 7, 8, 9), WorkerState(2, 1, 0.125, 0, 0, 0)]


def test_the_memory_of_a_process_by_mapping(tmp_path):
    smaps = tmp_path / "smaps"
    smaps.write_text(
        "7f00-7f10 r--p 00000000 fe:01 1234    /data/set/index.recado\nRss:    8 kB\nPss:    4 kB\n"
        "VmFlags: rd mr\n7f20-7f30 rw-p 00000000 00:00 0 \nPrivate_Dirty:  12 kB\n"
    )
    assert list(mappings(str(smaps))) == [
        ("Rss", "/data/set/index.recado", 8192),
        ("Pss", "/data/set/index.recado", 4096),
        ("Private_Dirty", "", 12288),
    ]
    assert list(mappings(str(tmp_path / "none"))) == []
    assert state_here("/none").pid == os.getpid()


def test_cpu_time_of_the_jvm_and_of_what_is_below_it(tmp_path):
    tick = os.sysconf("SC_CLK_TCK")
    for pid, name, parent, seconds, ended in (
        (20, "java", 10, 5, 100),
        (30, "python3 (a) b", 20, 2, 1),
        (40, "python3", 30, 3, 0),
        (50, "python3", 10, 70, 0),
        (60, "java", 1, 70, 0),
    ):
        (tmp_path / str(pid)).mkdir()
        cpu = f"{seconds * tick} 0 {ended * tick} 0"
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 0 0 0 0 0 0 0 0 0 {cpu} 20 0 1\n")
    assert spark_cpu(tmp_path, parent=10) == Cpu(5.0, 6.0)
    assert Cpu(5.0, 6.0).since(Cpu(1.0, 2.0)) == Cpu(4.0, 4.0)
    assert spark_cpu(tmp_path / "none") == Cpu(0, 0)
    assert spark_processes(tmp_path, parent=10) == [30, 40]


def test_the_growth_curve_has_a_session_with_one_core():
    plan = full_plan()
    assert plan.parts == PARTS
    if plan.cores > 1:
        assert [(one.cores, one.parts) for one in sessions(plan)] == [(plan.cores, PARTS), (1, ("growth",))]
    assert sessions(quick_plan(("state",))) == [quick_plan(("state",))]


def test_extra_parts_have_sessions_of_their_own():
    assert [one.parts for one in sessions(quick_plan(("compare", "ways", "partitions")))] == [
        ("compare",),
        ("ways",),
        ("partitions",),
    ]


def test_a_run_is_the_machine_then_records_then_targets():
    def child(folder):
        assert folder.is_dir()
        yield Step("working")
        yield Growth(2, 1, 1, 1.0)

    steps = []
    found = list(harness.run(SUBJECT, [Case("", "starting", child)], steps.append))
    assert [type(record) for record in found[:3]] == [Machine, Growth, Target]
    assert {type(record) for record in found[3:]} == {Target}
    assert found[0].packages["pyspark"]
    assert steps == ["starting", "working"]


class FakeChild:
    """A child process that has said some lines and ended."""

    def __init__(self, lines, returncode):
        self.stdout, self.returncode = lines, returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def test_the_records_of_a_child_come_as_they_were(monkeypatch, tmp_path):
    commands = []

    def popen(command, **_):
        commands.append(command)
        return FakeChild([b'{"record":"growth","cores":2,"subscriptions":3,"events":4,"seconds":0.5}\n'], 0)

    monkeypatch.setattr(pipeline_subject.subprocess, "Popen", popen)
    assert list(start_child(quick_plan(), tmp_path)) == [Growth(2, 3, 4, 0.5)]
    assert commands[0][1:3] == ["-m", "benchmarks.pipeline.child"]


def test_a_disagreement_in_the_child_is_one_here(monkeypatch, tmp_path):
    (tmp_path / "disagreement").write_text("mix: not the same")
    monkeypatch.setattr(pipeline_subject.subprocess, "Popen", lambda *_, **__: FakeChild([], DISAGREED))
    with pytest.raises(DisagreementError, match="mix: not the same"):
        list(start_child(quick_plan(), tmp_path))


def test_a_child_that_fails_is_a_failure(monkeypatch, tmp_path):
    monkeypatch.setattr(pipeline_subject.subprocess, "Popen", lambda *_, **__: FakeChild([], 1))
    with pytest.raises(subprocess.CalledProcessError):
        list(start_child(quick_plan(), tmp_path))
