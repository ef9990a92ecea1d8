"""Random small worlds, many seeds: churn, crashes, partitions, slow links. Invariants hold, and runs repeat exactly."""

import os
from hashlib import blake2b
from random import Random

import msgspec
import pytest

from protocols.supernodes.world import World, check, check_settled, quick
from recado.protocols.pubsub import Leave, Left, Missed
from recado.protocols.supernodes.messages import RoleChanged
from recado.sim.draws import constant, exponential, uniform
from recado.sim.faults import Cuts
from recado.sim.network import Mesh

SEEDS = int(os.environ.get("RECADO_SUPERNODE_SEEDS", "12"))
EACH = min(SEEDS, 4)
"""Worlds of each switch: eleven switches make 44 of them."""

FILTERS = ("v < 1", "v < 2", "v < 4", "v < 8", "v == 3", 'w == "x" or v < 2')


BEYOND = {
    "covering": {"covering": True},
    "fair": {"fair": True},
    "limit": {"max_upload_bytes_per_second": 20.0, "upload_seconds": 10.0, "budget_bytes_per_second": 100.0},
    "guard": {"guard": True},
    "large": {"family_most": 2},
    "large and graceful": {"family_most": 2, "graceful": True, "linger_seconds": 20.0},
    "ordered": {"ordered": True, "order_seconds": 1.0},
    "brothers by enquiry": {"brothers": "enquiry"},
    "graceful": {"graceful": True, "linger_seconds": 20.0},
    "partitions": {"reunite_share": 0.3},
    "partitions and order": {"reunite_share": 0.3, "ordered": True, "order_seconds": 1.0},
}
"""The switches beyond the document, each of which the worlds are run with."""


def any_settings(rng, **switches):
    settings = quick(
        k=rng.choice((1, 1, 2, 3)),
        families=rng.random() < 0.85,
        slices=rng.choice((1, 1, 4)),
        leaves=rng.choice(("detector", "leader")),
        filter_pieces=rng.choice((0, 2)),
        filter_seconds=20.0,
        serving=rng.choice(("ratio", "always")),
        promotion_policy=rng.choice(("fifo", "fifo", "lifo")),
        retry_on_failed_send=rng.random() < 0.5,
        k_nodes_relay=rng.random() < 0.8,
        k_via_tree=rng.random() < 0.3,
        budget_bytes_per_second=rng.choice((0.0, 0.0, 50.0)),
        sizer_seconds=60.0,
        keepalive_seconds=15.0,
        watchdog_grace_seconds=4.0,
        event_repair_seconds=8.0,
        recheck_on_promotion=rng.random() < 0.2,
    )
    return msgspec.structs.replace(settings, **switches)


def any_delay(rng):
    own = Random(rng.random())
    return rng.choice((constant(0.1), uniform(0.02, 0.4, own), exponential(0.15, own)))


