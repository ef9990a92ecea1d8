"""Where compiled kernels are kept, and for how long."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recado.matching import jit


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A cache of its own; the folder that the kernels in use came from is found again afterwards."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    jit.cache_folder.cache_clear()
    yield tmp_path / "recado"
    jit.cache_folder.cache_clear()


def old_folders(folder, count: int, age: float) -> list[str]:
    """Folders of other versions, used so many days ago and longer."""
    names = [f"kernels-{number:016x}" for number in range(count)]
    for number, name in enumerate(names):
        (folder / name / "deep").mkdir(parents=True)
        (folder / name / "deep" / "index.nbi").write_bytes(b"x")
        used = folder.stat().st_mtime - (age + number) * jit.DAY
        os.utime(folder / name, (used, used))
    return names


def kept(folder) -> list[str]:
    current = Path(jit.cache_folder())
    assert current.is_dir()
    return sorted(other.name for other in folder.iterdir() if other != current)


def test_the_versions_used_longest_ago_are_removed(folder):
    names = old_folders(folder, 6, age=2)
    assert kept(folder) == names[: jit.VERSIONS_KEPT - 1]


def test_versions_used_within_a_day_stay(folder):
    names = old_folders(folder, 6, age=0)
    assert kept(folder) == names[: jit.VERSIONS_KEPT - 1]
    for name in names:
        (folder / name).mkdir(exist_ok=True)
        os.utime(folder / name)
    jit.cache_folder.cache_clear()
    assert kept(folder) == names


def test_other_folders_are_left_alone(folder):
    names = old_folders(folder, 6, age=2)
    (folder / "mine").mkdir()
    assert kept(folder) == [*names[: jit.VERSIONS_KEPT - 1], "mine"]


def test_a_cache_that_cannot_be_written_is_no_error(folder):
    folder.write_text("a file where the folder should be")
    assert jit.cache_folder().startswith(str(folder))
