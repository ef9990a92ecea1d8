"""What a user can get wrong on Spark, told in our words and not as a stack trace of the JVM.

An error of ours that was raised in an executor comes back as text inside a ``PythonException``; its last lines hold the
message. Spark's own analysis errors (a missing column, a path that is not there) carry a first line that is readable
once the error class in brackets is taken away. Anything else is a fault, and keeps its trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, ParseException, PySparkException, PythonException

from recado.errors import RecadoError

_OURS = re.compile(r"^(?:pyspark\.\S+: )?(?:\w+: )?recado\.[\w.]+Error: (?P<reason>.*)", re.MULTILINE | re.DOTALL)
_END_OF_OURS = re.compile(r"\n\s*(?:at |JVM stacktrace|Traceback |SQLSTATE|\tat )|\n\n")
_READABLE = (
    "PATH_NOT_FOUND",
    "CANNOT_READ_FILE",
    "FAILED_READ_FILE",
    "CANNOT_LOAD",
    "UNABLE_TO_INFER_SCHEMA",
    "OUTPUT_PATH",
    "PATH_ALREADY_EXISTS",
    "INVALID_VARIANT",
)
_CLASS = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_CODE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)


class PipelineError(RecadoError):
    """A Spark job that cannot run as asked."""


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn what a user can get wrong into a PipelineError; let faults pass."""
    try:
        yield
    except PySparkException as error:
        reason = explained(error)
        if reason is None:
            raise
        raise PipelineError(reason) from None


def explained(error: PySparkException) -> str | None:
    """What a person should read about the error; None if it is no user's mistake."""
    text = str(error)
    ours = _OURS.search(text)
    if ours:
        return _END_OF_OURS.split(ours["reason"], maxsplit=1)[0].strip()
    name = _class_of(error)
    if isinstance(error, (AnalysisException, ParseException)) or name.startswith(_READABLE):
        return _CODE.sub("", _CLASS.sub("", text.partition("\n")[0])).strip()
    if isinstance(error, PythonException):
        return None
    return None


def _class_of(error: PySparkException) -> str:
    return error.getCondition() or ""
