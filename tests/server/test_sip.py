"""The service over SIP and RUDP, with the client and the embedded registrar; addresses change for real."""

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager
from uuid import uuid4

import msgspec
import pytest
import trustme

import recado
from client.service import collect
from peers.kamailio import Kamailio, needs
from peers.ports import free_port
from recado.client.client import Client, connect
from recado.client.errors import ClientError
from recado.client.transports.sip import SipTransport
from recado.model.codec import read_event
from recado.net import RudpEndpoint
from recado.net.address_policy import may_send
from recado.net.sip import open_endpoint
from recado.protocols.rudp import profile
from recado.protocols.session import messages as m
from recado.protocols.sip import events
from recado.protocols.sip.agent import UserAgent
from recado.protocols.sip.events import AgentSettings
from recado.protocols.sip.limits import LAB
from recado.protocols.sip.sdp import Media
from recado.protocols.sip.uri import Address, read_address
from recado.server.config import ConfigError, make_config
from recado.server.permissions import Principal
from recado.server.sip import SipAuthentication
from recado.server.tokens import SIP_REALM, Tokens, add_token
from server.running import agent, serving, until

ADMIN = Principal("root", admin=True)
SIP = {"registrar": "embedded", "port": 0, "rudp_port": 0, "profile": "lab"}


@asynccontextmanager
async def sip_serving(folder, **sections):
    async with serving(folder, sip={**SIP, **sections.pop("sip", {})}, **sections) as server:
        yield server


def url(server, user="ana", password="", domain="localhost", transport="udp"):
    who = f"{user}:{password}" if password else user
    return f"recado+sip://{who}@{domain};registrar={server.sip_address};profile=lab;transport={transport}"


def client_at(server, host, device="phone", transport="udp", **more):
    """A client whose device is at an address that the test changes."""
    quick = {"first_wait": 0.05, "longest_wait": 0.2, **more}
    options = connect(url(server, transport=transport), device=device, **quick).options
    line = SipTransport(options.target, options.device, poll_seconds=0.02)
    line.host = host
    return Client(options, line), line


def switch_off(line):
    """The device is gone without a word: it sends nothing more, and hears nothing, so it does not come back either."""
    link, endpoint = line._link._driver, line._endpoint
    assert all(map(callable, (link._send, link.tell, endpoint._send_datagram)))  # what is replaced is used
    link._send = lambda address, datagram: True
    link.tell = endpoint._driver.tell = lambda stimulus: None
    endpoint._send_datagram = lambda data, to: None
    line._registered = False  # so that nothing waits for answers in the end


def states(server, user="ana"):
    return {info.device: info.connected for info in server.engine.sessions(ADMIN, user)}


def waiting(server, user="ana"):
    return sum(info.length for info in server.engine.mailboxes(ADMIN, user))


async def publish(server, numbers):
    for number in numbers:
        event = read_event({"id": str(uuid4()), "type": "Tick", "source": "/x", "n": number})
        await server.engine.publish(Principal("exchange"), [event])


