"""The whole chain once: files, harness, monitoring log, the analyser on Spark; beside it the same from arrays.

The document's server (Algorithm 1, one subscription after another) is given all events and subscriptions of the data
set from its files, with Recado's Feng measure. What the log analyser finds must be what ``grid`` computed.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from experiments.semantics.dataset import FULL, JUDGED, LABELS, QUICK, generate, read_dataset, write_dataset
from experiments.semantics.grid import Floats, Policy, Similarities, Vocabulary, as_recado, grid_of, macro, micro, sweep
from experiments.semantics.server import (
    EventService,
    LogMonitor,
    Receiver,
    Settings,
    Similarity,
    load_subscriptions,
    run_workload,
)
from recado.semantics.engine import Semantics
from recado.semantics.settings import SemanticSettings

Numbers = dict[str, float | str]

THRESHOLD = 0.25
LOG = "log.ndjson"


def logs(quick: bool) -> Numbers:
    with tempfile.TemporaryDirectory(prefix="recado-semantics-") as scratch:
        folder = Path(scratch)
        write_dataset(generate(QUICK if quick else FULL), folder)
        numbers = _run(folder)
        return numbers | _analysed(folder)


def _run(folder: Path) -> Numbers:
    """The workload through the server into the log; and what the arrays say of the same."""
    dataset = read_dataset(folder)
    grid = grid_of(dataset)
    alike = as_recado(Semantics(), grid.vocabulary, SemanticSettings(measure="feng"))
    receiver = Receiver()
    started = time.perf_counter()
    with LogMonitor(folder / LOG) as monitor:
        names, values = lookups(grid.vocabulary, alike)
        settings = Settings(THRESHOLD, THRESHOLD, unmatched="fail")
        server = EventService(settings, names, values, receiver, monitor)
        load_subscriptions(server, dataset.subscriptions)
        run_workload(server, dataset.events)
    seconds = time.perf_counter() - started
    counted = sweep(grid, alike, [(THRESHOLD, THRESHOLD)], Policy(unmatched="fail"))[0]
    return {
        "received": receiver.received,
        "seconds": seconds,
        "arrays.macro_precision": macro(counted).precision,
        "arrays.macro_recall": macro(counted).recall,
        "arrays.micro_f": micro(counted).f,
    }


def lookups(vocabulary: Vocabulary, alike: Similarities) -> tuple[Similarity, Similarity]:
    """The similarities as the functions that the server calls."""
    names = _table(vocabulary.wanted_names, vocabulary.event_names, alike.names)
    values = _table(vocabulary.wanted_values, vocabulary.event_values, alike.values)
    return (lambda a, b: names[a][b]), (lambda a, b: values[a][b])


def _table(wanted: tuple[str, ...], there: tuple[str, ...], matrix: Floats) -> dict[str, dict[str, float]]:
    return {
        name: dict(zip(there, row, strict=True)) for name, row in zip(wanted, np.asarray(matrix).tolist(), strict=True)
    }


def _analysed(folder: Path) -> Numbers:
    from experiments.semantics.log_analysis import counts, quality, read_lists, read_log, speed  # noqa: PLC0415  # an extra
    from recado.pipeline.session import start_session  # noqa: PLC0415

    spark = start_session("recado semantics log")
    try:
        log = read_log(spark, str(folder / LOG)).cache()
        labels, judged = (
            read_lists(spark, str(folder / name), column) for name, column in ((LABELS, "event"), (JUDGED, "seed"))
        )
        found = quality(counts(log, labels, judged)).first()
        fast = speed(log).first()
        assert found is not None
        assert fast is not None
        rows = log.count()
    finally:
        spark.stop()
    return {
        "log.lines": rows,
        **{f"spark.{name}": float(value) for name, value in (found.asDict() | fast.asDict()).items()},
    }
