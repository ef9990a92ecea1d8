"""Other ways to match, measured in the same run; ``bitset`` says what they have in common."""

from __future__ import annotations

import shutil
import subprocess
import sys

from benchmarks.baselines.bitset import (
    BatchBaseline,
    BlockedBitset,
    EventBaseline,
    NumpyBitset,
    UnsuitableError,
)
from benchmarks.baselines.joins import DuckdbJoin, PolarsJoin
from benchmarks.baselines.rules import CelPrograms, PythonFunction, RuleEngine
from benchmarks.harness import version_of

BATCH_BASELINES: dict[str, type[BatchBaseline]] = {
    "numpy bitset": NumpyBitset,
    "blocked bitset": BlockedBitset,
    "polars": PolarsJoin,
    "duckdb": DuckdbJoin,
}
EVENT_BASELINES: dict[str, type[EventBaseline]] = {
    "python function": PythonFunction,
    "rule-engine": RuleEngine,
    "cel": CelPrograms,
}


def package_of(name: str) -> str:
    """The PyPI package that a baseline needs."""
    return (BATCH_BASELINES.get(name) or EVENT_BASELINES[name]).package


def peer_packages() -> list[str]:
    """The PyPI packages of all baselines that are not ours anyway."""
    packages = dict.fromkeys(package_of(name) for name in (*BATCH_BASELINES, *EVENT_BASELINES))
    return [package for package in packages if package not in ("python", "numpy")]


def install_missing() -> str:
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


__all__ = [
    "BATCH_BASELINES",
    "EVENT_BASELINES",
    "BatchBaseline",
    "EventBaseline",
    "UnsuitableError",
    "install_missing",
    "package_of",
    "peer_packages",
]
