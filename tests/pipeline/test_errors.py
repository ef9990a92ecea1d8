"""What a user reads when something on Spark goes wrong."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import functions as F

from recado.errors import RecadoError
from recado.pipeline import session
from recado.pipeline.errors import PipelineError, explained, user_errors
from recado.pipeline.session import _reason


def test_an_error_of_ours_from_an_executor_keeps_its_message(spark):
    def fail(batches):
        for _ in batches:
            raise RecadoError("line 3: two lines\nhint: of a message")
        yield from ()

    with pytest.raises(PipelineError) as caught, user_errors():
        spark.range(1).mapInArrow(fail, "id long").collect()
    assert str(caught.value) == "line 3: two lines\nhint: of a message"


def test_a_missing_column_is_told_in_one_line(spark):
    with pytest.raises(PipelineError, match="nothing") as caught, user_errors():
        spark.range(1).select(F.col("nothing")).collect()
    assert "\n" not in str(caught.value)
    assert "SQLSTATE" not in str(caught.value)


def die(batches):
    for _ in batches:
        os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when there is no memory left
    yield from ()


def want_too_much(batches):
    for _ in batches:
        np.zeros(1 << 50)
    yield from ()


@pytest.mark.parametrize(
    ("task", "advice"),
    [
        (die, "more room beside Java's heap with --conf spark.executor.memoryOverhead=2g"),
        (want_too_much, "at a time need"),
    ],
)
def test_memory_that_ran_out_is_told_with_what_to_set(spark, task, advice):
    with pytest.raises(PipelineError, match=advice) as caught, user_errors():
        spark.range(1).mapInArrow(task, "id long").collect()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("told", "advice"),
    [
        ("Reason: Command exited with code 52", "spark.executor.memory=4g"),
        ("Caused by: java.lang.OutOfMemoryError: Java heap space", "spark.executor.memory=4g"),
        ("Container killed by YARN for exceeding physical memory limits. 5.0 GB of 5 GB used", "memoryOverhead"),
        ("The executor with id 1 exited with exit code 137(SIGKILL, possible container OOM)", "memoryOverhead"),
    ],
)
def test_memory_that_ran_out_as_cluster_managers_tell_it(told, advice):
    lost = "Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited) "
    assert advice in explained(PySparkException(lost + told))


def test_a_fault_keeps_its_trace(spark):
    def fault(batches):
        for _ in batches:
            raise ZeroDivisionError
        yield from ()

    with pytest.raises(PythonException, match="ZeroDivisionError"), user_errors():
        spark.range(1).mapInArrow(fault, "id long").collect()
    assert explained(PySparkException("something inside")) is None


SEGMENT = "segments/00000000000000000100-00000000000000000200.parquet"
UNREADABLE = f"""An error occurred while calling o1.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file \
file:///my%20log/{SEGMENT}.  SQLSTATE: KD001
\tat x
Caused by: java.io.IOException: the page is bad
\tat y"""
OTHER_TYPE = """An error occurred while calling o1.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while \
reading file file:///in/2.parquet. Data type mismatches when reading Parquet column <[a]>. Expected Spark type bigint, \
actual Parquet type BINARY. SQLSTATE: KD001
\tat x
Caused by: org.apache.spark.sql.execution.datasources.SchemaColumnConvertNotSupportedException: column: [id], a trace
\tat y"""
UNWRITABLE = """An error occurred while calling o1.parquet.
: org.apache.spark.SparkException: Job aborted: Lost task (x): java.io.IOException: Mkdirs failed to create file:/proc/o
\tat y"""


def test_what_pyspark_leaves_as_a_trace_of_the_jvm():
    assert explained(Exception(UNREADABLE)) == (
        f"log /my log: positions 100 to 199 cannot be read by Spark: the page is bad (/my log/{SEGMENT}); "
        "read_log with damage='skip' or 'rows' reads the rest"
    )
    assert explained(Exception(OTHER_TYPE)) == (
        "/in/2.parquet cannot be read: Data type mismatches when reading Parquet column <[a]>. "
        "Expected Spark type bigint, actual Parquet type BINARY"
    )
    assert explained(Exception(UNWRITABLE)) == "Mkdirs failed to create file:/proc/o (IOException)"
    assert "did not start within ten seconds" in explained(
        Exception("[STREAM_FAILED] Python worker failed to connect back.")
    )
    assert explained(Exception("o1.parquet.\n: java.lang.IllegalStateException: a fault\n\tat y")) is None


@pytest.mark.parametrize(
    ("java", "told"),
    [
        (
            'org.apache.hadoop.security.AccessControlException: Permission denied: user=ana, access=WRITE, inode="/x"',
            'Permission denied: user=ana, access=WRITE, inode="/x" (AccessControlException)',
        ),
        (
            "org.apache.hadoop.fs.s3a.UnknownStoreException: s3a://none/: Bucket does not exist",
            "s3a://none/: Bucket does not exist (UnknownStoreException)",
        ),
        (
            "java.nio.file.AccessDeniedException: s3a://b/x: No AWS credentials provided",
            "s3a://b/x: No AWS credentials provided (AccessDeniedException)",
        ),
        (
            "java.net.ConnectException: Call From here to name:8020 failed on connection exception",
            "Call From here to name:8020 failed on connection exception (ConnectException)",
        ),
        (
            "java.lang.IllegalArgumentException: java.net.UnknownHostException: name",
            "name (UnknownHostException)",
        ),
    ],
)
def test_what_fails_at_hdfs_or_an_object_store(java, told):
    text = (
        f"An error occurred while calling o1.parquet.\n: org.apache.spark.SparkException: Job aborted: {java}\n\tat y"
    )
    assert explained(Exception(text)) == told


def test_the_jvm_is_gone():
    for error in (
        Py4JNetworkError("Answer from Java side is empty"),
        ConnectionRefusedError(111, "Connection refused"),
    ):
        with pytest.raises(PipelineError, match=r"Java process has ended.*spark\.driver\.memory"), user_errors():
            raise error


def test_without_java_we_say_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(PipelineError, match="Spark needs Java 17 or later"):
        session.start_session()


@pytest.mark.parametrize(
    ("remote", "message"),
    [
        ("http://127.0.0.1:1", "an address is written sc://host:15002"),
        ("sc://127.0.0.1:x", "an address is written sc://host:15002"),
        ("sc://127.0.0.1:1/;user_id=x", "nobody answers at .*: Connection refused"),
    ],
)
def test_a_connect_server_that_is_none(remote, message):
    with pytest.raises(PipelineError, match=message):
        session.start_session(remote=remote)


def test_a_connect_server_that_pyspark_starts_has_this_python_and_a_quiet_java(monkeypatch, capfd):
    class Builder:
        def remote(self, remote):
            return self

        def config(self, name, value):
            return self

        def getOrCreate(self):  # noqa: N802  # PySpark's name
            subprocess.run(["/bin/sh", "-c", "echo chatter >&2"], check=True)
            return os.environ["PYSPARK_PYTHON"]

    monkeypatch.setattr(session.SparkSession, "builder", Builder())
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert session.start_session(remote="local[2]") == sys.executable
    assert capfd.readouterr().err == ""


def test_a_master_that_is_none():
    with pytest.raises(PipelineError, match="Connection refused; an address is written spark:"):
        session.start_session(master="spark://127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as standby:
        session._need_server(f"spark://127.0.0.1:1,127.0.0.1:{standby.getsockname()[1]}", "spark", 7077)


def test_java_home_counts(monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    session._need_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(PipelineError, match=r"JAVA_HOME is .*nothing, where there is no bin/java"):
        session._need_java()


@pytest.mark.parametrize(("master", "cores"), [("local[3]", 3), ("local-cluster[2,1,1024]", 2)])
def test_cores(master, cores):
    assert session._cores(master) == cores


def test_the_reason_of_a_long_message():
    assert session._reason("head\n  java.io.IOException: disk full\n at x") == "disk full"
    assert session._reason("WARNING: modules\nInvalid maximum heap size: -Xmxlots\nError: no JVM") == (
        "Invalid maximum heap size: -Xmxlots"
    )
    assert session._reason("") == "its Java process ended and does not say why"


def test_what_the_jvm_says_at_every_start_is_no_reason():
    chatter = (
        'WARNING: Using incubator modules\nSetting default log level to "WARN".\nSetting Spark log level to "ERROR".\n'
    )
    assert _reason(chatter) == "its Java process ended and does not say why"
    assert _reason(f"{chatter}java.lang.Exception: no such master\n") == "no such master"


@pytest.mark.parametrize(
    ("spark", "python", "message"),
    [
        ("3.5.6", (3, 11), r"PySpark 3\.5\.6 is installed; Recado needs 4\.0 to 4\.3: pip install 'recado\[spark\]'"),
        ("5.0.0.dev1", (3, 11), r"PySpark 5\.0\.0\.dev1 is installed"),
        ("4.3.0", (3, 10), r"this is Python 3\.10; Recado needs 3\.11 or later"),
    ],
)
def test_a_wrong_spark_or_python_is_told_before_java_starts(spark, python, message):
    with pytest.raises(PipelineError, match=message):
        session.check_versions(spark, python)


@pytest.mark.parametrize("spark", ["4.0.1", "4.1.4", "4.3.0", "4.4.0.dev0"])
def test_sparks_that_will_do(spark):
    session.check_versions(spark, (3, 13))


def test_a_java_that_is_too_old(monkeypatch, tmp_path):
    """A stand-in for Java 11 that ends as that does when it is given Spark's classes."""
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text(
        '#!/bin/sh\necho \'Exception in thread "main" java.lang.UnsupportedClassVersionError: '
        "org/apache/spark/launcher/Main has been compiled by a more recent version of the Java Runtime "
        "(class file version 61.0), this version recognizes class file versions up to 55.0' >&2\nexit 1\n"
    )
    java.chmod(0o755)
    code = "from recado.pipeline.session import start_session; start_session()"
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=250, check=False, env=environment
    )
    assert "PipelineError: no Spark session on 'local[*]': a Java that is older than 17 was started" in run.stderr


