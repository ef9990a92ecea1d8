"""The same in Recado's simulator: the routing and the broadcast of the sensor network, without what is above them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from experiments.sensornetwork.peers.scene import PAYLOAD_BYTES, Count, Scene
from recado.model.event import Event
from recado.protocols.machine import Asked, Deliver, Effect, Report, Rng, Stimulus
from recado.protocols.pubsub import Publish
from recado.protocols.sensors import SensorNode, SensorSettings, size_of, traffic_class
from recado.protocols.sensors.messages import Data, Flood, Group
from recado.sim.kernel import Simulation, Step, stream
from recado.sim.radio import Csma, CsmaRadio, IdealRadio, Radio

Channel = Literal["ideal", "csma"]
IP_BYTES = 20
TTL = 30


class Packet(msgspec.Struct, frozen=True):
    """A request: send something to a node."""

    dst: int


class Router:
    """A sensor node of which only the routing is used; it reports packets that are for it."""

    def __init__(self, me: int, settings: SensorSettings) -> None:
        self._node, self._me, self._sent = SensorNode(me, settings), me, 0
        self._arrived: list[Data] = []
        self._node.aodv.arrived = self._arrived.append

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        node = self._node
        if isinstance(stimulus, Asked):
            self._sent += 1
            name = f"{self._me}-{self._sent}"
            node.context.now, node.context.rng, node.context.out = now, rng, []
            node.aodv.send(Data((self._me, self._sent), Event(name, "x"), self._me, stimulus.request.dst, TTL))
            return node.context.out
        effects = node.handle(stimulus, now, rng)
        if self._arrived:
            effects = [*effects, *(Report(TTL - packet.ttl + 1) for packet in self._arrived)]
            self._arrived.clear()
        return effects

    def inspect(self) -> dict[str, Any]:
        return self._node.inspect()


def _make_radio(channel: Channel, scene: Scene, seed: int, arp: bool) -> Radio:
    rng = stream(seed, "radio")
    if channel == "ideal":
        return IdealRadio(scene.by_node(), rng, class_of=traffic_class)
    return CsmaRadio(scene.by_node(), rng, settings=Csma(arp=arp), class_of=traffic_class)


def _size(message: Any) -> int:
    return PAYLOAD_BYTES + IP_BYTES if isinstance(message, (Data, Group, Flood)) else size_of(message)


def run_aodv(scene: Scene, settings: SensorSettings, channel: Channel = "csma", seed: int = 1) -> Count:
    """The transmissions by class, and how far the packets that arrived had to go."""
    hops: list[int] = []
    radio = _make_radio(channel, scene, seed, arp=True)
    simulation = Simulation(radio, seed, size_of=_size, report=lambda now, node, fact: hops.append(fact))
    for node in radio.places:
        assert isinstance(node, int)
        simulation.add(node, Router(node, settings))
    for time, src, dst in scene.sends:
        simulation.ask(src, Packet(dst), at=time)
    simulation.run(until=scene.end)
    return Count(f"recado {channel}", radio.transmissions, len(hops), tuple(hops))


def run_pampa(scene: Scene, settings: SensorSettings, channel: Channel = "csma", seed: int = 1) -> Count:
    """Publications to all over PAMPA; ``arrived`` is how many nodes heard them, the origin left out."""
    heard: dict[tuple[Any, Any], None] = {}

    def watch(step: Step) -> None:
        message = getattr(step.stimulus, "message", None)
        if isinstance(message, Flood) and message.id[0] != step.node:
            heard[message.id, step.node] = None
        assert not any(isinstance(effect, Deliver) for effect in step.effects)  # nobody has subscribed

    radio = _make_radio(channel, scene, seed, arp=False)
    simulation = Simulation(radio, seed, size_of=_size, watch=watch)
    for node in radio.places:
        simulation.add(node, SensorNode(node, settings))
    for number, (time, src, _) in enumerate(scene.sends):
        simulation.ask(src, Publish(Event(f"e{number}", "x")), at=time)
    simulation.run(until=scene.end)
    return Count(f"recado {channel}", radio.transmissions, len(heard))
