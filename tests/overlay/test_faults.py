"""Live trees under faults: nodes are killed and come back, links are cut, peers stop; the others go on delivering.

Repair takes time, so an event is published again under a new id until all who should hear of it do; what is published
after that must reach each of them exactly once.
"""

import asyncio
import os
import signal
import time
from itertools import count

from overlay.fleet import launched, plan_of
from overlay.helpers import Hand, Proxy, node, run, until
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.overlay.client import NodeClient, ask
from recado.overlay.launch import PlannedNode, missing_links, start
from recado.protocols.pubsub import Notified
from recado.protocols.topology import parse_edges

FAST = {"repair_seconds": 0.05, "patience": 2.0, "settle_seconds": 1.0}


def tree_node(name, **options):
    return node(name, protocol="trees", settings=FAST, **options)


class Reader:
    """Collects the events of a stream."""

    def __init__(self, stream):
        self.heard = []
        self.task = asyncio.create_task(self.read(stream))

    async def read(self, stream):
        async for item in stream:
            if isinstance(item, Notified):
                self.heard.append(item.event.id)


async def delivers(publisher, readers, tag):
    """Publish until all readers hear; then ten more, each of which everybody hears exactly once."""
    for number in count():
        id = f"{tag}-try-{number}"
        await publisher.publish(Event(id, "Tick"))
        for _ in range(20):
            if all(id in reader.heard for reader in readers):
                break
            await asyncio.sleep(0.005)
        else:
            continue
        break
    ids = [f"{tag}-{number}" for number in range(10)]
    for id in ids:
        await publisher.publish(Event(id, "Tick"))
    await until(lambda: all(ids[-1] in reader.heard for reader in readers))
    for reader in readers:
        assert [id for id in reader.heard if id in ids] == ids


# -- in one process, with links that can be cut and slowed


async def square():
    """Links a-b, b-d, a-c, c-d; the link a-b goes through a proxy. The node a publishes, d and c subscribe."""
    a, d = await tree_node("a").start(), await tree_node("d").start()
    proxy = await Proxy(a.address).__aenter__()
    b = await tree_node("b", peers=[proxy.address, str(d.address)]).start()
    c = await tree_node("c", peers=[str(a.address), str(d.address)]).start()
    await a.wait_for_links("b", "c")
    await d.wait_for_links("b", "c")
    await a.become_publisher("Tick")
    readers = [Reader(await one.subscribe(Subscription(f"of-{one.name}", type="Tick"))) for one in (b, c, d)]
    return a, b, c, d, proxy, readers


async def end(*nodes, proxy, readers):
    for one in nodes:
        await one.stop()
    await proxy.__aexit__()
    await asyncio.gather(*(reader.task for reader in readers))


def test_a_cut_link_is_gone_around_and_used_again():
    async def test():
        a, b, c, d, proxy, readers = await square()
        await delivers(a, readers, "before")
        proxy.open = False
        proxy.cut()
        await until(lambda: "b" not in a.links.links and "a" not in b.links.links)
        await delivers(a, readers, "cut")
        proxy.open = True
        await a.wait_for_links("b")
        await delivers(a, readers, "after")
        assert all(len(reader.heard) == len(set(reader.heard)) for reader in readers)
        await end(a, b, c, d, proxy=proxy, readers=readers)

    run(test())


def test_a_link_that_carries_nothing_any_more_is_gone_around():
    async def test():
        a, b, c, d, proxy, readers = await square()
        await delivers(a, readers, "before")
        proxy.flowing.clear()
        await until(lambda: "b" not in a.links.links and "a" not in b.links.links)
        await delivers(a, readers, "stuck")
        proxy.flowing.set()
        proxy.cut()
        await a.wait_for_links("b")
        await delivers(a, readers, "after")
        await end(a, b, c, d, proxy=proxy, readers=readers)

    run(test())


def test_links_that_flap_all_the_time_leave_a_working_overlay():
    async def test():
        a, b, c, d, proxy, readers = await square()
        for _ in range(15):
            await a.wait_for_links("b")
            proxy.cut()
            await until(lambda: "b" not in a.links.links or "a" not in b.links.links)
        await a.wait_for_links("b")
        await delivers(a, readers, "after")
        await end(a, b, c, d, proxy=proxy, readers=readers)

    run(test())


def test_a_stranger_who_speaks_the_protocol_badly_harms_nobody():
    """Made-up messages from somebody who went through the hello, then a filter that no event could be held against."""

    async def test():
        a, b, c, d, proxy, readers = await square()
        hand = await (await Hand.to(a)).become("x", a)
        await a.wait_for_links("x")
        for message in (["Q_YES", "of-d", 7], ["C", "nobody", 1, False], ["MP_NO", 12], ["CUT", 99], ["REDO", 5]):
            hand.say(message, control=False)
        hand.say(["Q", ["evil", 1, "Tick", "Price <"]], control=False)
        assert "expected a value but found the end" in (await hand.last_words())[-1].reason
        await until(lambda: "x" not in a.links.links)
        await delivers(a, readers, "after")
        await end(a, b, c, d, proxy=proxy, readers=readers)

    run(test())


