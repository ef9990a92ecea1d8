"""With ``mailbox.per_device`` a device that is away has a mailbox that fills, however it went, until it is given up."""

import asyncio

import pytest

import recado
from client.service import collect
from recado.protocols.session import messages as m
from server.engine_kit import ANA, BEN, Clock, attached, event, opened, settled, story, subscribed
from server.running import agent, http, run, serving, until
from server.test_sip import SIP, numbers, publish, states
from server.test_sip import url as sip_url

PER_DEVICE = {"per_device": True}


async def come_and_go(connect, server):
    """Ana's phone says good-bye while her laptop stays; what is published meanwhile waits for the phone."""
    async with agent(server, device="laptop") as laptop:
        async with connect() as phone:
            await phone.subscribe("n >= 0", id="all").ready()
            await publish(server, [0])
            assert numbers(await collect(phone.follow("all"), 1)) == [0]
        await until(lambda: not states(server).get("phone"))
        await publish(server, range(1, 21))
        for _ in range(21):
            await laptop.send(m.Ack((await laptop.next(m.Notify)).nid))
        async with connect() as phone:
            assert numbers(await collect(phone.follow("all"), 20)) == list(range(1, 21))
            assert phone.gaps == []


@pytest.mark.parametrize("transport", ["websocket", "sip"])
def test_a_device_that_closes_cleanly_gets_what_came_while_it_was_away(tmp_path, transport):
    async def main():
        async with serving(tmp_path, mailbox=PER_DEVICE, sip=SIP) as server:
            where = server.url if transport == "websocket" else sip_url(server)
            user = {"user": "ana"} if transport == "websocket" else {}
            await come_and_go(lambda: recado.connect(where, device="phone", **user), server)

    run(main())


def test_a_device_that_polls_gets_what_came_while_it_did_not(tmp_path):
    async def main():
        async with serving(tmp_path, mailbox=PER_DEVICE, limits={"poll_seconds": 0.05}) as server, http(server) as ana:
            await ana.post("/v1/subscriptions", json={"id": "all"})
            await ana.post("/v1/mailboxes/me/take", json={"device": "cron"})
            async with agent(server, device="laptop") as laptop:
                await until(lambda: not states(server)["cron"])
                await publish(server, range(20))
                for _ in range(20):
                    await laptop.send(m.Ack((await laptop.next(m.Notify)).nid))
            taken = (await ana.post("/v1/mailboxes/me/take", json={"device": "cron"})).json()["notifications"]
            assert [one["event"]["n"] for one in taken] == list(range(20))

    run(main())


@story
async def test_the_mailbox_of_a_device_that_said_good_bye_outlives_a_restart(tmp_path):
    engine = await subscribed(tmp_path, mailbox=PER_DEVICE)
    laptop, phone = await attached(engine, device="laptop"), await attached(engine)
    laptop.auto = engine
    engine.end(phone)
    await engine.publish(BEN, [event(1)])
    await settled(engine)
    await engine.close()
    engine = await opened(tmp_path, mailbox=PER_DEVICE)
    await engine.publish(BEN, [event(2)])
    assert (await attached(engine)).ids == ["1", "2"]
    await engine.close()


@story
async def test_a_device_that_is_given_up_has_no_mailbox(tmp_path):
    engine = await subscribed(tmp_path, mailbox=PER_DEVICE)
    for_laptop, phone = await attached(engine, device="laptop", auto=engine), await attached(engine)
    await engine.publish(BEN, [event(1)])
    await settled(engine)
    engine.end(phone, forget=True)
    await engine.publish(BEN, [event(2)])
    await settled(engine)
    assert for_laptop.ids == ["1", "2"]
    assert {box.device: box.length for box in engine.mailboxes(ANA)} == {"laptop": 0, "phone": 0}
    assert [info.device for info in engine.sessions(ANA)] == ["laptop"]
    again = await attached(engine)
    assert (again.ids, again.notices) == ([], [])
    await engine.close()


@story
async def test_what_the_last_device_had_for_all_goes_to_the_next_one_if_it_is_given_up(tmp_path):
    """A command that publishes under the user's name is a device, too, and takes nothing with it."""
    engine = await subscribed(tmp_path, mailbox=PER_DEVICE)
    await engine.subscribe(ANA, b'{"id": "mine", "scope": "this device"}', "pub-1")
    command = await attached(engine, device="pub-1")
    await engine.publish(BEN, [event(1)])
    await settled(engine)
    assert command.ids == ["1", "1"]
    engine.end(command, forget=True)
    await engine.publish(BEN, [event(2)])
    await settled(engine)
    await engine.close()
    engine = await opened(tmp_path, mailbox=PER_DEVICE)
    phone = await attached(engine)
    assert [(n.sub_id, n.nid >> 20) for n in phone.got] == [("s", 0), ("s", 1)]
    await engine.close()


@story
async def test_a_device_that_was_away_for_too_long_is_told_of_a_gap(tmp_path):
    clock = Clock()
    engine = await subscribed(tmp_path, clock, mailbox=PER_DEVICE, sessions={"leg_ttl_seconds": 60})
    await attached(engine, device="laptop", auto=engine)
    engine.end(await attached(engine))
    clock.pass_(61)
    await engine.maintenance.sweep()
    await engine.publish(BEN, [event(1)])
    await settled(engine)
    phone = await attached(engine)
    assert [(gap.reason, gap.count) for gap in phone.notices] == [("age", 0)]
    await engine.close()


def test_a_device_is_given_up_by_good_bye_by_http_and_by_a_name_drawn_at_random(tmp_path):
    async def main():
        async with serving(tmp_path, mailbox=PER_DEVICE) as server, http(server) as ana:
            async with recado.connect(server.url, user="ana"):
                assert len(states(server)) == 1
            await until(lambda: states(server) == {})
            client = recado.connect(server.url, user="ana", device="phone")
            async with client:
                pass
            await until(lambda: states(server) == {"phone": False})
            client = recado.connect(server.url, user="ana", device="phone")
            async with client:
                await client.close(forget=True)
            await until(lambda: states(server) == {})
            async with recado.connect(server.url, user="ana", device="phone"):
                pass
            assert (await ana.delete("/v1/sessions/me?device=phone")).json() == {"ended": 1}
            assert states(server) == {"phone": False}
            assert (await ana.delete("/v1/sessions/me?device=phone&forget=maybe")).status_code == 400
            assert (await ana.delete("/v1/sessions/me?device=phone&forget=true")).json() == {"ended": 1}
            assert states(server) == {}

    asyncio.run(main())


def test_a_device_is_given_up_over_sip(tmp_path):
    async def main():
        async with serving(tmp_path, mailbox=PER_DEVICE, sip=SIP) as server:
            for forget, left in ((False, {"phone": False}), (True, {})):
                client = recado.connect(sip_url(server), device="phone")
                async with client:
                    await client.close(forget=forget)
                await until(lambda left=left: states(server) == left)

    run(main())
