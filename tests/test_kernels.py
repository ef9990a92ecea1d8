"""The process that compiles kernels."""

from __future__ import annotations

import pytest

from recado import kernels
from recado.matching.kernels import cache


@pytest.fixture
def program(monkeypatch):
    """Let another program run instead of the one that compiles."""

    def run(text):
        real = kernels.subprocess.Popen
        monkeypatch.setattr(
            kernels.subprocess, "Popen", lambda command, **options: real([command[0], "-c", text], **options)
        )

    return run


def test_waiting_tells_the_time(program):
    program("import time; time.sleep(0.5)")
    build, seen = kernels.Build(background=False), []
    build.wait(seen.append)
    assert seen == sorted(seen)
    assert seen
    assert (build.is_running, build.fault) == (False, "")
    build.stop()


def test_a_build_that_fails_says_why(program):
    program("raise SystemExit('one\\nLLVM is broken')")
    build = kernels.Build(background=True)
    build.wait()
    assert build.fault == "LLVM is broken"
    build.stop()


def test_a_build_can_be_stopped(program):
    program("import time; time.sleep(600)")
    build = kernels.Build(background=True)
    assert build.is_running
    build.stop()
    assert not build.is_running


def test_nothing_is_built_where_nothing_can_be_kept_or_all_is_there(monkeypatch):
    monkeypatch.setattr(kernels, "Build", lambda **_: pytest.fail("a process was started"))
    monkeypatch.setattr(kernels, "is_prepared", lambda: True)
    kernels.prepare()
    monkeypatch.setattr(kernels, "is_prepared", lambda: False)
    monkeypatch.setattr(kernels, "can_write", lambda: False)
    kernels.prepare()


def test_the_real_program_prepares_all(tmp_path, monkeypatch):
    """With the kernels that are in the cache already, it takes a moment."""
    build = kernels.Build(background=True)
    build.wait()
    assert build.fault == ""
    build.stop()
    assert cache.is_prepared()
    assert kernels.kernels_on_disk() >= 27


def test_a_job_on_spark_tells_that_it_compiles_and_how_long_that_took(monkeypatch, caplog):
    monkeypatch.setattr(kernels, "is_prepared", lambda: False)
    monkeypatch.setattr(kernels, "prepare", lambda: None)
    kernels.prepare_and_tell()
    first, last = (record.getMessage() for record in caplog.records)
    assert first.startswith("compiling the kernels of the index")
    assert last == "the kernels of the index were compiled in 0 s"
    monkeypatch.setattr(kernels, "is_prepared", lambda: True)
    caplog.clear()
    kernels.prepare_and_tell()
    assert not caplog.records