ELSEWHERE = [
    (
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, PySpark",
        "executors run Python 3.12 and the driver 3.11",
    ),
    ("  File x\nModuleNotFoundError: No module named 'recado'\n", "the executors has no package 'recado'"),
    ("ModuleNotFoundError: No module named 'numba.core'\n", "no package 'numba'"),
    ('java.io.IOException: Cannot run program "/opt/env/bin/python": error=2', "executors have no /opt/env/bin/python"),
    (
        "java.io.InvalidClassException: org.apache.spark.rpc.RpcEndpointRef; local class incompatible: stream",
        "another version of Spark than this driver's PySpark (they differ in org.apache.spark.rpc.RpcEndpointRef)",
    ),
    ("java.lang.NoSuchMethodError: 'void org.apache.spark.sql.X.y()'", "(they differ in org.apache.spark.sql.X.y)"),
    ("java.lang.UnsupportedClassVersionError: org/apache/spark/Main has been compiled", "older than 17 was started"),
]


@pytest.mark.parametrize(("text", "message"), ELSEWHERE)
def test_hosts_that_have_something_else_than_the_driver(text, message):
    told = explained(Exception(f"Job aborted due to stage failure: Lost task 0.0\n{text}"))
    assert message in told
    assert "docs/spark-deployment.md" in told
    assert "\n" not in told


