"""What peers pay for: bytes by the time they spend in a role, and by cause.

A **stint** is the time that a peer spends as a member of the layer (super node or stand-by), or as a sub node. The
simulator counts bytes by node; reading those counters when a role changes tells what a stint cost, and costs nothing
itself. The join by filter falls into neither (R50).

Mean cost is taken in all three ways of R17. ``rate`` is the mean of the rates of stints, one sample a stint at the
peer's departure; stints in the layer count from ten minutes on, when filters are loaded. ``total`` is all bytes over
all time, of stints that go on, too. ``bins`` is the mean over the lengths of stints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from math import fsum
from typing import Any

from experiments.supernodes.peers import PeerRecord, Peers
from recado.protocols.machine import Effect, Send
from recado.protocols.supernodes.messages import RoleChanged, cause_of, sizer_of

Numbers = dict[str, float | str]

LAYER, SUB = "layer", "sub"
LEAST_SECONDS = {LAYER: 600.0, SUB: 60.0}
"""Shorter stints have no rate (R17)."""


def kind_of(role: str) -> str:
    """Which stint a role belongs to; none for peers that are joining."""
    return LAYER if role in ("super", "k") else SUB if role == "sub" else ""


class Stint:
    """A stint under way, with the counters at its start and at the end of the warm-up."""

    __slots__ = ("began", "causes", "down", "kind", "marked", "marked_down", "marked_up", "up")

    def __init__(self, kind: str, now: float, up: int, down: int, *, counted: bool) -> None:
        self.kind, self.began, self.up, self.down = kind, now, up, down
        self.marked, self.marked_up, self.marked_down = now, up, down
        self.causes: dict[str, int] | None = {} if counted else None
        """What was sent, by cause; None if nobody looks at what this peer sends."""


class Ended:
    """One sample: how long a stint was, and its bytes."""

    __slots__ = ("causes", "down", "seconds", "up")

    def __init__(self, seconds: float, up: int, down: int, causes: dict[str, int] | None) -> None:
        self.seconds, self.up, self.down, self.causes = seconds, up, down, causes


class Stints:
    """Follows the peers of a simulation. ``bin_seconds`` is the width of the bins of lengths."""

    def __init__(self, peers: Peers, bin_seconds: float) -> None:
        self.peers, self.bin_seconds = peers, bin_seconds
        self.open: dict[int, Stint] = {}
        self.ended: dict[str, list[Ended]] = {LAYER: [], SUB: []}
        self.counting = False
        self.seconds: dict[str, float] = defaultdict(float)
        self.up: dict[str, int] = defaultdict(int)
        self.down: dict[str, int] = defaultdict(int)
        self.paid: dict[str, int] = defaultdict(int)
        """Upload by cause of all counted members of the layer together."""
        self.counted_seconds = 0.0
        """Of those, as members of the layer."""
        self.counts: Callable[[int], bool] = lambda node: False
        """Whose upload is counted by cause?"""
        self._size_of = sizer_of(peers.settings)

    def changed(self, now: float, record: PeerRecord, fact: Any) -> None:
        """A peer reported something."""
        if type(fact) is RoleChanged:
            kind, stint = kind_of(fact.role), self.open.get(record.node)
            if stint is not None and stint.kind == kind:
                return
            self._close(now, record.node)
            if kind:
                node = self.peers.simulation.nodes[record.node]
                counted = self.counts(record.node)
                self.open[record.node] = Stint(kind, now, node.up_bytes, node.down_bytes, counted=counted)

    def leaves(self, record: PeerRecord) -> None:
        self._close(self.peers.simulation.now, record.node)

    def start_counting(self) -> None:
        """The warm-up is over."""
        now, nodes = self.peers.simulation.now, self.peers.simulation.nodes
        self.counting = True
        for node, stint in self.open.items():
            stint.marked, stint.marked_up, stint.marked_down = now, nodes[node].up_bytes, nodes[node].down_bytes

    def finish(self) -> None:
        """The run is over: stints that go on count in the totals only (R37)."""
        for node, stint in self.open.items():
            self._add_up(self.peers.simulation.now, node, stint)
        self.open.clear()

    def _close(self, now: float, node: int) -> None:
        stint = self.open.pop(node, None)
        if stint is not None and self.counting:
            self._add_up(now, node, stint)
            counters = self.peers.simulation.nodes[node]
            ended = Ended(
                now - stint.began, counters.up_bytes - stint.up, counters.down_bytes - stint.down, stint.causes
            )
            self.ended[stint.kind].append(ended)

    def _add_up(self, now: float, node: int, stint: Stint) -> None:
        counters = self.peers.simulation.nodes[node]
        self.seconds[stint.kind] += now - stint.marked
        if stint.kind == LAYER and stint.causes is not None:
            self.counted_seconds += now - stint.marked
        self.up[stint.kind] += counters.up_bytes - stint.marked_up
        self.down[stint.kind] += counters.down_bytes - stint.marked_down

    def sent(self, node: int, effects: Sequence[Effect]) -> None:
        """A peer whose upload is counted by cause took a step."""
        stint = self.open.get(node)
        if stint is None or stint.causes is None:
            return
        for effect in effects:
            if type(effect) is Send:
                cause, size = cause_of(effect.message), self._size_of(effect.message)
                stint.causes[cause] = stint.causes.get(cause, 0) + size
                if self.counting and stint.kind == LAYER:
                    self.paid[cause] += size

    # -- what it came to

    def numbers(self) -> Numbers:
        found: Numbers = {}
        for kind in (LAYER, SUB):
            ended = self.ended[kind]
            if ended:
                found[f"{kind}.hours"] = fsum(one.seconds for one in ended) / len(ended) / 3600
                found[f"{kind}.stints"] = len(ended)
            rated = [one for one in ended if one.seconds >= LEAST_SECONDS[kind]]
            for way in ("up", "down"):
                rates = [(one.seconds, getattr(one, way) / one.seconds) for one in rated]
                if rates:
                    bins = self._bins(rates)
                    found[f"{kind}.{way}.rate"] = fsum(rate for _, rate in rates) / len(rates)
                    found[f"{kind}.{way}.bins"] = fsum(bins.values()) / len(bins)
                    found |= {f"{kind}.{way}.bin.{start:g}": mean for start, mean in bins.items()}
                if self.seconds[kind]:
                    found[f"{kind}.{way}.total"] = getattr(self, way)[kind] / self.seconds[kind]
        if self.counted_seconds:
            found |= self._causes()
        return found

    def _bins(self, rates: list[tuple[float, float]]) -> dict[float, float]:
        """The mean rate by the length of stints, in hours."""
        found: dict[float, list[float]] = {}
        for seconds, rate in rates:
            found.setdefault(seconds // self.bin_seconds * self.bin_seconds / 3600, []).append(rate)
        return {start: fsum(found[start]) / len(found[start]) for start in sorted(found)}

    def _causes(self) -> Numbers:
        """By cause: bytes a second of a member of the layer, and that by the length of stints."""
        found: Numbers = {f"cause.{name}": paid / self.counted_seconds for name, paid in self.paid.items()}
        long = [one for one in self.ended[LAYER] if one.seconds >= LEAST_SECONDS[LAYER]]
        rated = [(one.seconds, one.causes) for one in long if one.causes is not None]
        for name in self.paid:
            rates = [(seconds, causes.get(name, 0) / seconds) for seconds, causes in rated]
            if rates:
                found[f"cause.{name}.rate"] = fsum(rate for _, rate in rates) / len(rates)
                found |= {f"cause.{name}.bin.{start:g}": mean for start, mean in self._bins(rates).items()}
        return found
