"""The client against a real service, over WebSocket."""

import asyncio
import socket
from datetime import UTC, datetime

import pytest

import recado
from client.service import Wire, collect, connect, eventually, port_of, running
from recado.client import Dropped, NotAllowed, Refused, SessionEnded, TooManyInFlight, Unreachable
from recado.errors import RecadoError
from recado.model.event import Event
from recado.server.permissions import Principal
from recado.server.tokens import add_token


def test_what_is_published_comes_to_those_who_asked(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server) as ana, connect(server, "bob") as bob:
            cheap = await ana.subscribe("Price < 25", type="Tick").ready()
            every = await ana.subscribe(type="Tick").ready()
            positions = [await bob.publish("Tick", {"Price": price}) for price in (24, 25, 3)]
            assert positions == [0, 1, 2]
            first = await collect(cheap, 2)
            assert [one["Price"] for one in first] == [24, 3]
            assert [one.position for one in first] == [0, 2]
            assert [one["Price"] for one in await collect(every, 3)] == [24, 25, 3]
            await eventually(lambda: ana.pending == 0)
            assert (ana.delivered, cheap.delivered, every.delivered) == (5, 2, 3)
            assert ana.state == "CONNECTED"
            assert (ana.user, bob.user) == ("ana", "bob")

    asyncio.run(main())


def test_filters_in_every_form(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server) as ana:
            sql = await ana.subscribe("Price < 25 AND Stock LIKE 'P%'", syntax="cesql").ready()
            prefix = await ana.subscribe(filters=[{"prefix": {"type": "Ti"}}]).ready()
            with pytest.raises(Refused, match="syntax"):
                await ana.subscribe("Price < 25", syntax="none").ready()
            await ana.publish("Tick", {"Price": 24, "Stock": "VALE3"})
            await ana.publish("Tock", {"Price": 24, "Stock": "PETR4"})
            assert [one.type for one in await collect(sql, 1)] == ["Tock"]
            assert [one.type for one in await collect(prefix, 1)] == ["Tick"]

    asyncio.run(main())


def test_events_in_every_form(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server) as ana:
            every = await ana.subscribe().ready()
            when = datetime(2026, 11, 16, tzinfo=UTC)
            await ana.publish("Tick", {"at": when, "tags": ["a", "b"], "deep": {"er": 1}})
            await ana.publish(Event("e-1", "Tick", attributes={"Price": 1}))
            await ana.publish(Event("", "Tick", attributes={"Price": 1.5}))
            await ana.publish({"type": "Tick", "Price": 2})
            await ana.publish({"specversion": "1.0", "id": "c-1", "source": "/x", "type": "Tick", "data": {"Price": 3}})
            await ana.publish(b'{"id": "r-1", "type": "Tick", "Price": 4}')
            got = await collect(every, 6)
            assert got[0].event.attributes == {"at": when, "tags": ("a", "b"), "deep.er": 1}
            assert [one.get("Price") for one in got] == [None, 1, 1.5, 2, 3, 4]
            assert [one.id for one in got[1:]] == ["e-1", got[2].id, got[3].id, "c-1", "r-1"]
            assert got[4].event.source == "/x"
            assert "Tick" in repr(got[0])

    asyncio.run(main())


@pytest.mark.parametrize("what", [{"type": 7}, b"{", {"id": "x", "specversion": "2.0"}])
def test_what_is_no_event_is_refused(tmp_path, what):
    async def main():
        async with running(tmp_path) as server, connect(server) as ana:
            with pytest.raises(RecadoError):
                await ana.publish(what)
            assert await ana.publish("Tick") == 0, "the session goes on"

    asyncio.run(main())


def test_a_filter_that_cannot_be_read_is_told_with_its_place(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server) as ana:
            with pytest.raises(Refused, match="Price <") as caught:
                async for _ in ana.subscribe("Price < "):
                    pass
            assert caught.value.code == 400
            with pytest.raises(Refused, match="nothing"):
                await ana.renew("nothing")

    asyncio.run(main())


