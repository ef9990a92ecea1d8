"""Which node a verb is for, and how it is asked."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

NodeName = Annotated[str, Parameter(name=["--node", "-n"])]
"""``NODE`` or ``OVERLAY/NODE``; empty for the only one that runs."""


def ask_node(node: str, do: str, **fields: Any) -> Any:
    from recado.overlay.client import ask
    from recado.overlay.names import find_node

    return ask(find_node(node), do, **fields)
