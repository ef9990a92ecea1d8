"""A Spark session with the settings Recado needs, and a quiet one.

Times are UTC everywhere; Arrow carries the rows; Python data sources may take filters; state lies in RocksDB, which
``transformWithState`` asks for. ``conf`` overrides any of it. The JVM's log goes to a file, errors only, since the JVM
also writes there what no setting silences; ``log_file()`` says which, for whoever looks for the cause of a fault.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from recado.pipeline.errors import TOO_OLD_JAVA, PipelineError

STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

OLDEST_SPARK, NEWEST_SPARK, OLDEST_PYTHON = (4, 0), (4, 3), (3, 11)

_PATIENCE_SECONDS = 10
_CHATTER = (
    "WARNING",
    "Setting default log level",
    "Setting Spark log level",
    "To adjust logging level",
    "Using Spark's",
)
"""How lines of the JVM's log begin that are there at every start."""

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    # A limit in bytes makes the JVM add up all columns' sizes at every row: half of the time for 200 columns.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.python.filterPushdown.enabled": "true",
    # Python workers are forked with everything loaded, instead of loading it each.
    "spark.python.daemon.module": "recado.pipeline.daemon",
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""What every session of ours has unless it is told otherwise."""


def start_session(
    app: str = "recado",
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    remote: str | None = None,
) -> SparkSession:
    """A session on ``master``, or on the Spark Connect server at ``remote``, written ``sc://host:port``.

    For a ``remote`` of ``local[2]`` PySpark starts a server itself.
    """
    check_versions()
    settings = DEFAULTS | dict(conf or {})
    if remote is not None:
        return _connect(remote, settings)
    _need_java()
    if master.startswith("spark:"):
        _need_server(master, "spark", 7077)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings.setdefault("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_logging_file()}")
    if master.startswith("local"):
        settings.setdefault("spark.driver.host", "127.0.0.1")
        settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
        settings.setdefault("spark.sql.shuffle.partitions", str(_cores(master) * 2))
    builder = SparkSession.builder.appName(app).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    known = len(_write_log())
    try:
        with _errors_to_log():
            return builder.getOrCreate()
    except (PySparkException, Py4JError, ConnectionError) as error:
        # A JVM that ends before it answers has told only its log why: a bad master, no such Java, too little memory.
        ended = isinstance(error, ConnectionError) or "JAVA_GATEWAY_EXITED" in str(error)
        said = _write_log()[known:] if ended else str(error)
        reason = TOO_OLD_JAVA if "UnsupportedClassVersionError" in said else _reason(said)
        raise PipelineError(f"no Spark session on {master!r}: {reason}; see {log_file()}") from None


@cache
def log_file() -> Path:
    """Where the JVM that this process started writes what goes wrong; ``forget_log`` removes it.

    It is in a folder of its own, which nobody else may enter: in the shared one a link of that name could lead
    anywhere.
    """
    return Path(tempfile.mkdtemp(prefix=f"recado-spark-{os.getpid()}-")) / "spark.log"


def forget_log() -> None:
    """The process ends well: nobody will look for the cause of a fault."""
    shutil.rmtree(log_file().parent, ignore_errors=True)
    log_file.cache_clear()


def _write_log() -> str:
    return log_file().read_text(errors="replace") if log_file().exists() else ""


@contextmanager
def _errors_to_log() -> Iterator[None]:
    """A process started inside inherits the log as its stderr."""
    sys.stderr.flush()
    ours = os.dup(2)
    log = os.open(log_file(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        os.dup2(log, 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        os.close(log)


def is_remote(spark: SparkSession) -> bool:
    """Does the session speak to a Spark Connect server?"""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _connect(remote: str, settings: Mapping[str, str]) -> SparkSession:
    ours = remote.startswith("local")  # PySpark starts a server of its own for that
    if ours:
        _need_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        _need_server(remote, "sc", 15002)
    builder = SparkSession.builder.remote(remote)
    for name, value in settings.items():
        if name.startswith("spark.sql."):  # the others are the server's own business
            builder = builder.config(name, value)
    try:
        with _errors_to_log() if ours else nullcontext():
            return builder.getOrCreate()
    except ImportError as error:  # grpc and its friends are an extra of PySpark
        raise PipelineError(f"Spark Connect needs more than is installed: {error}") from None
    except PySparkException as error:
        raise PipelineError(f"no Spark Connect session at {remote!r}: {_reason(str(error))}") from None


def _need_server(address: str, scheme: str, port: int) -> None:
    """Refuse a place where nobody listens at once; Spark itself would try for minutes, and then not say so.

    Of several hosts, separated by commas as standalone masters in standby are, one is enough.
    """
    reason = ""
    for place in address.removeprefix(f"{scheme}://").split(","):
        try:
            host = urlsplit(f"//{place}")
            socket.create_connection((host.hostname or "", host.port or port), timeout=_PATIENCE_SECONDS).close()
            return
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
    raise PipelineError(f"nobody answers at {address!r}: {reason}; an address is written {scheme}://host:{port}")


def check_versions(spark: str = pyspark.__version__, python: tuple[int, ...] = sys.version_info[:2]) -> None:
    """A PipelineError if this PySpark or this Python is none that Recado works with."""
    found = tuple(int(part) for part in re.findall(r"\d+", spark)[:2])
    if found < OLDEST_SPARK or found[0] > NEWEST_SPARK[0]:
        raise PipelineError(
            f"PySpark {spark} is installed; Recado needs {_dotted(OLDEST_SPARK)} to {_dotted(NEWEST_SPARK)}: "
            "pip install 'recado[spark]'"
        )
    if python < OLDEST_PYTHON:
        raise PipelineError(f"this is Python {_dotted(python)}; Recado needs {_dotted(OLDEST_PYTHON)} or later")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _need_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home:
        if not (Path(home) / "bin" / "java").exists():
            raise PipelineError(f"JAVA_HOME is {home}, where there is no bin/java; Spark needs Java 17 or later")
    elif shutil.which("java") is None:
        raise PipelineError(
            "Spark needs Java 17 or later, and there is none (Debian: apt-get install default-jre-headless)"
        )


def _logging_file() -> str:
    return (Path(str(files("recado"))) / "data" / "spark" / "log4j2.properties").as_uri()


def _cores(master: str) -> int:
    inside = master.partition("[")[2].rstrip("]").split(",")[0]
    return int(inside) if inside.isdigit() else os.cpu_count() or 1


def _reason(text: str) -> str:
    """The line of a long message that says what happened."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_CHATTER)]
    lines = lines or ["its Java process ended and does not say why"]
    telling = [line.partition("Exception: ")[2] for line in lines if "Exception: " in line]
    return (telling or lines)[0]