def test_subscriptions_are_listed_renewed_and_cancelled(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server) as ana:
            constraints = [{"kind": "frequency", "amount": 1, "unit": "hours"}]
            kept = await ana.subscribe("Price < 25", id="kept", ttl=60, constraints=constraints).ready()
            (found,) = await ana.subscriptions()
            assert (found["id"], found["filter"], found["scope"]) == ("kept", "Price < 25", "all")
            assert len(found["constraints"]) == 1
            assert await kept.renew(600) > found["expires_at"]
            async with ana.subscribe("Price > 1") as passing:
                assert passing.id in [one["id"] for one in await ana.subscriptions()]
            assert [one["id"] for one in await ana.subscriptions()] == ["kept"]
            await kept.cancel()
            assert [one async for one in kept] == [], "a loop over a cancelled one ends"
            await ana.subscribe(id="more").ready()
            await ana.discard()
            assert await ana.subscriptions() == []

    asyncio.run(main())


def test_what_is_not_durable_ends_with_the_client(tmp_path):
    async def main():
        async with running(tmp_path) as server:
            async with connect(server) as ana:
                await ana.subscribe("Price < 25").ready()
                await ana.subscribe("Price < 25", id="kept").ready()
            async with connect(server) as ana:
                assert [one["id"] for one in await ana.subscriptions()] == ["kept"]

    asyncio.run(main())


def test_a_subscriber_that_was_away_gets_what_it_missed(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server, "bob") as bob:
            async with connect(server, device="phone") as ana:
                await ana.subscribe("Price < 25", id="cheap").ready()
            await bob.publish_all({"type": "Tick", "Price": price} for price in range(20, 30))
            async with connect(server, device="phone") as ana:
                got = await collect(ana.subscribe("Price < 25", id="cheap"), 5)
                assert [one["Price"] for one in got] == [20, 21, 22, 23, 24]
                assert all(one.queued for one in got)
            async with connect(server, device="phone") as ana:
                await bob.publish("Tick", {"Price": 1})
                (only,) = await collect(ana.subscribe("Price < 25", id="cheap"), 1)
                assert only["Price"] == 1, "what was acknowledged does not come again"

    asyncio.run(main())


def test_what_a_loop_failed_on_comes_again(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server, "bob") as bob:
            with pytest.raises(ZeroDivisionError):
                await fail(server, bob)
            async with connect(server) as ana:
                assert [one["n"] for one in await collect(ana.follow("all"), 2)] == [0, 2]

    asyncio.run(main())


async def fail(server, bob):
    async with connect(server) as ana:
        cheap = await ana.subscribe(id="all").ready()
        await bob.publish_all([{"n": 1}, {"n": 0}, {"n": 2}])
        async for one in cheap:
            1 / one["n"]


def test_explicit_acknowledgement_in_any_order(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server, "bob") as bob:
            async with connect(server) as ana:
                every = await ana.subscribe(id="all", auto_ack=False).ready()
                await bob.publish_all({"n": number} for number in range(4))
                held = [await anext(every) for _ in range(4)]
                for index in (3, 1, 0):
                    held[index].ack()
                    held[index].ack()
                assert (ana.delivered, ana.pending) == (3, 1)
            async with connect(server) as ana:
                await bob.publish({"n": 4})
                await eventually(lambda: ana.unclaimed == 2)
                got = await collect(ana.follow(), 2)
                assert ana.unclaimed == 0
                assert [one["n"] for one in got] == [2, 4], "all others were confirmed"

    asyncio.run(main())


def test_two_devices_get_everything_and_one_that_asks_for_itself_gets_its_own(tmp_path):
    async def main():
        async with (
            running(tmp_path) as server,
            connect(server, "bob") as bob,
            connect(server, device="phone") as phone,
            connect(server, device="laptop") as laptop,
        ):
            shared = await phone.subscribe("n < 10", id="shared").ready()
            mine = await phone.subscribe("n >= 10", id="mine", scope="this device").ready()
            elsewhere, rest = laptop.follow("shared"), laptop.follow()
            await bob.publish_all([{"n": 1}, {"n": 11}, {"n": 2}])
            assert [one["n"] for one in await collect(shared, 2)] == [1, 2]
            assert [one["n"] for one in await collect(elsewhere, 2)] == [1, 2]
            assert [one["n"] for one in await collect(mine, 1)] == [11]
            assert rest.pending == 0

    asyncio.run(main())


