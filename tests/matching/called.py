"""Functions that only kernels call, made callable from Python, so that a test can look at one alone."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

from numba import njit
from numba.core.dispatcher import Dispatcher

from recado.matching.kernels import verify_event as kernel
from recado.matching.kernels.layout import open_blank, open_store


class Called:
    """A module of kernels whose functions Python can call."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        return called(value) if isinstance(value, Dispatcher) else value


@cache
def called(function: Any) -> Any:
    @njit
    def call(*arguments):
        return function(*arguments)

    return call


@njit
def verify(store_handle, pc, blank_handle, data):
    return kernel.verify(open_store(store_handle), pc, open_blank(blank_handle), data)


@njit
def test_of(store_handle, pc, word, blank_handle, data):
    return kernel.test(open_store(store_handle), pc, word, open_blank(blank_handle), data)
