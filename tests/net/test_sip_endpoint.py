"""User agents and the embedded registrar on real sockets: sessions, moves, both transports, digest."""

import asyncio
import socket
from random import Random

import pytest

from net.sip_cast import Player
from recado.net.sip import Endpoint, StreamLimits, Streams, open_registrar
from recado.protocols.sip.digest import Credentials, Guard, secret_of
from recado.protocols.sip.events import (
    Ended,
    Established,
    Failed,
    OptionsAnswered,
    Registered,
    RegistrationFailed,
    Unregistered,
    Updated,
)
from recado.protocols.sip.text import SipError
from recado.protocols.sip.uri import Address

DOMAIN = "lac.example"


def keeper(**passwords):
    def lookup(username, realm, algorithm):
        known = passwords.get(username)
        return known and secret_of(algorithm, username, realm, known)

    return Guard(DOMAIN, lookup, b"key")


def test_what_comes_before_there_is_a_machine_waits_for_it():
    """A service that starts again is asked by its users before it is ready."""

    class Machine:
        def __init__(self):
            self.heard = []

        def handle(self, stimulus, now, rng):
            self.heard.append(stimulus)
            return ()

    async def story():
        faults = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        machine = Machine()
        endpoint = Endpoint(None, StreamLimits(), Random(1), tcp=True, policy=None, home="")
        await endpoint.bind(Address("udp", "127.0.0.1", 0))
        with socket.socket(type=socket.SOCK_DGRAM) as peer:
            for number in range(100):
                peer.sendto(b"%d" % number, (endpoint.local.host, endpoint.local.port))
            await asyncio.sleep(0.2)
            endpoint.start(machine)
            peer.sendto(b"late", (endpoint.local.host, endpoint.local.port))
            async with asyncio.timeout(60):
                while len(machine.heard) < 65:
                    await asyncio.sleep(0.01)
        assert [one.message for one in machine.heard] == [b"%d" % number for number in range(64)] + [b"late"]
        assert faults == []
        await endpoint.close()

    asyncio.run(story())


@pytest.mark.parametrize("transport", ["udp", "tcp"])
@pytest.mark.parametrize("guarded", [False, True])
def test_a_session_with_a_hand_over_through_the_embedded_registrar(transport, guarded):
    async def story():
        guard = keeper(user1="secret", broker="other") if guarded else None
        registrar = await open_registrar(Address("udp", "127.0.0.1", 0), (DOMAIN,), guard=guard)
        home = registrar.local._replace(transport=transport)
        broker = await Player().open(
            f"sip:broker@{DOMAIN}",
            home=home,
            transport=transport,
            credentials=Credentials("broker", "other"),
            device="b",
        )
        agent = await Player().open(
            f"sip:user1@{DOMAIN}", "127.0.0.2", home=home, transport=transport,
            credentials=Credentials("user1", "secret"),
        )  # fmt: skip
        broker.do("register")
        agent.do("register")
        await broker.until(Registered)
        await agent.until(Registered)
        call = agent.do("invite", f"sip:broker@{DOMAIN}", agent.media())
        theirs = (await broker.until(Established)).call
        assert (await agent.until(Established)).remote.media.port == 17_000

        await agent.endpoint.rebind("127.0.0.3")
        agent.do("reinvite", call, agent.media())
        assert (await broker.until(Updated)).remote.media.host == "127.0.0.3"
        await agent.until(Updated)
        await agent.until(Registered, 2)
        users = registrar.machine.location.users(asyncio.get_running_loop().time())
        assert [one.uri.host for one in users[f"sip:user1@{DOMAIN}"]] == ["127.0.0.3"]

        broker.do("bye", theirs)
        assert (await agent.until(Ended)).reason == "the other side ended it"
        agent.do("unregister")
        await agent.until(Unregistered)
        for one in (agent, broker, registrar):
            await one.close()

    asyncio.run(story())


def test_a_wrong_password_is_refused_and_not_tried_for_ever():
    async def story():
        registrar = await open_registrar(Address("udp", "127.0.0.1", 0), (DOMAIN,), guard=keeper(user1="secret"))
        agent = await Player().open(
            f"sip:user1@{DOMAIN}", home=registrar.local, credentials=Credentials("user1", "guess")
        )
        agent.do("register")
        failure = await agent.until(RegistrationFailed)
        assert (failure.status, failure.retry_seconds) == (401, None)
        await agent.close()
        await registrar.close()

    asyncio.run(story())


