"""A whole run: each case in a process of its own, on one core, with every library held to one thread.

A fresh process gives honest memory figures and keeps one case's leftovers out of the next one's caches; the limits on
threads have to be in the environment before the libraries are imported.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

from benchmarks.cases import Case, Settings
from benchmarks.machine import describe, peer_packages, version_of
from benchmarks.records import AnyRecord
from benchmarks.targets import targets

ONE_THREAD = {
    "POLARS_MAX_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_IO_THREADS": "1",
}

Announce = Callable[[Case], None]


def run_plan(cases: Sequence[Case], settings: Settings, announce: Announce) -> Iterator[AnyRecord]:
    """The machine, the records of all cases as they come, and the targets."""
    records: list[AnyRecord] = [describe()]
    yield records[0]
    for case in cases:
        announce(case)
        for record in run_apart(case, settings):
            records.append(record)
            yield record
    yield from targets(records)


def run_apart(case: Case, settings: Settings) -> list[AnyRecord]:
    """The records of one case, measured in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with _environment(ONE_THREAD), ProcessPoolExecutor(1, mp_context=context, initializer=_settle) as pool:
        return pool.submit(_run, case, settings).result()


def _run(case: Case, settings: Settings) -> list[AnyRecord]:
    from benchmarks.measure import run_case

    return list(run_case(case, settings))


def _settle() -> None:
    """Stay on one core, where the system can be asked for that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def select(cases: Iterable[Case], names: Sequence[str], text: str = "") -> list[Case]:
    """The cases of the named workloads, or of all, whose title has this text."""
    return [case for case in cases if (not names or case.name in names) and text in case.workload.title]


def install_peers() -> str:
    """Install the peers that are missing, with uv or pip; a message about it, empty if none was missing."""
    missing = [package for package in peer_packages() if not version_of(package)]
    if not missing:
        return ""
    uv = shutil.which("uv")
    command = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
    done = subprocess.run([*command, *missing], capture_output=True, text=True, check=False)
    version_of.cache_clear()
    if done.returncode:
        return f"could not install {', '.join(missing)}; they are left out\n{done.stderr.strip()}"
    return f"installed {', '.join(missing)}"