def numbers(notifications):
    return [one["n"] for one in notifications]


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as tried:
            tried.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    "host", ["127.0.0.1", pytest.param("::1", marks=pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6"))]
)
def test_publish_subscribe_and_receive(tmp_path, host):
    async def main():
        async with sip_serving(tmp_path, sip={"host": host}) as server:
            async with recado.connect(url(server), device="phone") as ana:
                every = await ana.subscribe("n >= 0", id="all").ready()
                assert [await ana.publish("Tick", {"n": n}) for n in range(3)] == [0, 1, 2]
                assert numbers(await collect(every, 3)) == [0, 1, 2]
                assert [one["id"] for one in await ana.subscriptions()] == ["all"]
                await until(lambda: waiting(server) == 0)
                (info,) = server.engine.sessions(ADMIN, "ana")
                assert (info.device, info.kind, info.connected) == ("phone", "rudp", True)
            await until(lambda: states(server) == {})
            assert [held.id for held in server.engine.subscriptions(ADMIN, "ana")] == ["all"]

    asyncio.run(main())


def test_a_session_whose_sip_goes_over_tcp(tmp_path):
    async def main():
        async with sip_serving(tmp_path, sip={"transport": "tcp"}) as server:
            client, line = client_at(server, "127.0.0.2", transport="tcp")
            async with client as ana:
                for endpoint in (server._sip._endpoint, line._endpoint):
                    assert (endpoint.local.transport, len(endpoint._streams) > 0) == ("tcp", True)
                every = await ana.subscribe("n >= 0", id="all").ready()
                assert [await ana.publish("Tick", {"n": n}) for n in range(3)] == [0, 1, 2]
                line.host = "127.0.0.3"
                await until(lambda: line.handovers == 1)
                await publish(server, range(3, 6))
                assert numbers(await collect(every, 6)) == list(range(6))
                await until(lambda: server.engine.sessions(ADMIN, "ana")[0].address.startswith("127.0.0.3"))
                assert states(server) == {"phone": True}
            await until(lambda: states(server) == {})

    asyncio.run(main())


def test_a_renewed_certificate_of_sip_is_taken_without_a_new_start(tmp_path, caplog):
    authority, path = trustme.CA(), tmp_path / "both.pem"
    trust = ssl.create_default_context()
    authority.configure_trust(trust)

    def renew():
        made = authority.issue_cert("127.0.0.1")
        made.private_key_and_cert_chain_pem.write_to_path(path)
        path.chmod(0o600)
        return ssl.PEM_cert_to_DER_cert(made.cert_chain_pems[0].bytes().decode())

    async def shown(server):
        port = server.sip_address.rpartition(":")[2]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname="127.0.0.1")
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return found

    async def main():
        first = renew()
        async with sip_serving(tmp_path, sip={"certificate": str(path), "key": str(path), "tls_port": 0}) as server:
            assert await shown(server) == first
            second = renew()
            assert await shown(server) == first, "nobody said that it is to be read"
            server.reload()
            assert await shown(server) == second != first
            path.write_bytes(b"none")
            server.reload()
            assert "nothing was changed" in caplog.text
            assert await shown(server) == second

    asyncio.run(main())