def test_nobody_at_home():
    async def story():
        registrar = await open_registrar(Address("udp", "127.0.0.1", 0), (DOMAIN,))
        agent = await Player().open(f"sip:user1@{DOMAIN}", home=registrar.local)
        agent.do("invite", f"sip:broker@{DOMAIN}", agent.media())
        assert (await agent.until(Failed)).status == 480
        agent.do("options", f"sip:{DOMAIN}")
        assert (await agent.until(OptionsAnswered)).status == 200
        await agent.close()
        await registrar.close()

    asyncio.run(story())


def test_a_connection_that_cannot_be_made_is_a_failure_at_once():
    async def story():
        closed = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = closed.sockets[0].getsockname()[1]
        closed.close()
        agent = await Player().open("sip:user1@127.0.0.1", transport="tcp")
        agent.do("invite", f"sip:broker@127.0.0.1:{port};transport=tcp", agent.media())
        assert (await agent.until(Failed)).status == 408
        await agent.close()

    asyncio.run(story())


def test_a_name_is_looked_up():
    async def story():
        broker = await Player().open("sip:broker@localhost")
        agent = await Player().open("sip:user1@localhost", home=Address("udp", "localhost", broker.local.port))
        agent.do("invite", f"sip:broker@localhost:{broker.local.port}", agent.media())
        assert (await agent.until(Established)).remote.media.host == "127.0.0.1"
        agent.do("options", "sip:x@no-such-name.invalid")
        await agent.close()
        await broker.close()

    asyncio.run(story())


def test_a_port_that_is_taken_by_tcp_is_not_used(monkeypatch):
    listen, refused = Streams.listen, []

    async def once(self, host, port):
        if not refused:
            refused.append(port)
            raise OSError("taken")
        await listen(self, host, port)

    monkeypatch.setattr(Streams, "listen", once)

    async def story():
        agent = await Player().open("sip:user1@127.0.0.1", transport="tcp")
        assert agent.local.port not in refused
        with pytest.raises(OSError, match="in use"):
            await open_registrar(agent.local, ("lac.example",))
        await agent.close()

    asyncio.run(story())


def test_an_endpoint_listens_on_an_address_not_on_a_name():
    with pytest.raises(SipError, match="listens on a numeric address, not on 'localhost'"):
        asyncio.run(open_registrar(Address("udp", "localhost", 0), ("lac.example",)))


def test_after_the_end_nothing_is_sent_or_told():
    async def story():
        broker = await Player().open("sip:broker@127.0.0.1")
        agent = await Player().open("sip:user1@127.0.0.1", home=broker.local)
        await agent.close()
        agent.do("invite", "sip:broker@127.0.0.1", agent.media())
        await asyncio.sleep(0.1)
        assert broker.events == []
        await broker.close()

    asyncio.run(story())


def test_a_name_without_an_address_is_a_failure_at_once(monkeypatch):
    async def story():
        loop = asyncio.get_running_loop()

        async def unknown(*arguments, **named):
            raise OSError("no such name")

        monkeypatch.setattr(loop, "getaddrinfo", unknown)
        agent = await Player().open("sip:user1@127.0.0.1")
        for _ in range(2):
            agent.do("options", "sip:broker@no-such-name.invalid")
        assert (await agent.until(OptionsAnswered, 2)).status == 408
        await agent.close()

    asyncio.run(story())


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_a_move_to_where_the_port_is_taken_or_where_nobody_can_be(transport):
    async def story():
        broker = await Player().open("sip:broker@127.0.0.1", transport=transport)
        agent = await Player().open("sip:user1@127.0.0.1", "127.0.0.2", home=broker.local, transport=transport)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.3", agent.local.port))
            before = agent.local
            await agent.endpoint.rebind("127.0.0.3")
            assert agent.local.host == "127.0.0.3"
            assert agent.local.port != before.port
        with pytest.raises(OSError, match="assign"):
            await agent.endpoint.rebind("192.0.2.1")
        with pytest.raises(OSError, match="in use"):
            await agent.endpoint.rebind("127.0.0.3", agent.local.port)
        agent.do("invite", f"sip:broker@127.0.0.1:{broker.local.port};transport={transport}", agent.media())
        assert (await broker.until(Established)).remote.media.host == "127.0.0.3"
        await agent.close()
        await broker.close()

    asyncio.run(story())


def test_an_application_that_fails_keeps_nothing_back():
    async def story():
        told = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["message"]))
        broker = await Player().open("sip:broker@127.0.0.1")
        agent = await Player().open("sip:user1@127.0.0.1", home=broker.local)
        agent._told = None
        agent.endpoint._on_event = lambda event: 1 / 0
        agent.do("invite", "sip:broker@127.0.0.1", agent.media())
        await broker.until(Established)  # the ACK came, in spite of it
        assert told == ["unexpected error in Established of UserAgent"]
        await agent.close()
        await broker.close()

    asyncio.run(story())
