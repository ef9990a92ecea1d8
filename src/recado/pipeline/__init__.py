"""Everything Spark: the same filters and the same index, inside executors, on Arrow batches.

Each job is a function from DataFrames to a DataFrame (``match``, ``match_partitioned``, ``constrain``, the report's
tables, ``frequencies``); the command line adds reading, writing and a session. This is the only room that imports
PySpark, and nothing else imports it until a Spark job is asked for.

::

    from recado.pipeline import matching, register

    register(spark, {"alerts": "sets/alerts"})  # format("recado"), and the functions of SQL
    found = events.transform(matching("sets/alerts"))

The names in ``__all__`` are imported when they are first asked for; modules below have the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["SubscriptionSet", "constrain", "matching", "notifications", "read_log", "register", "start_stream"]

if TYPE_CHECKING:
    from recado.pipeline.constraints import constrain
    from recado.pipeline.match import matching, notifications
    from recado.pipeline.sets import SubscriptionSet
    from recado.pipeline.source import read_log
    from recado.pipeline.sql import register
    from recado.pipeline.stream import start_stream
else:
    # Hidden from type checkers: they would take a module with __getattr__ to have every name.
    from importlib import import_module

    from recado.errors import explain_missing

    _PLACES = {
        "constrain": "constraints",
        "matching": "match",
        "notifications": "match",
        "SubscriptionSet": "sets",
        "read_log": "source",
        "register": "sql",
        "start_stream": "stream",
    }

    def __getattr__(name: str) -> object:
        if name not in _PLACES:
            raise AttributeError(f"module 'recado.pipeline' has no attribute {name!r}")
        try:
            module = import_module(f"recado.pipeline.{_PLACES[name]}")
        except ModuleNotFoundError as error:
            raise explain_missing(error, f"recado.pipeline.{name}", "spark") from error
        value = globals()[name] = getattr(module, name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
