"""Through a real media proxy: Kamailio asks rtpengine for a relay, which user agents never notice."""

import asyncio
import socket
import subprocess
import time

import pytest

from datagrams.sip_cast import Player
from peers.kamailio import Kamailio, needs
from peers.ports import free_port
from recado.protocols.sip.address import Address
from recado.protocols.sip.events import Established, Incoming, Registered, Updated
from recado.protocols.sip.sdp import Media

USER, BROKER = "sip:user1@lac.example", "sip:broker@lac.example"


class RtpEngine:
    def __init__(self, folder):
        self.port, first = free_port(), free_port() // 2 * 2
        command = ["rtpengine", "--foreground", "--log-stderr", "--table=-1", "--interface=127.0.0.1"]
        command += [f"--listen-ng=127.0.0.1:{self.port}", f"--port-min={first}", f"--port-max={first + 100}"]
        command += ["--num-threads=1", "--pidfile", str(folder / "rtpengine.pid")]
        self._log = (folder / "rtpengine.log").open("wb")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        for _ in range(100):
            if self._answers():
                return
            time.sleep(0.05)
        self.stop()
        pytest.skip(f"rtpengine does not run here: {(folder / 'rtpengine.log').read_text()[-500:]}")

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
        return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self.sock, 2_000), 5)


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
