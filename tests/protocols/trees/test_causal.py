"""Causal order: an answer is never delivered before what it answers, and nothing waits for ever."""

from random import Random

from protocols.trees.world import CAP
from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.pubsub import Publish, Unsubscribe
from recado.protocols.topology import complete, random_graph, ring, star
from recado.protocols.trees import TreeNode, TreeSettings
from recado.sim.draws import exponential
from recado.sim.network import Links
from recado.sim.system import System


class Slow:
    """One link is slow in one direction."""

    tells_failure = False

    def __init__(self, sender, receiver, delay):
        self.link, self.delay = (sender, receiver), delay

    def arrivals(self, sender, receiver, size_bytes, now):
        return (now + (self.delay if (sender, receiver) == self.link else 1.0),)


def triangle(causal, delay=50.0, filter="true", then=None):
    """0 asks, 1 answers when it hears the question, and 2 listens; the link from 0 to 2 becomes slow."""
    settings = TreeSettings(causal=causal, causal_wait_seconds=100.0)
    network = Slow(0, 2, 1.0)
    made = System(ring(3), lambda node: TreeNode(node, settings), network)
    made.become_publisher(0, "question")
    made.become_publisher(1, "answer")
    made.subscribe(1, Subscription("listens", type="question"))
    made.subscribe(2, Subscription("questions", parse(filter), "question"))
    made.subscribe(2, Subscription("answers", type="answer"))
    network.delay = delay
    made.simulation.ask(0, Publish(Event("q", "question", attributes={"v": 1})))
    made.simulation.run(until=made.simulation.now + 2)
    assert [one.node for one in made.deliveries] == [1]
    made.simulation.ask(1, Publish(Event("a", "answer")))
    made.simulation.run(until=made.simulation.now + 10)
    if then is not None:
        made.simulation.ask(2, then)
    made.run_until_quiet()
    return [one.event for one in made.deliveries if one.node == 2], made


def test_without_it_an_answer_may_come_first():
    assert triangle(causal=False)[0] == ["a", "q"]


def test_with_it_the_answer_waits():
    order, made = triangle(causal=True)
    assert order == ["q", "a"]
    assert made.inspect([2])[2]["counters"]["waiting"] == 0


def test_it_does_not_wait_for_ever():
    """The question does not match and never comes; the answer waits as long as is allowed, and no longer."""
    order, made = triangle(causal=True, filter="v > 5")
    assert order == ["a"]
    assert made.deliveries[-1].time > 100


def test_order_holds_over_someone_who_heard_only_a_part():
    """0 asks; 1 tells 2 in another type; 2 answers 3, who never hears of what 1 told."""
    settings = TreeSettings(causal=True, causal_wait_seconds=100.0)
    network = Slow(0, 3, 1.0)
    made = System(complete(4), lambda node: TreeNode(node, settings), network)
    for node, type in ((0, "talk"), (1, "rumour"), (2, "talk")):
        made.become_publisher(node, type)
    for node, type in ((1, "talk"), (2, "rumour"), (3, "talk")):
        made.subscribe(node, Subscription(f"s{node}", type=type))
    network.delay = 50.0
    for node, event in ((0, Event("q", "talk")), (1, Event("r", "rumour")), (2, Event("a", "talk"))):
        made.simulation.ask(node, Publish(event))
        made.simulation.run(until=made.simulation.now + 2)
    made.run_until_quiet()
    assert [one.event for one in made.deliveries if one.node == 3] == ["q", "a"]


def test_the_memory_of_publishers_is_bounded():
    settings = TreeSettings(causal=True, max_kept=3)
    made = System(star(9), lambda node: TreeNode(node, settings))
    made.subscribe(0, Subscription("s", type="t"))
    for node in range(1, 9):
        made.become_publisher(node, "t")
        made.publish(node, Event(f"e{node}", "t"))
    assert len(made.deliveries) == 8
    assert len(made.simulation.nodes[0].machine.state.after) == 3


def test_who_cancels_gets_nothing_that_waited():
    order, _ = triangle(causal=True, filter="v > 5", then=Unsubscribe("answers"))
    assert order == []


def test_random_conversations():
    """Everyone answers what it hears, for a while; nobody hears an answer before what it answers."""
    for seed in range(30):
        rng = Random(seed)
        topology = random_graph(6, 4, rng)
        settings = TreeSettings(causal=True, causal_wait_seconds=1e6)
        made = System(topology, lambda node, s=settings: TreeNode(node, s), Links(exponential(1.0, rng)), seed, cap=CAP)
        for node in topology.nodes:
            made.become_publisher(node, "talk")
            made.subscribe(node, Subscription(f"s{node}", type="talk"))
        past = {}
        heard = {node: [] for node in topology.nodes}
        deliver = made._deliver

        def listen(now, node, notified, *, heard=heard, past=past, rng=rng, made=made, deliver=deliver):
            deliver(now, node, notified)
            assert set(past[notified.event.id]) <= set(heard[node]), (node, notified.event.id)
            heard[node].append(notified.event.id)
            if rng.random() < 0.15 and len(past) < 40:
                say(made, past, heard, node)

        made.simulation._deliver = listen
        for node in topology.nodes:
            say(made, past, heard, node)
        made.run_until_quiet()
        assert all(sorted(known) == sorted(past) for known in heard.values())


def say(made, past, heard, node):
    id = f"e{len(past)}"
    past[id] = list(heard[node])
    made.simulation.ask(node, Publish(Event(id, "talk")))
