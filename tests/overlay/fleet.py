"""Overlays of real processes for tests, and the same scripts in the simulator."""

import contextlib
from collections import Counter
from random import Random

import msgspec

from recado.filters.records import read_subscription
from recado.model.codec import read_event
from recado.overlay.client import Delivered, Outcome, OverlayClient, Step
from recado.overlay.launch import Plan, new_launch, start, stop
from recado.protocols.pubsub import BecomeBroker, BecomePublisher, Publish, Subscribe, Unsubscribe


def plan_of(topology, name="test", **options):
    return Plan(name, links=tuple(f"{a}-{b}" for a, b in topology.edges), **options)


@contextlib.contextmanager
def launched(plan, tmp_path, processes=0):
    """A running overlay; whatever happens, no process is left."""
    launch = new_launch(plan, tmp_path)
    try:
        start(launch, processes)
        yield launch
    finally:
        stop(launch)


@contextlib.contextmanager
def connected(plan, tmp_path, processes=0):
    with launched(plan, tmp_path, processes) as launch, OverlayClient(map(launch.socket, launch.nodes)) as client:
        yield client


def simulate(system, steps):
    """The outcomes of a script in the simulator."""
    for step in steps:
        before = Counter({kind.__name__: sent.count for kind, sent in system.simulation.sent.items()})
        seen = len(system.deliveries)
        system.do(step.node, request_of(step))
        now = Counter({kind.__name__: sent.count for kind, sent in system.simulation.sent.items()})
        new = tuple(sorted(Delivered(d.node, d.event, d.subscriptions) for d in system.deliveries[seen:]))
        yield Outcome(step, dict(sorted((now - before).items())), new)


def request_of(step):
    match step.do:
        case "subscribe":
            return Subscribe(read_subscription(msgspec.json.encode(step.subscription)))
        case "unsubscribe":
            return Unsubscribe(step.id)
        case "publish":
            return Publish(read_event(step.event))
        case "become-publisher":
            return BecomePublisher(step.type)
        case "become-broker":
            return BecomeBroker(step.type)


def random_script(topology, seed, length):
    """Operations that make sense one after another: two types, filters on a price, all roles changing."""
    rng = Random(seed)
    nodes, types = list(topology.nodes), ["x", "y"]
    publishers, subscriptions = {"x": [], "y": []}, {}
    for number in range(length):
        type = rng.choice(types)
        match rng.choices(
            ["subscribe", "unsubscribe", "publish", "become-publisher", "become-broker"], [4, 1, 12, 3, 1]
        )[0]:
            case "subscribe":
                record = {"id": f"s{number}", "type": type, "filter": f"Price < {rng.randrange(2, 7)}"}
                subscriptions[record["id"]] = rng.choice(nodes)
                yield Step(subscriptions[record["id"]], "subscribe", subscription=record)
            case "unsubscribe" if subscriptions:
                id = rng.choice(list(subscriptions))
                yield Step(subscriptions.pop(id), "unsubscribe", id=id)
            case "publish" if publishers[type]:
                event = {"id": f"e{number}", "type": type, "Price": rng.randrange(6)}
                yield Step(rng.choice(publishers[type]), "publish", event=event)
            case "become-publisher":
                node = rng.choice(nodes)
                if node not in publishers[type]:
                    publishers[type].append(node)
                    yield Step(node, "become-publisher", type=type)
            case "become-broker" if len(publishers[type]) > 1:
                node = rng.choice(publishers[type])
                publishers[type].remove(node)
                yield Step(node, "become-broker", type=type)
