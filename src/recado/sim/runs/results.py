"""Results as tables: one wide row for every run, as Parquet and CSV.

The columns are ``scenario``, ``configuration``, ``run`` and ``seed``; the parameters by their names in the scenario
file (``topology.nodes``); the metrics (``subscribe.messages``); and, under ``meta.``, where and how the run was made.
All but ``meta.`` is the same whenever, wherever and in whatever order the runs were made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from recado.sim.runs.journal import Entry
from recado.sim.runs.setting import ScenarioError, parameters

PARQUET, CSV = "results.parquet", "results.csv"
META = "meta."

Row = dict[str, Any]


def row_of(entry: Entry) -> Row:
    outcome, about = entry.outcome, entry.about
    run = outcome.run
    return {
        "scenario": run.scenario,
        "configuration": run.configuration,
        "run": run.number,
        "seed": outcome.seed,
        **{name: _cell(value) for name, value in parameters(run.setting).items()},
        **{name: float(value) for name, value in outcome.metrics.items()},
        f"{META}version": about.version,
        f"{META}code": about.code,
        f"{META}commit": about.commit,
        f"{META}host": about.host,
        f"{META}python": about.python,
        f"{META}steps": outcome.steps,
        f"{META}wall_seconds": outcome.wall_seconds,
    }


def _cell(value: Any) -> Any:
    """Lists have no place in a cell, and an option may be a text in one run and a number in another."""
    return value if isinstance(value, (str, int, float, bool)) else msgspec.json.encode(value).decode()


def table_of(entries: Iterable[Entry]) -> pa.Table:
    """All runs; a column that a run does not have is empty there."""
    rows = [row_of(entry) for entry in entries]
    names = _names(rows)
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names})


def _names(rows: Sequence[Row]) -> list[str]:
    """Every name of any row; those under ``meta.`` last."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [name for name in names if not name.startswith(META)] + [name for name in names if name.startswith(META)]


def _column(values: list[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return pa.array([None if value is None else float(value) for value in values])
    if len(kinds) > 1:
        return pa.array([None if value is None else str(value) for value in values])
    return pa.array(values)


def write_results(folder: Path, entries: Iterable[Entry]) -> pa.Table:
    """Both files; each appears whole or not at all."""
    table = table_of(entries)
    draft = folder / ".draft"
    pa.parquet.write_table(table, draft, compression="zstd")
    draft.replace(folder / PARQUET)
    pa.csv.write_csv(table, draft)
    draft.replace(folder / CSV)
    return table


def read_results(path: Path) -> list[Row]:
    """The rows of a results file, or of a folder that holds one."""
    place = path / PARQUET if path.is_dir() else path
    if not place.is_file():
        raise ScenarioError(f"{place} is not there: the results of `recado sim run`, a folder, or its .parquet or .csv")
    try:
        table = pa.csv.read_csv(place) if place.suffix == ".csv" else pa.parquet.read_table(place)
    except pa.ArrowException as error:
        raise ScenarioError(f"{place} cannot be read: {error}") from None
    rows: list[Row] = table.to_pylist()
    return rows
