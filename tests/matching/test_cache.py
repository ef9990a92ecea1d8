"""Where compiled kernels are kept, for how long, and what happens if that goes wrong."""

from __future__ import annotations

import importlib
import logging
import os
import re
import sys
from importlib.util import cache_from_source
from pathlib import Path

import numpy as np
import pytest

import recado
from recado.matching.kernels import cache, jit
from recado.matching.kernels.jit import KERNELS


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A cache of its own; the folder that the kernels in use came from is found again afterwards."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_warned", [])
    cache.cache_folder.cache_clear()
    cache.warn_once.cache_clear()
    yield tmp_path / "recado"
    cache.cache_folder.cache_clear()


def test_a_change_of_any_file_that_kernels_are_made_of_compiles_anew():
    """Those that have compiled functions, and those they import: a constant of theirs is part of the machine code."""
    root = Path(recado.__file__).parent
    made_of: set[Path] = set()
    for path in (root / "matching").rglob("*.py"):
        text = path.read_text()
        if re.search(r"^@(jit|inner|lean)", text, re.MULTILINE):
            modules = re.findall(r"^from recado\.([\w.]+) import", text, re.MULTILINE)
            made_of |= {path, *(root.joinpath(*module.split(".")).with_suffix(".py") for module in modules)}
    assert root / "matching" / "kernels" / "single.py" in made_of
    assert root / "matching" / "registry.py" in made_of
    assert {path for path in made_of if path.exists()} <= set(cache.sources())


def test_a_kernel_outside_of_the_package_is_named_after_the_content_of_its_file(folder, monkeypatch, tmp_path):
    module = tmp_path / "foreign.py"
    monkeypatch.syspath_prepend(tmp_path)
    results = []
    for increment in (1, 2):
        module.write_text(
            "from recado.matching.kernels.jit import jit\n\n\n@jit\ndef add(number):\n"
            f"    return number + {increment}\n"
        )
        monkeypatch.delitem(sys.modules, "foreign", raising=False)
        importlib.invalidate_caches()
        Path(cache_from_source(module)).unlink(missing_ok=True)  # of the same second and size, it would be taken
        jit._content.cache_clear()
        results.append(importlib.import_module("foreign").add(1))
        KERNELS.pop()
    assert results == [2, 3]
    assert len(list(cache.cache_folder().iterdir())) == 2


def test_the_folder_is_named_after_the_content_of_every_source(folder, monkeypatch, tmp_path):
    copies = []
    for number, path in enumerate(cache.sources()):
        copies.append(tmp_path / f"{number}.py")
        copies[-1].write_bytes(path.read_bytes())
    monkeypatch.setattr(cache, "sources", lambda: copies)
    names = {cache.cache_folder().name}
    for copy in copies:
        copy.write_bytes(copy.read_bytes() + b"\n")
        cache.cache_folder.cache_clear()
        names.add(cache.cache_folder().name)
    assert len(names) == len(copies) + 1


def old_folders(folder, count: int, age: float) -> list[str]:
    """Folders of other versions, used so many days ago and longer."""
    names = [f"kernels-{number:016x}" for number in range(count)]
    for number, name in enumerate(names):
        (folder / name / "deep").mkdir(parents=True)
        (folder / name / "deep" / "index.nbi").write_bytes(b"x")
        used = folder.stat().st_mtime - (age + number) * cache.DAY
        os.utime(folder / name, (used, used))
    return names


def kept(folder) -> list[str]:
    current = cache.cache_folder()
    assert current.is_dir()
    return sorted(other.name for other in folder.iterdir() if other != current)


def test_the_versions_used_longest_ago_are_removed(folder):
    names = old_folders(folder, 6, age=2)
    assert kept(folder) == names[: cache.VERSIONS_KEPT - 1]


def test_versions_used_within_a_day_stay(folder):
    names = old_folders(folder, 6, age=0)
    assert kept(folder) == names[: cache.VERSIONS_KEPT - 1]
    for name in names:
        (folder / name).mkdir(exist_ok=True)
        os.utime(folder / name)
    cache.cache_folder.cache_clear()
    assert kept(folder) == names


