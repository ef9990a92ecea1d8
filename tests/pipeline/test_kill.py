"""Kill the driver of a stream at random points and start it again: nothing is lost, nothing comes twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

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


def start(tmp_path):
    command = [
        sys.executable, "-c", "import sys; from recado.cli.app import main; sys.exit(main())",
        "pipeline", "stream", tmp_path / "set", tmp_path / "in", "--out", tmp_path / "out", "--checkpoint",
        tmp_path / "state", "--once", "--most", "1", "--format", "ndjson", "--master", "local[2]", "--quiet",
        "--conf", "spark.sql.shuffle.partitions=2",
    ]  # fmt: skip
    return subprocess.Popen([str(c) for c in command], start_new_session=True, stdout=subprocess.PIPE, text=True)


def batches(tmp_path):
    return len(list((tmp_path / "out").glob("batch=*")))


def kill_at_random(tmp_path, drawn):
    """Let it finish at least one more micro-batch, then kill driver and JVM at once."""
    process = start(tmp_path)
    before = batches(tmp_path)
    deadline = time.monotonic() + PATIENCE
    while batches(tmp_path) == before and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(drawn.random() * 1.5)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert batches(tmp_path) > before


def run_with_kills(tmp_path, kills, files, rows):
    feed(tmp_path / "in", files, rows)
    even = Subscription("even", parse("x >= 0"))
    SubscriptionSet(tmp_path / "set").publish([even, Subscription("hourly", parse("x >= 0"), constraints=HOURLY)])
    drawn = random.Random(7)
    for _ in range(kills):
        kill_at_random(tmp_path, drawn)
    final = start(tmp_path)
    output, _ = final.communicate(timeout=PATIENCE + 20 * files)  # a micro-batch takes seconds where others work too
    assert final.returncode == 0, output
    count = files * rows
    found = ds.dataset(tmp_path / "out", partitioning="hive").to_table(columns=["event_id", "subscription_id"])
    got = Counter(zip(found["event_id"].to_pylist(), found["subscription_id"].to_pylist(), strict=True))
    wanted = Counter({(f"e{n}", "even"): 1 for n in range(count)})
    wanted += Counter({(f"e{n}", "hourly"): 1 for n in range(0, count, 60)})
    assert wanted - got == Counter(), "lost"
    assert got - wanted == Counter(), "duplicated or unexpected"
    bad = ds.dataset(f"{tmp_path / 'out'}-rejected", partitioning="hive").to_table(columns=["row"])["row"].to_pylist()
    assert sorted(bad) == sorted(f"{{bad {n}" for n in range(3, count, 4))


@pytest.mark.timeout(600)
def test_a_kill(tmp_path):
    run_with_kills(tmp_path, kills=1, files=4, rows=100)


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_twenty_kills(tmp_path):
    run_with_kills(tmp_path, kills=20, files=60, rows=700)
