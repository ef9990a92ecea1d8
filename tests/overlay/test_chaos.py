"""Faults at random on live trees, round after round; between the rounds everybody hears everything, once."""

import asyncio
import os
import signal
from random import Random

import pytest

from overlay.fleet import launched, plan_of
from overlay.helpers import Proxy, run, until
from overlay.test_faults import FAST, Reader, delivers, publish_until_heard, tree_node
from recado.model.subscription import Subscription
from recado.overlay.client import ask
from recado.overlay.launch import PlannedNode, start
from recado.protocols.topology import Topology, random_graph


async def cut_at_random(seed, rounds, size=7):
    """Every link goes through a proxy of its own; in each round some are cut, and some of these stay down a while."""
    rng = Random(seed)
    graph = random_graph(size, 4, rng)
    nodes = [await tree_node(f"n{i}").start() for i in range(size)]
    proxies = {}
    for first, second in graph.edges:
        proxies[first, second] = await Proxy(nodes[first].address).__aenter__()
        nodes[second].connect(proxies[first, second].address)
    for i in graph.nodes:
        await nodes[i].wait_for_links(*(f"n{other}" for other in graph.neighbours(i)))
    await nodes[0].become_publisher("Tick")
    readers = [Reader(await one.subscribe(Subscription(f"of-{one.name}", type="Tick"))) for one in nodes[1:]]
    await delivers(nodes[0], readers, "start")
    for number in range(rounds):
        for proxy in proxies.values():
            if rng.random() < 0.3:
                proxy.open = rng.random() < 0.5
                proxy.cut()
        await asyncio.sleep(rng.random() * 0.3)
        for proxy in proxies.values():
            proxy.open = True
        for i in graph.nodes:
            await nodes[i].wait_for_links(*(f"n{other}" for other in graph.neighbours(i)))
        await delivers(nodes[0], readers, f"round-{number}")
    assert all(len(reader.heard) == len(set(reader.heard)) for reader in readers)
    for one in nodes:
        await one.stop()
    for proxy in proxies.values():
        await proxy.__aexit__()
    await until(lambda: all(reader.task.done() for reader in readers))


def test_links_that_are_cut_at_random():
    run(cut_at_random(seed=1, rounds=3))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_links_that_are_cut_at_random_many_times(seed):
    run(cut_at_random(seed, rounds=15), seconds=200)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_processes_that_are_killed_and_stopped_at_random(seed, tmp_path):
    rng = Random(seed)
    graph = random_graph(6, 4, rng)
    topology = Topology((f"n{i}" for i in graph.nodes), ((f"n{a}", f"n{b}") for a, b in graph.edges))
    plan = plan_of(topology, settings=FAST, nodes={"n0": PlannedNode(publishes=("Tick",))})
    others = [str(node) for node in topology.nodes if node != "n0"]
    with launched(plan, tmp_path) as launch:
        for name in others:
            ask(launch.socket(name), "subscribe", subscription={"id": f"of-{name}", "type": "Tick"}, follow=False)
        for number in range(8):
            for name in rng.sample([*others, "n0"], rng.randrange(1, 4)):
                os.kill(launch.nodes[name].process, rng.choice([signal.SIGKILL, signal.SIGTERM]))
                os.waitpid(launch.nodes[name].process, 0)
            start(launch)
            publish_until_heard(launch, "n0", others, f"round-{number}")
