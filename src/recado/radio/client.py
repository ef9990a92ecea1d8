"""A scene that runs on this machine, from outside: ask its nodes and its medium, and wait until all is quiet.

Quiet means that no node has a timer set or an answer to come, nothing is on the air, and nobody has taken a step
between two looks. Protocols that send something every now and then are never quiet.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from recado.overlay.client import NodeClient
from recado.overlay.limits import OverlayError
from recado.radio.scene import MEDIUM, SceneError


class SceneClient:
    """Connections to medium and nodes, made when they are needed; use it as a context manager."""

    def __init__(self, folder: Path, nodes: list[str]) -> None:
        self._folder, self.nodes = folder, nodes
        self._stack = ExitStack()
        self._clients: dict[str, NodeClient] = {}

    def __enter__(self) -> SceneClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, node: str, do: str, **fields: Any) -> Any:
        """The answer of a node, or of the medium; a RecadoError in its own words if it refuses, or does not answer."""
        if node not in self.nodes and node != MEDIUM:
            raise SceneError(f"there is no node {node!r} in this scene; there are {', '.join(self.nodes)}")
        client = self._clients.get(node)
        if client is None:
            client = self._clients[node] = self._stack.enter_context(NodeClient(self._folder / f"{node}.radio"))
        return client.ask(do, **fields)

    def forget(self, node: str) -> None:
        """Connect anew with the next request: the process was another one."""
        self._clients.pop(node, None)

    def ask_all(self, do: str, **fields: Any) -> dict[str, Any]:
        """The same question to every node that answers."""
        found = {}
        for node in self.nodes:
            try:
                found[node] = self.ask(node, do, **fields)
            except OverlayError:
                self.forget(node)
        return found

    def wait_until_quiet(self, timeout_seconds: float = 120.0) -> None:
        end = time.monotonic() + timeout_seconds
        before = None
        while True:
            counts = self.ask_all("count")
            air = self.ask(MEDIUM, "count")
            seen = {node: count["steps"] for node, count in counts.items()}, air["transmissions"]
            busy = air["on_air"] or any(c["timers"] or c["unanswered"] or c["waiting"] for c in counts.values())
            if seen == before and not busy:
                return
            if time.monotonic() > end:
                raise SceneError(f"the scene is not quiet after {timeout_seconds:g} s")
            before = seen
            time.sleep(0.03)

    def transmissions(self) -> Counter[str]:
        """By traffic class, as the medium counts them."""
        return Counter(self.ask(MEDIUM, "count")["transmissions"])

    def sent(self) -> Counter[str]:
        """The same, as the nodes that run count them."""
        total: Counter[str] = Counter()
        for count in self.ask_all("count").values():
            total.update(count["sent"])
        return total

    def deliveries(self) -> set[tuple[str, str]]:
        """Events and the nodes that were notified of them; a SceneError if one was notified twice."""
        pairs = [(one["event"], node) for node, them in self.ask_all("deliveries").items() for one in them]
        repeated = [pair for pair, count in Counter(pairs).items() if count > 1]
        if repeated:
            raise SceneError(f"notified more than once: {repeated[:5]}")
        return set(pairs)
