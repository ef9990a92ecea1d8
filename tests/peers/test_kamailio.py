"""Our user agents through a real registrar and proxy: Kamailio."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from net.sip_cast import Player
from peers.kamailio import Kamailio, needs
from peers.ports import free_port
from recado.protocols.sip.digest import Credentials
from recado.protocols.sip.events import (
    Ended,
    Established,
    Failed,
    Progress,
    Registered,
    RegistrationFailed,
    Unregistered,
    Updated,
)
from recado.protocols.sip.uri import Address

USER, BROKER = "sip:user1@lac.example", "sip:broker@lac.example"


@pytest.fixture(scope="module")
def kamailio(tmp_path_factory):
    needs("kamailio", "kamcmd")
    server = Kamailio(tmp_path_factory.mktemp("kamailio"), free_port())
    yield server
    server.stop()


@pytest.fixture
def home(kamailio):
    return Address("udp", "127.0.0.1", kamailio.port)


async def opened(home):
    broker = await Player().open(BROKER, home=home, device="b")
    agent = await Player().open(USER, "127.0.0.2", home=home)
    for one in (broker, agent):
        one.do("register")
        await one.until(Registered)
    call = agent.do("invite", BROKER, agent.media())
    await agent.until(Established)
    await broker.until(Established)
    return broker, agent, call


async def closed(*players):
    for one in players:
        one.do("unregister")
        await one.until(Unregistered)
        await one.close()


def test_register_move_and_the_old_contact_is_gone(kamailio, home):
    async def story():
        agent = await Player().open(USER, "127.0.0.2", home=home)
        agent.do("register")
        assert (await agent.until(Registered)).expires_seconds == 300
        assert kamailio.contacts() == [f"sip:user1@127.0.0.2:{agent.local.port}"]
        await agent.endpoint.rebind("127.0.0.3")
        await agent.until(Registered, 2)
        assert kamailio.contacts() == [f"sip:user1@127.0.0.3:{agent.local.port}"]
        await closed(agent)
        assert kamailio.contacts() == []

    asyncio.run(story())


def test_two_moves_before_the_first_is_confirmed(kamailio, home):
    async def story():
        agent = await Player().open(USER, "127.0.0.2", home=home)
        agent.do("register")
        await agent.until(Registered)
        await agent.endpoint.rebind("127.0.0.3")
        await agent.endpoint.rebind("127.0.0.4")
        await agent.until(Registered, 2)
        assert kamailio.contacts() == [f"sip:user1@127.0.0.4:{agent.local.port}"]
        await closed(agent)

    asyncio.run(story())


def test_two_devices_of_one_user(kamailio, home):
    async def story():
        players = [await Player().open(USER, f"127.0.0.{n}", home=home, device=f"d{n}") for n in (2, 3)]
        for one in players:
            one.do("register")
            await one.until(Registered)
        assert len(kamailio.contacts()) == 2
        players[0].do("unregister")
        await players[0].until(Unregistered)
        assert kamailio.contacts() == [f"sip:user1@127.0.0.3:{players[1].local.port}"]
        await players[0].close()
        await closed(players[1])

    asyncio.run(story())


def test_an_interval_that_is_too_brief_is_raised(home):
    async def story():
        agent = await Player().open(USER, home=home, register_expires=2)
        agent.do("register")
        assert (await agent.until(Registered)).expires_seconds == 5
        assert not [one for one in agent.events if isinstance(one, RegistrationFailed)]
        await closed(agent)

    asyncio.run(story())


def test_a_session_a_hand_over_and_the_end(home):
    async def story():
        broker, agent, call = await opened(home)
        assert agent.agent.inspect()["calls"] == {call: "connected"}
        await agent.endpoint.rebind("127.0.0.3")
        agent.do("reinvite", call, agent.media())
        update = await broker.until(Updated)
        assert (update.remote.version, update.remote.media.host) == (2, "127.0.0.3")
        await agent.until(Updated)
        agent.do("bye", call)
        assert (await broker.until(Ended)).reason == "the other side ended it"
        await closed(agent, broker)

    asyncio.run(story())


def test_the_broker_ends_a_session_of_a_device_that_moved(home):
    async def story():
        broker, agent, call = await opened(home)
        await agent.endpoint.rebind("127.0.0.4")
        agent.do("reinvite", call, agent.media())
        theirs = (await broker.until(Updated)).call
        await agent.until(Updated)
        broker.do("bye", theirs)
        assert (await agent.until(Ended)).reason == "the other side ended it"
        await closed(agent, broker)

    asyncio.run(story())


def test_twenty_moves(kamailio, home):
    async def story():
        broker, agent, call = await opened(home)
        for move in range(20):
            await agent.endpoint.rebind(f"127.0.0.{10 + move}")
            agent.do("reinvite", call, agent.media())
            assert (await broker.until(Updated, move + 1)).remote.media.host == f"127.0.0.{10 + move}"
            await agent.until(Updated, move + 1)
        await agent.until(Registered, 21)
        assert [one for one in kamailio.contacts() if "user1" in one] == [f"sip:user1@127.0.0.29:{agent.local.port}"]
        agent.do("bye", call)
        await broker.until(Ended)
        await closed(agent, broker)

    asyncio.run(story())


def test_nobody_is_registered(home):
    async def story():
        agent = await Player().open(USER, home=home)
        agent.do("invite", "sip:nobody@lac.example", agent.media())
        assert (await agent.until(Failed)).status == 404
        await agent.close()

    asyncio.run(story())


def test_a_call_that_is_cancelled(home):
    async def story():
        broker = await Player().open(BROKER, home=home, device="b")
        broker.answers = False
        agent = await Player().open(USER, home=home)
        broker.do("register")
        await broker.until(Registered)
        call = agent.do("invite", BROKER, agent.media())
        async with asyncio.timeout(60):
            while "proceeding" not in agent.agent.inspect()["clients"].values():
                await asyncio.sleep(0.01)
        agent.do("bye", call)
        assert (await agent.until(Ended)).reason == "cancelled"
        assert (await broker.until(Ended)).reason == "the caller changed its mind"
        assert not [one for one in agent.events if isinstance(one, Progress)]
        await closed(broker)
        await agent.close()

    asyncio.run(story())


@pytest.mark.parametrize("algorithm", ["MD5", "SHA-256"])
def test_it_asks_for_a_password(tmp_path, algorithm):
    """Nonces live a second here, so that a later refresh meets one that is stale."""
    needs("kamailio", "kamcmd")
    server = Kamailio(tmp_path, free_port(), algorithm=algorithm)

    async def story():
        home = Address("udp", "127.0.0.1", server.port)
        agent = await Player().open(USER, home=home, credentials=Credentials("user1", "secret"), register_expires=5)
        agent.do("register")
        for count in (1, 2):
            await agent.until(Registered, count)
        thief = await Player().open(USER, "127.0.0.9", home=home, credentials=Credentials("user1", "guess"))
        thief.do("register")
        assert (await thief.until(RegistrationFailed)).status == 401
        assert server.contacts() == [f"sip:user1@127.0.0.1:{agent.local.port}"]
        await thief.close()
        await closed(agent)

    try:
        asyncio.run(story())
    finally:
        server.stop()


def test_the_configuration_of_the_docs_is_one(tmp_path):
    needs("kamailio", "rtpengine")
    page = Path(__file__).parents[2] / "docs" / "sip.md"
    config = tmp_path / "kamailio.cfg"
    config.write_text(page.read_text().split("```kamailio\n")[1].split("```")[0])
    command = ["kamailio", "-c", "-f", str(config)]
    checked = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert checked.returncode == 0, checked.stderr
