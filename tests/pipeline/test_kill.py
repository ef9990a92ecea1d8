"""Kill a stream's driver, executors or Python workers at random points: nothing is lost, nothing comes twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from recado.filters.expression import parse
from recado.model.subscription import Subscription
from recado.pipeline.sets import SubscriptionSet

HOURLY = ({"kind": "frequency", "amount": 1, "unit": "hours"},)
PATIENCE = 240


def feed(folder, files, rows):
    """Events in files, one each minute; every fourth row is no event."""
    folder.mkdir()
    for number in range(files):
        lines = []
        for row in range(rows):
            n = number * rows + row
            time_of_day = f"{n // 60 % 24:02d}:{n % 60:02d}:00Z"
            lines.append(json.dumps({"id": f"e{n}", "x": n, "time": f"2026-11-{1 + n // 1440:02d}T{time_of_day}"}))
            if n % 4 == 3:
                lines.append(f"{{bad {n}")
        path = folder / f"{number:05d}.ndjson"
        path.write_text("\n".join(lines))
        os.utime(path, (1_790_000_000 + number, 1_790_000_000 + number))  # Spark takes files by age


def start(tmp_path, master="local[2]", *more):
    command = [
        sys.executable, "-c", "import sys; from recado.cli.app import main; sys.exit(main())",
        "pipeline", "stream", tmp_path / "set", tmp_path / "in", "--out", tmp_path / "out", "--checkpoint",
        tmp_path / "state", "--once", "--most", "1", "--format", "ndjson", "--master", master, "--quiet", "--rows",
        "--conf", "spark.sql.shuffle.partitions=2", *more,
    ]  # fmt: skip
    return subprocess.Popen([str(c) for c in command], start_new_session=True, stdout=subprocess.PIPE, text=True)


def batches(tmp_path):
    return len(list((tmp_path / "out").glob("batch=*")))


def kill_at_random(tmp_path, drawn, *more):
    """Let it finish at least one more micro-batch, then kill driver and JVM at once."""
    process = start(tmp_path, "local[2]", *more)
    before = batches(tmp_path)
    deadline = time.monotonic() + PATIENCE
    while batches(tmp_path) == before and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(drawn.random() * 1.5)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert batches(tmp_path) > before


PLAIN = "--conf", "spark.sql.codegen.wholeStage=false", "--conf", "spark.sql.codegen.factoryMode=NO_CODEGEN"
"""A handful of rows takes less than to compile what is run on them; the long tests have Spark's own settings."""


def run_with_kills(tmp_path, kills, files, rows, *more):
    prepare(tmp_path, files, rows)
    drawn = random.Random(7)
    for _ in range(kills):
        kill_at_random(tmp_path, drawn, *more)
    finish(start(tmp_path, "local[2]", *more), files)
    check(tmp_path, files * rows)


def prepare(tmp_path, files, rows):
    feed(tmp_path / "in", files, rows)
    even = Subscription("even", parse("x >= 0"))
    SubscriptionSet(tmp_path / "set").publish([even, Subscription("hourly", parse("x >= 0"), constraints=HOURLY)])


def finish(process, files):
    output, _ = process.communicate(timeout=PATIENCE + 20 * files)  # a micro-batch takes seconds where others work too
    assert process.returncode == 0, output


def check(tmp_path, count):
    """What was written is what there is to write, once each."""
    found = ds.dataset(tmp_path / "out", partitioning="hive").to_table(columns=["event_id", "subscription_id"])
    got = Counter(zip(found["event_id"].to_pylist(), found["subscription_id"].to_pylist(), strict=True))
    wanted = Counter({(f"e{n}", "even"): 1 for n in range(count)})
    wanted += Counter({(f"e{n}", "hourly"): 1 for n in range(0, count, 60)})
    assert wanted - got == Counter(), "lost"
    assert got - wanted == Counter(), "duplicated or unexpected"
    bad = ds.dataset(f"{tmp_path / 'out'}-rejected", partitioning="hive").to_table(columns=["row"])["row"].to_pylist()
    assert sorted(bad) == sorted(f"{{bad {n}" for n in range(3, count, 4))


# -- executors


EXECUTORS = "local-cluster[2,1,1024]", "--conf", "spark.task.maxFailures=50", "--conf", "spark.executor.memory=512m"


EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
WORKER = "recado.pipeline.daemon"


def members(process, what):
    """The processes of a driver's session whose command line has a word; Python workers have a group of their own."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it ends while we look
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if what in words and os.getsid(int(folder.name)) == process.pid:
                    found.append(int(folder.name))
    return found


def kill_some(process, drawn, kills, until):
    """Kill executors, and Python workers of theirs, as long as the driver runs; how many of each."""
    killed = Counter()
    deadline = time.monotonic() + until
    while sum(killed.values()) < kills and process.poll() is None and time.monotonic() < deadline:
        what = drawn.choice([EXECUTOR, EXECUTOR, WORKER])
        if victims := members(process, what):
            with suppress(ProcessLookupError):
                os.kill(drawn.choice(victims), signal.SIGKILL)
                killed[what] += 1
        time.sleep(1 + 4 * drawn.random())
    return killed


def run_with_dead_executors(tmp_path, kills, files, rows, drivers=0):
    """The driver goes on by itself; ``drivers`` says how often it is killed as well, with all that it has."""
    prepare(tmp_path, files, rows)
    drawn = random.Random(11)
    killed = Counter()
    for turn in range(drivers + 1):
        process = start(tmp_path, *EXECUTORS)
        before = batches(tmp_path)
        deadline = time.monotonic() + PATIENCE
        while batches(tmp_path) == before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        killed += kill_some(process, drawn, kills, PATIENCE)
        if turn < drivers:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    finish(process, files)
    assert killed[EXECUTOR] > 0
    check(tmp_path, files * rows)
    return killed


@pytest.mark.timeout(600)
def test_a_kill(tmp_path):
    run_with_kills(tmp_path, 1, 3, 80, *PLAIN)


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_twenty_kills(tmp_path):
    run_with_kills(tmp_path, kills=20, files=60, rows=700)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_executors_that_are_killed(tmp_path):
    killed = run_with_dead_executors(tmp_path, kills=6, files=8, rows=200)
    assert sum(killed.values()) >= 4


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_executors_and_drivers_that_are_killed(tmp_path):
    run_with_dead_executors(tmp_path, kills=4, files=20, rows=200, drivers=3)
