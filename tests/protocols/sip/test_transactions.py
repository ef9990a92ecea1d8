"""The timers of RFC 3261 to the second, copies that are absorbed, and the tables themselves."""

import pytest

from protocols.sip.cast import BROKER, Scene, media
from protocols.sip.world import at
from recado.protocols.machine import SendFailed
from recado.protocols.sip.agent import UserAgent
from recado.protocols.sip.events import (
    AgentSettings,
    Failed,
    OptionsAnswered,
    Registered,
    RegistrationFailed,
    UpdateFailed,
)
from recado.protocols.sip.limits import CLASSIC, LAB, PROFILES, SipTimers
from recado.protocols.sip.text import SipError
from recado.protocols.sip.transactions import ALIVE, START, TABLE, duration
from recado.protocols.sip.uri import Address


def times(scene, method, source=None):
    return [
        round(now, 3)
        for (now, sender, _, _), name in zip(scene.sent, scene.methods(), strict=True)
        if name == method and (source is None or sender == source)
    ]


def alone(**more):
    """An agent whose home server is dead."""
    scene = Scene(**more)
    scene.dead = [at(1)]
    return scene


def test_an_invite_that_nobody_answers():
    scene = alone()
    scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.run()
    assert times(scene, "INVITE") == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5]  # timer A doubles from T1
    assert scene.now == 32  # timer B: 64 T1
    assert [(one.status, one.reason) for one in scene.told(scene.agent, Failed)] == [(408, "no answer")]
    scene.empty()


def test_another_request_that_nobody_answers():
    scene = alone()
    scene.ask(scene.agent, "options", BROKER)
    scene.run()
    assert times(scene, "OPTIONS") == [0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5, 31.5]  # timer E stops at T2
    assert scene.now == 32  # timer F
    assert scene.told(scene.agent, OptionsAnswered)[0].status == 408


def test_a_200_is_repeated_until_the_ack():
    scene = Scene()
    scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.run(0.015)
    scene.dead = [at(7)]
    scene.run(40)
    expected = [0.01, 0.51, 1.51, 3.51, 7.51, 11.51, 15.51, 19.51, 23.51, 27.51, 31.51]
    assert times(scene, "200") == expected
    assert times(scene, "BYE", at(1))[0] == 32.01


def test_a_refusal_is_repeated_until_its_ack():
    scene = Scene()
    scene.react = lambda machine, fact: machine is scene.broker and scene.ask(machine, "reject", fact.call, 486)
    scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.run(0.005)
    del scene.machines[at(7)]
    scene.run(40)
    expected = [0.01, 0.51, 1.51, 3.51, 7.51, 11.51, 15.51, 19.51, 23.51, 27.51, 31.51]  # timer G, until timer H
    assert times(scene, "486") == expected


def test_a_refusal_with_its_ack():
    scene = Scene(repeat=0.5)
    scene.react = lambda machine, fact: (
        machine is scene.broker and scene.ask(machine, "reject", fact.call, 486, reason="no")
    )
    scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.run()
    assert len(scene.told(scene.agent, Failed)) == 1
    assert "ACK" in scene.methods()
    scene.empty()


def test_100_comes_when_the_answer_takes_its_time():
    scene = Scene()
    patient = AgentSettings(user="sip:user1@lac.example", device="d1", home=at(1), timers=SipTimers(ring=500.0))
    scene.agent = scene.add(UserAgent(patient, at(7)), at(7))
    scene.react = lambda machine, fact: None
    call = scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.run(5)
    assert times(scene, "100") == [0.21]
    assert times(scene, "INVITE") == [0]
    assert scene.agent.inspect()["calls"] == {call: "calling"}
    scene.run(181)
    assert times(scene, "480") == [180.01]  # nobody answers within `ring`
    assert scene.told(scene.agent, Failed)[0].status == 480
    scene.run()
    scene.empty()


def test_a_call_that_rings_for_ever_is_cancelled_by_the_caller():
    patient = SipTimers(ring=500.0)
    scene = Scene()
    scene.broker = scene.add(UserAgent(AgentSettings(user=BROKER, device="b", timers=patient), at(1)), at(1))
    scene.react = lambda machine, fact: None
    scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.run()
    assert times(scene, "CANCEL") == [180]
    assert scene.told(scene.agent, Failed)[0].status == 487
    scene.empty()


def test_one_who_says_trying_and_nothing_more():
    scene = Scene()
    scene.react = lambda machine, fact: None
    scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.run(1)
    del scene.machines[at(1)]
    scene.run(300)
    assert [(one.status, one.reason) for one in scene.told(scene.agent, Failed)] == [(408, "no answer")]
    assert scene.agent.inspect()["clients"] == {}


