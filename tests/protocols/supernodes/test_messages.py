"""Messages as bytes: what is sent comes back the same, garbage is refused, and a system works over the wire."""

from contextlib import suppress
from random import Random

import pytest

from protocols.supernodes.test_sizes import PAYLOADS
from protocols.supernodes.world import World, check_settled, quick
from recado.errors import RecadoError
from recado.model.event import Event
from recado.protocols.machine import Received, Send
from recado.protocols.registry import find_protocol
from recado.protocols.supernodes import Home, SuperNode
from recado.protocols.supernodes import messages as m
from recado.protocols.supernodes.members import SPACE, Change, Member, View
from recado.protocols.wire import WireError
from recado.sim.runs.run import execute_run
from recado.sim.runs.scenario import parse_scenario

PROTOCOL = find_protocol("super-nodes").configure({})
MANY = tuple(range(30_000))


def plain(value):
    if hasattr(value, "to_wire"):
        return plain(value.to_wire())
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, (m.Message, Member)):
        return [type(value).__name__, *(plain(getattr(value, name)) for name in value.__struct_fields__)]
    return value


@pytest.mark.parametrize("message", [message for message, _ in PAYLOADS], ids=lambda one: type(one).__name__)
def test_what_is_sent_comes_back(message):
    back = PROTOCOL.decode(PROTOCOL.encode(message))
    assert type(back) is type(message)
    assert plain(back) == plain(message)


@pytest.mark.parametrize(
    "message",
    [
        m.FilterCheck("this is ( no filter"),
        m.TryAnother(MANY),
        m.Promotion("a", "n", 1, MANY),
        m.Promotion("a", "n", -1, ("b",)),
        m.LiveNodes(1, MANY),
        m.Brothers("a", MANY),
        m.KeepAlive("a", -1),
        m.JoinRequest(Member(-1, "a", "true"), "full"),
        m.JoinRequest(Member(1, "a", "( ("), "full"),
        m.JoinRequest(Member(1, "a", "true"), "half"),
        m.MembershipCast(Change((1, 1), (Member(SPACE, "a", "true"),), (), frozenset()), 1, 0, 5),
        m.MembershipCast(Change((1, 0), (), (1,), frozenset()), 1, 0, 5),
        m.MembershipCast(Change((1, 1), (), (1,), frozenset()), 1, -1, 5),
        m.ViewRepair(View({1: -3}, frozenset(), None, frozenset()), 1),
        m.TurmoilSubnode((1, 1), Event("e"), MANY),
        m.Endpoints(Home().found([Member(2, "a", "true"), Member(1, "b", "true")])),
        m.Endpoints(Home().found([Member(2, "a", "no ( filter")])),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_no_peer_could_mean_is_refused(message):
    with pytest.raises(WireError):
        PROTOCOL.decode(PROTOCOL.encode(message))


def test_garbage_is_refused():
    rng = Random(1)
    good = [PROTOCOL.encode(message) for message, _ in PAYLOADS]
    for _ in range(3000):
        body = bytearray(rng.choice(good))
        for _ in range(rng.randrange(1, 4)):
            body[rng.randrange(len(body))] = rng.randrange(256)
        with suppress(RecadoError):
            PROTOCOL.decode(bytes(body[: rng.randrange(1, len(body) + 1)]))


class Wired:
    """A machine that sends and gets bytes."""

    def __init__(self, machine):
        self.machine, self.state = machine, machine.state

    def handle(self, stimulus, now, rng):
        if type(stimulus) is Received:
            stimulus = Received(stimulus.sender, PROTOCOL.decode(PROTOCOL.encode(stimulus.message)))
        effects = self.machine.handle(stimulus, now, rng)
        for effect in effects:
            if type(effect) is Send:
                PROTOCOL.encode(effect.message)
        return effects

    def inspect(self):
        return self.machine.inspect()


class WiredWorld(World):
    def machine(self, node):
        return Wired(SuperNode(node, self.settings, Home()))


@pytest.mark.parametrize("k", [1, 2])
def test_a_system_over_the_wire_does_what_a_shared_one_does(k):
    worlds = [kind(quick(k=k), seed=5) for kind in (World, WiredWorld)]
    for world in worlds:
        rng = Random(3)
        for node in range(18):
            world.come(node, f"v < {1 + node % 5}")
            world.run(4)
        for number in range(6):
            world.publish(rng.randrange(18), f"e{number}", v=rng.randrange(6))
            world.run(4)
        for node in (1, 2, 8):
            world.go(node)
        world.run(300)
        world.publish(0, "last", v=0)
        world.run(20)
        check_settled(world)
    one, two = worlds
    assert [(state.me, state.role) for state in one.states()] == [(state.me, state.role) for state in two.states()]
    assert sorted(one.deliveries) == sorted(two.deliveries)
    assert len(one.sends) == len(two.sends)


def test_a_scenario_file_runs_it():
    text = (
        '[topology]\nnodes = 15\n[network]\ndelay = "uniform"\nmean = 0.2\n'
        '[protocol]\nname = "super-nodes"\noptions = { k = 2 }\n'
        "[workload]\noperations = 8\nsubscriptions = 10\noverlap = 0.6\nwidth = 0.4\n"
    )
    outcome = execute_run(parse_scenario(text).runs()[0])
    assert outcome.metrics["deliveries.expected"] > 10
    assert outcome.metrics["deliveries.ok"] == outcome.metrics["deliveries.expected"]
    assert outcome.metrics["deliveries.unexpected"] == outcome.metrics["deliveries.duplicated"] == 0