def test_other_folders_are_left_alone(folder):
    names = old_folders(folder, 6, age=2)
    (folder / "mine").mkdir()
    assert kept(folder) == [*names[: cache.VERSIONS_KEPT - 1], "mine"]


def test_a_cache_that_cannot_be_written_is_no_error(folder):
    folder.write_text("a file where the folder should be")
    assert cache.cache_folder().is_relative_to(folder)
    assert not cache.can_write()
    assert not cache.is_prepared()


def made():
    """A small kernel, as if in a new process, and what has been compiled for it."""
    from recado.matching.kernels.jit import KERNELS, lean_jit

    @lean_jit
    def total(numbers):
        result = 0
        for number in numbers:
            result += number
        return result

    KERNELS.remove(total)
    assert total(np.arange(5)) == 10
    return total


def compiled_now(monkeypatch) -> bool:
    """Does another process have to compile the small kernel?"""
    from numba.core.dispatcher import _FunctionCompiler

    calls = []
    compile = _FunctionCompiler.compile
    monkeypatch.setattr(_FunctionCompiler, "compile", lambda *args: calls.append(args) or compile(*args))
    made()
    monkeypatch.setattr(_FunctionCompiler, "compile", compile)
    return bool(calls)


def test_a_kernel_is_compiled_once_and_loaded_then(folder, monkeypatch, caplog):
    assert compiled_now(monkeypatch)
    assert not compiled_now(monkeypatch)
    assert len(list(cache.cache_folder().iterdir())) == 1
    assert not caplog.records


DAMAGE = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "garbage": lambda data: os.urandom(len(data)),
    "one bit": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "checksum alone": lambda data: data[: cache.DIGEST_BYTES],
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_file_is_told_and_made_again(folder, monkeypatch, caplog, how):
    made()
    (path,) = cache.cache_folder().iterdir()
    good = path.read_bytes()
    path.write_bytes(DAMAGE[how](good))
    with caplog.at_level(logging.WARNING):
        assert compiled_now(monkeypatch)
    assert [f"{path} is damaged" in record.getMessage() for record in caplog.records] == [True]
    assert not compiled_now(monkeypatch)


def test_what_is_no_kernel_at_all_is_made_again(folder, monkeypatch, caplog):
    made()
    (path,) = cache.cache_folder().iterdir()
    cache.write_file(path, b"another program's, with the right checksum")
    assert compiled_now(monkeypatch)
    assert not compiled_now(monkeypatch)
    assert len(caplog.records) == 1


def test_a_folder_that_cannot_be_written_is_told_once(folder, monkeypatch, caplog):
    """The kernels are compiled for this process; whoever is asked next compiles again."""
    folder.write_text("a file where the folder should be")
    assert compiled_now(monkeypatch)
    assert compiled_now(monkeypatch)
    assert len(caplog.records) == 1
    assert "NUMBA_CACHE_DIR names another folder" in caplog.records[0].getMessage()


def test_a_full_disk_is_told_once_and_leaves_nothing(folder, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    made()
    (path,) = cache.cache_folder().iterdir()
    path.unlink()
    monkeypatch.setattr("recado.files.sync", full)
    assert compiled_now(monkeypatch)
    cache.mark_prepared()
    assert not list(cache.cache_folder().iterdir())
    assert not cache.is_prepared()
    assert [record.getMessage().count("No space left on device") for record in caplog.records] == [1]


def test_a_folder_that_can_only_be_read_serves_what_is_in_it(folder, monkeypatch, caplog):
    made()
    cache.mark_prepared()
    monkeypatch.setattr("os.access", lambda path, mode: False)
    monkeypatch.setattr("pathlib.Path.write_bytes", lambda *_: pytest.fail("written"))
    assert not cache.can_write()
    assert cache.is_prepared()
    assert not compiled_now(monkeypatch)
    assert not caplog.records


def test_what_was_prepared_for_another_processor_is_not(folder, monkeypatch):
    cache.mark_prepared()
    assert cache.is_prepared()
    monkeypatch.setattr(cache, "_processor", lambda: "another")
    cache._mark.cache_clear()
    assert not cache.is_prepared()
    cache._mark.cache_clear()