def test_copies_of_a_request_are_served_once():
    scene = Scene(repeat=0.999)
    scene.call()
    scene.run(5)
    assert scene.methods(at(1)).count("200") > 0
    assert len(scene.broker.inspect()["calls"]) == 1


def test_on_a_reliable_transport_nothing_is_repeated():
    scene = Scene()
    there = Address("tcp", "10.0.0.1", 5060)
    settings = AgentSettings(user="sip:u@lac.example", device="t", home=there)
    machine = scene.add(UserAgent(settings, Address("tcp", "10.0.0.7", 5060)), Address("tcp", "10.0.0.7", 5060))
    scene.ask(machine, "invite", BROKER, media(7))
    scene.ask(machine, "options", BROKER)
    scene.run()
    assert (scene.methods().count("INVITE"), scene.methods().count("OPTIONS")) == (1, 1)
    assert scene.now == 32
    assert machine.inspect()["clients"] == {}


def test_a_transport_that_fails_is_a_timeout_at_once():
    scene = Scene()
    scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.ask(scene.agent, "options", BROKER)
    scene.tell(scene.agent, SendFailed(at(1)))
    assert len(scene.told(scene.agent)) == 2
    assert scene.agent.inspect()["clients"] == {}


def test_a_register_is_tried_again_with_growing_pauses():
    scene = Scene(home=True)
    scene.dead = [at(100)]
    scene.ask(scene.agent, "register")
    scene.run(1_500)
    pauses = [one.retry_seconds for one in scene.told(scene.agent, RegistrationFailed)]
    assert pauses[:8] == [5, 10, 20, 40, 80, 160, 300, 300]  # min(5 * 2**k, 300)
    scene.dead = []
    scene.run(2_000)
    assert scene.told(scene.agent, Registered)


def test_a_change_that_nobody_hears_is_tried_again_with_growing_pauses():
    scene = Scene()
    call = scene.call()
    scene.dead = [at(1)]
    scene.ask(scene.agent, "reinvite", call, media(8))
    scene.run(700)
    pauses = [one.retry_seconds for one in scene.told(scene.agent, UpdateFailed)]
    assert pauses[:8] == [1, 2, 4, 8, 16, 32, 60, 60]


# -- the tables


@pytest.mark.parametrize("kind", TABLE)
def test_every_state_can_be_reached_and_left(kind):
    states = {START[kind][0], *(state for state, _ in TABLE[kind].values())}
    reached, frontier = {START[kind][0]}, [START[kind][0]]
    while frontier:
        here = frontier.pop()
        for (state, _), (after, _) in TABLE[kind].items():
            if state == here and after not in reached:
                reached.add(after)
                frontier.append(after)
    assert reached == states
    assert "terminated" in states
    assert {state for state, _ in TABLE[kind]} == states - {"terminated"}


@pytest.mark.parametrize("kind", TABLE)
def test_every_timer_is_set_where_it_lives_and_listened_to(kind):
    set_in = {}
    for state, actions in [START[kind], *TABLE[kind].values()]:
        for action in actions:
            if action.startswith("set "):
                set_in.setdefault(action.removeprefix("set "), set()).add(state)
    for letter, states in set_in.items():
        for state in states:
            assert letter in ALIVE[kind, state]
            assert (state, letter) in TABLE[kind]
    for (other, state), letters in ALIVE.items():
        if other == kind:
            assert all((state, letter) in TABLE[kind] for letter in letters)


def test_the_values_of_the_timers():
    def value(letter, repeats=0, reliable=False, state="trying"):
        return duration(letter, CLASSIC, repeats, reliable=reliable, state=state)

    assert [value("A", n) for n in range(3)] == [0.5, 1, 2]
    assert [value("E", n) for n in range(5)] == [0.5, 1, 2, 4, 4]
    assert value("E", state="proceeding") == 4
    assert {letter: value(letter) for letter in "BDFHIJKLM"} == {
        "B": 32, "D": 32, "F": 32, "H": 32, "I": 5, "J": 32, "K": 5, "L": 32, "M": 32,
    }  # fmt: skip
    assert [value(letter, reliable=True) for letter in "AEG"] == [None, None, None]
    assert [value(letter, reliable=True) for letter in "DIJK"] == [0, 0, 0, 0]


def test_profiles():
    assert PROFILES == {"classic": CLASSIC, "lab": LAB}
    assert LAB.t1 == 0.05
    with pytest.raises(SipError, match="t1 is 0; it has to be more than 0 seconds"):
        SipTimers(t1=0)
