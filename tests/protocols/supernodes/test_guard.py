"""Hostile peers (setting ``guard``): who floods, lies or sends garbage harms its own link only."""

import pytest

from protocols.supernodes.world import World, check, check_settled, family, quick
from recado.model.event import Event
from recado.protocols.machine import Send, SetTimer
from recado.protocols.supernodes import messages as m
from recado.protocols.supernodes.members import SPACE, Change, Home, Member, View

GUARDED = quick(guard=True, retry_on_failed_send=True, event_repair_seconds=8.0)
HOSTILE = 1_000


class Hostile:
    """Says at every tick what ``attack`` gives: pairs of a receiver and a message."""

    def __init__(self, attack, rng, each=0.5):
        self.attack, self.rng, self.each = attack, rng, each

    def handle(self, stimulus, now, rng):
        if type(stimulus).__name__ not in ("Started", "TimerFired"):
            return ()
        sends = [Send(to, message, "an attack") for to, message in self.attack(self.rng)]
        return [*sends, SetTimer("tick", self.each)]

    def inspect(self):
        return {}


class Besieged(World):
    """A world with hostile nodes, which do not count."""

    def live(self):
        return [node for node in super().live() if node < HOSTILE]


def grown(settings=GUARDED):
    world = Besieged(settings)
    world.come(0, "v < 1")
    world.run(5)
    for node in range(1, 18):
        world.come(node, f"v < {1 + node % 6}")
        world.run(5)
    world.run(30)
    check_settled(world)
    return world


def flood(world):
    def attack(rng):
        for _ in range(60):
            to = rng.choice(world.live())
            yield to, m.FilterCheck("v < 3")
            yield to, m.JoinRequest(Member(rng.randrange(SPACE), HOSTILE, "v < 99"), "full")
            yield to, m.RepairTurmoil(((rng.randrange(SPACE), 1),), -1)

    return attack


def lie(world):
    """Unasked downloads, views that claim much or nothing, departures of others, promotions, dead children."""

    def attack(rng):
        victims = world.live()
        members = [one for one in world.states() if one.layer is not None]
        gone = tuple(one.layer.key for one in members)
        for to in victims:
            state = world.state(to)
            key = state.layer.key if state.layer is not None else 0
            yield to, m.Endpoints(Home().found(()))
            yield to, m.ViewRepair(View({5: 9_000}, frozenset(), None, frozenset()), key)
            yield to, m.ViewRepair(View({}, frozenset(), None, frozenset()), key)
            yield to, m.ViewRepairReply((Change((7, 1), (), gone, frozenset()),), None)
            yield to, m.Departures(gone)
            yield to, m.MembershipCast(Change((8, rng.randrange(1, 99)), (), gone, frozenset()), key, 0, SPACE)
            yield to, m.Promoted(state.name)
            yield to, m.LiveNodes(10_000, ())
            yield to, m.NotYourChild()
            yield to, m.TakeOver(state.name, tuple(victims))
            yield to, m.Demote(key, gone[0])
            yield to, m.TurmoilReject((1, 1), 0, SPACE)
            yield to, m.TryAnother((HOSTILE,))

    return attack


def garble(world):
    many = tuple(range(30_000))

    def attack(rng):
        for to in world.live():
            yield to, "garbage"
            yield to, 17
            yield to, Event("e")
            yield to, m.FilterCheck("no ( filter")
            yield to, m.JoinRequest(Member(-1, HOSTILE, "true"), "full")
            yield to, m.Promotion(to, "", -3, (to, to))
            yield to, m.TurmoilSubnode((1, rng.randrange(1, 9)), Event("x"), many)

    return attack


