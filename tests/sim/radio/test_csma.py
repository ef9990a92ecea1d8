"""The channel with collisions: who waits, who collides, who is heard all the same, and what a sender learns."""

import math

import pytest

from recado.protocols.machine import Asked, Broadcast, Received, Send, SendFailed
from recado.sim.faults import Cuts, Loss
from recado.sim.kernel import Simulation, SimulationError, stream
from recado.sim.network import Bandwidth
from recado.sim.radio import Csma, CsmaRadio, dbm, received_watts, scatter
from recado.sim.radio.csma import (
    DIFS_SECONDS,
    HEADER_BYTES,
    LINK_SECONDS,
    LONG_TRIES,
    PLCP_SECONDS,
    PROPAGATION_SECONDS,
    SHORT_TRIES,
    SIFS_SECONDS,
    SLOT_SECONDS,
)
from recado.sim.trace import Trace
from sim.machines import Recorder

SIZE = 100


class Fixed:
    """A stream that always draws the same slots."""

    def __init__(self, *slots):
        self.slots = list(slots)

    def randrange(self, stop):
        return min(self.slots.pop(0) if len(self.slots) > 1 else self.slots[0], stop - 1)


def field(places, rng=None, settings=None, size=SIZE, **options):
    radio = CsmaRadio(places, rng or stream(1, "radio"), settings=settings, **options)
    simulation = Simulation(radio, size_of=lambda message: size)
    machines = {node: Recorder(node) for node in places}
    for node, machine in machines.items():
        simulation.add(node, machine)
    simulation.run()
    return simulation, radio, machines


def on_air(size, rate):
    return PLCP_SECONDS + 8 * (HEADER_BYTES + size) / rate


def test_a_broadcast_waits_its_slots_and_takes_its_air_time():
    simulation, radio, machines = field({0: (0, 0), 1: (200, 0), 2: (400, 0), 3: (700, 0)}, Fixed(3))
    simulation.ask(0, [Broadcast("hello")], at=1.0)
    simulation.run()
    ((time, heard),) = machines[1].of(Received)
    assert heard == Received(0, "hello", pytest.approx(dbm(received_watts(200))))
    expected = 1.0 + 2 * LINK_SECONDS + DIFS_SECONDS + 3 * SLOT_SECONDS + PROPAGATION_SECONDS + on_air(SIZE, 1e6)
    assert time == pytest.approx(expected, abs=1e-9)
    assert not machines[2].of(Received)
    assert radio.frames["broadcast"] == 1


def test_a_message_to_one_is_asked_for_and_acknowledged():
    simulation, radio, machines = field({0: (0, 0), 1: (200, 0)}, Fixed(0))
    simulation.ask(0, [Send(1, "data")], at=1.0)
    simulation.run()
    assert [message for _, message in machines[1].messages()] == ["data"]
    assert {kind: count for kind, count in radio.frames.items() if count} == {"rts": 1, "cts": 1, "data": 1, "ack": 1}
    sifs, hop = 10e-6, PROPAGATION_SECONDS
    control = [PLCP_SECONDS + 8 * size / 1e6 for size in (20, 14)]
    expected = 1.0 + 2 * LINK_SECONDS + DIFS_SECONDS + sum(control) + 2 * sifs + 3 * hop + on_air(SIZE, 11e6)
    assert machines[1].messages()[0][0] == pytest.approx(expected, abs=1e-9)
    assert not machines[0].of(SendFailed)
    assert (radio.transmissions, radio.sent_bytes) == ({"str": 1}, {"str": SIZE})


def test_without_requests_it_is_only_acknowledged():
    simulation, radio, machines = field({0: (0, 0), 1: (200, 0)}, settings=Csma(rts=False))
    simulation.ask(0, [Send(1, "data")])
    simulation.run()
    assert len(machines[1].messages()) == 1
    assert (radio.frames["rts"], radio.frames["data"], radio.frames["ack"]) == (0, 1, 1)


