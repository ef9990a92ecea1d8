"""The kernels of the index, compiled in another process while this one goes on, or waits and tells.

    python -m recado.kernels      compiles whatever is not in the cache yet

Whoever needs the kernels and finds that they are not prepared (``recado.matching.kernels.cache``) starts a ``Build``.
Every kernel that is compiled is kept at once, so a build that is stopped was not in vain. Of several at the same time
one works and the others wait for it.
"""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep

from recado.matching.kernels.cache import cache_folder, can_write, is_prepared, mark_prepared

POLL_SECONDS = 0.2
LOW_PRIORITY = 10
GARBAGE = 100_000
"""After so many new objects garbage is looked for. With Python's 700 that takes a tenth of the time of compiling; this
takes 10 MB more."""
_IN_THE_BACKGROUND = "--background"
_log = logging.getLogger("recado.kernels")


class Build:
    """Another process that compiles all kernels; ``background`` lets everything else go first."""

    def __init__(self, *, background: bool) -> None:
        command = [sys.executable, "-m", "recado.kernels", *([_IN_THE_BACKGROUND] if background else [])]
        self._begun = monotonic()
        self._process = subprocess.Popen(  # noqa: S603  # this program
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=_environment()
        )

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return monotonic() - self._begun

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def fault(self) -> str:
        """Of a build that is over: what went wrong, or nothing."""
        if self._process.poll() == 0:
            return ""
        said = (self._process.stderr.read() if self._process.stderr else b"").decode(errors="replace").strip()
        return said.rpartition("\n")[2] or f"exit code {self._process.returncode}"

    def wait(self, report: Callable[[float], None] = lambda _: None) -> None:
        """Until it is over; ``report`` hears again and again how many seconds have passed."""
        while self.is_running:
            report(self.seconds)
            sleep(POLL_SECONDS)

    def stop(self) -> None:
        """End it, if it is not over. What it compiled is kept."""
        if self.is_running:
            self._process.terminate()
        self._process.wait()
        if self._process.stderr:
            self._process.stderr.close()


def _environment() -> dict[str, str]:
    """The other process finds this program where this process found it."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def prepare(report: Callable[[float], None] = lambda _: None) -> None:
    """Have all kernels compiled in another process, and wait. If that fails, this process will compile its own."""
    if not is_prepared() and can_write():
        build = Build(background=False)
        try:
            build.wait(report)
        finally:
            build.stop()


def prepare_and_tell() -> None:
    """The same for jobs on Spark, on every machine that works for them: the log says what takes so long."""
    if not is_prepared() and can_write():
        begun = monotonic()
        _log.warning("compiling the kernels of the index, once for this machine: %s", cache_folder())
        prepare()
        _log.warning("the kernels of the index were compiled in %.0f s", monotonic() - begun)


def build() -> None:
    """Compile what is missing, in this process; of several such processes one after the other."""
    from recado.matching.exercise import exercise, not_compiled  # noqa: PLC0415  # it loads numba

    gc.freeze()
    gc.set_threshold(GARBAGE)
    with _alone():
        exercise()
        assert not not_compiled(), not_compiled()
        mark_prepared()


@contextmanager
def _alone() -> Iterator[None]:
    try:
        import fcntl  # noqa: PLC0415  # not on every system

        lock = (cache_folder() / "lock").open("w")
    except (ImportError, OSError):  # then some work is done twice
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def kernels_on_disk() -> int:
    """How many files of compiled kernels there are, whatever they are for."""
    with suppress(OSError):
        return sum(1 for path in cache_folder().iterdir() if "." in path.name and path.suffix != ".tmp")
    return 0


if __name__ == "__main__":
    if _IN_THE_BACKGROUND in sys.argv[1:] and hasattr(os, "nice"):
        os.nice(LOW_PRIORITY)
    build()
