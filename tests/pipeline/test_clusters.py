"""The same job where executors are other processes: local-cluster, a standalone cluster, Spark Connect."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from recado.matching.kernels.cache import cache_folder
from samples import expected

HERE = Path(__file__).parent
SPARK = Path(pyspark.__file__).parent
PATIENCE = 240


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment():
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])  # a checkout that is not the installed one
    return {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def kernels():
    """The folder of the kernels, for processes with another home: they would spend minutes to compile them anew."""
    return cache_folder().parent.parent


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


def run_elsewhere(folder, *arguments, cwd=None, patience=PATIENCE):
    done = subprocess.run(
        [sys.executable, str(HERE / "elsewhere.py"), "--folder", str(folder), *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    rows = list(map(json.loads, done.stdout.splitlines()))
    return {r["way"]: [p if isinstance(p, str) else tuple(p) for p in r["pairs"]] for r in rows}


@pytest.mark.timeout(300)
def test_executors_in_other_processes(tmp_path):
    """Their home is another, and so is their working folder: paths of the driver are relative."""
    ways = ["mapped", "shipped", "partitioned"]
    (tmp_path / "home").mkdir()
    found = run_elsewhere(
        "here", "--master", "local-cluster[2,1,1024]", "--conf", f"spark.executorEnv.HOME={tmp_path / 'home'}",
        "--conf", f"spark.executorEnv.NUMBA_CACHE_DIR={kernels()}", "--conf", "spark.sql.codegen.wholeStage=false",
        "--conf", "spark.sql.codegen.factoryMode=NO_CODEGEN", "--way", *ways, cwd=tmp_path,
    )  # fmt: skip
    assert found == dict.fromkeys(ways, expected())
    assert {path.name for path in tmp_path.iterdir()} == {"home", "here"}


@pytest.mark.long  # two more Java processes
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


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_connect_server_that_pyspark_starts(tmp_path, monkeypatch):
    """Its executors have this Python, though nobody said so; what its Java process says is in the log."""
    known = environment()
    known.pop("PYSPARK_PYTHON")
    monkeypatch.setattr(sys.modules[__name__], "environment", lambda: known)
    found = run_elsewhere(tmp_path, "--remote", "local[2]", "--way", "mapped")
    assert found == {"mapped": expected()}


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


def can_hide():
    """May this user give a process a file system of its own?"""
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    return shutil.which("unshare") and subprocess.run(probe, capture_output=True, check=False).returncode == 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_heap_that_is_too_small_is_told_with_what_to_set(tmp_path):
    found = run_elsewhere(
        tmp_path, "--master", "local-cluster[1,1,1024]", "--conf", "spark.task.maxFailures=2", "--way", "heap",
        patience=500,
    )  # fmt: skip
    assert len(found["heap"]) == 1
    assert "ran out of memory; its heap is set with --conf spark.executor.memory=4g" in found["heap"][0]


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_worker_that_does_not_see_the_drivers_folders(tmp_path):
    """As on another host: the set and the checkpoint are the driver's alone, and the worker has another home."""
    if not can_hide():
        pytest.skip("a process with a file system of its own needs the right to mount")
    port, worker_port = free_port(), free_port()
    launch = SPARK / "bin" / "spark-class"
    master = [launch, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", 0]
    for name in ("driver", "shared", "home"):
        (tmp_path / name).mkdir()
    hide = 'mount -t tmpfs none "$0" && export HOME="$1" NUMBA_CACHE_DIR="$2" && shift 2 && exec "$@"'
    worker = [
        "unshare", "--mount", "sh", "-c", hide, tmp_path / "driver", tmp_path / "home", kernels(),
        launch, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--port", worker_port,
        "--webui-port", 0, "--cores", 2, "--memory", "1g", "--work-dir", tmp_path / "work", f"spark://127.0.0.1:{port}",
    ]  # fmt: skip
    with running(*master, port=port), running(*worker, port=worker_port):
        found = run_elsewhere(
            tmp_path / "driver", "--shared", str(tmp_path / "shared"), "--master", f"spark://127.0.0.1:{port}",
            "--way", "default", "mapped", "partitioned", "lost", "stream", patience=900,
        )  # fmt: skip
    assert found["default"] == found["stream"] == found["partitioned"] == expected()
    assert len(found["mapped"]) == 1
    assert "is not on this executor; use a path that all hosts mount, or ship the set" in found["mapped"][0]
    assert "rows are not there: executors wrote them to disks of other hosts" in found["lost"][0]
