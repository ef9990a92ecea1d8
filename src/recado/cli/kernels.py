"""``recado kernels``: the compiled kernels of the index, made ahead of their use, and where they are."""

from __future__ import annotations

import sys
from time import monotonic

from recado.cli.output import complain, plural, write_line
from recado.cli.verb import FAILED, OK, verb
from recado.errors import RecadoError

_HELP = """\
The index matches with machine code that is compiled on each machine, once for each version of Recado. Commands and
services compile it by themselves, in the background, when they first need it; this does it ahead of time, for an image
of Docker or of Spark's executors, or to try whether it works.

  recado kernels build        compile what is missing
  recado kernels show         where the kernels are, and whether all are there

They are kept in NUMBA_CACHE_DIR, if that is set, else in XDG_CACHE_HOME, else in ~/.cache. In a Dockerfile:

  ENV NUMBA_CACHE_DIR=/opt/recado
  RUN recado kernels build

The folder may be read-only afterwards. Kernels are made for one kind of processor, and compiled again on another: build
the image on a machine like those that run it.
"""

app = verb("kernels", help="Compile the kernels of the index ahead of their use.", epilogue=_HELP)


@app.command
def build(*, quiet: bool = False) -> int:
    """Compile the kernels that are not on disk yet.

    Parameters
    ----------
    quiet
        Say nothing while it goes on.
    """
    from recado.kernels import Build, kernels_on_disk
    from recado.matching.kernels.cache import cache_folder, can_write, is_prepared

    folder = cache_folder()
    if is_prepared():
        write_line(f"all kernels are in {folder}; there is nothing to do")
        return OK
    if not can_write():
        raise RecadoError(f"{folder} cannot be written; NUMBA_CACHE_DIR names another folder for compiled kernels")
    begun, build = monotonic(), Build(background=False)
    try:
        if not quiet:
            complain("compiling the kernels of the index ...")
        build.wait(lambda seconds: _show(kernels_on_disk(), seconds, quiet))
        if build.fault:
            complain(f"recado: the kernels cannot be compiled: {build.fault}")
            return FAILED
    finally:
        build.stop()
    if not is_prepared():
        complain(f"recado: the kernels were compiled, but cannot be kept in {folder}; is there room?")
        return FAILED
    write_line(f"{plural(kernels_on_disk(), 'kernel')} in {folder}, compiled in {monotonic() - begun:.1f} s")
    return OK


def _show(count: int, seconds: float, quiet: bool) -> None:
    """One line on a terminal, rewritten."""
    if not quiet and sys.stderr.isatty():
        sys.stderr.write(f"\x1b[1A\r{plural(count, 'kernel')} of the index compiled, {seconds:.0f} s\x1b[K\n")
        sys.stderr.flush()


@app.command
def show() -> int:
    """Say where the compiled kernels are, and whether all are there; exit code 1 if not."""
    from recado.kernels import kernels_on_disk
    from recado.matching.kernels.cache import cache_folder, can_write, is_prepared

    state = "all are there" if is_prepared() else "some are missing" if kernels_on_disk() else "none is there"
    write_line(f"{cache_folder()}: {plural(kernels_on_disk(), 'kernel')}, {state}")
    if not can_write():
        write_line("the folder cannot be written: what is missing is compiled again by every process")
    return OK if is_prepared() else FAILED
