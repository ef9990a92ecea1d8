"""The same job where executors are other processes: local-cluster, a standalone cluster, Spark Connect."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from samples import expected

HERE = Path(__file__).parent
SPARK = Path(pyspark.__file__).parent
PATIENCE = 240


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment():
    return {**os.environ, "PYTHONPATH": str(HERE), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def running(*command, port):
    """A server that is there as soon as its port answers."""
    process = subprocess.Popen(
        [str(part) for part in command],
        env=environment(),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            assert process.poll() is None, f"{command[0]} ended with {process.returncode}"
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_elsewhere(folder, *arguments):
    done = subprocess.run(
        [sys.executable, str(HERE / "elsewhere.py"), "--folder", str(folder), *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {r["way"]: [tuple(pair) for pair in r["pairs"]] for r in map(json.loads, done.stdout.splitlines())}


@pytest.mark.timeout(300)
def test_executors_in_other_processes(tmp_path):
    ways = ["mapped", "shipped", "partitioned"]
    found = run_elsewhere(tmp_path, "--master", "local-cluster[2,1,1024]", "--way", *ways)
    assert found == dict.fromkeys(ways, expected())


@pytest.mark.timeout(300)
def test_spark_connect(tmp_path):
    port = free_port()
    server = [
        SPARK / "bin" / "spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master", "local[2]", "--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false",
    ]  # fmt: skip
    with running(*server, port=port):
        found = run_elsewhere(tmp_path, "--remote", f"sc://127.0.0.1:{port}", "--way", "mapped", "shipped")
    assert found == dict.fromkeys(["mapped", "shipped"], expected())


@pytest.mark.long  # local-cluster above is the same master, workers and executors, with the first two in the driver
@pytest.mark.timeout(300)
def test_a_standalone_cluster(tmp_path):
    port, worker_port = free_port(), free_port()
    launch = SPARK / "bin" / "spark-class"
    master = [launch, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", 0]
    worker = [
        launch, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--port", worker_port,
        "--webui-port", 0, "--cores", 2, "--memory", "1g", "--work-dir", tmp_path / "work", f"spark://127.0.0.1:{port}",
    ]  # fmt: skip
    with running(*master, port=port), running(*worker, port=worker_port):
        found = run_elsewhere(tmp_path, "--master", f"spark://127.0.0.1:{port}", "--way", "mapped", "shipped")
    assert found == dict.fromkeys(["mapped", "shipped"], expected())