def test_nobody_answers_so_the_sender_is_told_after_seven_requests():
    simulation, radio, machines = field({0: (0, 0), 1: (300, 0)})
    simulation.ask(0, [Send(1, "data")])
    simulation.run()
    assert [what for _, what in machines[0].of(SendFailed)] == [SendFailed(1, "data")]
    assert (radio.frames["rts"], radio.frames["data"], radio.failed) == (SHORT_TRIES, 0, 1)
    assert radio.transmissions == {"str": 1}


def test_data_that_is_never_acknowledged_is_sent_four_times_and_heard_once():
    simulation, radio, machines = field({0: (0, 0), 1: (200, 0)})
    lost = []

    def no_ack(sender, receiver):  # every second frame to 0 is an acknowledgement
        if sender == 1:
            lost.append(radio.frames["ack"])
        return sender == 0 or len(lost) % 2 == 1

    radio.obstacles.append(no_ack)
    simulation.ask(0, [Send(1, "data")])
    simulation.run()
    assert (radio.frames["data"], radio.frames["ack"]) == (LONG_TRIES, LONG_TRIES)
    assert len(machines[1].messages()) == 1
    assert len(machines[0].of(SendFailed)) == 1


def test_the_dead_do_not_answer():
    simulation, radio, machines = field({0: (0, 0), 1: (200, 0)})
    simulation.crash(1)
    simulation.ask(0, [Send(1, "data")])
    simulation.run()
    assert len(machines[0].of(SendFailed)) == 1
    assert radio.frames["cts"] == 0


def test_a_station_that_hears_another_waits_for_it():
    simulation, radio, machines = field({0: (0, 0), 1: (200, 0), 2: (100, 0)}, Fixed(0, 5))
    simulation.ask(0, [Broadcast("first")], at=1.0)
    simulation.ask(1, [Broadcast("second")], at=1.0)
    simulation.run()
    assert [message for _, message in machines[2].messages()] == ["first", "second"]
    assert radio.collisions == 0


def test_the_same_slot_collides():
    simulation, radio, machines = field({0: (0, 0), 1: (200, 0), 2: (100, 0)}, Fixed(2))
    simulation.ask(0, [Broadcast("first")], at=1.0)
    simulation.ask(1, [Broadcast("second")], at=1.0)
    simulation.run()
    assert not any(machine.messages() for machine in machines.values())
    assert radio.collisions == 4  # two receptions at 2, and each sender misses the other


HIDDEN = {"left": (0, 0), "middle": (240, 0), "right": (240, 240)}


def hidden(sense, effects_left, effects_right, apart=1e-4):
    simulation, radio, machines = field(HIDDEN, Fixed(0), Csma(sense_metres=sense), size=1000)
    simulation.ask("left", effects_left, at=1.0)
    simulation.ask("right", effects_right, at=1.0 + apart)
    simulation.run()
    return radio, machines


def test_hidden_stations_collide_and_those_that_sense_each_other_do_not():
    broadcasts = [Broadcast("l")], [Broadcast("r")]
    radio, machines = hidden(250.0, *broadcasts)
    assert not machines["middle"].messages()
    radio, machines = hidden(550.0, *broadcasts)
    assert [message for _, message in machines["middle"].messages()] == ["l", "r"]
    assert radio.collisions == 0


def test_a_request_that_is_answered_keeps_hidden_stations_silent():
    # the answer of the middle is heard on the right, which has something to say while the data is on the air
    radio, machines = hidden(250.0, [Send("middle", "l")], [Broadcast("r")], apart=8e-4)
    assert [message for _, message in machines["middle"].messages()] == ["l", "r"]
    assert (radio.frames["rts"], radio.frames["data"], radio.collisions) == (1, 1, 0)


@pytest.mark.parametrize(("near", "heard"), [(60, ["first"]), (200, [])])
def test_the_first_of_two_survives_if_it_is_ten_times_stronger(near, heard):
    places = {"first": (near, 0), "ear": (0, 0), "second": (-240, 0)}
    assert (received_watts(near) >= 10 * received_watts(240)) == bool(heard)
    simulation, _, machines = field(places, Fixed(0), Csma(sense_metres=250.0), size=1000)
    simulation.ask("first", [Broadcast("first")], at=1.0)
    simulation.ask("second", [Broadcast("second")], at=1.0005)
    simulation.run()
    assert [message for _, message in machines["ear"].messages()] == heard


