"""A system on its topology: what operations cost, what was delivered, and that a loop does not hang a test."""

from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import Asked, Deliver, Received, Report, Send, Started
from recado.protocols.pubsub import BecomeBroker, BecomePublisher, Notified, Publish, Subscribe, Unsubscribe
from recado.protocols.topology import line, ring, star
from recado.sim.network import Links
from recado.sim.system import Cost, Delivery, System


class Everybody:
    """Publications go to all nodes along a tree, and every node wants everything."""

    def __init__(self, me):
        self.me, self.links = me, ()

    def handle(self, stimulus, now, rng):
        match stimulus:
            case Started(neighbours, _):
                self.links = neighbours
            case Asked(Publish(event)):
                return self._on(event, None)
            case Asked(request):
                return [Report(request)]
            case Received(sender, event):
                return self._on(event, sender)
        return ()

    def _on(self, event, sender):
        return [Deliver(Notified(event, ("all",))), *(Send(peer, event) for peer in self.links if peer != sender)]

    def inspect(self):
        return {"links": list(self.links)}


def test_an_operation_costs_its_messages_and_the_time_to_the_last_arrival():
    system = System(line(4), Everybody)
    assert system.publish(0, Event("e1")) == Cost(3, 3.0)
    assert system.publish(1, Event("e2")) == Cost(3, 2.0)
    assert system.messages == 6
    assert [delivery.node for delivery in system.deliveries] == [0, 1, 2, 3, 1, 0, 2, 3]
    assert system.deliveries[-1] == Delivery(system.simulation.now, 3, "e2", ("all",))


def test_operations_without_messages_cost_nothing():
    system = System(star(3), Everybody, Links(lambda: 0.5))
    assert system.become_publisher(0, "t") == Cost(0, 0.0)
    assert system.facts == [(0.0, 0, BecomePublisher("t"))]
    assert system.publish(1, Event("e")) == Cost(2, 1.0)
    assert system.become_broker(0, "t") == Cost(0, 0.0)
    assert system.unsubscribe(0, "s") == system.subscribe(0, Subscription("s")) == Cost(0, 0.0)
    assert [type(fact) for _, _, fact in system.facts] == [BecomePublisher, BecomeBroker, Unsubscribe, Subscribe]


def test_the_tables_can_be_seen():
    system = System(star(3), Everybody)
    assert system.inspect() == {0: {"links": [1, 2]}, 1: {"links": [0]}, 2: {"links": [0]}}
    assert system.inspect([2]) == {2: {"links": [0]}}


def test_a_loop_ends_at_the_cap_and_is_seen():
    system = System(ring(3), Everybody, cap=500)
    assert system.simulation.pending == 0
    assert system.publish(0, Event("e")).messages > 400
    assert system.simulation.pending > 0
