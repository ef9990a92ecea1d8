"""The contract of every protocol: a stimulus goes in, a list of effects comes out.

A machine holds the state of one node and never acts by itself. It reads no clock and draws no random number: ``now``
and ``rng`` are arguments. An engine (the simulator, or the asyncio driver) calls ``handle`` for whatever happens to
the node and carries out the effects, in their order. So the code that was measured in simulation is the code that
runs, a seed replays any run, and a test asserts on a list::

    class Echo:
        def __init__(self, me: NodeId) -> None:
            self.me, self.heard = me, 0

        def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
            match stimulus:
                case Received(sender, text):
                    self.heard += 1
                    return [Send(sender, text, why="an echo answers everything")]
            return ()

        def inspect(self) -> dict[str, Any]:
            return {"heard": self.heard}

What a machine may rely on: ``Started`` comes first; messages arrive whole; effects of one call are carried out before
the next call; a timer fires once, not before its time, and setting it again replaces it; after a crash nothing comes
back but what was given to ``Persist``. It may not rely on the order of a set, since that changes with PYTHONHASHSEED:
keep what is iterated in dicts, lists or tuples.

A machine explains itself in two ways: ``inspect`` gives its tables as plain data, and every ``Send`` may say ``why``.
Engines remember which stimulus led to which message, so that the story of a message can be told back to its origin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

NodeId: TypeAlias = int | str | tuple[Any, ...]
"""What the engine sends to: the name of a node, or where a protocol of datagrams has no names, an address."""
TimerKey: TypeAlias = str | int | tuple[Any, ...]

T = TypeVar("T")


class Rng(Protocol):
    """The chance a machine is given: the part of ``random.Random`` that it may use."""

    def random(self) -> float: ...
    def randrange(self, stop: int, /) -> int: ...
    def uniform(self, low: float, high: float, /) -> float: ...
    def expovariate(self, rate: float, /) -> float: ...
    def choice(self, population: Sequence[T], /) -> T: ...
    def sample(self, population: Sequence[T], /, k: int) -> list[T]: ...


# -- stimuli: what happened to the node


class Started(msgspec.Struct, frozen=True):
    """The node runs. ``neighbours`` are the links it has from the start; ``saved`` is what it persisted before.

    ``address`` is where others can dial it, for messages that introduce it; empty where names are enough, or where
    nobody can.
    """

    neighbours: tuple[NodeId, ...] = ()
    saved: Mapping[str, Any] = {}
    address: str = ""


class Received(msgspec.Struct, frozen=True, gc=False):
    """A message came from a neighbour; over radio with its signal strength."""

    sender: NodeId
    message: Any
    signal_dbm: float | None = None


class TimerFired(msgspec.Struct, frozen=True, gc=False):
    timer: TimerKey


class Asked(msgspec.Struct, frozen=True, gc=False):
    """The application at this node wants something; each protocol defines its requests."""

    request: Any


class LinkUp(msgspec.Struct, frozen=True, gc=False):
    peer: NodeId


class LinkDown(msgspec.Struct, frozen=True, gc=False):
    """The link is gone, or the peer behind it; what was on its way may be lost."""

    peer: NodeId


class SendFailed(msgspec.Struct, frozen=True, gc=False):
    """The engine learnt that a message did not reach its receiver. Not every network can tell.

    ``message`` is None where the network says only that nothing reaches this receiver.
    """

    receiver: NodeId
    message: Any = None


Stimulus: TypeAlias = Started | Received | TimerFired | Asked | LinkUp | LinkDown | SendFailed


# -- effects: what the node wants done


class Send(msgspec.Struct, frozen=True, gc=False):
    """One message to one node. ``why`` is a fixed phrase for the story of the message."""

    receiver: NodeId
    message: Any
    why: str = ""


class Broadcast(msgspec.Struct, frozen=True, gc=False):
    """One transmission to whoever hears it; only on a shared medium."""

    message: Any
    why: str = ""


class SetTimer(msgspec.Struct, frozen=True, gc=False):
    timer: TimerKey
    after_seconds: float


class CancelTimer(msgspec.Struct, frozen=True, gc=False):
    timer: TimerKey


class Connect(msgspec.Struct, frozen=True, gc=False):
    """Have a link to a node that is no neighbour; LinkUp follows at both ends if there can be one, else nothing does.

    ``address`` is what the other node was given as its own when it started.
    """

    peer: NodeId
    address: str = ""


class Disconnect(msgspec.Struct, frozen=True, gc=False):
    """Have that link no more, or try no longer to have it; LinkDown follows at both ends if it was up.

    Only for links that this node asked for with ``Connect``: others stay.
    """

    peer: NodeId


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Hand a notification to the application at this node."""

    notification: Any


class Report(msgspec.Struct, frozen=True, gc=False):
    """Tell the application something else: a subscription is in place, a publisher is lost, a limit was met."""

    fact: Any


class Persist(msgspec.Struct, frozen=True, gc=False):
    """Keep a value over crashes, before any later effect is carried out; None forgets the key.

    Values are plain data, and the machine does not change them afterwards: a live node has written them by then.
    """

    key: str
    value: Any


Effect: TypeAlias = Send | Broadcast | SetTimer | CancelTimer | Connect | Disconnect | Deliver | Report | Persist


class Machine(Protocol):
    """The protocol's state at one node."""

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        """Take one step. An ``Asked`` that makes no sense raises a RecadoError and changes nothing."""
        ...

    def inspect(self) -> dict[str, Any]:
        """The state as plain data (dicts, lists, strings, numbers), for people and tests."""
        ...
