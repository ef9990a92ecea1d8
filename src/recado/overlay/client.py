"""Running nodes on this machine, from outside: ask one, look at all of an overlay, carry out a script.

All goes over the nodes' control sockets (``recado.overlay.control``) and blocks, so that a command line or a test needs
no event loop.
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import msgspec

from recado.overlay.limits import OverlayError

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class NodeClient:
    """One connection to a node; requests one after another. An OverlayError if the node does not answer."""

    def __init__(self, path: Path, timeout_seconds: float | None = 30.0) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_seconds)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise OverlayError(f"no node answers at {path}: {error.strerror or error}") from None
        self._file = self._socket.makefile("rb")

    def ask(self, do: str, **fields: Any) -> Any:
        """The answer to one request; an OverlayError with the node's own words if it refuses."""
        try:
            with suppress(BrokenPipeError):  # the node closed early, and may have said why
                self._socket.sendall(_encode({"do": do, **fields}) + b"\n")
            line = self._file.readline()
        except OSError as error:
            raise OverlayError(f"the node at {self.path} does not answer: {error.strerror or error}") from None
        if not line.endswith(b"\n"):  # nothing, or a part of an answer: it was killed meanwhile
            raise OverlayError(f"the node at {self.path} closed the connection")
        answer = _decode(line)
        if "error" in answer:
            raise OverlayError(answer["error"])
        return answer["ok"]

    def stream(self) -> Iterator[dict[str, Any]]:
        """After ``subscribe``: what the subscription brings, until the node ends."""
        self._socket.settimeout(None)
        for line in self._file:
            yield _decode(line)

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def __enter__(self) -> NodeClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def ask(path: Path, do: str, *, timeout_seconds: float = 30.0, **fields: Any) -> Any:
    """One request on a connection of its own."""
    with closing(NodeClient(path, timeout_seconds)) as client:
        return client.ask(do, **fields)


# --- Look at a whole overlay on this machine through the control sockets of its nodes --------------------------------
#
# **Quiet** means that nothing is on its way: twice in a row, all nodes have taken the same number of steps and every
# link has received at one end what was sent at the other. Two equal readings are needed, since nodes are read one by
# one. A machine may still have timers set, for repairs that are due; ``timers=True`` waits for these as well.


class OverlayClient:
    """Connections to the nodes behind these control sockets; use it as a context manager."""

    def __init__(self, sockets: Iterable[Path]) -> None:
        self._stack = ExitStack()
        self.nodes: dict[str, NodeClient] = {}
        for path in sockets:
            self.nodes[path.stem] = self._stack.enter_context(NodeClient(path))

    def __enter__(self) -> OverlayClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, node: str, do: str, **fields: Any) -> Any:
        if node not in self.nodes:
            raise OverlayError(f"there is no node {node!r}; there are {', '.join(self.nodes)}")
        return self.nodes[node].ask(do, **fields)

    def ask_all(self, do: str, **fields: Any) -> dict[str, Any]:
        """The same question to every node."""
        return {name: node.ask(do, **fields) for name, node in self.nodes.items()}

    # -- quiescence

    def wait_until_quiet(self, timeout_seconds: float = 60.0, *, timers: bool = False) -> None:
        """Wait until nothing is on its way, and with ``timers`` nothing is still to come."""
        end = time.monotonic() + timeout_seconds
        before = None
        while True:
            counts = self.ask_all("count")
            waiting = timers and any(count["timers"] for count in counts.values())
            if counts == before and is_settled(counts) and not waiting:
                return
            if time.monotonic() > end:
                raise OverlayError(f"the overlay is not quiet after {timeout_seconds:g} s")
            before = counts
            time.sleep(0.005)

    def sent_counts(self) -> Counter[str]:
        """Messages sent so far by all nodes, by kind."""
        total: Counter[str] = Counter()
        for count in self.ask_all("count").values():
            total.update(count["sent"])
        return total

    # -- trees

    def rows(self, subscription: str) -> dict[str, dict[str, Any]]:
        """Each node's part of the tree of a subscription, where it has one."""
        found = {}
        for name, shown in self.ask_all("show").items():
            for rows in shown["machine"].get("tables", {}).values():
                if is_branch(rows.get(subscription)):
                    found[name] = rows[subscription]
        return found

    def story(self, about: str, last: int = 100) -> list[dict[str, Any]]:
        """The steps of all nodes that name a text, in the order of their times."""
        told = self.ask_all("story", about=about, last=last)
        steps = [{"node": name, **step} for name, steps in told.items() for step in steps]
        return sorted(steps, key=lambda step: (step["time"], step["node"], step["step"]))[-last:]


