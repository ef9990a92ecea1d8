"""Recado: content-based publish/subscribe."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["connect", "connect_sync"]


def __getattr__(name: str) -> Any:
    """The client is imported when it is asked for: the rest of Recado does not need it."""
    if name in __all__:
        return getattr(import_module("recado.client"), name)
    raise AttributeError(f"module 'recado' has no attribute {name!r}")
