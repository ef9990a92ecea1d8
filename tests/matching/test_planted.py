"""Every planted fault is found by the comparison that ``test_exact`` makes (``matching.exact.faults`` has them)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from matching.exact.faults import FAULTS

pytestmark = pytest.mark.timeout(1200)  # whichever test comes first waits for all faults, in plain Python

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    """By fault, which way found it; in a process of its own, where the kernels are plain Python."""
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
    command = [sys.executable, "-m", "matching.exact.faults"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    return {line["fault"]: line["found"] for line in lines}


def test_there_are_enough_of_them():
    assert len(FAULTS) >= 40


def test_without_a_fault_nothing_is_found(found):
    assert found["nothing"] == ""


@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_is_found(found, fault):
    assert found[fault], f"{fault}: nothing noticed it"
