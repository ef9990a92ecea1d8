"""SIPp plays the other side, as caller and as the one who is called."""

import asyncio
import socket

import pytest

from net.sip_cast import Player
from peers.kamailio import Kamailio, needs
from peers.ports import free_port
from peers.sipp import CALLED, CALLER, CALLER_WITH_PASSWORD, run_sipp
from recado.protocols.sip.digest import Guard, secret_of
from recado.protocols.sip.events import Ended, Established, Incoming, Updated
from recado.protocols.sip.limits import CLASSIC
from recado.protocols.sip.uri import Address


@pytest.fixture(autouse=True)
def installed():
    needs("sipp")


def count(player, kind):
    return sum(isinstance(one, kind) for one in player.events)


@pytest.mark.parametrize(("transport", "letters"), [("udp", "u1"), ("tcp", "t1")])
def test_sipp_calls_thirty_times(tmp_path, transport, letters):
    async def story():
        broker = await Player().open("sip:broker@lac.example", transport=transport, timers=CLASSIC)
        target = f"127.0.0.1:{broker.local.port}"
        code, output = await run_sipp(
            tmp_path, CALLER, target, "-p", str(free_port()), "-m", "30", "-r", "20", "-t", letters
        )
        assert code == 0, output[-3_000:]
        assert (count(broker, Established), count(broker, Ended)) == (30, 30)
        assert count(broker, Updated) == 30  # the second change of each call is not newer, and changes nothing
        assert broker.agent.inspect()["calls"] == {}
        await broker.close()

    asyncio.run(story())


def test_sipp_proves_who_it_is(tmp_path):
    async def story():
        guard = Guard(
            "lac", lambda user, realm, kind: secret_of(kind, user, realm, "secret"), b"key", algorithms=("MD5",)
        )
        broker = await Player().open("sip:broker@lac.example", guard=guard, timers=CLASSIC)
        code, output = await run_sipp(
            tmp_path,
            CALLER_WITH_PASSWORD,
            f"127.0.0.1:{broker.local.port}",
            "-p",
            str(free_port()),
            "-m",
            "3",
            "-au",
            "sipp",
        )
        assert code == 0, output[-3_000:]
        assert all(
            one.proven and one.user == "sip:sipp@lac.example" for one in broker.events if isinstance(one, Incoming)
        )
        assert count(broker, Established) == 3
        await broker.close()

    asyncio.run(story())


REGISTER = """REGISTER sip:lac.example SIP/2.0\r
Via: SIP/2.0/UDP 127.0.0.1:{port};branch=z9hG4bKfirst\r
From: <sip:broker@lac.example>;tag=1\r
To: <sip:broker@lac.example>\r
Call-ID: first\r
CSeq: 1 REGISTER\r
Contact: <sip:broker@127.0.0.1:{port}>\r
Content-Length: 0\r
\r
"""


def register(port, server):
    """For SIPp, from its own port before it runs."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", port))
        sock.settimeout(5)
        sock.sendto(REGISTER.format(port=port).encode(), ("127.0.0.1", server))
        assert sock.recv(2_000).startswith(b"SIP/2.0 200")


def test_sipp_is_called_through_kamailio_and_we_move(tmp_path):
    """SIPp alone answers to the address that it heard first; with a proxy between, that does not change."""
    needs("kamailio", "kamcmd")
    kamailio = Kamailio(tmp_path, free_port())

    async def story():
        port, home = free_port(), Address("udp", "127.0.0.1", kamailio.port)
        register(port, kamailio.port)
        agent = await Player().open("sip:user1@lac.example", "127.0.0.2", timers=CLASSIC, home=home)
        playing = asyncio.create_task(run_sipp(tmp_path, CALLED, "-p", str(port), "-m", "1"))
        call = agent.do("invite", "sip:broker@lac.example", agent.media())
        assert (await agent.until(Established)).remote.media.connection == 0x9A3C01D2
        await agent.endpoint.rebind("127.0.0.3")
        agent.do("reinvite", call, agent.media())
        assert (await agent.until(Updated)).remote.version == 2
        agent.do("bye", call)
        code, output = await playing
        assert code == 0, output[-3_000:]
        await agent.close()

    try:
        asyncio.run(story())
    finally:
        kamailio.stop()
