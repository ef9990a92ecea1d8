"""Networks that lose, repeat and reorder messages, with reliable links around the machines."""

from random import Random

import pytest

from protocols.test_wire import INTEREST
from protocols.trees.test_faults import Troubled, publish_within_the_bound
from protocols.trees.world import CAP, World
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import Asked, LinkDown, LinkUp, Received, Report, Send, Started, TimerFired
from recado.protocols.pubsub import LimitReached, Subscribe
from recado.protocols.reliable import Ack, Frame, ReliableLinks
from recado.protocols.topology import NET_13, line
from recado.protocols.trees import TreeNode, messages
from recado.protocols.wire import decoder, encode
from recado.sim.draws import uniform
from recado.sim.faults import Cuts, Duplication, Loss, Reordering
from recado.sim.network import Links, UnitDelay
from recado.sim.system import System


def bad_network(seed, loss=0.2):
    rng = Random(seed)
    network = Reordering(Links(uniform(0.1, 2.0, rng)), 0.3, rng, 10.0)
    return Loss(Duplication(network, 0.3, rng, 10.0), loss, rng)


class Lossy(World):
    def machine(self, node):
        return ReliableLinks(super().machine(node))


class LossyAndTroubled(Troubled):
    def machine(self, node):
        return ReliableLinks(super().machine(node))

    def bound(self):
        return super().bound() + 300  # a message may have to be sent several times, with waits of up to a minute


@pytest.mark.parametrize("block", range(4))
def test_lives_on_bad_networks(block):
    for seed in range(10 * block, 10 * (block + 1)):
        world = Lossy(seed, network=bad_network(seed))
        world.in_turn(world.rng.randrange(2, 6))
        world.check()
        world.at_once(world.rng.randrange(3, 8), within=10.0)
        world.check()
        world.publish_everywhere()


@pytest.mark.parametrize("block", range(4))
def test_troubled_lives_on_bad_networks(block):
    for seed in range(10 * block, 10 * (block + 1)):
        world = LossyAndTroubled(seed, network=Cuts(bad_network(seed)))
        world.in_turn(2)
        world.trouble(world.rng.randrange(1, 8), within=30.0)
        world.simulation.run(until=world.simulation.now + 40.0, steps=CAP)
        world.outages.restore_all()
        world.simulation.run(until=world.simulation.now + world.bound(), steps=CAP)
        publish_within_the_bound(world, slack=300)
        world.run_until_quiet()
        world.check()


def test_without_them_a_lost_message_is_fatal():
    rng = Random(1)
    made = System(NET_13, TreeNode, Loss(UnitDelay(), 0.2, rng))
    made.subscribe("K", Subscription("s", type="t"))
    assert any(view["counters"]["questions"] for view in made.inspect().values())


def test_what_they_cost_where_nothing_is_lost():
    made = System(NET_13, lambda node: ReliableLinks(TreeNode(node)))
    made.become_publisher("B", "t")
    assert made.subscribe("K", Subscription("s", type="t")).messages == 2 * 28
    made.publish("B", Event("e", "t"))
    assert [one.node for one in made.deliveries] == ["K"]
    assert {view["links"]["unacknowledged"] for view in made.inspect().values()} == {0}


def test_frames_travel():
    frame = Frame(1, 2, messages.Q(INTEREST))
    assert decoder(Frame[messages.MESSAGES] | Ack)(encode(frame)) == frame
    assert decoder(Frame[messages.MESSAGES] | Ack)(encode(Ack(1, 2))) == Ack(1, 2)


def started(**options):
    machine = ReliableLinks(TreeNode("me"), **options)
    machine.handle(Started(("a", "b")), 1.0, Random(1))
    return machine


def sent(effects):
    return [(effect.receiver, effect.message) for effect in effects if isinstance(effect, Send)]


def test_order_is_restored_and_repeats_are_dropped():
    machine = started()
    first, second = messages.Hello(0, False), messages.Q(INTEREST)
    step = lambda number, message: sent(machine.handle(Received("a", Frame(7, number, message)), 1.0, Random(1)))  # noqa: E731  # short
    assert step(2, second) == [("a", Ack(7, 0))]
    answers = step(1, first)
    assert [message.message for _, message in answers[:-1]] == [messages.Hello(0, False), messages.Q(INTEREST)]
    assert answers[-1] == ("a", Ack(7, 2))
    assert step(1, first) == [("a", Ack(7, 2))]
    assert sent(machine.handle(Received("a", Frame(6, 3, second)), 1.0, Random(1))) == []


def test_what_is_no_frame_is_not_heard():
    assert started().handle(Received("a", messages.Q(INTEREST)), 1.0, Random(1)) == ()
    assert started().handle(Received("stranger", Frame(1, 1, messages.Q(INTEREST))), 1.0, Random(1)) == ()


def test_a_newer_session_is_a_new_link():
    machine = started()
    machine.handle(Received("a", Frame(7, 1, messages.Q(INTEREST))), 1.0, Random(1))
    assert machine.inspect()["counters"]["questions"] == 1
    answers = sent(machine.handle(Received("a", Frame(8, 1, messages.QNo("x", 1))), 2.0, Random(1)))
    assert ("a", Ack(8, 1)) in answers
    assert any(isinstance(message, Frame) and isinstance(message.message, messages.Hello) for _, message in answers)


def test_a_silent_neighbour_is_given_up_when_the_window_is_full():
    machine = started(window=5)
    facts = []
    for number in range(8):
        effects = machine.handle(Asked(Subscribe(Subscription(f"s{number}"))), 1.0, Random(1))
        facts += [effect.fact for effect in effects if isinstance(effect, Report)]
        machine.handle(Received("b", Ack(machine._links["b"].session, 99)), 1.0, Random(1))
    assert facts == [LimitReached("window", "more messages to 'a', which does not answer")]
    assert machine.inspect()["neighbours"] == ["b"]
    machine.handle(LinkDown("a"), 2.0, Random(1))
    machine.handle(LinkUp("a"), 3.0, Random(1))
    assert machine.inspect()["neighbours"] == ["b", "a"]


def test_resending_slows_down():
    machine = started(resend_seconds=1.0, longest_wait_seconds=3.0)
    machine.handle(Received("b", Frame(1, 1, messages.Q(INTEREST))), 1.0, Random(1))
    waits = [machine.handle(TimerFired(("resend", "a")), 1.0, Random(1))[0].after_seconds for _ in range(3)]
    assert waits == [2.0, 3.0, 3.0]
    machine.handle(Received("a", Ack(999, 1)), 1.0, Random(1))
    assert machine.inspect()["links"] == {"unacknowledged": 1, "resent": 3}


def test_a_line_of_many_losses():
    made = System(line(5), lambda node: ReliableLinks(TreeNode(node)), Loss(UnitDelay(), 0.5, Random(3)))
    made.become_publisher(0, "t")
    made.subscribe(4, Subscription("s", type="t"))
    made.publish(0, Event("e", "t"))
    assert [one.node for one in made.deliveries] == [4]
