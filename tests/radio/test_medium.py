"""The medium in this process, with sockets of its own: who hears what, attempts, faults, crowded queues."""

import asyncio
import os
import socket
from collections import Counter

import msgspec
import pytest

from recado.protocols.sensors.messages import Hello, Item, Reply
from recado.protocols.wire import encode as encode_message
from recado.radio.datagrams import Acked, DatagramSocket, Failed, Heard, Transmit, decode_down, encode
from recado.radio.medium import ATTEMPTS, FaultRequest, Medium
from recado.radio.node import RadioNode
from recado.radio.scene import Placement, Scene, SceneError, check_scene
from recado.sim.radio.signal import dbm, received_watts

HELLO = encode_message(Hello(1))


class Air:
    """A medium and plain sockets in place of its nodes, 200 m apart on a line."""

    def __init__(self, folder, count=3, **options):
        scene = check_scene(Scene("air", factor=1.0, placement=Placement("line", nodes=count), **options))
        self.medium = Medium(scene)
        self.medium.socket = DatagramSocket(folder / "medium.air", self.medium.receive)
        self.got = {name: [] for name in scene.places()}
        self.sockets = {name: self.open(folder, name) for name in scene.places()}

    def open(self, folder, name):
        return DatagramSocket(folder / f"{name}.air", lambda sender, data: self.got[name].append(decode_down(data)))

    def send(self, sender, to=None, ref=0, frame=HELLO):
        assert self.sockets[sender].send("medium", encode(Transmit(ref, to, frame)))

    async def rest(self):
        await asyncio.sleep(0.01)
        while self.medium.count()["on_air"]:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.02)

    def close(self):
        for one in (self.medium.socket, *self.sockets.values()):
            one.close()


def with_air(tmp_path, play, **options):
    async def run():
        air = Air(tmp_path, **options)
        try:
            async with asyncio.timeout(60):
                await play(air)
        finally:
            air.close()

    asyncio.run(run())


def test_who_is_near_hears_a_broadcast_with_its_strength(tmp_path):
    async def play(air):
        air.send("n1")
        air.send("n0")
        await air.rest()
        strength = dbm(received_watts(200.0))
        assert sorted(heard.sender for heard in air.got["n1"]) == ["n0"]
        assert air.got["n0"] == [Heard("n1", strength, HELLO)] == air.got["n2"]
        assert air.medium.transmissions == {"aodv.hello": 2}
        assert air.medium.sent_bytes == {"aodv.hello": 2 * len(HELLO)}

    with_air(tmp_path, play)


def test_one_receiver_gets_it_and_the_sender_is_told(tmp_path):
    async def play(air):
        frame = encode_message(Reply(("n0", 1), ()))
        air.send("n0", "n1", 7, frame)
        air.send("n0", "n2", 8, frame)
        await air.rest()
        assert sorted(air.got["n0"], key=lambda one: one.ref) == [Acked(7), Failed(8)]
        assert [heard.frame for heard in air.got["n1"]] == [frame]
        assert air.got["n2"] == []
        assert air.medium.transmissions == {"pcache.reply": 2}
        assert air.medium.counts["repeated"] == ATTEMPTS - 1

    with_air(tmp_path, play)


def test_a_frame_that_is_too_long_does_not_leave_and_stops_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr("recado.radio.node.FRAME_BYTES", 50)

    async def play(air):
        node = RadioNode(air.medium._scene, "n0", tmp_path)
        node._air = air.sockets["n0"]
        long = Reply(("n1", 1), (Item(("n1", 1), 1, "temperature > 60 and humidity < 30"),))
        assert node._send("n1", long) is False
        node._broadcast(long)
        node._broadcast(Hello(1))
        await air.rest()
        counted = node.count()
        assert (counted["too_long"], counted["unanswered"], counted["sent"]) == (2, 0, {"aodv.hello": 1})
        assert air.medium.transmissions == {"aodv.hello": 1}
        assert not node.stopping.is_set()

    with_air(tmp_path, play)


def test_a_dead_receiver_is_a_failure(tmp_path):
    async def play(air):
        air.sockets["n1"].close()
        air.send("n0", "n1", 7)
        await air.rest()
        assert air.got["n0"] == [Failed(7)]
        assert air.medium.counts["absent"] == ATTEMPTS

    with_air(tmp_path, play)


def test_loss_is_repeated_on_the_link_only(tmp_path):
    async def play(air):
        air.medium.set_faults(FaultRequest(loss=0.5))
        for ref in range(1, 201):
            air.send("n0", "n1", ref)
            air.send("n0")
            await asyncio.sleep(0)
        await air.rest()
        told = Counter(type(one) for one in air.got["n0"])
        assert told[Acked] + told[Failed] == 200
        assert told[Failed] < 15  # one of 128
        heard = len(air.got["n1"])
        assert heard - told[Acked] in range(60, 141)  # half of the broadcasts
        assert air.medium.transmissions["aodv.hello"] == 400

    with_air(tmp_path, play)


