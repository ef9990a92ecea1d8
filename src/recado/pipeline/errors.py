"""What a user can get wrong on Spark, told in our words and not as a stack trace of the JVM.

An error of ours that was raised in an executor comes back as text inside another; its last lines hold the message.
Spark's own errors carry a class in brackets (a missing column, a file that is none of its kind) and a readable line
after it. What failed on a disk has a Java exception that says so. All of these arrive either as an exception of PySpark
or, where PySpark does not know them, as one of py4j with the whole trace in its text. Anything else is a fault, and
keeps its trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

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
_MISMATCH = re.compile(r"(?P<reason>Data type mismatches .*?)\.?\s*(?:SQLSTATE|$)", re.MULTILINE)
_DISK = re.compile(r"\bjava\.(?:io|nio\.file)\.(?P<kind>\w+Exception): (?P<reason>.*)")


ENDED = (
    "Spark's Java process has ended; was it killed, or out of memory? "
    "(it gets more with --conf spark.driver.memory=4g, or of a cluster spark.executor.memory)"
)


class PipelineError(RecadoError):
    """A Spark job that cannot run as asked."""


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


def explained(error: Exception) -> str | None:
    """What a person should read about the error; None if it is no user's mistake."""
    text = str(error)
    if ours := _OURS.search(text):
        return _END_OF_OURS.split(ours["reason"], maxsplit=1)[0].strip()
    if file := _UNREADABLE.search(text):
        return _unreadable(f"/{unquote(file['path']).lstrip('/')}", _MISMATCH.search(text) or _CAUSE.search(text))
    named = _CONDITION.search(text)
    if isinstance(error, _MISTAKES) or (named and named["name"].startswith(_READABLE)):
        return _CODE.sub("", named["reason"] if named else text.partition("\n")[0]).strip()
    if _SLOW_START in text:
        return (
            "a Python worker did not start within ten seconds, which is all that Spark waits: is the machine too busy?"
        )
    if disk := _DISK.search(text):
        return f"{disk['reason'].strip()} ({disk['kind']})"
    return None


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
