"""The same client over SIP and RUDP, through the embedded registrar; addresses change for real."""

import asyncio

import pytest

import recado
from client.service import collect, eventually
from client.sip_broker import sip_service
from recado.client import Unreachable
from recado.client.client import Client, connect
from recado.client.transports.sip import SipTransport
from recado.protocols.sip.events import Bye


def client_at(url, host, **more):
    """A client whose device is at an address that the test changes."""
    options = connect(url, device="phone", first_wait=0.05, longest_wait=0.2, **more).options
    line = SipTransport(options.target, options.device, poll_seconds=0.02)
    line.host = host
    return Client(options, line), line


def test_publish_and_subscribe_over_sip():
    async def main():
        async with sip_service() as (broker, url), recado.connect(url, device="phone") as ana:
            every = await ana.subscribe("n >= 0", id="all").ready()
            assert [await ana.publish("Tick", {"n": n}) for n in range(3)] == [0, 1, 2]
            assert len({one.nid for one in await collect(every, 3)}) == 3
            await eventually(lambda: not broker.broker.mail)
            assert [one["id"] for one in await ana.subscriptions()] == ["all"]
        assert not broker.calls, "the session was ended"

    asyncio.run(main())


def test_a_device_that_moves_loses_and_repeats_nothing():
    async def main():
        async with sip_service() as (broker, url):
            client, line = client_at(url, "127.0.0.2")
            async with client as ana:
                every = await ana.subscribe(id="all").ready()
                for number in range(100):
                    broker.publish(f"e-{number}")
                    if number % 20 == 10:
                        line.host = "127.0.0.3" if line.host == "127.0.0.2" else "127.0.0.2"
                    await asyncio.sleep(0.01)
                got = [one.id for one in await collect(every, 100)]
                assert got == [f"e-{number}" for number in range(100)]
                await eventually(lambda: line.handovers == 5 and len(broker.updates) >= 5)
                assert ana.state == "CONNECTED"
                assert set(broker.updates) == {"127.0.0.2", "127.0.0.3"}

    asyncio.run(main())


def test_a_device_that_was_unreachable_updates_its_session():
    """RUDP gives up; the agent updates the session at the same address, and sends again what was not answered."""

    async def main():
        states = []
        async with sip_service() as (_broker, url):
            client, line = client_at(url, "127.0.0.2", on_state=lambda state, _: states.append(state))
            async with client as ana:
                every = await ana.subscribe(id="all").ready()
                line._link.move(("127.0.0.1", 9))  # nobody is there
                waiting = ana.publish_soon("Tick")
                await eventually(lambda: "DISCONNECTED" in states)
                assert await waiting == 0
                assert len(await collect(every, 1)) == 1
                assert states[:3] == ["CONNECTED", "DISCONNECTED", "CONNECTED"]

    asyncio.run(main())


def test_a_service_that_forgot_the_session_gets_another_one():
    async def main():
        async with sip_service() as (broker, url):
            client, _line = client_at(url, "127.0.0.2")
            async with client as ana:
                await ana.subscribe(id="all").ready()
                (call,) = broker.calls
                broker.endpoint.ask(Bye(call))
                await eventually(lambda: list(broker.calls) not in ([], [call]))
                await eventually(lambda: ana.state == "CONNECTED")
                assert await ana.publish("Tick") == 0

    asyncio.run(main())


def test_a_service_that_was_killed_and_started_again():
    async def main():
        async with sip_service() as (broker, url):
            client, _line = client_at(url, "127.0.0.2")
            async with client as ana:
                every = await ana.subscribe(id="all").ready()
                await broker.restart()
                waiting = ana.publish_soon("Tick")
                async with asyncio.timeout(30):
                    assert await waiting == 0
                assert len(await collect(every, 1)) == 1

    asyncio.run(main())


def test_no_registrar_is_told():
    async def main():
        with pytest.raises(Unreachable, match=r"ana@lac\.example"):
            async with recado.connect("recado+sip://ana@lac.example;registrar=127.0.0.1:9;profile=lab", timeout=0.5):
                pass

    asyncio.run(main())
