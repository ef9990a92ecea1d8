"""Look at a whole overlay on this machine through the control sockets of its nodes.

**Quiet** means that nothing is on its way: twice in a row, all nodes have taken the same number of steps and every link
has received at one end what was sent at the other. Two equal readings are needed, since nodes are read one by one.
A machine may still have timers set, for repairs that are due; ``timers=True`` waits for these as well.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from recado.overlay.client import NodeClient
from recado.overlay.errors import OverlayError


class Watch:
    """Open connections to the nodes; use it as a context manager."""

    def __init__(self, sockets: Iterable[Path]) -> None:
        self._stack = ExitStack()
        self.nodes: dict[str, NodeClient] = {}
        for path in sockets:
            self.nodes[path.stem] = self._stack.enter_context(NodeClient(path))

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, node: str, do: str, **fields: Any) -> Any:
        if node not in self.nodes:
            raise OverlayError(f"there is no node {node!r}; there are {', '.join(self.nodes)}")
        return self.nodes[node].ask(do, **fields)

    def all(self, do: str, **fields: Any) -> dict[str, Any]:
        """The same question to every node."""
        return {name: node.ask(do, **fields) for name, node in self.nodes.items()}

    # -- quiescence

    def quiet(self, timeout_seconds: float = 60.0, *, timers: bool = False) -> None:
        """Wait until nothing is on its way, and with ``timers`` nothing is still to come."""
        end = time.monotonic() + timeout_seconds
        before = None
        while True:
            counts = self.all("count")
            waiting = timers and any(count["timers"] for count in counts.values())
            if counts == before and settled(counts) and not waiting:
                return
            if time.monotonic() > end:
                raise OverlayError(f"the overlay is not quiet after {timeout_seconds:g} s")
            before = counts
            time.sleep(0.005)

    def sent(self) -> Counter[str]:
        """Messages sent so far by all nodes, by kind."""
        total: Counter[str] = Counter()
        for count in self.all("count").values():
            total.update(count["sent"])
        return total

    # -- trees

    def rows(self, subscription: str) -> dict[str, dict[str, Any]]:
        """Each node's routing row of a subscription, where it has one."""
        found = {}
        for name, shown in self.all("show").items():
            for rows in shown["machine"].get("tables", {}).values():
                if subscription in rows:
                    found[name] = rows[subscription]
        return found

    def story(self, about: str, last: int = 100) -> list[dict[str, Any]]:
        """The steps of all nodes that name a text, in the order of their times."""
        steps = [
            {"node": name, **step} for name, told in self.all("story", about=about, last=last).items() for step in told
        ]
        return sorted(steps, key=lambda step: (step["time"], step["node"], step["step"]))[-last:]


def settled(counts: dict[str, Any]) -> bool:
    """Has every link received at one end what was sent at the other?"""
    for name, count in counts.items():
        for peer, (sent, _) in count["links"].items():
            if peer in counts and counts[peer]["links"].get(name, (0, -1))[1] != sent:
                return False
    return True
