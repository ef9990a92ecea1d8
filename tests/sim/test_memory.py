"""Large pages are asked for where there are some, and change nothing that a program sees."""

import sys
from pathlib import Path

import pytest

from recado.sim.memory import use_large_pages

SWITCH = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def huge_kilobytes() -> int:
    text = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8")
    return int(text.split("AnonHugePages:")[1].split()[0])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="large pages are asked for on Linux")
def test_objects_are_moved_to_large_pages_and_stay_the_same():
    held = [str(number) for number in range(400_000)]
    size = use_large_pages()
    assert size > 16 << 20
    assert held == [str(number) for number in range(400_000)]
    if SWITCH.exists() and "[never]" not in SWITCH.read_text(encoding="utf-8"):
        # The system may be short of large pages, so this asks only whether it gave any.
        assert huge_kilobytes() > 0


def test_elsewhere_it_does_nothing(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert use_large_pages() == 0