def test_a_stronger_second_one_does_not_capture():
    places = {"first": (240, 0), "ear": (0, 0), "second": (-60, 0)}
    simulation, _, machines = field(places, Fixed(0), Csma(sense_metres=250.0), size=1000)
    simulation.ask("first", [Broadcast("first")], at=1.0)
    simulation.ask("second", [Broadcast("second")], at=1.0005)
    simulation.run()
    assert not machines["ear"].messages()


def test_a_full_queue_drops_and_tells_nobody():
    simulation, radio, machines = field({0: (0, 0), 1: (200, 0)}, settings=Csma(queue=5))
    simulation.ask(0, [Send(1, number) for number in range(20)])
    simulation.run()
    assert [message for _, message in machines[1].messages()] == [0, 1, 2, 3, 4, 5]  # one is being sent
    assert (radio.dropped, radio.transmissions["int"]) == (14, 6)
    assert not machines[0].of(SendFailed)


def test_addresses_are_asked_for_once_and_counted_apart():
    simulation, radio, machines = field({0: (0, 0), 1: (200, 0)}, settings=Csma(arp=True))
    for number in range(3):
        simulation.ask(0, [Send(1, number)], at=1.0 + number)
        simulation.ask(1, [Send(0, number)], at=1.5 + number)
    simulation.run()
    assert [message for _, message in machines[1].messages()] == [0, 1, 2]
    assert [message for _, message in machines[0].messages()] == [0, 1, 2]
    assert (radio.frames["arp"], radio.frames["data"], radio.transmissions) == (2, 6, {"int": 6})


def test_loss_and_cuts_are_met_by_frames_and_others_are_refused():
    radio = CsmaRadio({0: (0, 0), 1: (200, 0)}, stream(1, "radio"))
    network = Cuts(Loss(radio, 0.3, stream(1, "loss")))
    simulation = Simulation(network, size_of=lambda message: SIZE)
    machines = {node: Recorder(node) for node in (0, 1)}
    for node, machine in machines.items():
        simulation.add(node, machine)
    for number in range(200):
        simulation.ask(0, [Send(1, number)], at=1.0 + number / 10)
    simulation.run()
    got = [message for _, message in machines[1].messages()]
    assert len(got) == len(set(got)) > 150  # repeated until they arrive
    assert radio.repeats > 100
    network.block(0, 1)
    simulation.ask(0, [Send(1, "cut")])
    simulation.run()
    assert machines[0].of(SendFailed)[-1][1] == SendFailed(1, "cut")
    around = Simulation(Bandwidth(CsmaRadio({0: (0, 0)}, stream(1)), 1e6))
    around.add(0, Recorder())
    around.ask(0, [Broadcast("x")])
    with pytest.raises(SimulationError, match="only loss and cuts"):
        around.run()


class Talker:
    """Has always something to say: the next message is given when the last one is out."""

    def __init__(self, me, effects):
        self.me, self.effects, self.heard = me, effects, []

    def handle(self, stimulus, now, rng):
        if isinstance(stimulus, Received):
            self.heard.append(stimulus.sender)
        return self.effects if isinstance(stimulus, Asked) else ()

    def inspect(self):
        return {}


def saturated(count, seconds=20.0, seed=1):
    """Stations around a listener, all in range of each other, whose queues are never empty; broadcasts, as Bianchi's
    model without repetition: the window stays the least one.
    """
    places = {n: (50 * math.cos(2 * math.pi * n / count), 50 * math.sin(2 * math.pi * n / count)) for n in range(count)}
    places["ear"] = (0.0, 0.0)
    radio = CsmaRadio(places, stream(seed, "radio"), settings=Csma(queue=10_000))
    simulation = Simulation(radio, seed, size_of=lambda message: SIZE)
    ear = Recorder()
    for node in places:
        simulation.add(node, ear if node == "ear" else Recorder())
    simulation.run()
    for node in range(count):
        simulation.ask(node, [Broadcast((node, number)) for number in range(9000)])
    simulation.run(until=seconds)
    return radio, ear