def test_a_session_whose_sip_goes_over_tls(tmp_path):
    """The registrar of a certificate; who comes in clear from elsewhere is not heard, and a hand-over works as ever."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    (tmp_path / "both.pem").chmod(0o600)
    both = str(tmp_path / "both.pem")

    async def main():
        async with sip_serving(tmp_path, sip={"certificate": both, "key": both, "tls_port": 0}) as server:
            secure = f"{url(server, transport='tls')};ca={tmp_path / 'ca.pem'}"
            options = connect(secure, device="phone", first_wait=0.05, longest_wait=0.2).options
            line = SipTransport(options.target, options.device, poll_seconds=0.02)
            line.host = "127.0.0.2"
            async with Client(options, line) as ana:
                every = await ana.subscribe("n >= 0", id="all").ready()
                assert [await ana.publish("Tick", {"n": n}) for n in range(3)] == [0, 1, 2]
                assert {one.transport for one in line._endpoint._streams._connections} == {"tls"}
                line.host = "127.0.0.3"
                await until(lambda: line.handovers == 1)
                await publish(server, range(3, 6))
                assert numbers(await collect(every, 6)) == list(range(6))
                await until(lambda: server.engine.sessions(ADMIN, "ana")[0].address.startswith("127.0.0.3"))
            await until(lambda: states(server) == {})
            stranger = options.target.sip
            for changes, wait in (({"transport": "udp"}, 1.0), ({"ca": ""}, 1.0)):
                target = msgspec.structs.replace(options.target, sip=msgspec.structs.replace(stranger, **changes))
                other = SipTransport(target, "x", poll_seconds=0.02)
                other.host = "127.0.0.4"
                client = Client(msgspec.structs.replace(options, target=target), other)
                with pytest.raises((TimeoutError, ClientError)):
                    async with asyncio.timeout(wait), client:
                        await client.publish("Tick", {})

    asyncio.run(main())


def test_a_device_that_moves_in_mid_stream_loses_and_repeats_nothing(tmp_path):
    async def main():
        async with sip_serving(tmp_path) as server:
            client, line = client_at(server, "127.0.0.2")
            async with client as ana:
                every = await ana.subscribe(id="all").ready()
                for number in range(150):
                    await publish(server, [number])
                    if number % 50 == 25:
                        line.host = "127.0.0.3" if line.host == "127.0.0.2" else "127.0.0.2"
                    await asyncio.sleep(0.005)
                assert numbers(await collect(every, 150)) == list(range(150))
                await until(lambda: line.handovers == 3)
                await until(lambda: server.engine.sessions(ADMIN, "ana")[0].address.startswith(line.host))

    asyncio.run(main())


def test_a_device_that_was_switched_off_gets_what_waited_in_order(tmp_path):
    async def main():
        async with sip_serving(tmp_path) as server:
            client, line = client_at(server, "127.0.0.2")
            await client.__aenter__()
            every = await client.subscribe(id="all", ttl=600).ready()
            await publish(server, range(5))
            assert numbers(await collect(every, 5)) == list(range(5))
            await until(lambda: waiting(server) == 0)
            switch_off(line)
            await publish(server, range(5, 40))
            await until(lambda: states(server) == {"phone": False})
            await publish(server, range(40, 60))
            await until(lambda: waiting(server) == 55)
            again, _ = client_at(server, "127.0.0.3")
            async with again as ana:
                got = await collect(ana.follow("all"), 55)
                assert numbers(got) == list(range(5, 60))
                assert all(one.queued for one in got)
                await until(lambda: waiting(server) == 0)
            await client.close()

    asyncio.run(main())


def test_two_devices_one_of_them_dead(tmp_path):
    """Vector 10: the live one gets it, the user stays connected, nothing is queued; both dead: queued once."""

    async def main():
        async with sip_serving(tmp_path) as server:
            phone, phone_line = client_at(server, "127.0.0.2")
            laptop, laptop_line = client_at(server, "127.0.0.3", device="laptop")
            await phone.__aenter__()
            await laptop.__aenter__()
            await phone.subscribe(id="all", ttl=600).ready()
            await until(lambda: states(server) == {"phone": True, "laptop": True})
            await publish(server, [-1] * 20)  # from these RUDP learns how near the devices are
            assert len(await collect(laptop.follow("all"), 20)) == 20
            await until(lambda: waiting(server) == 0)
            switch_off(phone_line)
            await publish(server, [1])
            assert numbers(await collect(laptop.follow("all"), 1)) == [1]
            await until(lambda: states(server) == {"phone": False, "laptop": True})
            assert waiting(server) == 0
            switch_off(laptop_line)
            await publish(server, [2])
            await until(lambda: states(server) == {"phone": False, "laptop": False})
            await until(lambda: waiting(server) == 1)
            await asyncio.gather(phone.close(), laptop.close())

    asyncio.run(main())


def test_a_websocket_takes_the_device_over(tmp_path):
    async def main():
        async with sip_serving(tmp_path) as server:
            told = []
            client, _ = client_at(server, "127.0.0.2", on_state=lambda state, why: told.append((state, why)))
            async with client as ana:
                await ana.subscribe(id="all", ttl=600).ready()
                async with agent(server, "ana", "phone") as other:
                    await until(lambda: told[-1][0] != "CONNECTED")
                    await asyncio.sleep(0.3)
                    (info,) = server.engine.sessions(ADMIN, "ana")
                    assert info.kind == "websocket", "the device does not take itself back"
                    await publish(server, [1])
                    await other.next(m.Notify)

    asyncio.run(main())


def test_what_a_loop_failed_on_comes_again_and_a_slow_one_gets_a_window(tmp_path):
    async def fail(server):
        async with recado.connect(url(server), device="phone", window=8) as ana:
            every = await ana.subscribe("n >= 0", id="all", ttl=600).ready()
            await publish(server, range(50))
            await until(lambda: every.pending >= 8)
            async for _ in every:
                raise ValueError("mine")

    async def main():
        async with sip_serving(tmp_path, sessions={"window": 8}) as server:
            with pytest.raises(ValueError, match="mine"):
                await fail(server)
            assert waiting(server) == 50, "RUDP's own acknowledgement confirms nothing"
            async with recado.connect(url(server), device="phone") as ana:
                assert numbers(await collect(ana.follow("all"), 50)) == list(range(50))
                await until(lambda: waiting(server) == 0)

    asyncio.run(main())


def test_recover_and_discard(tmp_path):
    """Vector 13."""

    async def main():
        async with sip_serving(tmp_path) as server:
            async with recado.connect(url(server), device="phone") as ana:
                await ana.subscribe("n >= 0", id="all", ttl=600).ready()
            async with recado.connect(url(server), device="phone", existing="recover") as ana:
                assert [one["id"] for one in await ana.subscriptions()] == ["all"]
            async with recado.connect(url(server), device="phone", existing="discard") as ana:
                assert await ana.subscriptions() == []

    asyncio.run(main())


def test_a_registrar_whose_name_does_not_exist_is_a_mistake(tmp_path, monkeypatch):
    async def unknown(*_):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def main():
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
        with pytest.raises(ConfigError, match=r"\$\.sip\.registrar: nonsense: Name or service"):
            async with sip_serving(tmp_path, sip={"registrar": "nonsense"}):
                pass

    asyncio.run(main())


def test_a_password_is_a_token_for_sip(tmp_path):
    async def main():
        tokens = tmp_path / "tokens"
        password = add_token(tokens, "ana's phone", "ana", sip=True, deny_publish=("secret.*",))
        plain = add_token(tokens, "bruno", "bruno")
        access = {"tokens": str(tokens), "anonymous": False}
        limits = {"failed_logins_per_minute": 2}
        async with sip_serving(tmp_path, access=access, limits=limits) as server:
            async with recado.connect(url(server, password=password), device="phone") as ana:
                assert await ana.publish("Tick", {"n": 1}) == 0
                with pytest.raises(ClientError, match="may not publish"):
                    await ana.publish("secret.Tick", {"n": 1})
            assert server.engine.metrics.failed_logins == 0
            for user, wrong, status in (("ana", "guess", 401), ("bruno", plain, 401), ("carla", password, 503)):
                with pytest.raises(ClientError, match=f"refused {user}: {status}"):
                    async with recado.connect(url(server, user, wrong), device="phone", timeout=0):
                        pass
            assert server.engine.metrics.failed_logins == 3, "as those of HTTP, and with the same bound"
            assert server.engine.broker.state.users.keys() <= {"ana"}

    asyncio.run(main())


def test_the_secret_of_an_address_does_not_prove_the_bare_name(tmp_path):
    tokens = tmp_path / "tokens"
    for user in ("ana", "ana@localhost", "ana@elsewhere.example"):
        add_token(tokens, user, user, sip=True)
    people = SipAuthentication(make_config({"access": {"anonymous": False}}), Tokens(tokens), lambda host: 0.0)
    assert people._secret("ana", SIP_REALM, "SHA-256")
    assert people._secret("ana@elsewhere.example", SIP_REALM, "SHA-256")
    assert people._secret("ana@LOCALHOST", SIP_REALM, "SHA-256") is None
    assert people._secret("ana@localhost", SIP_REALM, "SHA-256") is None


def test_through_a_real_registrar_and_proxy(tmp_path):
    needs("kamailio", "kamcmd")

    async def main(kamailio):
        home = {"registrar": f"127.0.0.1:{kamailio.port}", "uri": "sip:broker@lac.example"}
        async with sip_serving(tmp_path, sip=home) as server:
            assert server.sip_address == f"127.0.0.1:{kamailio.port}"
            async with recado.connect(url(server, domain="lac.example"), device="phone") as ana:
                every = await ana.subscribe("n >= 0", id="all").ready()
                await publish(server, range(5))
                assert numbers(await collect(every, 5)) == list(range(5))
                assert list(states(server)) == ["phone"]
        assert kamailio.contacts() == [], "the service takes its registration away"

    kamailio = Kamailio(tmp_path, free_port())
    try:
        asyncio.run(main(kamailio))
    finally:
        kamailio.stop()


@pytest.mark.parametrize("resume", [False, True])
def test_a_device_that_speaks_though_it_counts_as_lost(tmp_path, monkeypatch, resume):
    """It does not know. It is resumed if that is wanted, and otherwise its session ends and it opens another one."""
    monkeypatch.setattr("recado.server.sip_consumer.UPDATE_SECONDS", 0.1)

    async def main():
        async with sip_serving(tmp_path, sessions={"resume_on_data": resume}) as server:
            client, _ = client_at(server, "127.0.0.2")
            async with client as ana:
                every = await ana.subscribe(id="all", ttl=600).ready()
                (consumer,) = server._sip._consumers.values()
                consumer.link.move(("127.0.0.8", 9))  # nobody is there, so RUDP gives up
                consumer.link.post_ping()
                await until(lambda: states(server) == {"phone": False})
                consumer.link._connection._sender.address = ("127.0.0.2", client._session._transport._rudp.address[1])
                await publish(server, [1])
                await ana.publish("Tick", {"n": 2})
                assert numbers(await collect(every, 2)) == [1, 2]
                assert (consumer in server._sip._consumers.values()) is resume

    asyncio.run(main())


def test_a_device_that_stays_away_is_forgotten(tmp_path):
    async def main():
        async with sip_serving(tmp_path, sessions={"leg_ttl_seconds": 0.1}) as server:
            client, line = client_at(server, "127.0.0.2")
            await client.__aenter__()
            await until(lambda: states(server) == {"phone": True})
            switch_off(line)
            next(iter(server._sip._consumers.values())).link.post_ping()
            await until(lambda: server.gateway.connections == 0)
            assert states(server) == {"phone": False}
            await client.close()

    asyncio.run(main())


def test_more_subscriptions_than_one_message_of_rudp_carries(tmp_path):
    async def main():
        async with sip_serving(tmp_path) as server:
            async with recado.connect(server.url, user="ana", device="desk") as desk:
                long = f"n >= 0 and Stock != '{'x' * 16_000}'"
                await asyncio.gather(*(desk.subscribe(long, id=f"s-{number}").ready() for number in range(80)))
            async with recado.connect(url(server), device="phone", existing="recover") as ana:
                names = sorted(one["id"] for one in await ana.subscriptions())
                assert names == sorted(f"s-{number}" for number in range(80))

    asyncio.run(main())


# -- strangers ---------------------------------------------------------------------------------------------------------


class Caller:
    """A user agent by hand, which can say anything about where it waits for data."""

    async def open(self, server, user="eve"):
        self.told = asyncio.Queue()
        home = read_address(server.sip_address)
        settings = AgentSettings(user=f"sip:{user}@localhost", device="d", home=home, timers=LAB)
        local = Address("udp", "127.0.0.4", 0)
        self.endpoint = await open_endpoint(lambda bound: UserAgent(settings, bound), local, self.told.put_nowait)
        return self

    def invite(self, host, port, **media):
        wanted = Media(host=host, port=port, **{"connection": 7, "key": bytes(16), "device": "d", **media})
        return self.endpoint.invite("sip:broker@localhost", wanted)

    async def next(self, kind):
        async with asyncio.timeout(60):
            while not isinstance(event := await self.told.get(), kind):
                pass
        return event


@asynccontextmanager
async def calling(server, **who):
    caller = await Caller().open(server, **who)
    try:
        yield caller
    finally:
        await caller.endpoint.close()


class Victim(asyncio.DatagramProtocol):
    def __init__(self):
        self.got = []

    def datagram_received(self, data, addr):
        self.got.append(data)


@asynccontextmanager
async def victim():
    transport, found = await asyncio.get_running_loop().create_datagram_endpoint(Victim, local_addr=("127.0.0.9", 0))
    found.port = transport.get_extra_info("sockname")[1]
    try:
        yield found
    finally:
        transport.close()


def test_only_pings_go_to_an_address_that_never_spoke(tmp_path):
    """Also not after a hand-over that leads to somebody else."""

    async def main():
        async with sip_serving(tmp_path) as server, calling(server) as eve, victim() as third:
            eve.invite("127.0.0.9", third.port)
            answer = await eve.next(events.Established)
            rudp = RudpEndpoint(("127.0.0.4", 0), profile("lab"))
            remote = answer.remote.media
            heard = []
            keys = {"local_key": bytes(16), "remote_key": remote.key}
            link = rudp.open((remote.host, remote.port), 7, remote.connection, heard.append, print, **keys)
            await link.send(m.encode([m.QuerySubs(1)]))  # from elsewhere than the description says
            await until(lambda: len(third.got) >= 2)
            assert all(len(datagram) == 40 for datagram in third.got), "headers alone"
            assert not heard
            assert states(server, "eve") == {}

            host, port = rudp.address
            eve.endpoint.ask(events.Reinvite(answer.call, Media(host=host, port=port, connection=7, key=bytes(16))))
            await until(lambda: heard)
            assert states(server, "eve") == {"d": True}
            before = len(third.got)
            await link.send(m.encode([m.Subscribe(2, msgspec.Raw(b'{"id": "all"}'))]))
            eve.endpoint.ask(
                events.Reinvite(answer.call, Media(host="127.0.0.9", port=third.port, connection=7, key=bytes(16)))
            )
            await eve.next(events.Updated)
            await publish(server, range(5))
            await until(lambda: any(b"NOTIFY" in one for one in heard))
            assert len(third.got) == before
            rudp.close()

    asyncio.run(main())


def test_invitations_that_cannot_be_served_are_refused(tmp_path):
    async def main():
        async with sip_serving(tmp_path) as server, calling(server) as eve:
            for status, media in (
                (488, {"host": "10.1.2.3", "port": 9}),
                (488, {"host": "224.0.0.1", "port": 9}),
                (488, {"host": "127.0.0.4", "port": 9, "connection": None}),
                (488, {"host": "127.0.0.4", "port": 9, "key": None}),
                (403, {"host": "127.0.0.4", "port": 9, "device": "a:b"}),
            ):
                eve.invite(**media)
                assert (await eve.next(events.Failed)).status == status
            assert server.gateway.connections == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("to", "own", "allowed"),
    [
        ("127.0.0.2", "127.0.0.1", True),
        ("192.0.2.1", "127.0.0.1", False),
        ("127.0.0.1", "198.41.0.4", False),
        ("10.0.0.7", "10.0.0.1", True),
        ("10.0.0.7", "198.41.0.4", False),
        ("8.8.8.8", "198.41.0.4", True),
        ("8.8.8.8", "10.0.0.1", True),
        ("224.0.0.1", "10.0.0.1", False),
        ("0.0.0.0", "10.0.0.1", False),
        ("255.255.255.255", "10.0.0.1", False),
        ("169.254.1.1", "10.0.0.1", False),
        ("::1", "127.0.0.1", False),
        ("100.64.0.1", "198.41.0.4", False),
        ("100.64.0.1", "10.0.0.1", True),
        ("2001:4860::8888", "2606:4700::1", True),
        ("fd00::7", "fd00::1", True),
        ("fd00::7", "2606:4700::1", False),
        ("fec0::7", "2606:4700::1", False),
        ("2002:0a00:0001::1", "2606:4700::1", False),
        ("64:ff9b::a00:1", "2606:4700::1", False),
        ("64:ff9b::7f00:1", "fd00::1", False),
        ("64:ff9b::a9fe:a9fe", "fd00::1", False),
        ("::ffff:127.0.0.1", "::1", False),
        ("::1", "::1", True),
        ("::1", "2606:4700::1", False),
    ],
)
def test_where_data_may_be_sent(to, own, allowed):
    assert may_send((to, 9), (own, 7261)) is allowed


def test_the_service_sends_nothing_to_itself():
    assert not may_send(("127.0.0.1", 7261), ("127.0.0.1", 7261))


def test_the_end_of_the_service_is_told(tmp_path):
    async def main():
        told = []
        async with sip_serving(tmp_path) as server:
            client, _ = client_at(server, "127.0.0.2", on_state=lambda state, why: told.append((state, why)))
            await client.__aenter__()
            await until(lambda: states(server) == {"phone": True})
        assert any(state == "DISCONNECTED" and "draining" in why for state, why in told)
        await client.close()

    asyncio.run(main())