def test_a_device_that_connects_again_takes_its_session_over(tmp_path):
    async def main():
        states = []
        watched = {"device": "phone", "on_state": lambda *one: states.append(one)}
        async with running(tmp_path) as server, connect(server, **watched) as old:
            every = await old.subscribe(id="all").ready()
            async with connect(server, device="phone") as new:
                await eventually(lambda: old.state == "ENDED")
                with pytest.raises(SessionEnded, match="taken over"):
                    await anext(every)
                with pytest.raises(SessionEnded):
                    await old.publish("Tick")
                assert await new.publish("Tick") == 0
                assert len(await collect(new.follow("all"), 1)) == 1
        assert [state for state, _ in states] == ["CONNECTED", "ENDED"]

    asyncio.run(main())


def test_no_service_is_told_with_what_to_do(tmp_path):
    async def main():
        async with running(tmp_path) as server:
            url = server.url
        with pytest.raises(Unreachable, match="recado serve"):
            async with connect(url, timeout=0):
                pass
        with pytest.raises(Unreachable, match="refused"):
            async with connect(url, timeout=0.3):
                pass

    asyncio.run(main())


def test_a_wrong_token_ends_the_attempts(tmp_path):
    async def main():
        async with running(tmp_path) as server:
            with pytest.raises(NotAllowed, match="token"):
                async with connect(server.url.replace("//", "//ana:wrong@")):
                    pass

    asyncio.run(main())


def test_a_token_of_somebody_else_is_told(tmp_path):
    async def main():
        token = add_token(tmp_path / "tokens", "phone", "ana")
        async with running(tmp_path) as server:
            url = server.url.replace("//", f"//:{token}@")
            async with connect(url, user="ana") as ana:
                assert ana.user == "ana"
            with pytest.raises(NotAllowed, match="the token is that of 'ana', not of 'bob'"):
                async with connect(url, user="bob"):
                    pass

    asyncio.run(main())


@pytest.mark.parametrize("url", ["recado://nowhere.invalid", "recado+sip://ana@nowhere.invalid"])
def test_a_name_that_does_not_exist_is_told_at_once(url, monkeypatch):
    async def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def main():
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
        with pytest.raises(Unreachable, match=r"nowhere\.invalid: Name or service not known"):
            async with recado.connect(url, timeout=None):
                pass

    asyncio.run(main())


def test_a_subscription_that_nobody_reads_holds_up_no_other(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server, window=16) as ana:
            unread = await ana.subscribe("n >= 0").ready()
            read = await ana.subscribe("n >= 0").ready()
            await ana.publish_all({"type": "Tick", "n": n} for n in range(200))
            assert [one["n"] for one in await collect(read, 200)] == list(range(200))
            assert (read.pending, unread.pending) == (0, 200)
            assert [one["n"] for one in await collect(unread, 200)] == list(range(200))
            assert ana.delivered == 400

    asyncio.run(main())


def test_what_is_left_of_a_subscription_without_an_id_is_for_nobody(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server, device="phone", window=4) as ana:
            async with ana.subscribe("n >= 0"):
                await ana.publish_all({"type": "Tick", "n": n} for n in range(20))
                await eventually(lambda: ana.pending == 4)
            await eventually(lambda: mailbox(server) == 0)
            assert (ana.pending, ana.delivered) == (0, 0)
            await ana.subscribe("n >= 0").ready()
            await ana.publish_all({"type": "Tick", "n": n} for n in range(20))
            await ana.close(finish=False)
            assert mailbox(server) == 20
            async with connect(server, device="phone"):
                await eventually(lambda: mailbox(server) == 0)

    def mailbox(server):
        return sum(one.length for one in server.engine.mailboxes(Principal("ana")))

    asyncio.run(main())


