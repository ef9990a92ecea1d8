"""Other ways to match, measured in the same run; ``base`` says what they have in common."""

from benchmarks.yardsticks.base import BatchYardstick, EventYardstick, UnsuitableError, Yardstick
from benchmarks.yardsticks.cel_programs import CelPrograms
from benchmarks.yardsticks.duckdb_join import DuckdbJoin
from benchmarks.yardsticks.numpy_bitset import BlockedBitset, NumpyBitset
from benchmarks.yardsticks.polars_join import PolarsJoin
from benchmarks.yardsticks.python_function import PythonFunction
from benchmarks.yardsticks.rule_engine_rules import RuleEngine

BATCH_YARDSTICKS: dict[str, type[BatchYardstick]] = {
    "numpy bitset": NumpyBitset,
    "blocked bitset": BlockedBitset,
    "polars": PolarsJoin,
    "duckdb": DuckdbJoin,
}
EVENT_YARDSTICKS: dict[str, type[EventYardstick]] = {
    "python function": PythonFunction,
    "rule-engine": RuleEngine,
    "cel": CelPrograms,
}

__all__ = [
    "BATCH_YARDSTICKS",
    "EVENT_YARDSTICKS",
    "BatchYardstick",
    "EventYardstick",
    "UnsuitableError",
    "Yardstick",
]