class RandomWorld(World):
    """Peers come, go, publish and change their filters; ``check`` holds after every step."""

    def __init__(self, seed, shared=True, **switches):
        rng = Random(f"world {seed}")
        self.digest = blake2b()
        settings, self.cuts = any_settings(rng, **switches), Cuts(Mesh(any_delay(rng)))
        super().__init__(settings, seed, network=self.cuts, shared=shared, watch=self._digest)
        self.life, self.next, self.published = rng, 0, []
        self.divided = False
        self.steps = 0

    def _digest(self, step):
        self.steps += 1
        self.digest.update(_plain(step).encode())
        if self.steps % 7 == 0:
            check(self)

    def live_through(self, seconds):
        self.grow()
        self.run(10)
        end = self.simulation.now + seconds
        while self.simulation.now < end:
            self.run(self.life.expovariate(1 / 3))
            what = self.life.random()
            if self.settings.reunite_share and self.life.random() < 0.1:
                self.divide_or_join()
            if what < 0.45:
                self.grow()
            elif what < 0.7 and len(self.actives()) > 2 and not self.divided:
                self.depart(self.life.choice(self.live()))
                if not self.actives():  # nobody is left who knows anybody: not a case that a peer could mend
                    return
            elif what < 0.95:
                self.speak()
            else:
                self.change(self.life.choice(self.live()))

    def divide_or_join(self):
        """Some peers are out of reach of the others for a while; who comes meanwhile is on the side of the most.

        Nobody leaves meanwhile: who knows nobody of the other part that is still there cannot find it again.
        """
        self.divided = not self.divided
        if self.divided:
            live = self.live()
            self.cuts.split(self.life.sample(live, len(live) // 3))
        else:
            self.cuts.join()

    def depart(self, node):
        """Without a word; or, if nodes do that, now and then in good order."""
        if self.settings.graceful and self.life.random() < 0.5:
            self.simulation.ask(node, Leave())
        else:
            self.go(node)

    def _report(self, now, node, fact):
        super()._report(now, node, fact)
        if type(fact) is Left:
            self.simulation.at(now, lambda: self.go(node))

    def grow(self):
        known = self.actives()
        seeds = tuple(self.life.choice(known) for _ in range(2)) if known else ()
        self.come(self.next, self.life.choice(FILTERS), seeds)
        self.next += 1

    def speak(self):
        publisher = self.life.choice(self.live())
        number = len(self.published)
        self.published.append(self.publish(publisher, f"e{number}", v=self.life.randrange(10), w="x"))

    def change(self, node):
        state = self.state(node)
        if state.left:
            return
        for id in list(state.subscriptions):
            self.unsubscribe(node, id)
        self.filters[node] = self.life.choice(FILTERS)
        self.subscribe(node, f"s{node}-{len(self.sends)}", self.filters[node])


def _plain(step):
    effects = [f"{type(one).__name__}{_name(one)}" for one in step.effects]
    return f"{step.time!r} {step.node} {type(step.stimulus).__name__} {effects}\n"


def _name(effect):
    message = getattr(effect, "message", None)
    if message is None:
        return repr(effect)
    named = [(field, _value(getattr(message, field))) for field in message.__struct_fields__]
    return f"({effect.receiver}, {type(message).__name__} {named})"


def _value(value):
    if isinstance(value, tuple):
        return tuple(map(_value, value))
    if hasattr(value, "to_wire"):
        return repr(value.to_wire()) if not hasattr(value, "members") else (value.view.to_wire(), value.members)
    return repr(value)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_invariants(seed):
    live_and_settle(RandomWorld(seed))


@pytest.mark.parametrize("seed", range(EACH))
@pytest.mark.parametrize("switch", BEYOND)
def test_invariants_beyond_the_document(switch, seed):
    live_and_settle(RandomWorld(seed, **BEYOND[switch]))


def live_and_settle(world):
    world.live_through(240)
    world.cuts.join()
    # nobody gets an event twice; that nobody gets what it did not ask for (I6), the world checks at every delivery
    got = [(node, event) for _, node, event in world.deliveries]
    assert len(got) == len(set(got))
    # after the storm: I1, I2, I3, I5, I8
    world.run(400)
    check(world)
    check_settled(world)
    # I7: with all at rest, an event reaches everybody that accepts it, and nobody else
    for number in range(3):
        publisher = world.life.choice(world.live())
        event = world.publish(publisher, f"last{number}", v=world.life.randrange(9), w="y")
        world.run(40)
        assert world.who_got(event.id) == world.who_wants(event)


class WatchedWorld(RandomWorld):
    """Knows of every event who should have it: who was in the layer then, or below a father who was."""

    def __init__(self, seed, **switches):
        self.expected = {}
        super().__init__(seed, **switches)

    def publish(self, node, id, **attributes):
        event = super().publish(node, id, **attributes)
        state = self.state(node)
        takers = {one: self.filters[one] for one in self.who_wants(event) if one != node and self.attached(one)}
        self.expected[id] = state.source, state.number + 1, takers
        return event

    def attached(self, node):
        state = self.state(node)
        if state.layer is not None:
            return state.layer.active and state.layer.announced and state.layer.filters_loaded
        father = state.child.father if state.child is not None else None
        return father in self.live() and node in self.children_of(father) and self.attached(father)

    def children_of(self, node):
        layer = self.state(node).layer
        return layer.children if layer is not None else ()

    def unaware(self):
        """Who is alive, wanted an event that another one who is alive has got, and neither has it nor knows of it."""
        got = {(node, id) for _, node, id in self.deliveries if node in self.live()}
        gaps = [(node, fact) for _, node, fact in self.facts if type(fact) is Missed]
        for id, (source, number, takers) in self.expected.items():
            if any(event == id and self.state(node).source != source for node, event in got):
                for node, filter in takers.items():
                    told = [gap for one, gap in gaps if one == node and gap.publisher == source]
                    known = any(gap.after < number <= gap.upto for gap in told)
                    if node in self.live() and self.filters[node] == filter and (node, id) not in got and not known:
                        yield node, id


@pytest.mark.parametrize("seed", range(SEEDS))
def test_who_is_not_given_an_event_knows_that_it_missed_it(seed):
    world = WatchedWorld(seed, **BEYOND["ordered"])
    world.live_through(240)
    world.run(400)
    assert not list(world.unaware())


@pytest.mark.parametrize("seed", range(min(SEEDS, 6)))
def test_runs_repeat_and_do_not_depend_on_sharing(seed):
    digests = []
    for shared in (True, True, False):
        world = RandomWorld(seed, shared=shared)
        world.live_through(120)
        world.run(60)
        digests.append((world.steps, world.digest.hexdigest()))
    assert digests[0] == digests[1]
    assert digests[0] == digests[2]


@pytest.mark.parametrize("seed", range(min(SEEDS, 10)))
def test_a_father_has_exactly_one_normal_successor(seed):
    rng = Random(seed)
    world = World(quick(), seed, delay=any_delay(rng))
    world.come(0, "v < 9")
    world.run(5)
    size = rng.randrange(3, 9)
    world.come(1, "v < 1")
    world.run(15)
    for node in range(2, size + 2):
        world.come(node, "v < 1")
        world.run(rng.random() * 30)
    world.run(60 + rng.random() * 45)
    family = [1, *world.children(1)]
    while len(family) > 1:
        father, *children = family
        died = world.simulation.now
        world.go(father)
        world.run(200)
        changes = [(node, one) for time, node, one in world.facts if time >= died and type(one) is RoleChanged]
        assert [(node, one.role, one.why) for node, one in changes] == [(children[0], "super", "promoted")]
        assert world.children(children[0]) == children[1:]
        check_settled(world)
        family = children


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS, 11 * SEEDS))
def test_invariants_of_many_more(seed):
    test_invariants(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS, 11 * SEEDS))
def test_with_order_of_many_more(seed):
    test_who_is_not_given_an_event_knows_that_it_missed_it(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(EACH, 11 * EACH))
@pytest.mark.parametrize("switch", BEYOND)
def test_invariants_beyond_the_document_of_many_more(switch, seed):
    test_invariants_beyond_the_document(switch, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(11 * EACH, 132))
def test_partitions_of_many_more(seed):
    test_invariants_beyond_the_document("partitions", seed)
