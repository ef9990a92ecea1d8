"""The process on each executor that Spark forks its Python workers from, with everything they need loaded beforehand.

Spark starts it as ``python -m recado.pipeline.daemon`` (the setting ``spark.python.daemon.module``). A worker of
Spark's own daemon loads numba, pyarrow and the kernels by itself, which takes it 2.5 s of CPU time and some hundred
megabytes; one that is forked from here shares them with its siblings. What is loaded is also taken out of Python's
garbage collector: a worker collects after each task, and would look at all of these objects again (0.09 s).

Nothing is compiled here: where the kernels are not prepared yet, the first worker sees to that
(``recado.kernels.prepare_and_tell``), and it and its siblings load them.
"""

from __future__ import annotations

import gc

import pyarrow as pa
from pyspark.daemon import manager

from recado.filters.expression import parse
from recado.matching.batch import match_batch
from recado.matching.index import Index
from recado.matching.kernels.cache import is_prepared
from recado.model.subscription import Subscription
from recado.pipeline import match, worker

LOADED = match, worker
"""What tasks are made of, and whatever that imports."""


def load_kernels() -> None:
    """Match one event, which loads what matching needs."""
    index = Index()
    index.add_many([Subscription("s", parse("x > 0"))])
    match_batch(index, pa.record_batch({"id": ["e"], "x": [1]}))


def main() -> None:
    """Load, then fork workers as Spark asks for them."""
    if is_prepared():
        load_kernels()
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