def test_a_subscriber_that_leaves_and_one_that_joins():
    async def test():
        a, b, c, d, proxy, readers = await square()
        e = await tree_node("e", peers=[str(d.address)]).start()
        await e.wait_for_links("d")
        newcomer = Reader(await e.subscribe(Subscription("of-e", type="Tick")))
        await delivers(a, [*readers, newcomer], "joined")
        await e.stop()
        await until(lambda: "e" not in d.links.links)
        await newcomer.task
        await delivers(a, readers, "left")
        await until(lambda: all("of-e" not in str(one.show()["machine"]["tables"]) for one in (a, b, c, d)))
        await end(a, b, c, d, proxy=proxy, readers=readers)

    run(test())


# -- real processes


def wait_until(condition, seconds=90.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "too late"
        time.sleep(0.02)


def heard(launch, name):
    return [delivery["event"] for delivery in ask(launch.socket(name), "deliveries")]


def publish_until_heard(launch, publisher, subscribers, tag):
    for number in count():
        id = f"{tag}-{number}"
        ask(launch.socket(publisher), "publish", event={"id": id, "type": "Tick"})
        for _ in range(10):
            if all(id in heard(launch, name) for name in subscribers):
                return
            time.sleep(0.02)


def test_a_killed_node_is_gone_around_and_comes_back_with_its_subscription(tmp_path):
    """a publishes; d is reached through b or through c. One of them is killed, then the subscriber itself."""
    topology = parse_edges("a-b b-d a-c c-d")
    plan = plan_of(topology, settings=FAST, nodes={"a": PlannedNode(publishes=("Tick",))})
    with launched(plan, tmp_path) as launch:
        ask(launch.socket("d"), "subscribe", subscription={"id": "s", "type": "Tick"}, follow=False)
        publish_until_heard(launch, "a", ["d"], "before")
        (relay,) = ask(launch.socket("d"), "show")["machine"]["tables"]["Tick"]["s"]["origin"]
        os.kill(launch.nodes[relay].process, signal.SIGKILL)
        publish_until_heard(launch, "a", ["d"], "around")

        os.kill(launch.nodes["d"].process, signal.SIGKILL)
        wait_until(lambda: "d" not in ask(launch.socket("a"), "show")["links"] and len(missing_links(launch)) >= 2)
        assert sorted(start(launch)) == sorted([relay, "d"])
        with NodeClient(launch.socket("d")) as client:
            client.ask("follow", id="s")
            publish_until_heard(launch, "a", ["d"], "back")
            events = (item["event"]["id"] for item in client.stream() if "event" in item)
            assert next(events).startswith("back-")


def test_a_killed_publisher_publishes_again_after_its_return(tmp_path):
    plan = plan_of(parse_edges("a-b b-c"), settings=FAST, nodes={"a": PlannedNode(publishes=("Tick",))})
    with launched(plan, tmp_path) as launch:
        ask(launch.socket("c"), "subscribe", subscription={"id": "s", "type": "Tick"}, follow=False)
        publish_until_heard(launch, "a", ["c"], "before")
        os.kill(launch.nodes["a"].process, signal.SIGKILL)
        wait_until(lambda: "a" not in ask(launch.socket("b"), "show")["links"])
        assert start(launch) == ["a"]
        assert ask(launch.socket("a"), "show")["machine"]["publishes"] == ["Tick"]
        publish_until_heard(launch, "a", ["c"], "back")


def test_a_stopped_process_does_not_stop_the_others(tmp_path):
    """Stopped, not killed: its connections stay open and take nothing."""
    plan = plan_of(parse_edges("a-b a-c"), settings=FAST, nodes={"a": PlannedNode(publishes=("Tick",))})
    with launched(plan, tmp_path) as launch:
        for name in ("b", "c"):
            ask(launch.socket(name), "subscribe", subscription={"id": f"of-{name}", "type": "Tick"}, follow=False)
        publish_until_heard(launch, "a", ["b", "c"], "before")
        os.kill(launch.nodes["b"].process, signal.SIGSTOP)
        text = "x" * 30_000
        for number in range(200):
            event = {"id": f"big-{number}", "type": "Tick", "text": text}
            ask(launch.socket("a"), "publish", event=event)
        wait_until(
            lambda: [id for id in heard(launch, "c") if id.startswith("big-")] == [f"big-{n}" for n in range(200)]
        )
        os.kill(launch.nodes["b"].process, signal.SIGCONT)
        publish_until_heard(launch, "a", ["b", "c"], "after")


def test_sigterm_drains_and_exits_with_zero(tmp_path):
    plan = plan_of(parse_edges("a-b"), settings=FAST, nodes={"a": PlannedNode(publishes=("Tick",))})
    with launched(plan, tmp_path) as launch:
        ask(launch.socket("b"), "subscribe", subscription={"id": "s", "type": "Tick"}, follow=False)
        publish_until_heard(launch, "a", ["b"], "before")
        with NodeClient(launch.socket("a")) as client:
            for number in range(50):
                client.ask("publish", event={"id": f"last-{number}", "type": "Tick", "text": "x" * 50_000})
            pid = launch.nodes["a"].process
            os.kill(pid, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        wait_until(lambda: f"last-{49}" in heard(launch, "b"))
        assert not launch.socket("a").exists()
        assert "link to a is down: the other side stopped" in (launch.folder / "logs" / "b.log").read_text()
