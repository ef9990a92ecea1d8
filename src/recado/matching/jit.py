"""Compilation to machine code, once per version of the kernels.

numba keeps compiled functions on disk, but looks only at the file of the function itself when it asks whether that
copy is still good; our kernels call each other across files. So they are kept in a folder of the user's cache named
after the content of all of them: a change, an upgrade for instance, compiles anew, and a read-only installation works.

Only the functions that Python calls are kept (``jit``, ``lean_jit``). Those that kernels call are compiled into
them; copies of their own would take as long to make again and nobody would load them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config

F = TypeVar("F", bound=Callable[..., Any])

PLAIN = bool(config.DISABLE_JIT)
"""With NUMBA_DISABLE_JIT=1 in the environment kernels run as plain Python, a thousand times slower: for debuggers, and
for tests that put faults into them."""
VERSIONS_KEPT = 4
DAY = 86_400.0
"""Of the folders of compiled kernels the four used last stay, and all that were used within a day of the last use."""


@cache
def cache_folder() -> str:
    """Where compiled kernels are kept: NUMBA_CACHE_DIR or XDG_CACHE_HOME decide, as far as they are set."""
    digest = blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        content = path.read_bytes()
        if b"numba" in content or b"matching.jit" in content or path.name == "instructions.py":
            digest.update(content)
    home = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "recado" / f"kernels-{digest.hexdigest()}"
    _mark_used(folder)
    return str(folder)


def _mark_used(folder: Path) -> None:
    """Make the folder the one used last and remove old ones; a cache that cannot be written stays as it is."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        used = sorted(((other.stat().st_mtime, other) for other in folder.parent.glob("kernels-*")), reverse=True)
    except OSError:
        return
    for last_use, old in used[VERSIONS_KEPT:]:
        if last_use < used[0][0] - DAY:  # a process that runs may still need a younger one
            shutil.rmtree(old, ignore_errors=True)


def jit(function: F) -> F:
    """Compile a function that Python calls, when it is first called, and keep the result on disk."""
    return _compiled(function, cache=True)


def lean_jit(function: F) -> F:
    """The same without counting references to arrays: none may be made or cut inside.

    Counting is an atomic operation for each array and call; it took nine tenths of the time of matching.
    """
    return _compiled(function, cache=True, _nrt=False)


def inner(function: F) -> F:
    """A function that only kernels call."""
    return _inner(function)


def lean(function: F) -> F:
    """A lean function that only kernels call."""
    return _inner(function, _nrt=False)


def inlined(function: F) -> F:
    """A lean function whose code is put into its callers."""
    return _inner(function, _nrt=False, forceinline=True)


def source_of(compiled: F) -> F:
    """The function as it was written, to compile it once more."""
    function: F = getattr(compiled, "py_func", compiled)
    return function


def _compiled(function: F, **options: bool) -> F:
    before = config.CACHE_DIR
    config.CACHE_DIR = cache_folder()
    try:
        compiled: F = numba.njit(**options)(function)
    finally:
        config.CACHE_DIR = before
    return compiled


def _inner(function: F, **options: bool) -> F:
    """Compile once for all kinds of integers: callers widen them. Nothing is made for calls from Python."""
    if PLAIN:
        return function
    compiled: Any = _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)
    resolve = compiled.get_call_template

    def get_call_template(args: Sequence[Any], kws: Mapping[str, Any]) -> Any:
        return resolve(tuple(map(_widened, args)), {name: _widened(kind) for name, kind in kws.items()})

    def refuse(*_args: Any, **_kws: Any) -> Any:
        raise TypeError(f"{function.__name__} is for kernels; Python cannot call it")

    vars(compiled).update(
        get_call_template=get_call_template,
        _insert=lambda *_: None,  # enters code that Python calls, and there is none
        _compile_for_args=refuse,
    )
    return cast(F, compiled)


def _widened(kind: Any) -> Any:
    types: Any = numba.types
    kind = types.unliteral(kind)
    if isinstance(kind, types.Integer) and (kind.signed or kind.bitwidth < types.int64.bitwidth):
        return types.int64
    return kind