def test_a_module_of_the_users_own_is_a_fault_of_theirs():
    assert explained(PySparkException("ModuleNotFoundError: No module named 'my_job'")) is None


def test_executors_with_another_python(spark):
    """What a worker says of itself when its Python differs, from a real worker."""

    def other(batches):
        from pyspark.errors import PySparkRuntimeError

        for _ in batches:
            raise PySparkRuntimeError(
                errorClass="PYTHON_VERSION_MISMATCH",
                messageParameters={"worker_version": "3.12", "driver_version": "3.11"},
            )
        yield from ()

    with pytest.raises(PipelineError, match=r"executors run Python 3\.12 and the driver 3\.11"), user_errors():
        spark.range(1).mapInArrow(other, "id long").collect()


def test_a_pyspark_without_what_the_log_needs():
    """As 4.1 has it, which has match and streams but not the limits of a Python stream's micro-batches."""
    code = (
        "import sys; sys.modules['pyspark.sql.streaming.datasource'] = None\n"
        "import recado.pipeline.match, recado.pipeline.stream\n"
        "try:\n    import recado.pipeline.source\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=250, check=True)
    assert run.stdout.startswith("PipelineError the event log as a source of Spark needs a newer PySpark than 4.")
    assert "pip install 'recado[spark]'" in run.stdout


def test_the_deployment_page_has_these_messages():
    page = (Path(__file__).parents[2] / "docs" / "spark-deployment.md").read_text()
    table = page.partition("## What it says when something differs")[2].partition("\n## ")[0]
    shown = re.findall(r"^\| `(.*?)` \|", table, re.MULTILINE)
    known = [explained(Exception(text)) for text, _ in ELSEWHERE]
    known += [explained(Exception('No FileSystem for scheme "s3a"'))]
    known += [explained(Exception('Cannot run program "./environment/bin/python"'))]
    for versions in (("3.5.6", (3, 11)), ("4.3.0", (3, 10))):
        with pytest.raises(PipelineError) as caught:
            session.check_versions(*versions)
        known.append(str(caught.value))
    elsewhere = ["Spark needs Java 17 or later, and there is none", "the event log as a source of Spark needs a newer"]
    assert len(shown) == 10
    for message in shown:
        assert any(told.startswith(message) for told in known) or message.startswith(tuple(elsewhere)), message
