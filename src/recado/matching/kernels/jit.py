"""Compilation to machine code, once per version of the kernels (``cache`` says where it is kept).

Only the functions that Python calls are kept (``jit``, ``lean_jit``). Those that kernels call are compiled into
them; copies of their own would take as long to make again and nobody would load them.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult
from numba.core.compiler_machinery import PassManager
from numba.core.serialize import dumps
from numba.core.typed_passes import (
    AnnotateTypes,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.typing import Context
from numba.core.untyped_passes import FixupArgs, GenericRewrites, IRProcessing, ReconstructSSA, TranslateByteCode

from recado.matching.kernels.cache import cache_folder, read_file, write_file

# --- How numba compiles kernels: without what they do not need -------------------------------------------------------
#
# - Passes of numba's for closures, context managers, array expressions and the like are left out.
# - What the types of an operation's operands make of it is asked once. numba tries dozens of candidates, from lists of
#   strings to arrays of dates, each time that a kernel adds two integers.
# - A function that only kernels call is a *part*: numba makes of every function a library that could run, optimised and
#   translated to machine code. One that others call is linked into them and optimised again with them; its own machine
#   code never runs, so parts stop before it is made. Each is optimised for itself and tidied up with what is inlined
#   into it; the optimiser's long list of passes runs over the kernel that has them all, once and not at every level.


PASSES = (
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    GenericRewrites,
    ReconstructSSA,
    NopythonTypeInference,
    PreLowerStripPhis,
    IRLegalization,
    AnnotateTypes,
    NativeLowering,
    NoPythonBackend,
)


class _RememberingContext(Context):  # type: ignore[misc]  # numba has no types
    """numba's knowledge of functions, with the answers that it gave about operators."""

    def __init__(self, context: Any) -> None:
        self.__dict__ = vars(context)
        self.signatures: dict[Any, Any] = {}

    def resolve_function_type(self, function: Any, args: Any, kws: Any) -> Any:
        operation = function.typing_key if isinstance(function, types.Function) else function
        if kws or getattr(operation, "__module__", "") != "_operator":
            return super().resolve_function_type(function, args, kws)
        key = (operation, args)
        if key not in self.signatures:
            self.signatures[key] = super().resolve_function_type(function, args, kws)
        return self.signatures[key]


_remembering = cache(_RememberingContext)


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    def define_pipelines(self) -> list[Any]:
        self.state.typingctx = _remembering(self.state.typingctx)
        manager = PassManager("kernel")
        for each in PASSES:
            manager.add_pass(each, each.__name__)
        manager.finalize()
        return [manager]


class PartCompiler(KernelCompiler):
    def define_pipelines(self) -> list[Any]:
        self.state.library = _PartLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code for other libraries to take in; nothing of it can be called."""

    @property
    def codegen(self) -> Any:
        return _NoEnvironment()

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager(  # noqa: SLF001
            loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap"
        )
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, _name: str) -> int:
        self._ensure_finalized()
        return 0


class _NoEnvironment:
    """Kernels raise nothing and hold no Python objects, so their environments are never asked for."""

    def set_env(self, _name: str, _environment: Any) -> None:
        pass


# --- Compilation to machine code, once per version of the kernels (``recado.matching.kernels.cache`` says where it is
# kept)

F = TypeVar("F", bound=Callable[..., Any])

PLAIN = bool(config.DISABLE_JIT)
"""With NUMBA_DISABLE_JIT=1 in the environment kernels run as plain Python, a thousand times slower: for debuggers, and
for tests that put faults into them."""
KERNELS: list[Any] = []
"""The functions that Python calls, as far as their modules are loaded."""


def jit(function: F) -> F:
    """Compile a function that Python calls, when it is first called, and keep the result on disk."""
    return _keep(function)


def lean_jit(function: F) -> F:
    """The same without counting references to arrays: none may be made or cut inside.

    Counting is an atomic operation for each array and call; it took nine tenths of the time of matching.
    """
    return _keep(function, _nrt=False)


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


@cache
def of_numbers(kernel: F) -> F:
    """A kernel that takes nothing but integers, without numba's look at what they are: half the time of a call."""
    if PLAIN:
        return kernel
    compiled: Any = kernel
    function: F = compiled.compile((numba.types.int64,) * compiled.py_func.__code__.co_argcount)
    return function


class _KernelCache:
    """What numba asks of a cache: the machine code of one function, by the types of its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        self._file = function.__code__.co_filename

    def load_overload(self, signature: Any, target: Any) -> Any:
        target.refresh()
        path = self._path(signature, target.codegen())
        return read_file(path, lambda data: CompileResult._rebuild(target, *pickle.loads(data)))  # noqa: SLF001, S301

    def save_overload(self, signature: Any, compiled: Any) -> None:
        write_file(self._path(signature, compiled.codegen), dumps(compiled._reduce()))  # noqa: SLF001

    def _path(self, signature: Any, codegen: Any) -> Path:
        parts = (str(signature), codegen.magic_tuple(), numba.__version__, sys.version, _content(self._file))
        return cache_folder() / f"{self._name}-{blake2b(repr(parts).encode(), digest_size=8).hexdigest()}"


@cache
def _content(file: str) -> str:
    """For kernels outside of this package: the folder is named after the content of this package alone."""
    return blake2b(Path(file).read_bytes(), digest_size=8).hexdigest()


def _keep(function: F, **options: Any) -> F:
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
        return resolve(tuple(map(_widen, args)), {name: _widen(kind) for name, kind in kws.items()})

    def refuse(*_args: Any, **_kws: Any) -> Any:
        raise TypeError(f"{function.__name__} is for kernels; Python cannot call it")

    vars(compiled).update(
        get_call_template=get_call_template,
        _insert=lambda *_: None,  # enters code that Python calls, and there is none
        _compile_for_args=refuse,
    )
    return cast(F, compiled)


def _widen(kind: Any) -> Any:
    types: Any = numba.types
    kind = types.unliteral(kind)
    if isinstance(kind, types.Integer) and (kind.signed or kind.bitwidth < types.int64.bitwidth):
        return types.int64
    return kind
