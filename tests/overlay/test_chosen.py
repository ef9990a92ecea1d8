"""Live trees that choose their links and their publishers: attraction and election over TCP."""

import os
import signal

from overlay.fleet import launched, plan_of
from overlay.helpers import node, run, until
from overlay.test_faults import Reader, delivers, publish_until_heard, wait_until
from recado.model.subscription import Subscription
from recado.overlay.client import ask
from recado.overlay.launch import PlannedNode
from recado.protocols.pubsub import Settled, Unpublished
from recado.protocols.topology import parse_edges

FAST = {"repair_seconds": 0.05, "patience": 2.0, "settle_seconds": 1.0, "attract_seconds": 0.2}


async def chain(names, **settings):
    """Nodes in a row, each linked with the one before."""
    nodes = []
    for name in names:
        peers = [str(nodes[-1].address)] if nodes else []
        nodes.append(await node(name, protocol="trees", settings=FAST | settings, peers=peers).start())
        if peers:
            await nodes[-1].wait_for_links(nodes[-2].name)
    return nodes


async def stop(nodes, *readers):
    for one in nodes:
        await one.stop()
    for reader in readers:
        await reader.task


def test_a_live_subscriber_dials_its_publisher_and_gives_the_link_up_when_another_is_better():
    async def test():
        nodes = await chain("abcdef", attract=1)
        a, b, *_, f = nodes
        await b.become_publisher("Tock")
        await a.become_publisher("Tick")
        reader = Reader(await f.subscribe(Subscription("s", type="Tick")))
        await f.wait_for_links("a")
        await until(lambda: list(a.show()["machine"]["tables"]["Tick"]["s"]["next"]) == ["f"])
        await delivers(a, [reader], "near")
        assert f.show()["machine"]["attraction"]["opened"] == {"a": {"type": "Tick", "gain": 4}}
        assert a.show()["machine"]["attraction"]["attached"] == {"f": "Tick"}
        await f.unsubscribe("s")
        other = Reader(await f.subscribe(Subscription("t", type="Tock")))
        await f.wait_for_links("b")
        await until(lambda: "a" not in f.links.links and "f" not in a.links.links)
        await b.become_publisher("Tick")
        await until(lambda: "t" in b.show()["machine"]["tables"].get("Tock", {}))
        assert str(a.address) not in f.show()["dials"]
        assert other.heard == []
        await stop(nodes, reader, other)

    run(test())


def test_a_link_is_sought_again_when_the_publisher_comes_back_elsewhere():
    async def test():
        nodes = await chain("abcde", attract=2)
        a, b, *_, e = nodes
        await a.become_publisher("Tick")
        reader = Reader(await e.subscribe(Subscription("s", type="Tick")))
        await e.wait_for_links("a")
        await delivers(a, [reader], "first")
        await a.stop()
        await b.become_publisher("Tick")
        await e.wait_for_links("b")
        await delivers(b, [reader], "second")
        assert all(len(set(one.links.links)) <= 4 for one in nodes[1:])
        await stop(nodes[1:], reader)

    run(test())


def test_nodes_with_and_without_the_switch_do_not_link_and_those_without_do():
    async def test():
        plain = await node("plain", protocol="trees", settings=FAST).start()
        other = await node(
            "other", protocol="trees", settings=FAST | {"attract": 2}, peers=[str(plain.address)]
        ).start()
        same = await node("same", protocol="trees", settings=FAST | {"buffer": 5}, peers=[str(plain.address)]).start()
        await plain.wait_for_links("same")
        await until(lambda: plain.links.refused > 0)
        assert "other" not in plain.links.links
        await stop([plain, other, same])

    run(test())


def test_a_live_publisher_that_leaves_hands_over():
    async def test():
        nodes = await chain("abcde", elect=True)
        a, b, c, _, e = nodes
        await a.become_publisher("Tick")
        await c.become_candidate("Tick")
        stream = await e.subscribe(Subscription("s", type="Tick"))
        reader = Reader(stream)
        await delivers(a, [reader], "before")
        await a.become_broker("Tick")
        await c.wait_until_publisher("Tick")
        await delivers(c, [reader], "after")
        await until(lambda: "Tick" not in a.show()["machine"]["tables"])
        assert b.show()["machine"]["publishes"] == []
        assert c.show()["roles"] == ["publishes Tick", "stands by for Tick"]
        await stop(nodes, reader)

    run(test())


def test_nobody_is_without_publisher_for_a_moment_when_it_leaves_by_itself():
    async def test():
        nodes = await chain("abc", elect=True)
        a, b, c = nodes
        await a.become_publisher("Tick")
        await b.become_candidate("Tick")
        stream = await c.subscribe(Subscription("s", type="Tick"))
        await until(lambda: c.show()["machine"]["subscriptions"]["s"]["published"])
        await a.become_broker("Tick")
        await b.wait_until_publisher("Tick")
        await until(lambda: "Tick" not in a.show()["machine"]["tables"])
        await stop(nodes)
        facts = [type(item) async for item in stream]
        assert Settled in facts
        assert Unpublished not in facts

    run(test())


def test_a_killed_publisher_is_followed_by_a_candidate(tmp_path):
    """Real processes: a publishes and is killed; c stood by; d hears c without having subscribed again."""
    nodes = {"a": PlannedNode(publishes=("Tick",)), "c": PlannedNode(candidate=("Tick",))}
    plan = plan_of(parse_edges("a-b b-d b-c c-d"), settings=FAST | {"elect": True}, nodes=nodes)
    with launched(plan, tmp_path) as launch:
        ask(launch.socket("d"), "subscribe", subscription={"id": "s", "type": "Tick"}, follow=False)
        publish_until_heard(launch, "a", ["d"], "before")
        os.kill(launch.nodes["a"].process, signal.SIGKILL)
        wait_until(lambda: ask(launch.socket("c"), "show")["machine"]["publishes"] == ["Tick"])
        publish_until_heard(launch, "c", ["d"], "after")
        assert list(ask(launch.socket("d"), "show")["machine"]["subscriptions"]) == ["s"]