def test_partition_mute_move_and_heal(tmp_path):
    async def play(air):
        air.medium.set_faults(FaultRequest(cut=("n0",)))
        air.send("n1")
        await air.rest()
        assert (len(air.got["n0"]), len(air.got["n2"])) == (0, 1)
        air.medium.set_faults(FaultRequest(cut=(), mute=("n1",)))
        air.send("n1")
        air.send("n0", "n1", 3)
        await air.rest()
        assert (len(air.got["n0"]), len(air.got["n2"])) == (1, 1)
        assert air.got["n0"] == [Failed(3)]
        assert len(air.got["n1"]) == 1  # it hears, once, and cannot acknowledge
        air.medium.set_faults(FaultRequest(unmute=("n1",), move={"n2": (5_000.0, 0.0)}))
        air.send("n1")
        await air.rest()
        assert (len(air.got["n0"]), len(air.got["n2"])) == (2, 1)
        air.medium.set_faults(FaultRequest(loss=1.0, mute=("n0",)))
        air.medium.set_faults(FaultRequest(heal=True))
        air.send("n1")
        await air.rest()
        assert len(air.got["n0"]) == 3

    with_air(tmp_path, play)


def test_whoever_hears_two_at_once_understands_neither(tmp_path):
    async def play(air):
        air.medium.set_faults(FaultRequest(collisions=True))
        air.send("n0")  # n0 and n2 do not hear each other
        air.send("n2")
        await air.rest()
        assert air.got["n1"] == []
        assert air.medium.counts["collided"] == 2
        air.send("n0")
        air.send("n1")  # waits until n0 is silent
        await air.rest()
        assert [heard.sender for heard in air.got["n1"]] == ["n0"]
        assert [heard.sender for heard in air.got["n0"]] == ["n1"]

    with_air(tmp_path, play)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (FaultRequest(loss=2.0), "from 0 to 1, not 2"),
        (FaultRequest(cut=("n9",)), "no node 'n9'"),
        (FaultRequest(move={"n0": (float("nan"), 0.0)}), "two numbers"),
    ],
)
def test_a_fault_that_makes_no_sense_changes_nothing(tmp_path, fault, said):
    async def play(air):
        before = msgspec.structs.replace(air.medium.faults)
        with pytest.raises(SceneError, match=said):
            air.medium.set_faults(fault)
        assert air.medium.faults == before

    with_air(tmp_path, play)


def test_a_crowded_queue_loses_nothing(tmp_path):
    async def play(air):
        loop = asyncio.get_running_loop()
        loop.remove_reader(air.sockets["n1"]._socket)  # a node that does not read for a while
        for _ in range(300):
            air.send("n0")
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        assert air.medium.socket.waiting > 200
        assert air.got["n1"] == []
        loop.add_reader(air.sockets["n1"]._socket, air.sockets["n1"]._read)
        await air.rest()
        assert len(air.got["n1"]) == 300
        assert air.medium.socket.retried
        assert not air.medium.socket.dropped

    with_air(tmp_path, play)


def test_garbage_and_strangers_are_counted(tmp_path):
    async def play(air):
        air.send("n0", frame=b"\xc1 garbage")
        assert air.sockets["n0"].send("medium", b"\xc1")
        air.got["nobody"] = []
        stranger = air.open(tmp_path, "nobody")
        assert stranger.send("medium", encode(Transmit(0, None, HELLO)))
        await air.rest()
        stranger.close()
        assert air.medium.transmissions == {"unknown": 1}
        assert [heard.frame for heard in air.got["n1"]] == [b"\xc1 garbage"]  # the air carries what it is given
        assert (air.medium.counts["garbage"], air.medium.counts["strangers"]) == (1, 1)

    with_air(tmp_path, play)


def test_who_is_not_of_this_folder_is_nobody(tmp_path):
    """Abstract addresses and sockets elsewhere, whatever they are called, neither speak nor break anything."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    async def play(air):
        for address in (None, f"\0stranger-{os.getpid()}", str(elsewhere / "n0.air"), str(tmp_path / "n0.else")):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
                if address is not None:
                    stranger.bind(address)
                stranger.sendto(encode(Transmit(0, None, HELLO)), str(tmp_path / "medium.air"))
        await air.rest()
        assert air.medium.transmissions == {}
        assert air.medium.count()["strangers"] == 4
        air.send("n0")
        await air.rest()
        assert [heard.sender for heard in air.got["n1"]] == ["n0"]

    with_air(tmp_path, play)