@pytest.mark.parametrize("count", [2, 5, 10])
def test_saturated_stations_collide_as_often_as_bianchis_model_says(count):
    """With windows that never grow, a station transmits in a slot with probability 2 / (W + 1), W = 32.

    The model knows no EIFS: after a collision those who heard it wait longer, those who made it do not. So there is a
    little less than it says, but not so little as if all waited.
    """
    radio, ear = saturated(count)
    tau = 2 / 33
    alone = (1 - tau) ** (count - 1)  # of a transmission: nobody else in its slot
    got = len(ear.messages())
    assert got / radio.frames["broadcast"] == pytest.approx(alone, abs=0.02)
    busy = 1 - (1 - tau) ** count
    success = count * tau * alone / busy
    slot = on_air(SIZE, 1e6) + PROPAGATION_SECONDS + DIFS_SECONDS
    cycle = (1 - busy) * SLOT_SECONDS + busy * slot
    eifs = SIFS_SECONDS + DIFS_SECONDS + PLCP_SECONDS + 8 * 14 / 1e6
    slowest = cycle + busy * (1 - success) * eifs
    assert 0.97 * busy * success / slowest < got / 20.0 < 1.08 * busy * success / cycle


@pytest.mark.parametrize(("seed", "arp"), [(1, False), (2, True), (3, True)])
def test_nobody_sends_two_frames_at_once_or_while_it_knows_the_channel_to_be_taken(seed, arp, monkeypatch):
    """Also those who answer a request or acknowledge a message while they wait for slots of their own."""
    began, taken, overlaps, answers = {}, 0, 0, 0
    send = CsmaRadio._send

    def watched(radio, frame):
        nonlocal taken, overlaps, answers
        station, now = frame.sender, radio.simulation.now
        overlaps += began.get(station.id, -1.0) > now + 1e-12
        answers += frame.kind in ("cts", "ack") and station.slots is not None
        if frame.kind in ("broadcast", "rts", "arp"):
            taken += station.busy_until() > now + 1e-12
        began[station.id] = now + frame.seconds
        send(radio, frame)

    monkeypatch.setattr(CsmaRadio, "_send", watched)
    rng = stream(seed, "traffic")
    simulation, radio, _ = field(scatter(range(40), 900.0, rng), stream(seed, "radio"), Csma(arp=arp))
    for number in range(600):
        node = rng.randrange(40)
        near = list(radio.hearers(node))
        what = Send(rng.choice(near), number) if near and number % 3 else Broadcast(number)
        simulation.ask(node, [what], at=1.0 + rng.random())
    simulation.run()
    assert answers > 20
    assert (overlaps, taken) == (0, 0)


def test_everybody_gets_a_share_of_the_channel():
    _, ear = saturated(5)
    counts = [sum(1 for _, (node, _) in ear.messages() if node == one) for one in range(5)]
    assert max(counts) / min(counts) < 1.1


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_determines_the_run(seed):
    def fingerprint():
        trace = Trace()
        radio = CsmaRadio(scatter(range(30), 600.0, stream(seed, "places")), stream(seed, "radio"))
        simulation = Simulation(radio, seed, size_of=lambda message: SIZE, watch=trace)
        for node in range(30):
            simulation.add(node, Recorder(node))
        for node in range(30):
            simulation.ask(node, [Broadcast(node), Send((node + 1) % 30, node)], at=1.0 + node / 1e4)
        simulation.run()
        return trace.fingerprint, radio.frames, radio.collisions

    assert fingerprint() == fingerprint()


def test_the_story_of_a_message_that_waited_leads_to_its_sender():
    trace = Trace()
    simulation = Simulation(CsmaRadio({0: (0, 0), 1: (200, 0)}, stream(1)), size_of=lambda message: SIZE, watch=trace)
    simulation.add(0, Recorder())
    simulation.add(1, Recorder())
    simulation.ask(0, [Broadcast("hello", "to say so")], at=1.0)
    simulation.ask(1, [], at=1.0001)  # another step in between
    simulation.run()
    step = next(step for step in trace.select(node=1) if isinstance(step.stimulus, Received))
    assert "t=1 0 broadcast" in trace.story(step, None)
