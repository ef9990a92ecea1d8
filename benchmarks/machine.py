"""Where a run took place: processor, memory, versions. No date and no host name, so that pages compare."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.records import Machine
from benchmarks.yardsticks import BATCH_YARDSTICKS, EVENT_YARDSTICKS

OWN_PACKAGES = ("numpy", "numba", "pyarrow", "msgspec")


@lru_cache
def version_of(package: str) -> str:
    """The installed version; empty if it is not installed."""
    if package == "python":
        return platform.python_version()
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def peer_packages() -> list[str]:
    """The PyPI packages of all peers."""
    packages = [peer.package for peer in BATCH_YARDSTICKS.values()] + [p.package for p in EVENT_YARDSTICKS.values()]
    return [package for package in dict.fromkeys(packages) if package not in ("python", "numpy")]


def describe(packages: Sequence[str] = ()) -> Machine:
    """This machine, with the versions of the packages; by default those of the matching benchmark."""
    versions = {package: version_of(package) for package in packages or (*OWN_PACKAGES, *peer_packages())}
    return Machine(
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        memory_gb=round(_memory_bytes() / 2**30, 1),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        packages={package: number for package, number in versions.items() if number},
    )


def _cpu() -> str:
    """Linux knows the name of the processor; elsewhere the platform's answer has to do."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory_bytes() -> int:
    if "SC_PHYS_PAGES" not in os.sysconf_names:
        return 0
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
