"""The child process of a run: one Spark session, the parts that it is asked for, a line of JSON for each record.

``benchmarks.pipeline.start_child`` calls it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from benchmarks.harness import DisagreementError
from benchmarks.pipeline import DISAGREED, Order, Part
from benchmarks.pipeline.compare import compare
from benchmarks.pipeline.fixture import Data, Fixture
from benchmarks.pipeline.growth import growth
from benchmarks.pipeline.kernel import kernel
from benchmarks.pipeline.outputs import outputs
from benchmarks.pipeline.partitions import partitions
from benchmarks.pipeline.report import AnyRecord
from benchmarks.pipeline.state import state, ways
from recado.pipeline.session import start_session

CONF = {"spark.driver.memory": "4g"}
PARTS: dict[Part, Callable[[Fixture], Iterator[AnyRecord]]] = {
    "compare": compare,
    "kernel": kernel,
    "outputs": outputs,
    "growth": growth,
    "state": state,
    "ways": ways,
    "partitions": partitions,
}


def run_parts(fixture: Fixture) -> Iterator[AnyRecord]:
    for part in fixture.plan.parts:
        yield from PARTS[part](fixture)


def main(order: Order) -> int:
    cores = order.plan.cores
    settings = CONF | {"spark.sql.files.minPartitionNum": str(4 * cores)}
    if order.plan.parts == ("ways",):
        settings["spark.sql.shuffle.partitions"] = str(cores)
    spark = start_session("recado-bench", f"local[{cores}]", settings)
    fixture = Fixture(spark, order.plan, Data(Path(order.folder), order.plan.block))
    try:
        for record in run_parts(fixture):
            sys.stdout.buffer.write(msgspec.json.encode(record) + b"\n")
            sys.stdout.buffer.flush()
    except DisagreementError as error:
        (Path(order.folder) / "disagreement").write_text(str(error))
        return DISAGREED
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=Order)))