def test_a_web_server_that_is_no_service():
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 3\r\n\r\nno\n")
        writer.close()

    async def main():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unreachable, match="no event service"):
            async with connect(f"ws://127.0.0.1:{port}", timeout=None):  # it is not tried again
                pass
        server.close()
        await server.wait_closed()

    asyncio.run(main())


def test_the_bound_on_publications_in_flight(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server, in_flight=4) as ana:
            soon = [ana.publish_soon("Tick") for _ in range(4)]
            with pytest.raises(TooManyInFlight, match="4"):
                ana.publish_soon("Tick")
            await ana.room()
            soon.append(ana.publish_soon("Tick"))
            assert await asyncio.gather(*soon) == [0, 1, 2, 3, 4]
            assert await ana.publish_all({"n": n} for n in range(20)) == list(range(5, 25))
            await ana.flush()
            assert ana.unanswered == 0

    asyncio.run(main())


def test_replay_by_pages(tmp_path, monkeypatch):
    monkeypatch.setattr("recado.client.client._PAGE", 7)

    async def main():
        async with running(tmp_path) as server, connect(server) as ana:
            await ana.publish_all({"type": "Tick", "n": n} for n in range(40))
            whole = [(place, event["n"]) async for place, event in ana.replay("n >= 10", type="Tick")]
            assert whole == [(n, n) for n in range(10, 40)]
            some = [place async for place, _ in ana.replay(position=35, limit=3)]
            assert some == [35, 36, 37]
            assert [one async for one in ana.replay(since="2099-01-01T00:00:00Z")] == []

    asyncio.run(main())


def test_an_outbox_that_is_off_and_one_that_overflows(tmp_path):
    async def main():
        async with running(tmp_path) as server, Wire(port_of(server)) as wire:
            async with connect(wire.url, outbox=0) as ana:
                wire.open = False
                wire.cut()
                await eventually(lambda: ana.state == "DISCONNECTED")
                with pytest.raises(Unreachable, match="outbox is off"):
                    await ana.publish("Tick")
                wire.open = True
            async with connect(wire.url, outbox=2) as ana:
                wire.open = False
                wire.cut()
                await eventually(lambda: ana.state == "DISCONNECTED")
                first, *others = [ana.publish_soon("Tick") for _ in range(3)]
                with pytest.raises(Dropped, match="outbox"):
                    await first
                assert ana.given_up == 1
                wire.open = True
                assert sorted(await asyncio.gather(*others)) == [0, 1]

    asyncio.run(main())


def test_a_second_subscription_under_an_id_takes_what_the_first_had_not_given_out(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server) as ana:
            first = await ana.subscribe(id="all").ready()
            for number in range(3):
                await ana.publish("Tick", {"n": number})
            await eventually(lambda: first.pending == 3)
            assert (await anext(first))["n"] == 0
            second = ana.subscribe(id="all")
            assert [one["n"] for one in await collect(second, 2)] == [1, 2]
            assert [one async for one in first] == []
            assert first.delivered == 1

    asyncio.run(main())


def test_a_loop_over_a_subscription_ends_when_another_one_follows_it(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server) as ana:
            for first, second in (
                (await ana.subscribe(id="all").ready(), lambda: ana.follow("all")),
                (ana.follow(), ana.follow),
            ):
                loop = asyncio.ensure_future(anext(first, None))
                await asyncio.sleep(0)
                second()
                async with asyncio.timeout(60):
                    assert await loop is None

    asyncio.run(main())


def test_a_lone_surrogate_is_called_so_before_anything_is_sent(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server) as ana:
            for what in (("Tick", {"a": "\ud800"}), ({"id": "1", "a\udc00": 1},), ("\ud800", {})):
                with pytest.raises(RecadoError, match="lone surrogate"):
                    await ana.publish(*what)
            with pytest.raises(RecadoError, match=r"\$\.filter: has a lone surrogate at character 7"):
                ana.subscribe("a == '\ud800'")
            assert await ana.publish("Tick") == 0

    asyncio.run(main())
