"""Compilation to machine code, once per version of the kernels.

numba keeps compiled functions on disk, but looks only at the file of the function itself when it asks whether that
copy is still good; our kernels call each other across files. So they are kept in a folder of the user's cache named
after the content of all of them: a change, an upgrade for instance, compiles anew, and a read-only installation works.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config

F = TypeVar("F", bound=Callable[..., Any])


@cache
def cache_folder() -> str:
    """Where compiled kernels are kept: NUMBA_CACHE_DIR or XDG_CACHE_HOME decide, as far as they are set."""
    digest = blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        content = path.read_bytes()
        if b"matching.jit" in content or path.name == "instructions.py":  # it has the constants of the kernels
            digest.update(content)
    home = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return str(Path(home) / "recado" / f"kernels-{digest.hexdigest()}")


def jit(function: F) -> F:
    """Compile a function to machine code when it is first called, and keep the result on disk."""
    return _compiled(function)


def lean(function: F) -> F:
    """The same for the inner loops: no array may be made or cut inside, so no reference to one is ever counted.

    Counting is an atomic operation for each array and call; it took nine tenths of the time of matching.
    """
    return _compiled(function, _nrt=False)


def inlined(function: F) -> F:
    """A lean function whose code is put into its callers."""
    return _compiled(function, _nrt=False, forceinline=True)


def _compiled(function: F, **options: bool) -> F:
    before = config.CACHE_DIR
    config.CACHE_DIR = cache_folder()
    try:
        compiled: F = numba.njit(cache=True, **options)(function)
    finally:
        config.CACHE_DIR = before
    return compiled
