"""CPU time of Spark, told apart: the JVM, and the Python processes that it started.

CPU time says where a job's work is done, and unlike the clock it moves little when the machine has other work. It is
read from ``/proc``; only Linux has that, and elsewhere all is 0.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

JVM = "java"


class Cpu(NamedTuple):
    """Seconds of user and system time."""

    jvm: float
    python: float

    def since(self, before: Cpu) -> Cpu:
        return Cpu(self.jvm - before.jvm, self.python - before.python)


class _Process(NamedTuple):
    pid: int
    name: str
    parent: int
    own: float
    ended: float
    """Of its children that have ended."""


def spark_cpu(proc: Path = Path("/proc"), parent: int | None = None) -> Cpu:
    """So far, of the JVM that a process (this one, unless another is named) has started, and of all below the JVM."""
    processes = list(_processes(proc))
    jvms = [one for one in processes if one.name == JVM and one.parent == (parent or os.getpid())]
    below, found = {one.pid for one in jvms}, list[_Process]()
    while new := [one for one in processes if one.parent in below and one not in found]:
        found += new
        below.update(one.pid for one in new)
    return Cpu(sum(one.own for one in jvms), sum(one.own + one.ended for one in found))


def _processes(proc: Path) -> list[_Process]:
    found = []
    for stat in proc.glob("[0-9]*/stat"):
        try:
            found.append(_process(stat.read_text()))
        except OSError:  # it has ended meanwhile
            continue
    return found


def _process(stat: str) -> _Process:
    """A name may hold blanks and brackets, so fields are counted from its last bracket."""
    start, _, rest = stat.rpartition(")")
    pid, _, name = start.partition(" (")
    fields = rest.split()
    user, system, ended_user, ended_system = (int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:15])
    return _Process(int(pid), name, int(fields[1]), user + system, ended_user + ended_system)
