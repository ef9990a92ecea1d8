"""Two user agents, with and without a proxy between, over a network that loses, repeats and reorders; many seeds.

In the end both know the same about a session, or one of them has reported a failure; and nothing is left over.
"""

from random import Random

import pytest

from protocols.sip.cast import BROKER, Scene, media
from protocols.sip.world import at
from recado.protocols.sip.events import Ended, Established, Failed, Registered, Updated, UpdateFailed
from recado.protocols.sip.limits import LAB, SipTimers

HARSH = {"loss": 0.25, "repeat": 0.2, "delay": (0.0, 0.3)}


def outcome(scene, machine):
    """What the machine believes in the end: the last descriptions of the session, or None."""
    facts = scene.told(machine)
    if any(isinstance(one, Ended | Failed) for one in facts):
        return None
    return [one for one in facts if isinstance(one, Established | Updated)][-1:]


def same_session(scene, agent_side, broker_side):
    """They agree about the addresses."""
    ours, theirs = agent_side[0], broker_side[0]
    return ours.local.media == theirs.remote.media and ours.remote.media == theirs.local.media


@pytest.mark.parametrize("home", [False, True])
@pytest.mark.parametrize("block", range(2))
def test_a_session_is_agreed_upon_or_fails_loudly(home, block):
    established = 0
    for seed in range(15 * block, 15 * (block + 1)):
        scene = Scene(seed, home=home, settings={"timers": LAB}, **HARSH)
        if home:
            scene.ask(scene.broker, "register")
        scene.run(20)
        call = scene.ask(scene.agent, "invite", BROKER, media(7))
        scene.run(60)
        ours, theirs = outcome(scene, scene.agent), outcome(scene, scene.broker)
        if ours and theirs:
            established += 1
            assert same_session(scene, ours, theirs), seed
            scene.ask(scene.agent, "bye", call)
        else:
            # an answer that is never acknowledged ends with BYE, and a call that is never answered fails
            assert not ours, seed
            assert not theirs, seed
        scene.run(120)
        scene.loss = scene.repeat = 0.0
        scene.run(scene.now + 60)
        scene.empty()
    assert established > 9


@pytest.mark.parametrize("block", range(2))
def test_the_last_of_many_moves_wins(block):
    """However fast the device moves: when it stays, both sides have its last address."""
    for seed in range(12 * block, 12 * (block + 1)):
        scene = Scene(seed, home=True, settings={"timers": LAB})
        chance = Random(seed)
        for one in (scene.broker, scene.agent):
            scene.ask(one, "register")
        call = scene.call()
        scene.loss, scene.repeat, scene.delay = 0.2, 0.2, (0.0, 0.2)
        last = 10
        for _ in range(6):
            scene.run(scene.now + chance.choice((0.0, 0.05, 0.3, 2.0)))
            last += 1
            scene.move(scene.agent, at(last))
            if call in scene.agent.inspect()["calls"]:
                scene.ask(scene.agent, "reinvite", call, media(last))
        scene.run(scene.now + 30)
        ours, theirs = outcome(scene, scene.agent), outcome(scene, scene.broker)
        assert bool(ours) == bool(theirs), seed
        if ours:
            assert theirs[0].remote.media.host == f"10.0.0.{last}", seed
            assert same_session(scene, ours, theirs), seed
            scene.ask(scene.agent, "bye", call)
        contacts = scene.proxy.location.bindings("sip:user1@lac.example", scene.now)
        assert [one.uri.host for one in contacts] == [f"10.0.0.{last}"], seed
        scene.loss = scene.repeat = 0.0
        scene.run(scene.now + 60)
        scene.empty()


@pytest.mark.long
@pytest.mark.parametrize("block", range(2, 50))
def test_many_more(block):
    for home in (False, True):
        test_a_session_is_agreed_upon_or_fails_loudly(home, block)
    test_the_last_of_many_moves_wins(block)


def test_both_sides_change_the_session_at_once():
    """Glare: both get 491, wait for different random times, and both changes succeed."""
    for seed in range(25):
        scene = Scene(seed, settings={"timers": LAB})
        call = scene.call()
        theirs = scene.told(scene.broker, Established)[0].call
        scene.ask(scene.agent, "reinvite", call, media(8))
        scene.ask(scene.broker, "reinvite", theirs, media(2))
        scene.run(scene.now + 20)
        assert "491" in scene.methods()
        assert any(one.status == 491 and one.retry_seconds is not None for one in scene.told(scene.agent, UpdateFailed))
        ours, other = outcome(scene, scene.agent), outcome(scene, scene.broker)
        assert same_session(scene, ours, other), seed
        assert (ours[0].local.media.host, ours[0].remote.media.host) == ("10.0.0.8", "10.0.0.2")
        scene.ask(scene.broker, "bye", theirs)
        scene.run(scene.now + 60)
        scene.empty()


def test_both_sides_end_the_session_at_once():
    for seed in range(20):
        scene = Scene(seed, settings={"timers": LAB}, loss=0.2, repeat=0.3, delay=(0.0, 0.2))
        call = scene.call()
        scene.run(scene.now + 10)
        for machine, name in ((scene.agent, call), (scene.broker, next(iter(scene.broker.inspect()["calls"]), None))):
            if name in machine.inspect()["calls"]:
                scene.ask(machine, "bye", name)
        scene.run(scene.now + 60)
        scene.empty()


def test_a_call_is_cancelled_at_any_moment():
    for seed in range(40):
        scene = Scene(seed, settings={"timers": LAB}, loss=0.1, repeat=0.2, delay=(0.0, 0.1))
        answer = Random(seed).choice((True, False))
        if not answer:
            scene.react = lambda machine, fact: None
        call = scene.ask(scene.agent, "invite", BROKER, media(7))
        scene.run(Random(seed).uniform(0.0, 0.3))
        if call in scene.agent.inspect()["calls"]:
            scene.ask(scene.agent, "bye", call)
        scene.run(scene.now + 60)
        assert scene.told(scene.agent, Ended | Failed), seed
        assert len(scene.told(scene.broker, Ended)) <= 1
        scene.empty()


def test_a_registration_survives_a_server_that_goes_away():
    scene = Scene(3, home=True, settings={"timers": LAB, "register_expires": 10})
    scene.ask(scene.agent, "register")
    scene.run(1)
    scene.dead = [at(100)]
    scene.run(60)
    scene.dead = []
    scene.run(120)
    assert len(scene.told(scene.agent, Registered)) > 5
    assert scene.proxy.location.bindings("sip:user1@lac.example", scene.now)


def test_the_same_seed_is_the_same_story():
    def story():
        scene = Scene(11, home=True, settings={"timers": SipTimers()}, **HARSH)
        scene.ask(scene.broker, "register")
        scene.run(40)
        scene.ask(scene.agent, "invite", BROKER, media(7))
        scene.run(100)
        return scene.sent

    assert story() == story()
