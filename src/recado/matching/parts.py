"""How numba compiles a function that only kernels call: as a part, without machine code of its own.

numba makes of every function a library that could run: optimised, and translated to machine code. A function that
others call is linked into them and optimised again with them; its own machine code never runs. So parts stop before
it is made. They are optimised, for what is inlined must be small: without that compiling takes less time still, and
matching one event a tenth more.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """Code for other libraries to take in; nothing of it can be called."""

    @property
    def codegen(self) -> Any:
        return _NoEnvironment()

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


class PartCompiler(Compiler):  # type: ignore[misc]
    def define_pipelines(self) -> Any:
        self.state.library = _PartLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()
