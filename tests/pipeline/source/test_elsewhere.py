"""The source where executors, or the whole of Spark, are other processes than the one that asks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("source_elsewhere.py")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("where", [("--master", "local-cluster[2,1,1024]"), ("--remote", "local[2]")])
def test_the_source_in_other_processes(logs, where):
    path = logs.make(logs.sales(57), sealed=33)
    found = {}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *where, str(path), str(logs.folder)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        found |= json.loads(line)
    assert found.pop("error").startswith("there is no event log in")
    assert found == {"read": list(range(10, 57)), "whole": list(range(57)), "copied": [f"e-{n}" for n in range(57)]}
