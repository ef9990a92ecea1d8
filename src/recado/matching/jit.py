"""Compilation to machine code, once per version of the kernels (``recado.matching.cache`` says where it is kept).

Only the functions that Python calls are kept (``jit``, ``lean_jit``). Those that kernels call are compiled into
them; copies of their own would take as long to make again and nobody would load them.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from recado.matching.cache import cache_folder, read_file, write_file
from recado.matching.parts import KernelCompiler, PartCompiler

F = TypeVar("F", bound=Callable[..., Any])

PLAIN = bool(config.DISABLE_JIT)
"""With NUMBA_DISABLE_JIT=1 in the environment kernels run as plain Python, a thousand times slower: for debuggers, and
for tests that put faults into them."""
KERNELS: list[Any] = []
"""The functions that Python calls, as far as their modules are loaded."""


def jit(function: F) -> F:
    """Compile a function that Python calls, when it is first called, and keep the result on disk."""
    return _kept(function)


def lean_jit(function: F) -> F:
    """The same without counting references to arrays: none may be made or cut inside.

    Counting is an atomic operation for each array and call; it took nine tenths of the time of matching.
    """
    return _kept(function, _nrt=False)


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


class _KernelCache:
    """What numba asks of a cache: the machine code of one function, by the types of its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"

    def load_overload(self, signature: Any, target: Any) -> Any:
        target.refresh()
        path = self._path(signature, target.codegen())
        return read_file(path, lambda data: CompileResult._rebuild(target, *pickle.loads(data)))  # noqa: SLF001, S301

    def save_overload(self, signature: Any, compiled: Any) -> None:
        write_file(self._path(signature, compiled.codegen), dumps(compiled._reduce()))  # noqa: SLF001

    def _path(self, signature: Any, codegen: Any) -> Path:
        parts = (str(signature), codegen.magic_tuple(), numba.__version__, sys.version)
        return cache_folder() / f"{self._name}-{blake2b(repr(parts).encode(), digest_size=8).hexdigest()}"


def _kept(function: F, **options: Any) -> F:
    if PLAIN:
        return function
    compiled: Any = numba.njit(pipeline_class=KernelCompiler, **options)(function)
    vars(compiled).update(_cache=_KernelCache(function))
    KERNELS.append(compiled)
    return cast(F, compiled)


def _inner(function: F, **options: bool) -> F:
    """Compile once for all kinds of integers: callers widen them. Nothing is made for calls from Python."""
    if PLAIN:
        return function
    compiled: Any = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=PartCompiler, **options)(
        function
    )
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
