"""``recado kernels``, and commands that begin without kernels."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from typing import ClassVar

import pytest

from recado import kernels
from recado.cli import engines
from recado.matching.kernels import cache

SAMPLE = files("recado") / "data" / "sample"
COMMAND = [sys.executable, "-c", "import sys; from recado.cli.app import main; sys.exit(main())"]


class FakeBuild:
    """A build that needs some looks to be over; ``outcome`` is what it leaves."""

    made: ClassVar[list[FakeBuild]] = []
    looks, outcome, fault = 3, staticmethod(cache.mark_prepared), ""

    def __init__(self, *, background):
        self.background, self.left, self.stopped, self.seconds = background, self.looks, False, 12.3
        FakeBuild.made.append(self)

    @property
    def is_running(self):
        self.left -= 1
        if self.left == 0:
            self.outcome()
        return self.left > 0

    def wait(self, report=lambda _: None):
        while self.is_running:
            report(self.seconds)

    def stop(self):
        self.stopped = True


@pytest.fixture
def empty(monkeypatch, tmp_path):
    """No kernel is on disk, as far as anybody asks, and what compiles them is no process; those in use stay."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    cache.cache_folder.cache_clear()
    monkeypatch.setattr(kernels, "Build", FakeBuild)
    monkeypatch.setattr(engines, "Build", FakeBuild)
    monkeypatch.setattr(FakeBuild, "made", [])
    yield tmp_path / "cache"
    assert all(build.stopped for build in FakeBuild.made)
    cache.cache_folder.cache_clear()


def test_build_says_where_they_are_and_is_quick_when_nothing_is_to_do(recado, empty):
    run = recado("kernels", "build", progress=True)
    assert run.code == 0
    assert f"in {cache.cache_folder()}, compiled in" in run.out
    assert "compiling the kernels of the index ..." in run.err
    assert "0 kernels of the index compiled, 12 s" in run.err
    run = recado("kernels", "build")
    assert (run.code, run.err, len(FakeBuild.made)) == (0, "", 1)
    assert "there is nothing to do" in run.out
    assert recado("kernels", "show").code == 0


def test_build_in_a_pipe_or_quiet_says_less(recado, empty):
    assert recado("kernels", "build").err == "compiling the kernels of the index ...\n"
    (cache.cache_folder() / cache._mark()).unlink()
    assert recado("kernels", "show").code == 1
    run = recado("kernels", "build", "--quiet")
    assert (run.code, run.err) == (0, "")


def test_build_that_fails_says_why(recado, empty, monkeypatch):
    monkeypatch.setattr(FakeBuild, "outcome", lambda _: None)
    run = recado("kernels", "build")
    assert run.code == 1
    assert "is there room?" in run.err
    monkeypatch.setattr(FakeBuild, "fault", "LLVM is broken")
    run = recado("kernels", "build")
    assert run.code == 1
    assert "cannot be compiled: LLVM is broken" in run.err


def test_build_where_nothing_can_be_written_is_refused(recado, empty):
    empty.write_text("a file where the folder should be")
    run = recado("kernels", "build")
    assert run.code == 2
    assert "cannot be written; NUMBA_CACHE_DIR names another folder" in run.err
    assert "the folder cannot be written" in recado("kernels", "show").out


def arguments(*more):
    return ["match", str(SAMPLE / "subscriptions.ndjson"), str(SAMPLE / "events.ndjson"), *more]


@pytest.fixture
def expected(recado):
    return recado(*arguments("--engine", "naive", "--quiet")).out


@pytest.mark.parametrize("engine", ["index", "batch"])
def test_the_kernels_are_taken_over_when_they_are_ready(recado, empty, expected, monkeypatch, engine):
    """Begun with the plain evaluator, the same pairs come before and after."""
    monkeypatch.setattr(engines, "PLAIN_PAIRS", 500)
    monkeypatch.setattr("recado.cli.match.CHUNK", 16)
    run = recado(*arguments("--engine", engine, "--json"))
    assert run.out == expected
    assert [build.background for build in FakeBuild.made] == [True]
    assert run.err.count("the kernels of the index are compiled (12 s) and used from here on") == 1


@pytest.mark.parametrize("engine", ["index", "batch"])
def test_a_build_that_fails_or_is_not_over_changes_nothing(recado, empty, expected, monkeypatch, engine):
    monkeypatch.setattr(engines, "PLAIN_PAIRS", 500)
    monkeypatch.setattr("recado.cli.match.CHUNK", 16)
    monkeypatch.setattr(FakeBuild, "fault", "LLVM is broken")
    assert recado(*arguments("--engine", engine, "--quiet")).out == expected
    monkeypatch.setattr(FakeBuild, "looks", 10**9)
    assert recado(*arguments("--engine", engine, "--quiet")).out == expected


@pytest.mark.parametrize("engine", ["index", "batch"])
def test_a_large_set_waits_and_shows_it(recado, empty, expected, monkeypatch, engine):
    monkeypatch.setattr(engines, "PLAIN_SUBSCRIPTIONS", 3)
    run = recado(*arguments("--engine", engine, "--json"), progress=True)
    assert run.out == expected
    assert [build.background for build in FakeBuild.made] == [False]
    assert "compiling the kernels of the index, once for this machine ...\n" in run.err
    assert "compiling the kernels of the index, once for this machine: 12 s" in run.err


def test_in_a_pipe_it_is_one_line_and_with_quiet_none(recado, empty, monkeypatch):
    monkeypatch.setattr(engines, "PLAIN_SUBSCRIPTIONS", 3)
    run = recado(*arguments("--json"))
    assert run.err.count("compiling") == 1
    (cache.cache_folder() / cache._mark()).unlink()
    run = recado(*arguments("--json", "--quiet"))
    assert run.err == ""
    assert len(FakeBuild.made) == 2


def test_a_small_set_loads_no_kernels(write):
    """Neither numba nor pyarrow: each takes longer to import than the whole command."""
    code = """
import sys
from recado.cli.app import main

assert main(sys.argv[1:]) == 0
slow = {"numba", "llvmlite", "pyarrow", "scipy"} & set(sys.modules)
assert not slow, slow
"""
    subscriptions = write("s", '{"id": "cheap", "filter": "Price < 25 and Stock startswith \\"PET\\""}')
    event = write("e", '{"id": "e-1", "Stock": "PETR4", "Price": 24.9}')
    command = [sys.executable, "-c", code, "match", subscriptions, event]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, '{"event":"e-1","subscription":"cheap"}\n'), done.stderr


@pytest.mark.long
def test_from_an_empty_cache_in_real_processes(tmp_path, monkeypatch):
    """A large set waits, with the right answer; afterwards nothing is to be done; a build in the background ends."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    subscriptions, events = tmp_path / "s", tmp_path / "e"
    subscriptions.write_text("".join(f'{{"id": "s{n:05}", "filter": "x > {n}"}}\n' for n in range(3000)))
    events.write_text('{"id": "e", "x": 3}\n')
    run = [*COMMAND, "match", str(subscriptions), str(events)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 3
    assert done.stderr.count("compiling the kernels of the index") == 1
    again = subprocess.run(run, capture_output=True, text=True, check=False)
    assert again.stdout == done.stdout
    assert "compiling" not in again.stderr
    built = subprocess.run([*COMMAND, "kernels", "build"], capture_output=True, text=True, check=False)
    assert "there is nothing to do" in built.stdout
