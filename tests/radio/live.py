"""Scenes of real processes for tests, and the same traffic in the simulator."""

import contextlib
import os
import signal
import time
from collections import Counter
from pathlib import Path
from random import Random

import msgspec

from protocols.sensors.world import World
from recado.filters.evaluate import matches
from recado.filters.expression import parse
from recado.radio.launch import open_scene, scene_folder, start, stop
from recado.radio.scene import Placement, Scene, check_scene


def line_scene(count=8, name="line", **options):
    return check_scene(Scene(name, placement=Placement("line", nodes=count), **options))


@contextlib.contextmanager
def living(scene):
    """A client of the running scene; whatever happens, no process is left."""
    start(scene)
    try:
        with open_scene(scene.scene) as client:
            yield client
    finally:
        stop(scene_folder(scene.scene))


def kill(client, node):
    """For real; returns when the process is gone."""
    pid = client.ask(node, "count")["process"]
    os.kill(pid, signal.SIGKILL)
    client.forget(node)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z":
                return
        except (ProcessLookupError, FileNotFoundError):
            return
        time.sleep(0.01)
    raise AssertionError(f"{pid} lives")


def subscribe(client, node, text="a1 >= 1", id=None):
    client.ask(node, "subscribe", subscription={"id": id or f"s-{node}", "filter": text}, follow=False)


def publish(client, node, id, **attributes):
    client.ask(node, "publish", event={"id": id, **(attributes or {"a1": 1})})


class Traffic:
    """Subscriptions and publications, drawn from a seed; the same for a live scene and for the simulator."""

    def __init__(self, nodes, seed, subscriptions, publications, publishers=None):
        rng = Random(seed)
        chosen = rng.sample(nodes, subscriptions)
        self.subscriptions = {}
        for node in chosen:
            low = [rng.randint(1, 6) for _ in range(2)]
            self.subscriptions[node] = " and ".join(f"a{n} >= {y} and a{n} <= {y + 3}" for n, y in enumerate(low, 1))
        self.publications = [
            (f"e{number}", rng.choice(publishers or nodes), {f"a{n}": rng.randint(1, 9) for n in (1, 2)})
            for number in range(publications)
        ]

    def due(self):
        from recado.model.event import Event

        trees = {node: parse(text) for node, text in self.subscriptions.items()}
        return {
            (id, node)
            for id, _, attributes in self.publications
            for node, tree in trees.items()
            if matches(tree, Event(id, attributes=attributes))
        }

    def simulate(self, scene, seed, apart):
        """What the simulator does with it, publications ``apart`` seconds from each other: pairs and transmissions."""
        world = World(scene.places(), scene.configured().settings, seed)
        for node, text in self.subscriptions.items():
            world.subscribe(node, text)
            world.run()
        now = world.simulation.now
        for number, (id, node, attributes) in enumerate(self.publications):
            world.publish(node, id, *attributes.values(), at=now + number * apart)
        world.run()
        return {(id, node) for _, node, id in world.deliveries}, Counter(world.sent)

    def live(self, client, factor, apart):
        for node, text in self.subscriptions.items():
            subscribe(client, node, text)
            client.wait_until_quiet()
        begin = time.monotonic()
        for number, (id, node, attributes) in enumerate(self.publications):
            time.sleep(max(0.0, begin + number * apart * factor - time.monotonic()))
            publish(client, node, id, **attributes)
        client.wait_until_quiet(600)
        return client.deliveries(), client.transmissions()


def served_scene(name, nodes, side, traffic_of, apart, settings=None, seeds=10):
    """A placement that the simulator serves completely for so many seeds, its traffic, and the mean transmissions."""
    for seed in range(50):
        placement = Placement("connected", nodes=nodes, side=side)
        scene = check_scene(Scene(name, seed=seed, placement=placement, settings=settings or {}))
        traffic = traffic_of(list(scene.places()), seed)
        total = Counter()
        for run in range(seeds):
            pairs, sent = traffic.simulate(scene, run, apart)
            if pairs != traffic.due():
                break
            total.update(sent)
        else:
            return scene, traffic, {kind: count / seeds for kind, count in total.items()}
    raise AssertionError("no placement is served completely")


def replace(scene, **options):
    return check_scene(msgspec.structs.replace(scene, **options))