def is_branch(row: Any) -> bool:
    """Is a row of a machine's tables a part of a tree, with the nodes that it leads to and comes from?"""
    return isinstance(row, dict) and "next" in row and "origin" in row


def is_settled(counts: dict[str, Any]) -> bool:
    """Has every link received at one end what was sent at the other?"""
    for name, count in counts.items():
        for peer, (sent, _) in count["links"].items():
            if peer in counts and counts[peer]["links"].get(name, (0, -1))[1] != sent:
                return False
    return True


# --- Scripts of operations on an overlay, one after another, each when the one before has come to rest ---------------
#
# One JSON object a line: ``node``, and a request of the control socket (``recado.overlay.control``) that an application
# could make. Subscriptions of a script are kept until it unsubscribes.


Operation = Literal["subscribe", "unsubscribe", "publish", "become-publisher", "become-broker", "become-candidate"]


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    node: str
    do: Operation
    subscription: dict[str, Any] | None = None
    event: dict[str, Any] | None = None
    id: str | None = None
    type: str | None = None

    def fields(self) -> dict[str, Any]:
        """What belongs to the request, besides its name."""
        values = {name: getattr(self, name) for name in ("subscription", "event", "id", "type")}
        follow = {"follow": False} if self.do == "subscribe" else {}
        return {name: value for name, value in values.items() if value is not None} | follow


class Delivered(msgspec.Struct, frozen=True, order=True):
    node: str
    event: str
    subscriptions: tuple[str, ...]


class Outcome(msgspec.Struct, frozen=True):
    """What a step led to: messages by kind, and deliveries in the order of the nodes."""

    step: Step
    messages: dict[str, int]
    deliveries: tuple[Delivered, ...]


def read_script(path: Path) -> list[Step]:
    """The steps of a script; an OverlayError names the line."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise OverlayError(f"{path}: cannot be read: {error.strerror}") from None
    steps = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            steps.append(msgspec.json.decode(line, type=Step))
        except msgspec.DecodeError as error:
            raise OverlayError(f"{path}, line {number}: {error}") from None
    return steps


def run_script(client: OverlayClient, steps: Iterable[Step], pause_seconds: float = 0.0) -> Iterator[Outcome]:
    """Carry out the steps on running nodes; with a pause after each, or when the one before has come to rest."""

    def rest() -> None:
        if pause_seconds:
            time.sleep(pause_seconds)
        else:
            client.wait_until_quiet(timers=True)

    rest()
    sent, seen = client.sent_counts(), _deliveries(client)
    for step in steps:
        client.ask(step.node, step.do, **step.fields())
        rest()
        now, delivered = client.sent_counts(), _deliveries(client)
        messages = {kind: count - sent[kind] for kind, count in sorted(now.items()) if count > sent[kind]}
        new = tuple(one for node, them in delivered.items() for one in them[len(seen[node]) :])
        sent, seen = now, delivered
        yield Outcome(step, messages, tuple(sorted(new)))


def _deliveries(client: OverlayClient) -> dict[str, list[Delivered]]:
    told = client.ask_all("deliveries")
    return {node: [Delivered(node, d["event"], tuple(d["subscriptions"])) for d in them] for node, them in told.items()}
