"""Results as tables: one wide row for every run, as Parquet and CSV.

The columns are ``scenario``, ``configuration``, ``run`` and ``seed``; the parameters by their names in the scenario
file (``topology.nodes``); the metrics (``subscribe.messages``); and, under ``meta.``, where and how the run was made.
All but ``meta.`` is the same whenever, wherever and in whatever order the runs were made.
"""

from __future__ import annotations

import fcntl
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from recado.sim.runs.run import Outcome
from recado.sim.runs.scenario import Run, ScenarioError, parameters
from recado.version import __version__

# --- The journal of a sweep: one line for every finished run, so that a sweep which was broken off goes on -----------
#
# A folder belongs to one scenario and to one version of the code. What was run is never run again, and never thrown
# away unless ``force`` says so: a folder that holds other runs, or runs of other code, is refused. A run is known by
# its configuration, its number and its setting; more repeats later only add runs. One process writes at a time; the
# last line may be torn by a crash, and then that run is done again.


JOURNAL = "runs.ndjson"
_ROOMS = ("sim", "protocols", "filters", "model")
"""The rooms whose code decides what a run gives."""
_SOURCES = frozenset((".py", ".toml", ".txt", ".json"))


class About(msgspec.Struct, frozen=True):
    """Where and by what a run was made."""

    version: str
    code: str
    commit: str
    host: str
    python: str


class Entry(msgspec.Struct, frozen=True):
    key: str
    outcome: Outcome
    about: About


class Journal:
    """The runs of a folder that are done; use as a context, since it holds a lock on the folder."""

    def __init__(self, folder: Path, runs: Sequence[Run], force: bool = False) -> None:
        self.folder, self.path = folder, folder / JOURNAL
        self.keys = {key_of(run): run for run in runs}
        self._about = about(*own_sources(runs))
        folder.mkdir(parents=True, exist_ok=True)
        self._file = _open_locked(self.path)
        if force:
            self._file.truncate(0)
        self.entries: dict[str, Entry] = {}
        try:
            self._load()
        except ScenarioError:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def missing(self) -> list[Run]:
        return [run for key, run in self.keys.items() if key not in self.entries]

    def add(self, outcome: Outcome) -> None:
        entry = Entry(key_of(outcome.run), outcome, self._about)
        self._file.write(msgspec.json.encode(entry) + b"\n")
        self._file.flush()
        self.entries[entry.key] = entry

    def outcomes(self) -> list[Entry]:
        """What is done, in the order of the scenario and not in that of finishing."""
        return [self.entries[key] for key in self.keys if key in self.entries]

    def _load(self) -> None:
        good = 0
        self._file.seek(0)
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            entry = _decode(line, self.path)
            self._accept(entry)
            self.entries[entry.key] = entry
            good += len(line)
        self._file.truncate(good)
        self._file.seek(good)

    def _accept(self, entry: Entry) -> None:
        if entry.key not in self.keys:
            run = entry.outcome.run
            raise ScenarioError(
                f"{self.folder} holds run {run.number} of a configuration {run.configuration!r} that is not in this "
                "scenario; choose another folder with --out, or throw that away with --force"
            )
        if entry.about.code != self._about.code:
            raise ScenarioError(
                f"{self.folder} holds runs that other code made (version {entry.about.version}, "
                f"code {entry.about.code}; this is {self._about.code}); choose another folder with --out, or run all "
                "again with --force"
            )


def key_of(run: Run) -> str:
    """What a run is known by: all that decides its figures, but not how many runs there are."""
    setting = msgspec.to_builtins(run.setting)
    del setting["run"]["repeats"]
    text = msgspec.json.encode([run.configuration, run.number, setting], order="deterministic")
    return blake2b(text, digest_size=12).hexdigest()


@cache
def about(*more: Path) -> About:
    """Where this process runs, and by what code; ``more`` is as for ``code_digest``."""
    return About(__version__, code_digest(*more), _commit(), socket.gethostname(), platform.python_version())


@cache
def code_digest(*more: str | Path) -> str:
    """A short fingerprint of the code and the tables that decide what runs give.

    ``more`` adds rooms of the package by their names, and folders or files elsewhere by their paths; a place without
    any is a ValueError. What judges the results of runs, ``expected.toml``, is not a part of it.
    """
    package = Path(__file__).parents[2]
    digest = blake2b(digest_size=6)
    for room in (*_ROOMS, *more):
        place = package / room  # a path from the root of the file system stays what it is
        inside = [path for path in place.rglob("*") if path.suffix in _SOURCES and path.name != "expected.toml"]
        sources = [place] if place.is_file() else sorted(inside)
        if not sources:
            raise ValueError(f"{place} has no code")
        for path in sources:
            name = path.relative_to(place.parent).as_posix()
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def own_sources(runs: Iterable[Run]) -> list[Path]:
    """The source files of protocols that are not part of Recado: what they decide changes with them, too."""
    names = dict.fromkeys(run.setting.protocol.name for run in runs)
    modules = [sys.modules.get(name.partition(":")[0]) for name in names if ":" in name]
    return [Path(module.__file__).resolve() for module in modules if module is not None and module.__file__]


def _commit() -> str:
    """The commit of the working tree that the package is run from, if it is one and git is there."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603  # fixed
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _open_locked(path: Path) -> BinaryIO:
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ScenarioError(f"another process is running a sweep in {path.parent}") from None
    return file


def _decode(line: bytes, path: Path) -> Entry:
    try:
        return msgspec.json.decode(line, type=Entry)
    except msgspec.DecodeError as error:
        raise ScenarioError(f"{path} is damaged, or of another version ({error}); --force begins anew") from None


# --- Results as tables: one wide row for every run, as Parquet and CSV -----------------------------------------------

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
