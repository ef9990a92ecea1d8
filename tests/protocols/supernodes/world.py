"""Small systems of super-node peers: scripted by hand, or random ones from a seed."""

from random import Random

import msgspec

from recado.filters.evaluate import matches
from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.algebra import covers
from recado.protocols.machine import LinkUp, Received, TimerFired
from recado.protocols.pubsub import Publish, Subscribe, Unsubscribe
from recado.protocols.supernodes import Home, SuperNode, SuperNodeSettings, sizer_of
from recado.protocols.supernodes.messages import Active, RoleChanged, SeedsWanted
from recado.protocols.supernodes.state import household
from recado.sim.draws import constant
from recado.sim.kernel import Simulation
from recado.sim.network import Mesh

QUICK = SuperNodeSettings(
    download_start_seconds=1.0,
    filter_pieces=0,
    serving="always",
    join_batch_seconds=3.0,
    leave_batch_seconds=3.0,
    repair_seconds=5.0,
    repair_least_seconds=2.0,
    repair_most_seconds=8.0,
)
"""The usual protocol, with a layer that settles within seconds."""


def quick(**changes):
    return msgspec.structs.replace(QUICK, **changes)


class World:
    """Peers by number; ``come`` and ``go`` change who is there, ``run`` lets time pass."""

    def __init__(self, settings=QUICK, seed=0, *, delay=None, network=None, shared=True, watch=None):
        self.settings = settings
        self.sends = []
        self.facts = []
        self.deliveries = []
        self.filters = {}
        self.home = Home()
        self.shared = shared
        self.extra_watch = watch
        self.simulation = Simulation(
            network or Mesh(delay or constant(0.1)),
            seed,
            size_of=sizer_of(settings),
            watch=self._watch,
            deliver=self._deliver,
            report=self._report,
        )
        self.rng = Random(seed)

    def _watch(self, step):
        for effect in step.effects:
            if type(effect).__name__ == "Send":
                self.sends.append((step.time, step.node, effect.receiver, effect.message))
        if self.extra_watch is not None:
            self.extra_watch(step)

    def _deliver(self, now, node, notified):
        wanted = [id for id, one in self.state(node).subscriptions.items() if matches(one.filter, notified.event)]
        assert list(notified.subscriptions) == wanted != []  # I6: nobody gets what it did not ask for
        self.deliveries.append((now, node, notified.event.id))

    def _report(self, now, node, fact):
        self.facts.append((now, node, fact))
        if type(fact) is SeedsWanted:
            others = [one for one in self.actives() if one != node]
            if others:
                self.simulation.tell(node, LinkUp(others[0]))

    def come(self, node, filter="false", seeds=None):
        if seeds is None:
            seeds = tuple(self.actives()[:3])
        self.filters[node] = filter
        self.simulation.add(node, self.machine(node), seeds)
        if filter != "false":
            self.simulation.ask(node, Subscribe(Subscription(f"s{node}", parse(filter))))

    def machine(self, node):
        return SuperNode(node, self.settings, self.home if self.shared else Home())

    def subscribe(self, node, id, filter):
        self.simulation.ask(node, Subscribe(Subscription(id, parse(filter))))

    def unsubscribe(self, node, id):
        self.simulation.ask(node, Unsubscribe(id))

    def go(self, node):
        self.simulation.crash(node)

    def publish(self, node, id, **attributes):
        event = Event(id, "tick", attributes=attributes)
        self.simulation.ask(node, Publish(event))
        return event

    def run(self, seconds):
        self.simulation.run(until=self.simulation.now + seconds)

    def give(self, node, sender, message):
        """Let a message arrive now."""
        self.simulation.tell(node, Received(sender, message))

    def fire(self, node, timer):
        """Let a timer fire now."""
        simulation = self.simulation
        simulation.tell(node, TimerFired(timer))
        simulation.nodes[node].timers[timer] = simulation._sequence

    def live(self):
        return [id for id, node in self.simulation.nodes.items() if node.alive]

    def state(self, node):
        return self.simulation.nodes[node].machine.state

    def states(self):
        return [self.state(node) for node in self.live()]

    def role(self, node):
        return self.state(node).role

    def actives(self):
        return [one.me for one in self.states() if one.layer is not None and one.layer.active]

    def children(self, node):
        return list(self.state(node).layer.children)

    def sent(self, kind, since=0.0):
        return [one for one in self.sends if type(one[3]) is kind and one[0] >= since]

    def roles_of(self, node):
        return [fact.role for _, one, fact in self.facts if one == node and type(fact) is RoleChanged]

    def activations(self):
        return [(now, node) for now, node, fact in self.facts if type(fact) is Active]

    def who_got(self, id):
        return sorted(node for _, node, event in self.deliveries if event == id)

    def who_wants(self, event):
        return sorted(node for node in self.live() if matches(parse(self.filters[node]), event))


def family(world, count, filter="f == 1"):
    """A founder with another filter, then a family of ``count``; the first of it is its super node."""
    world.come(0, "f == 0")
    world.run(5)
    for node in range(1, count + 1):
        world.come(node, filter)
        world.run(15 if node == 1 else 2)
    return list(range(1, count + 1))


def fits(father, child):
    """An equal filter; or one that covers the child's, if the child says so."""
    if not child.child.covered:
        return father.name == child.name
    return father.settings.covering and covers(father.filter, child.filter)


def check(world):
    """I2, I3, I4, and no more slots than the sizer's budget pays: what holds at every moment."""
    for state in world.states():
        layer, child = state.layer, state.child
        if layer is not None and layer.sizer is not None:
            assert layer.sizer.ready <= layer.sizer.generated <= layer.sizer.cap
        if child is not None:
            assert child.father != state.me
            father = world.simulation.nodes[child.father]
            if father.alive and state.me in (father.machine.state.layer or _NO_LAYER).children:
                assert fits(father.machine.state, state)  # I2
            if layer is not None:
                assert not layer.children  # I4
        assert (state.role == "sub") == (child is not None and layer is None)


def check_settled(world):
    """I1, I3, I5 and I8, once failures are long over: who is in the layer, and that everybody knows it."""
    states = world.states()
    layer = [one for one in states if one.layer is not None]
    assert all(one.layer.active for one in layer), [(one.me, one.role, one.layer.why) for one in layer]
    keys = sorted(one.layer.key for one in layer)
    for one in layer:
        assert one.layer.membership.keys == keys, (one.me, world.simulation.now)
    for one in states:
        assert one.role != "joining", one.me
        represented = [other for other in layer if other.name == one.name and other.child is None]
        covered = one.child is not None and one.child.covered
        assert represented or covered, f"nobody represents {one.filter}"
        if one.child is not None:
            father = world.state(one.child.father)
            assert fits(father, one)
            assert father.role == "super" or (world.settings.family_most and father.role == "sub")
            assert one.me in household(father).children
            above = {one.me}
            while father.child is not None:  # up to a super node
                assert father.me not in above
                above.add(father.me)
                father = world.state(father.child.father)
    for one in states:
        for child in (household(one) or _NO_LAYER).children:
            assert world.state(child).child.father == one.me


class _NoLayer:
    children = ()


_NO_LAYER = _NoLayer()