@pytest.mark.parametrize("attack", [flood, lie, garble])
def test_an_attack_from_outside_changes_nothing_among_the_others(attack):
    world = grown()
    roles = [world.role(node) for node in world.live()]
    keys = [one.layer.key for one in world.states() if one.layer is not None]
    world.simulation._size_of = lambda message: 100  # what is no message has no size
    world.publish(0, "first", v=0)  # nodes repair events once they know of any
    world.run(10)
    world.simulation.add(HOSTILE, Hostile(attack(world), world.rng))
    published = []
    for number in range(8):
        published.append(world.publish(world.rng.choice(world.live()), f"e{number}", v=number % 6))
        world.run(6)
    world.run(40)
    for event in published:  # some by repair: a hostile peer that was announced as a member passes nothing on
        assert world.who_got(event.id) == world.who_wants(event)
    world.go(HOSTILE)
    world.run(60)
    assert [world.role(node) for node in world.live()] == roles
    assert [one.layer.key for one in world.states() if one.layer is not None] == keys
    check(world)
    check_settled(world)
    assert any(one.guard.dropped for one in world.states())


def test_without_the_guard_the_same_lies_do_harm():
    world = grown(quick(retry_on_failed_send=True))
    keys = [one.layer.key for one in world.states() if one.layer is not None]
    world.simulation.add(HOSTILE, Hostile(lie(world), world.rng))
    world.run(30)
    assert [one.layer.key for one in world.states() if one.layer is not None] != keys


def test_a_flood_is_cut_to_the_allowance():
    world = grown()
    begun = world.simulation.now

    def attack(rng):
        return [(0, m.FilterCheck("v < 3"))] * 100

    world.simulation.add(HOSTILE, Hostile(attack, world.rng))
    world.run(60)
    answers = [one for one in world.sent(m.FilterReply, begun) if one[2] == HOSTILE]
    assert len(answers) <= GUARDED.peer_burst + 61 * GUARDED.peer_messages_per_second
    assert world.state(0).guard.dropped["too many"] > 9_000
    assert len(world.state(0).guard.links) < 100


def test_a_child_that_swallows_keep_alives_parts_nobody_from_the_father():
    world = Besieged(GUARDED)
    family(world, 6)
    world.run(60)
    machine = world.simulation.nodes[3].machine

    class Swallower:
        state = machine.state

        def handle(self, stimulus, now, rng):
            effects = machine.handle(stimulus, now, rng)
            return [
                one for one in effects if type(one) is not Send or type(one.message) not in (m.Promotion, m.LiveNodes)
            ]

    begun = world.simulation.now
    world.simulation.nodes[3].machine = Swallower()
    world.run(300)
    assert [world.role(node) for node in range(1, 7)] == ["super"] + ["sub"] * 5
    assert world.children(1) == [2, 3, 4, 5, 6]
    assert all(world.state(node).child.father == 1 for node in range(2, 7))
    assert {one[2] for one in world.sent(m.Promotion, begun) if one[3].direct} == {3, 4, 5, 6}
    world.go(5)
    world.run(120)
    assert world.children(1) == [2, 3, 4, 6]
    check(world)


def test_a_keep_alive_that_comes_back_is_not_sent_again():
    world = Besieged(GUARDED)
    family(world, 6)
    world.run(300)
    assert not [one for one in world.sent(m.Promotion) if one[3].direct]


def test_a_member_that_takes_events_and_passes_none_on_is_made_good_by_repair():
    world = grown()
    world.publish(0, "first", v=0)
    world.run(10)
    lazy = next(one.me for one in world.states() if one.me and one.role == "super" and one.layer.children)
    machine = world.simulation.nodes[lazy].machine

    class Lazy:
        state = machine.state

        def handle(self, stimulus, now, rng):
            effects = machine.handle(stimulus, now, rng)
            return [
                one
                for one in effects
                if type(one) is not Send or type(one.message) not in (m.TurmoilCast, m.TurmoilSubnode)
            ]

    world.simulation.nodes[lazy].machine = Lazy()
    published = []
    for number in range(6):
        published.append(world.publish(0, f"e{number}", v=0))
        world.run(5)
    world.run(90)
    for event in published:
        assert world.who_got(event.id) == world.who_wants(event)
