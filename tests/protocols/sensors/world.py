"""Small sensor networks on the ideal channel: placed by hand, or at random from a seed."""

from collections import Counter
from random import Random

from recado.filters.evaluate import matches
from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import (
    Asked,
    Broadcast,
    CancelTimer,
    Received,
    Send,
    SendFailed,
    SetTimer,
    Started,
    TimerFired,
)
from recado.protocols.pubsub import Publish, Subscribe, Unsubscribe
from recado.protocols.sensors import Collected, Find, Found, SensorNode, SensorSettings, size_of, traffic_class
from recado.sim.kernel import Simulation, stream
from recado.sim.radio import IdealRadio, scatter

ANY = "a1 >= 1 and a1 <= 9"


def box(*lows):
    """The filter of 9.1: four ranges of four values."""
    return " and ".join(f"a{n} >= {low} and a{n} <= {low + 3}" for n, low in enumerate(lows, 1))


class World:
    """Nodes by number; every transmission is counted by its class, and who sent it is kept."""

    def __init__(self, places, settings=None, seed=0, *, wrap=None, watch=None, per_node=None):
        self.places = dict(places)
        self.settings = settings or SensorSettings()
        self.per_node = per_node or {}
        self.radio = IdealRadio(self.places, stream(seed, "radio"))
        self.network = wrap(self.radio) if wrap else self.radio
        self.sent = Counter()
        self.log = []
        self.deliveries = []
        self.facts = []
        self.filters = {}
        self.events = {}
        self._extra = watch
        self.simulation = Simulation(
            self.network, seed, size_of=size_of, watch=self._watch, deliver=self._deliver, report=self._report
        )
        for node in self.places:
            self.simulation.add(node, self.make(node))
        self.simulation.run()

    def make(self, node):
        return SensorNode(node, self.per_node.get(node, self.settings))

    def _watch(self, step):
        for effect in step.effects:
            if type(effect) is Broadcast or type(effect) is Send:
                self.sent[traffic_class(effect.message)] += 1
                self.log.append((step.time, step.node, getattr(effect, "receiver", None), effect.message))
        if self._extra is not None:
            self._extra(step)

    def _deliver(self, now, node, notified):
        wanted = [id for id, text in self.filters.get(node, {}).items() if matches(parse(text), notified.event)]
        assert list(notified.subscriptions) == wanted != []  # nobody gets what it did not ask for
        self.deliveries.append((now, node, notified.event.id))

    def _report(self, now, node, fact):
        self.facts.append((now, node, fact))

    # -- what a test does

    def subscribe(self, node, text=ANY, id=None, at=None):
        id = id or f"s{node}"
        self.filters.setdefault(node, {})[id] = text
        self.simulation.ask(node, Subscribe(Subscription(id, parse(text))), at)

    def unsubscribe(self, node, id):
        del self.filters[node][id]
        self.simulation.ask(node, Unsubscribe(id))

    def publish(self, node, id, *values, at=None):
        event = Event(id, attributes={f"a{n}": value for n, value in enumerate(values or (1, 1, 1, 1), 1)})
        self.events[id] = (node, event)
        self.simulation.ask(node, Publish(event), at)
        return event

    def find(self, node, key):
        self.simulation.ask(node, Find(key))

    def give(self, node, sender, message, signal=-60.0):
        self.simulation.tell(node, Received(sender, message, signal))

    def run(self, seconds=None):
        self.simulation.run(until=float("inf") if seconds is None else self.simulation.now + seconds, steps=2_000_000)
        if seconds is None:
            assert not self.simulation.pending

    def cost(self, action=None, *values, **names):
        """What an operation transmits until all is quiet, by class."""
        before = Counter(self.sent)
        if action is not None:
            action(*values, **names)
        self.run()
        return Counter(self.sent) - before

    # -- what a test sees

    def machine(self, node):
        return self.simulation.nodes[node].machine

    def state(self, node):
        return self.machine(node).inspect()

    def holders(self, key):
        return [node for node in self.places if key in self.machine(node).cache.zone]

    def who_got(self, id):
        return sorted(node for _, node, event in self.deliveries if event == id)

    def who_wants(self, event):
        return sorted(
            node for node, texts in self.filters.items() if any(matches(parse(text), event) for text in texts.values())
        )

    def collected(self, id):
        """The subscribers that the query of a publication has found."""
        return sorted(
            node
            for _, _, fact in self.facts
            if type(fact) is Collected and fact.event == id
            for node in fact.subscribers
        )

    def found(self):
        return [fact for _, _, fact in self.facts if type(fact) is Found]

    def counts(self, name):
        return sum(node.machine.inspect()["counters"].get(name, 0) for node in self.simulation.nodes.values())

    def hops(self, *starts):
        """How far every node that can be reached is from the nearest of these."""
        far = dict.fromkeys(starts, 0)
        order = list(starts)
        for node in order:
            for other in self.radio.hearers(node):
                if other not in far:
                    far[other] = far[node] + 1
                    order.append(other)
        return far


def line(count, step=200.0, **options):
    return World({node: (node * step, 0.0) for node in range(count)}, **options)


def random_world(seed, nodes=30, side=700.0, connected=True, **options):
    """A random placement; if it has to be connected, the first that is."""
    rng = Random(seed)
    while True:
        places = scatter(range(nodes), side, rng)
        world = World(places, seed=seed, **options)
        if not connected or len(world.hops(0)) == nodes:
            world.rng = rng
            return world


class Bench:
    """One node by itself, given stimuli by hand; timers fire when the time comes."""

    def __init__(self, settings=None, me=0, saved=None):
        self.node = SensorNode(me, settings)
        self.rng = Random(1)
        self.now = 0.0
        self.timers = {}
        self.done = self.handle(Started((), saved or {}))

    def handle(self, stimulus):
        effects = list(self.node.handle(stimulus, self.now, self.rng))
        for effect in effects:
            if type(effect) is SetTimer:
                self.timers[effect.timer] = self.now + effect.after_seconds
            elif type(effect) is CancelTimer:
                self.timers.pop(effect.timer, None)
        return effects

    def hear(self, sender, message, signal=-60.0):
        return self.handle(Received(sender, message, signal))

    def ask(self, request):
        return self.handle(Asked(request))

    def fail(self, receiver, message):
        return self.handle(SendFailed(receiver, message))

    def wait(self, seconds):
        """Let time pass; what the node wants done meanwhile."""
        end, effects = self.now + seconds, []
        while self.timers:
            timer = min(self.timers, key=self.timers.get)
            if self.timers[timer] > end:
                break
            self.now = self.timers.pop(timer)
            effects += self.handle(TimerFired(timer))
        self.now = self.node.context.now = end
        return effects


def sends(effects, kind=None):
    """What is transmitted: receiver (None: everybody) and message."""
    found = [(getattr(e, "receiver", None), e.message) for e in effects if type(e) in (Send, Broadcast)]
    return [one for one in found if kind is None or type(one[1]) is kind]


def event(id="e", *values):
    return Event(id, attributes={f"a{n}": value for n, value in enumerate(values or (1, 1, 1, 1), 1)})
