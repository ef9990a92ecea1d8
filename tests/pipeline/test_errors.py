"""What a user reads when something on Spark goes wrong."""

import socket

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
