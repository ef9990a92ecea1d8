"""Sweeps of simulations on Spark executors: every run is one row in, and its outcome one row out.

Runs travel as the JSON of their description and are performed by ``recado.sim.runs.run``, as on one machine; so
the figures are the same. They go in waves of a few runs for every core: each run is a partition of its own, since runs
differ much in length, and after each wave the driver has what was done, also of a sweep that is then broken off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from recado.errors import RecadoError
from recado.pipeline.errors import user_errors
from recado.pipeline.session import is_remote
from recado.sim.runs.run import Outcome, execute_run
from recado.sim.runs.scenario import Run, ScenarioError

RUNS_A_CORE = 8
REMOTE_CORES = 32
"""A session that is connected to a server does not know how many cores that has."""
_SCHEMA = pa.schema([("outcome", pa.binary()), ("problem", pa.string())])


def execute_on_spark(spark: SparkSession, runs: Sequence[Run]) -> Iterator[Outcome]:
    """The outcomes of the runs, wave by wave."""
    cores = REMOTE_CORES if is_remote(spark) else spark.sparkContext.defaultParallelism
    wave = cores * RUNS_A_CORE
    for start in range(0, len(runs), wave):
        yield from _wave(spark, runs[start : start + wave])


def _wave(spark: SparkSession, runs: Sequence[Run]) -> Iterator[Outcome]:
    rows = [(place, msgspec.json.encode(run)) for place, run in enumerate(runs)]
    with user_errors():
        described = spark.createDataFrame(rows, "place int, run binary").repartitionByRange(len(runs), "place")
        done = described.mapInArrow(_perform_batches, "outcome binary, problem string").collect()
    for row in done:
        if row.problem is not None:
            raise ScenarioError(row.problem)
        yield msgspec.json.decode(row.outcome, type=Outcome)


def _perform_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor. What a person can mend comes back as a sentence, not as a stack of Java."""
    for batch in batches:
        for run in batch.column("run"):
            outcome, problem = None, None
            try:
                outcome = msgspec.json.encode(execute_run(msgspec.json.decode(run.as_py(), type=Run)))
            except RecadoError as error:
                problem = str(error)
            yield pa.record_batch([pa.array([outcome], pa.binary()), pa.array([problem], pa.string())], schema=_SCHEMA)
