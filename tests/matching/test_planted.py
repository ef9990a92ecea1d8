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
SOME = list(FAULTS)[:4]


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
    assert len(FAULTS) >= 40


def test_some_are_found_and_nothing_where_there_is_none():
    found = hunt(*SOME)
    assert found.pop("nothing") == ""
    assert [fault for fault in SOME if not found[fault]] == []


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_every_fault_is_found():
    found = hunt()
    assert found.pop("nothing") == ""
    assert [fault for fault in FAULTS if not found[fault]] == []
