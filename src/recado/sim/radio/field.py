"""Where nodes are, and who is near whom: a grid of cells as wide as the range.

What was found for a node is kept until somebody moves in its neighbourhood.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from recado.protocols.machine import NodeId
from recado.sim.kernel import SimulationError
from recado.sim.network import Place
from recado.sim.radio.signal import dbm, received_watts

Cell = tuple[int, int]


class Field:
    """``places`` are in metres; a node that moves is moved with ``move``."""

    def __init__(self, places: Mapping[NodeId, Place], range_metres: float) -> None:
        if not range_metres > 0:
            raise SimulationError(f"a range is more than 0 m, not {range_metres}")
        self.places, self.range_metres = dict(places), range_metres
        self.version = 0
        """Grows with every move."""
        self._cells: dict[Cell, dict[NodeId, None]] = {}
        self._near: dict[NodeId, dict[NodeId, float]] = {}
        for node in self.places:
            self._cells.setdefault(self._cell(node), {})[node] = None

    def move(self, node: NodeId, place: Place) -> None:
        """To a new place; or a new node to its first."""
        if node in self.places:
            old = self._cell(node)
            del self._cells[old][node]
            self._forget(old)
        self.places[node] = place
        new = self._cell(node)
        self._cells.setdefault(new, {})[node] = None
        self._forget(new)
        self._near.pop(node, None)
        self.version += 1

    def move_all(self, places: Mapping[NodeId, Place]) -> None:
        """Many nodes at once."""
        self.places.update(places)
        self._cells.clear()
        self._near.clear()
        for node in self.places:
            self._cells.setdefault(self._cell(node), {})[node] = None
        self.version += 1

    def hearers(self, sender: NodeId) -> dict[NodeId, float]:
        """Who is in range of a node, and how strongly they hear it (dBm)."""
        near = self._near.get(sender)
        if near is None:
            if sender not in self.places:
                raise SimulationError(f"node {sender!r} is nowhere; give it a place")
            near = self._near[sender] = {node: dbm(received_watts(far)) for node, far in self._search(sender)}
        return near

    def _search(self, sender: NodeId) -> Iterator[tuple[NodeId, float]]:
        place = self.places[sender]
        for node in self._around(self._cell(sender)):
            if node != sender:
                far = math.dist(place, self.places[node])
                if far <= self.range_metres:
                    yield node, far

    def _around(self, cell: Cell) -> Iterator[NodeId]:
        """Whoever is in range is in this cell or in one of the eight around it."""
        column, row = cell
        for x in (column - 1, column, column + 1):
            for y in (row - 1, row, row + 1):
                yield from self._cells.get((x, y), ())

    def _forget(self, cell: Cell) -> None:
        for node in self._around(cell):
            self._near.pop(node, None)

    def _cell(self, node: NodeId) -> Cell:
        x, y = self.places[node]
        return int(x // self.range_metres), int(y // self.range_metres)
