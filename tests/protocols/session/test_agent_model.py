"""The agent against the plainest model: every request done once, every notification handed over once and in order."""

from random import Random

import msgspec
import pytest

from protocols.session.world import Broker, World
from recado.protocols.session import commands as words
from recado.protocols.session import messages as m
from recado.protocols.session.agent import Agent
from recado.protocols.session.commands import AgentSettings


def event(name):
    return msgspec.Raw(msgspec.json.encode({"id": name}))


def settings(**changes):
    return AgentSettings(
        **{"outbox": 10_000, "window": 8, "first_wait_seconds": 0.1, "longest_wait_seconds": 2.0, **changes}
    )


def troubled_world(seed):
    rng = Random(seed)
    world = World(Agent(settings()), Broker(), rng, delay=rng.uniform(0.001, 0.3))
    world.repeat = rng.choice([0.0, 0.2])
    world.start()
    return world, rng


def one_trouble(world, rng, number):
    match rng.randrange(8):
        case 0:
            world.cut()
        case 1:
            world.up = not world.up
        case 2 | 3:
            world.ask(words.PublishEvent(event(f"mine-{number}"), f"mine-{number}"))
        case 4 | 5:
            world.broker.publish(f"other-{number}", world.now)
            world.nudge()
        case 6:
            held = [one.nid for one in world.delivered]
            world.ask(words.Took(held[: rng.randrange(len(held) + 1)]))
        case 7:
            world.ask(words.MakeSubscription({"id": f"s-{number % 5}", "ttl": 1e6}, f"sub-{number}"))


def come_to_rest(world):
    """The line holds from now on, and the application is done with everything that it gets."""
    world.up = True
    for _ in range(400):
        world.run(world.now + 1.0)
        world.take_all()
        world.nudge()


@pytest.mark.parametrize("seed", range(60))
def test_every_request_is_done_once_and_every_notification_comes_once_and_in_order(seed):
    world, rng = troubled_world(seed)
    for number in range(150):
        one_trouble(world, rng, number)
        world.run(world.now + rng.expovariate(4.0))
    come_to_rest(world)
    answers = world.answers()
    mine = [one for one in answers if one.startswith("mine-")]
    assert mine == sorted(mine, key=lambda name: int(name[5:]))
    assert all(answers[one].position == world.broker.log[one] for one in mine)
    positions = [world.broker.log[one] for one in mine]
    assert positions == sorted(positions), "the log has a publisher's events in their order"
    assert not [one for one in world.agent.session.outbox.all() if not isinstance(one, m.Ping)], "all are answered"
    assert not world.heard(words.Dropped)
    assert set(world.broker.times_done.values()) <= {1}
    nids = [one.nid for one in world.delivered]
    assert nids == sorted(set(nids)), "once, and in order"
    assert not world.broker.mail, "everything was confirmed"
    assert world.agent.session.inbox.handed == len(nids)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_that_was_generated_is_missing(seed):
    world, rng = troubled_world(seed)
    world.ask(words.MakeSubscription({"id": "all", "ttl": 1e6}, "all"))
    world.up = True
    world.run(60.0)
    assert "all" in world.answers()
    for number in range(100):
        if rng.random() < 0.2:
            world.cut()
        world.broker.publish(f"e-{number}", world.now)
        world.nudge()
        world.run(world.now + rng.expovariate(10.0))
    come_to_rest(world)
    assert [msgspec.json.decode(one.event)["id"] for one in world.delivered] == [f"e-{n}" for n in range(100)]


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_repeats_at_most_what_the_application_had_not_finished(seed):
    """The agent is lost and a new one starts with what the old one persisted."""
    world, rng = troubled_world(seed)
    world.ask(words.MakeSubscription({"id": "all", "ttl": 1e6}, "all"))
    world.up = True
    world.run(60.0)
    done = []
    for life in range(6):
        for number in range(20):
            world.broker.publish(f"e-{life}-{number}", world.now)
            world.nudge()
            world.run(world.now + rng.expovariate(10.0))
            if world.delivered and rng.random() < 0.5:
                done += [one.nid for one in world.delivered]
                world.take_all()
                world.delivered = []
        world.run(world.now + 5.0)
        world.cut()
        again = World(Agent(settings(first_request=1_000 * (life + 1))), world.broker, rng, world.delay)
        again.now = world.now
        again.kept = world.kept
        again.start(**{key: value for key, value in world.kept.items() if value is not None})
        again.run(again.now + 5.0)
        world = again
    come_to_rest(world)
    done += [one.nid for one in world.delivered]
    assert done == sorted(set(done))
    assert len(done) == 120


def test_a_broker_over_a_transport_that_says_who_is_there():
    world = World(Agent(settings(greets=False, confirms=False)), Broker(), Random(1))
    world.start()
    world.ask(words.MakeSubscription({"id": "s"}, "sub"))
    world.run(1.0)
    world.broker.publish("e-1", world.now)
    world.nudge()
    world.run(2.0)
    world.take_all()
    world.run(3.0)
    assert not world.broker.hellos
    assert world.broker.mail, "no ACK: the transport confirms"
    assert [one.sub_id for one in world.delivered] == ["s"]
    assert world.kept["inbox"]["seen"] == world.delivered[0].nid
    assert isinstance(world.answers()["sub"], m.Subscribed)
