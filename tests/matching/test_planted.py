"""Every planted fault is found by the comparison that ``test_exact`` makes (``matching.exact.faults`` has them)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from matching.exact.faults import FAULTS

TESTS = Path(__file__).parents[1]
PARTS = 2
RARE = (
    "the test of a set in a block leaves out its last value",
    "what a matrix leaves of a batch is not verified",
    "a column that was cut begins at its first row",
)
"""The four ways that are tried first do not find these; the others do, which takes as long as all the rest."""
COMMON = [fault for fault in FAULTS if fault not in RARE]


def hunt(*faults: str) -> dict[str, str]:
    """By fault, which way found it; in a process of its own, where the kernels are plain Python."""
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
    command = [sys.executable, "-m", "matching.exact.faults", *faults]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    return {line["fault"]: line["found"] for line in lines}


def test_there_are_enough_of_them():
    assert len(COMMON) >= 40
    assert len(COMMON) + len(RARE) == len(FAULTS)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_nearly_all_are_found_by_the_first_ways_and_nothing_where_there_is_none(part):
    some = COMMON[part::PARTS]
    found = hunt(*some)
    assert found.pop("nothing") == ""
    assert [fault for fault in some if not found[fault]] == []


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_every_fault_is_found():
    found = hunt()
    assert found.pop("nothing") == ""
    assert [fault for fault in FAULTS if not found[fault]] == []
