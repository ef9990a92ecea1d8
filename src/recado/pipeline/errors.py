"""What a user can get wrong on Spark, told in our words and not as a stack trace of the JVM.

An error of ours that was raised in an executor comes back as text inside another; its last lines hold the message.
Spark's own errors carry a class in brackets (a missing column, a file that is none of its kind) and a readable line
after it. What failed on a disk, in HDFS or at an object store has a Java exception that says so. All of these arrive
either as an exception of PySpark or, where PySpark does not know them, as one of py4j with the whole trace in its text.
Anything else is a fault, and keeps its trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

import pyspark
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException, PySparkException

from recado.errors import RecadoError

_OURS = re.compile(r"^(?:pyspark\.\S+: )?(?:\w+: )?recado\.[\w.]+Error: (?P<reason>.*)", re.MULTILINE | re.DOTALL)
_END_OF_OURS = re.compile(r"\n\s*(?:at |JVM stacktrace|Traceback |SQLSTATE|\tat )|\n\n")
_READABLE = (
    "PATH_NOT_FOUND",
    "CANNOT_READ_FILE",
    "CANNOT_LOAD",
    "UNABLE_TO_INFER_SCHEMA",
    "OUTPUT_PATH",
    "PATH_ALREADY_EXISTS",
    "INVALID_VARIANT",
)
_MISTAKES = (AnalysisException, IllegalArgumentException, ParseException)
_CONDITION = re.compile(r"\[(?P<name>[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)?)\]\s*(?P<reason>.*)")
_CODE = re.compile(r"\s*SQLSTATE: \w+.*")
_UNREADABLE = re.compile(
    r"\[FAILED_READ_FILE[\w.]*\] Encountered error while reading file (?:file:/*)?(?P<path>.*?)\.(?:\s|$)"
)
_SEGMENT = re.compile(r"(?P<log>.*)/segments/(?P<first>\d{20})-(?P<end>\d{20})\.parquet")
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (?P<reason>.*)", re.MULTILINE)
_SLOW_START = "Python worker failed to connect back"
_NO_FILE_SYSTEM = re.compile(
    r'No FileSystem for scheme "(?P<scheme>[\w.+-]+)"'
    r"|ClassNotFoundException: (?:Class )?(?:[\w.]+\.fs\.(?P<package>\w+)\.\w*FileSystem|[\w.]*FileSystem\w*)\b"
)
_NO_FORMAT = re.compile(r"\[DATA_SOURCE_NOT_FOUND\] Failed to find the data source: (?P<name>[\w.-]+?)\.(?:\s|$)")
_CONNECTORS = {
    "s3a": "org.apache.hadoop:hadoop-aws:3.5.0",
    "s3": "org.apache.hadoop:hadoop-aws:3.5.0",
    "abfs": "org.apache.hadoop:hadoop-azure:3.5.0",
    "abfss": "org.apache.hadoop:hadoop-azure:3.5.0",
}
_HEAP = (
    "a Java process of Spark ran out of memory; its heap is set with --conf spark.executor.memory=4g (on a master that "
    "begins with local[ it is the driver's: spark.driver.memory=4g)"
)
_PYTHON_MEMORY = (
    "a Python worker ran out of memory; its bound is spark.executor.pyspark.memory, if that is set; fewer events at a "
    "time need less: --conf spark.sql.execution.arrow.maxRecordsPerBatch=4096"
)
_KILLED = (
    "an executor, or a Python worker of one, was killed, most often because its host or container had no more memory; "
    "give it more room beside Java's heap with --conf spark.executor.memoryOverhead=2g, or have fewer tasks at once "
    "(spark.executor.cores), or a set with --partitions"
)
_NO_MEMORY = {
    re.compile(r"java\.lang\.OutOfMemoryError|\bexit(?:ed with)? (?:code|status) 52\b"): _HEAP,
    re.compile(r"^\s*(?:[\w.]+\.)?(?:_Array|Arrow)?MemoryError\b", re.MULTILINE): _PYTHON_MEMORY,
    re.compile(
        r"Python worker exited unexpectedly|exceeding (?:physical |virtual )?memory limits|OOMKilled"
        r"|\bexit(?:ed with)? (?:code|status) 137\b"
    ): _KILLED,
}
"""How Spark tells that memory ran out, and what to set."""
_MISMATCH = re.compile(r"(?P<reason>Data type mismatches .*?)\.?\s*(?:SQLSTATE|$)", re.MULTILINE)
_OTHER_PYTHON = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\].*?different version: (?P<worker>[\d.]+) than that in driver: (?P<driver>[\d.]+)"
    r"|Python in worker has different version:? (?P<worker2>[\d.]+) than that in driver:? (?P<driver2>[\d.]+)",
    re.DOTALL,
)
_NO_MODULE = re.compile(
    r"ModuleNotFoundError: No module named '(?P<name>recado|pyarrow|numpy|numba|msgspec|pandas|re2)\b"
)
_NO_PYTHON = re.compile(r'Cannot run program "(?P<program>[^"]*python[^"]*)"')
_OTHER_SPARK = re.compile(
    r"InvalidClassException: (?P<class>org\.apache\.spark\.[\w.$]+); local class incompatible"
    r"|java\.lang\.(?:NoSuchMethodError|NoClassDefFoundError|ClassNotFoundException): "
    r"(?:'?[\w.$]+ )?(?P<class2>org[./]apache[./]spark[\w./$]*)"
)
_OTHER_JAVA = re.compile(r"UnsupportedClassVersionError")
DEPLOYED = "docs/spark-deployment.md tells how to bring the same to all hosts"
_STORAGE = re.compile(
    r"\b(?:java\.(?:io|nio\.file)|java\.net(?=\.(?:Connect|UnknownHost|NoRouteToHost)Exception)|org\.apache\.hadoop(?:\.\w+)+)"
    r"\.(?P<kind>\w+Exception): (?P<reason>.*)"
)
"""What failed on a disk, or at a file system that is reached over the network."""


ENDED = (
    "Spark's Java process has ended; was it killed, or out of memory? "
    "(it gets more with --conf spark.driver.memory=4g, or of a cluster spark.executor.memory)"
)


class PipelineError(RecadoError):
    """A Spark job that cannot run as asked."""


def explain_old_spark(error: ImportError, what: str) -> Exception:
    """What to raise when PySpark lacks something; the error itself if it is not PySpark that does."""
    if not (error.name or "").startswith("pyspark"):
        return error
    return PipelineError(
        f"{what} needs a newer PySpark than {pyspark.__version__} ({error.msg.partition(' (')[0]}): "
        "pip install 'recado[spark]'"
    )


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn what a user can get wrong into a PipelineError; let faults pass."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        reason = explained(error)
        if reason is None:
            raise
        raise PipelineError(reason) from None
    except (Py4JNetworkError, ConnectionError):
        raise PipelineError(ENDED) from None


def explained(error: Exception, *, missing_only: bool = False) -> str | None:
    """What a person should read about the error; None if it is no user's mistake.

    ``missing_only``: tell only of what Spark lacks to do it.
    """
    text = str(error)
    if missing := _missing(text):
        return missing
    if missing_only:
        return None
    if wrong := _deployed_otherwise(text):
        return wrong
    if ours := _OURS.search(text):
        return _END_OF_OURS.split(ours["reason"], maxsplit=1)[0].strip()
    for sign, advice in _NO_MEMORY.items():
        if sign.search(text):
            return advice
    if file := _UNREADABLE.search(text):
        return _unreadable(f"/{unquote(file['path']).lstrip('/')}", _MISMATCH.search(text) or _CAUSE.search(text))
    named = _CONDITION.search(text)
    if isinstance(error, _MISTAKES) or (named and named["name"].startswith(_READABLE)):
        return _CODE.sub("", named["reason"] if named else text.partition("\n")[0]).strip()
    if _SLOW_START in text:
        return (
            "a Python worker did not start within ten seconds, which is all that Spark waits: is the machine too busy?"
        )
    if storage := _STORAGE.search(text):
        return f"{storage['reason'].strip()} ({storage['kind']})"
    return None


def _missing(text: str) -> str | None:
    """A connector that Spark was not given: a file system, or a format."""
    if system := _NO_FILE_SYSTEM.search(text):
        scheme = system["scheme"] or system["package"]
        return (
            f"Spark has no file system for {scheme}: URLs; give it the connector, as in "
            f"--conf spark.jars.packages={_CONNECTORS.get(scheme, 'group:artifact:version')} or --conf spark.jars=FILES"
        )
    if source := _NO_FORMAT.search(text):
        return (
            f"Spark has no format {source['name']!r}; give it the connector, as in "
            "--conf spark.jars.packages=group:artifact:version, or --conf spark.jars=FILES"
        )
    return None


def _deployed_otherwise(text: str) -> str | None:
    """Hosts whose Python, packages, Spark or Java are not the driver's."""
    if python := _OTHER_PYTHON.search(text):
        there, here = (python[name] or python[f"{name}2"] for name in ("worker", "driver"))
        return (
            f"executors run Python {there.rstrip('.')} and the driver {here.rstrip('.')}; the minor versions must be "
            f"the same: set PYSPARK_PYTHON to such a Python there; {DEPLOYED}"
        )
    if module := _NO_MODULE.search(text):
        return f"the Python of the executors has no package {module['name']!r}; install recado[spark] there; {DEPLOYED}"
    if program := _NO_PYTHON.search(text):
        return f"executors have no {program['program']}; set PYSPARK_PYTHON to a Python that is there; {DEPLOYED}"
    if spark := _OTHER_SPARK.search(text):
        return (
            f"the cluster runs another version of Spark than this driver's PySpark (they differ in "
            f"{spark['class'] or spark['class2']}); install the cluster's version of pyspark here; {DEPLOYED}"
        )
    return TOO_OLD_JAVA if _OTHER_JAVA.search(text) else None


TOO_OLD_JAVA = (
    f"a Java that is older than 17 was started; Spark 4 needs Java 17 or later (JAVA_HOME says which); {DEPLOYED}"
)


def _unreadable(path: str, cause: re.Match[str] | None) -> str:
    """A file that Spark could not read; of a segment of a log the name tells the positions."""
    reason = cause["reason"].strip() if cause else "it is damaged, or no such file"
    segment = _SEGMENT.fullmatch(path)
    if segment is None:
        return f"{path} cannot be read: {reason}"
    first, last = int(segment["first"]), int(segment["end"]) - 1
    return (
        f"log {segment['log']}: positions {first:,} to {last:,} cannot be read by Spark: {reason} ({path}); "
        "read_log with damage='skip' or 'rows' reads the rest"
    )
