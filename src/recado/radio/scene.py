"""Scene files: which nodes there are, where they stand, and what they want.

::

    scene = "forest"
    factor = 10.0                   # so much slower than the protocol's own time

    [placement]
    kind = "connected"              # or scatter, grid, line, clusters
    nodes = 12
    side = 600.0                    # metres

    [settings]                      # of the protocol
    pampa = "sparse"

    [nodes.n0]
    subscribes = ["temperature > 60 and humidity < 30"]

Nodes of a placement are called n0, n1, …. A node that the placement does not have needs a ``place``, and one that it
has may be given another. The seed makes the placement, and the chance of medium and nodes.
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec

from recado.errors import RecadoError
from recado.filters.expression import parse
from recado.overlay.addresses import check_name
from recado.protocols.machine import NodeId
from recado.protocols.pubsub import ConfiguredProtocol
from recado.protocols.registry import PROTOCOLS, find_protocol
from recado.sim.network import Place
from recado.sim.radio.placement import clusters, connected_scatter, grid_places, line_places, radio_topology, scatter
from recado.sim.radio.signal import RANGE_METRES

MEDIUM = "medium"
"""What the medium is called among the nodes."""
MOST_NODES = 1_000
FACTORS = (1.0, 100.0)


class SceneError(RecadoError):
    """A scene that cannot be, or does not run, or a node of it that cannot be asked."""


class Placement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Literal["connected", "scatter", "grid", "line", "clusters"]
    nodes: int
    side: float = 0.0
    apart: float = 200.0
    """Of a line, in metres."""
    count: int = 3
    """Of clusters."""
    spread: float = 60.0

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= MOST_NODES:
            raise SceneError(f"placement.nodes: a scene has 1 to {MOST_NODES:,} nodes, not {self.nodes}")
        if self.kind != "line" and not 0 < self.side < math.inf:
            raise SceneError(f"placement.side: {self.kind} needs the side of a square in metres, not {self.side:g}")
        if self.kind == "line" and not 0 < self.apart < math.inf:
            raise SceneError(f"placement.apart: nodes of a line are some metres apart, not {self.apart:g}")

    def places(self, range_metres: float, rng: Random) -> dict[str, Place]:
        names = [f"n{number}" for number in range(self.nodes)]
        match self.kind:
            case "connected":
                found = connected_scatter(names, self.side, rng, range_metres)
            case "scatter":
                found = scatter(names, self.side, rng)
            case "grid":
                found = grid_places(names, self.side)
            case "line":
                found = line_places(names, self.apart)
            case "clusters":
                found = clusters(names, self.side, self.count, self.spread, rng)
        return {str(node): place for node, place in found.items()}


class SceneNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    place: tuple[float, float] | None = None
    subscribes: tuple[str, ...] = ()
    settings: dict[str, Any] = {}
    """Of this node, over those of all."""


class Scene(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    scene: str
    protocol: str = "sensor-network"
    factor: float = 10.0
    range: float = RANGE_METRES
    seed: int = 0
    loss: float = 0.0
    """From the start; see ``recado radio fault``."""
    placement: Placement | None = None
    nodes: dict[str, SceneNode] = {}
    settings: dict[str, Any] = {}
    types: tuple[str, ...] = ()
    """Event types that sensors publish: a gateway looks for subscriptions to these."""

    def places(self) -> dict[str, Place]:
        """Where every node stands, in metres."""
        rng = Random(self.seed)  # noqa: S311  # a placement, not a secret
        places = self.placement.places(self.range, rng) if self.placement is not None else {}
        for name, node in self.nodes.items():
            if node.place is not None:
                places[name] = node.place
            elif name not in places:
                raise SceneError(f"nodes.{name}: it stands nowhere; give it a place, such as place = [100.0, 50.0]")
        return places

    def configured(self, node: str = "") -> ConfiguredProtocol:
        """The protocol with its settings: of all nodes, or of one."""
        own = self.nodes[node].settings if node in self.nodes else {}
        return find_protocol(self.protocol).configure({**self.settings, **own})

    def subscribes(self, node: str) -> tuple[str, ...]:
        return self.nodes[node].subscribes if node in self.nodes else ()

    def pieces(self) -> list[list[str]]:
        """The nodes that can reach each other, together; one list if all can."""
        topology = radio_topology(dict[NodeId, Place](self.places().items()), self.range)
        found: list[list[str]] = []
        left = dict.fromkeys(map(str, topology.nodes))
        while left:
            piece = [str(node) for node in topology.distances(next(iter(left)))]
            found.append(piece)
            for node in piece:
                del left[node]
        return found


def check_scene(scene: Scene) -> Scene:
    """The scene itself; a RecadoError that names what is wrong with it."""
    check_name(scene.scene)
    low, high = FACTORS
    if not low <= scene.factor <= high:
        raise SceneError(f"factor: time is {low:g} to {high:g} times slower, not {scene.factor:g}")
    if not 0 < scene.range < math.inf:
        raise SceneError(f"range: more than 0 m, not {scene.range:g}")
    if not 0 <= scene.loss < 1:
        raise SceneError(f"loss: a probability below 1, not {scene.loss:g}")
    names = scene.places()
    if not names:
        raise SceneError("there are no nodes; give a [placement], or places such as [nodes.a] with place = [0.0, 0.0]")
    if len(names) > MOST_NODES:
        raise SceneError(f"{len(names):,} nodes; a scene has at most {MOST_NODES:,}")
    if not find_protocol(scene.protocol).needs_radio:
        known = [protocol.name for protocol in PROTOCOLS.values() if protocol.needs_radio]
        raise SceneError(f"protocol: {scene.protocol!r} is not for radio; {' or '.join(known)} is")
    scene.configured()
    for name in names:
        check_name(name)
        if name == MEDIUM:
            raise SceneError(f"nodes.{name}: the air itself is called so; choose another name")
        _check_node(scene, name)
    return scene


def _check_node(scene: Scene, name: str) -> None:
    try:
        scene.configured(name)
        for text in scene.subscribes(name):
            parse(text)
    except RecadoError as error:
        raise SceneError(f"nodes.{name}: {error}") from None
    if not all(map(math.isfinite, scene.places()[name])):
        raise SceneError(f"nodes.{name}.place: two numbers, in metres")


def read_scene(path: Path) -> Scene:
    """The scene in a file; a SceneError names the file and the place in it."""
    try:
        return check_scene(msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Scene))
    except OSError as error:
        raise SceneError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SceneError(f"{path}: not TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise SceneError(f"{path}: {error}") from None
    except RecadoError as error:
        raise SceneError(f"{path}: {error}") from None
