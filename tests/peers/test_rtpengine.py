"""Through a real media proxy: Kamailio asks rtpengine for a relay, which user agents never notice.

First with user agents alone, then with the whole service and the client library on both sides of it.
"""

import asyncio
import socket
import subprocess
import time

import pytest

import recado
from client.service import collect
from net.sip_cast import Player
from peers.kamailio import Kamailio, needs
from peers.ports import free_port
from recado.model.codec import read_event
from recado.protocols.sip.events import Established, Incoming, Registered, Updated
from recado.protocols.sip.sdp import Media
from recado.protocols.sip.uri import Address
from recado.server.permissions import Principal
from server.running import serving

USER, BROKER = "sip:user1@lac.example", "sip:broker@lac.example"


class RtpEngine:
    def __init__(self, folder):
        self.port, first = free_port(), free_port() // 2 * 2
        # Without the system's configuration, whose fixed ports another rtpengine may have.
        command = [
            "rtpengine",
            "--config-file=none",
            "--foreground",
            "--log-stderr",
            "--table=-1",
            "--interface=127.0.0.1",
        ]
        command += [f"--listen-ng=127.0.0.1:{self.port}", f"--port-min={first}", f"--port-max={first + 100}"]
        command += ["--num-threads=1", "--pidfile", str(folder / "rtpengine.pid")]
        self._log = (folder / "rtpengine.log").open("wb")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        for _ in range(100):
            if self._answers():
                return
            time.sleep(0.05)
        self.stop()
        raise AssertionError((folder / "rtpengine.log").read_text()[-3_000:])

    def _answers(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(0.2)
            sock.sendto(b"1 d7:command4:pinge", ("127.0.0.1", self.port))
            try:
                return b"pong" in sock.recv(100)
            except OSError:
                return False

    def stop(self):
        self._process.kill()
        self._process.wait()
        self._log.close()


@pytest.fixture
def home(tmp_path):
    needs("kamailio", "kamcmd", "rtpengine")
    relay = RtpEngine(tmp_path)
    server = Kamailio(tmp_path, free_port(), relay.port)
    yield Address("udp", "127.0.0.1", server.port)
    server.stop()
    relay.stop()


class Data:
    """One side's data socket."""

    def __init__(self, host):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((host, 0))
        self.sock.setblocking(False)

    def media(self):
        host, port = self.sock.getsockname()
        return Media(host=host, port=port, connection=5, device="d1")

    def send(self, text, to):
        self.sock.sendto(text, (to.media.host, to.media.port))

    async def receive(self):
        return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self.sock, 2_000), 60)


async def exchange(agent, broker, at_agent, at_broker):
    """Each side has to send first, so that the relay learns where it is."""
    agent.send(b"hello from the agent", at_agent)
    assert await broker.receive() == b"hello from the agent"
    broker.send(b"hello from the broker", at_broker)
    assert await agent.receive() == b"hello from the broker"


def test_data_goes_through_the_relay_before_and_after_a_move(home):
    async def story():
        at_broker, first, second = Data("127.0.0.1"), Data("127.0.0.2"), Data("127.0.0.3")
        broker = await Player().open(BROKER, home=home, device="b")
        broker.media = at_broker.media
        agent = await Player().open(USER, "127.0.0.2", home=home)
        for one in (broker, agent):
            one.do("register")
            await one.until(Registered)
        call = agent.do("invite", BROKER, first.media())
        ours, theirs = await agent.until(Established), await broker.until(Established)
        assert theirs.remote.media.host == "127.0.0.1"  # the relay, not the agent
        assert theirs.remote.media.port != first.media().port
        assert (await broker.until(Incoming)).device == "d1"
        await exchange(first, at_broker, ours.remote, theirs.remote)

        await agent.endpoint.rebind("127.0.0.3")
        agent.do("reinvite", call, second.media())
        moved, seen = await agent.until(Updated), await broker.until(Updated)
        assert (seen.remote.version, seen.remote.media.host) == (2, "127.0.0.1")  # still the relay, maybe another port
        assert seen.remote.media.port != second.media().port
        await exchange(second, at_broker, moved.remote, seen.remote)
        for one in (agent, broker):
            await one.close()
        for one in (at_broker, first, second):
            one.sock.close()

    asyncio.run(story())


async def stream(publish, line, first):
    """Publish numbers until the device has moved and fifty more have followed; those that were published."""
    number, moved_at = first, 0
    while not moved_at or number < moved_at + 50:
        await publish(number)
        number += 1
        if number == first + 50:
            line.host = "127.0.0.3"
        if line.handovers and not moved_at:
            moved_at = number
        await asyncio.sleep(0.005)
    return range(first, number)


def test_the_service_and_a_client_that_moves_in_mid_stream(home, tmp_path):
    """Both through Kamailio, all data through the relay, in both directions while the device moves."""
    registrar = f"{home.host}:{home.port}"
    sip = {"registrar": registrar, "uri": BROKER, "port": 0, "rudp_port": 0, "profile": "lab"}
    url = f"recado+sip://user1@lac.example;registrar={registrar};host=127.0.0.2;profile=lab"

    async def story():
        async with serving(tmp_path, sip=sip) as server, recado.connect(url, device="phone") as user:
            line = user._session._driver.transport
            every = await user.subscribe("n >= 0", id="all").ready()

            async def from_elsewhere(number):
                event = read_event({"id": str(number), "type": "Tick", "source": "/x", "n": number})
                await server.engine.publish(Principal("exchange"), [event])

            async def from_the_device(number):
                await user.publish("Tick", {"n": number})

            def check_relayed(host):
                """What each side takes for the other is the relay."""
                (consumer,) = server._sip._consumers.values()
                device, service = line._rudp.address, server._sip._rudp.address
                assert device[0] == host
                for seen, real in ((consumer.link.source, device), (line._link.remote_address, service)):
                    assert (seen[0], seen != real) == ("127.0.0.1", True)

            check_relayed("127.0.0.2")
            sent = await asyncio.gather(stream(from_elsewhere, line, 0), stream(from_the_device, line, 100_000))
            await from_elsewhere(200_000)  # whatever is repeated comes before it, in another's place
            got = await collect(every, len(sent[0]) + len(sent[1]) + 1)
            assert sorted(one["n"] for one in got) == [*sent[0], *sent[1], 200_000]
            assert [one.nid for one in got] == sorted({one.nid for one in got})
            check_relayed("127.0.0.3")
            (info,) = server.engine.sessions(Principal("root", admin=True), "user1")
            assert (info.device, info.kind, info.connected) == ("phone", "rudp", True)

    asyncio.run(story())
