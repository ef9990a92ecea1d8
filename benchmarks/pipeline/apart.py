"""The child process of a run: one Spark session, the parts that it is asked for, a line of JSON for each record.

A JVM keeps its number of cores for life, so each number of cores has a process of its own. ``start`` is called in the
parent, ``main`` in the child.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from benchmarks.oracle import DisagreementError
from benchmarks.pipeline.compare import compare
from benchmarks.pipeline.data import Data
from benchmarks.pipeline.growth import growth
from benchmarks.pipeline.kernel import kernel
from benchmarks.pipeline.plan import Part, Plan
from benchmarks.pipeline.records import AnyRecord
from benchmarks.pipeline.stage import Stage
from benchmarks.pipeline.state import state
from benchmarks.runner import ONE_THREAD
from recado.pipeline.session import start_session

DISAGREED = 3
_ROOT = Path(__file__).parents[2]
_SEARCH_PATH = {"PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))}
"""The child and Spark's workers find this package wherever they are started."""
CONF = {"spark.driver.memory": "4g"}
_PARTS: dict[Part, Callable[[Stage], Iterator[AnyRecord]]] = {
    "compare": compare,
    "kernel": kernel,
    "growth": growth,
    "state": state,
}


class Order(msgspec.Struct, frozen=True):
    """What the child is to do."""

    plan: Plan
    folder: str


def start(plan: Plan, folder: Path) -> Iterator[AnyRecord]:
    """The records of a plan, from a process of its own, as they come."""
    order = msgspec.json.encode(Order(plan, str(folder))).decode()
    command = [sys.executable, "-m", "benchmarks.pipeline.apart", order]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | ONE_THREAD | _SEARCH_PATH) as child:
        assert child.stdout is not None
        for line in child.stdout:
            yield msgspec.json.decode(line, type=AnyRecord)
    if child.returncode == DISAGREED:
        raise DisagreementError((folder / "disagreement").read_text())
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command[:3])


def run_parts(stage: Stage) -> Iterator[AnyRecord]:
    for part in stage.plan.parts:
        yield from _PARTS[part](stage)


def main(order: Order) -> int:
    settings = CONF | {"spark.sql.files.minPartitionNum": str(4 * order.plan.cores)}
    spark = start_session("recado-bench", f"local[{order.plan.cores}]", settings)
    stage = Stage(spark, order.plan, Data(Path(order.folder), order.plan.block))
    try:
        for record in run_parts(stage):
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
