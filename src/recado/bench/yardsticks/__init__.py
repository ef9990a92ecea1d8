"""Other ways to match, measured in the same run; ``base`` says what they have in common."""

from recado.bench.yardsticks.base import BatchYardstick, EventYardstick, UnsuitableError, Yardstick
from recado.bench.yardsticks.cel_programs import CelPrograms
from recado.bench.yardsticks.duckdb_join import DuckdbJoin
from recado.bench.yardsticks.numpy_bitset import BlockedBitset, NumpyBitset
from recado.bench.yardsticks.polars_join import PolarsJoin
from recado.bench.yardsticks.python_function import PythonFunction
from recado.bench.yardsticks.rule_engine_rules import RuleEngine

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
