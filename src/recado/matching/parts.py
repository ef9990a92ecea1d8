"""How numba compiles kernels: without what they do not need.

- Passes of numba's for closures, context managers, array expressions and the like are left out.
- What the types of an operation's operands make of it is asked once. numba tries dozens of candidates, from lists of
  strings to arrays of dates, each time that a kernel adds two integers.
- A function that only kernels call is a *part*: numba makes of every function a library that could run, optimised and
  translated to machine code. One that others call is linked into them and optimised again with them; its own machine
  code never runs, so parts stop before it is made. Each is optimised for itself and tidied up with what is inlined
  into it; the optimiser's long list of passes runs over the kernel that has them all, once and not at every level.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
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
