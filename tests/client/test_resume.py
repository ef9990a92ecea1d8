"""Connections that break and services that restart: nothing is lost, nothing is handed out twice."""

import asyncio
import json
import time
from random import Random

import pytest

from client.service import Wire, collect, connect, eventually, port_of, running
from recado.client import driver
from recado.client.driver import StateFile
from recado.net.clock import SteadyClock
from recado.server.permissions import Principal


@pytest.mark.parametrize("seed", range(3))
def test_cut_connections_lose_and_repeat_nothing(tmp_path, seed):
    """Publisher and subscriber both lose their connection again and again while events flow."""
    rng = Random(seed)

    async def main():
        async with (
            running(tmp_path) as server,
            Wire(port_of(server)) as wire,
            connect(wire.url, device="phone") as ana,
            connect(wire.url, "bob") as bob,
        ):
            every = await ana.subscribe("n >= 0", id="all").ready()
            cutting = asyncio.create_task(cut_often(wire, rng))
            publishing = asyncio.create_task(bob.publish_all({"id": f"e-{n}", "n": n} for n in range(600)))
            got = [one["n"] for one in await collect(every, 600, 60)]
            positions = await publishing
            cutting.cancel()
            assert got == list(range(600))
            assert positions == list(range(600)), "no event is in the log twice"
            assert every.pending == 0

    async def cut_often(wire, rng):
        while True:
            await asyncio.sleep(rng.uniform(0.0, 0.1))
            wire.cut()

    asyncio.run(main())


def test_a_service_that_restarts(tmp_path):
    async def main():
        async with running(tmp_path) as server:
            port = port_of(server)
            url = f"recado://127.0.0.1:{port}"
            clients = connect(url, device="phone"), connect(url, "bob")
            ana, bob = [await one.__aenter__() for one in clients]
            every = await ana.subscribe(id="all").ready()
            await bob.publish("Tick", {"n": 0})
            assert [one["n"] for one in await collect(every, 1)] == [0]
        await eventually(lambda: ana.state == bob.state == "DISCONNECTED")
        waiting = [bob.publish_soon("Tick", {"n": n}) for n in range(1, 5)]
        async with running(tmp_path, port):
            assert await asyncio.gather(*waiting) == [1, 2, 3, 4]
            assert [one["n"] for one in await collect(every, 4)] == [1, 2, 3, 4]
            assert ana.repeated <= 1
            for one in clients:
                await one.close()

    asyncio.run(main())


def test_the_other_host_is_tried(tmp_path):
    async def main():
        async with running(tmp_path / "a") as gone:
            dead = port_of(gone)
        async with running(tmp_path / "b") as server:
            url = f"recado://127.0.0.1:{dead},127.0.0.1:{port_of(server)}"
            async with connect(url) as ana:
                assert await ana.publish("Tick") == 0

    asyncio.run(main())


def test_a_program_that_is_killed_goes_on_from_its_state_file(tmp_path):
    state = tmp_path / "phone.json"

    async def main():
        async with running(tmp_path / "data") as server, connect(server, "bob") as bob:
            ana = connect(server, state=state)
            await ana.__aenter__()
            every = await ana.subscribe(id="all").ready()
            await bob.publish_all({"n": n} for n in range(5))
            assert [one["n"] for one in await collect(every, 3)] == [0, 1, 2]
            await eventually(lambda: (seen(state) or {}).get("seen") == 2 * 2**20 + 1)
            device = ana.device
            ana._session._driver.transport.disconnect()  # as if the process were gone: no good-bye
            await bob.publish("Tick", {"n": 5})
            async with connect(server, state=state) as again:
                assert again.device == device
                assert [one["n"] for one in await collect(again.follow("all"), 3)] == [3, 4, 5]
                assert [one["id"] for one in await again.subscriptions()] == ["all"]
            await ana.close(finish=False)

    def seen(path):
        return json.loads(path.read_text())["values"].get("inbox") if path.exists() else None

    asyncio.run(main())


def test_a_subscription_is_renewed_before_it_expires(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server) as ana:
            await ana.subscribe(id="short", ttl=1.5).ready()
            (before,) = await ana.subscriptions()
            await asyncio.sleep(1.7)
            (after,) = await ana.subscriptions()
            assert after["expires_at"] > before["expires_at"]

    asyncio.run(main())


@pytest.mark.parametrize(("policy", "left"), [("resubscribe", ["gone"]), ("renew", ["gone"]), ("ignore", [])])
def test_a_subscription_that_expired_while_away(tmp_path, policy, left):
    async def main():
        told = []
        async with running(tmp_path) as server, Wire(port_of(server)) as wire:
            options = {"on_cancelled": policy, "on_cancel": lambda *one: told.append(one)}
            async with connect(wire.url, device="phone", **options) as ana:
                await ana.subscribe(id="gone", ttl=1.0).ready()
                wire.open = False
                wire.cut()
                await asyncio.sleep(1.2)
                wire.open = True
                await eventually(lambda: told)
                await asyncio.sleep(0.1)
                assert [one["id"] for one in await ana.subscriptions()] == left
                assert {name for name, _, _ in told} == {"gone"}

    asyncio.run(main())


def test_a_mailbox_that_overflows_is_told(tmp_path):
    async def main():
        gaps = []
        async with running(tmp_path, mailbox={"length": 10}) as server, connect(server, "bob") as bob:
            async with connect(server, device="phone") as ana:
                await ana.subscribe(id="all").ready()
            await bob.publish_all({"n": n} for n in range(25))
            async with connect(server, device="phone", on_gap=gaps.append) as ana:
                got = await collect(ana.follow("all"), 10)
                assert [one["n"] for one in got] == list(range(15, 25))
                await eventually(lambda: gaps)
                assert ana.dropped == sum(gap.count for gap in gaps) == 15
                assert sorted(nid >> 20 for gap in gaps for nid in gap.nids) == list(range(15))

    asyncio.run(main())


def test_a_session_that_an_operator_ends(tmp_path):
    async def main():
        async with running(tmp_path) as server, connect(server, device="phone") as ana:
            import httpx

            async with httpx.AsyncClient(trust_env=False) as http:
                answer = await http.delete(f"{server.url}/v1/sessions/ana", headers={"x-recado-user": "ana"})
            assert answer.status_code == 200
            await eventually(lambda: ana.state == "ENDED")

    asyncio.run(main())


def test_what_a_killed_run_left_behind_is_tidied_up(tmp_path):
    async def main():
        async with running(tmp_path) as server:
            first = connect(server, device="phone")
            await first.__aenter__()
            left = await first.subscribe("Price < 25").ready()
            first._session._driver.transport.disconnect()
            async with connect(server, device="phone") as second:
                async with asyncio.timeout(60):
                    while await second.subscriptions():
                        await asyncio.sleep(0.01)
                assert left.id not in second._session._agent.session.table.subscriptions
            await first.close(finish=False)

    asyncio.run(main())


@pytest.mark.parametrize("events", [1, 20])
def test_a_state_file_of_another_service(tmp_path, caplog, events):
    """Its numbers are of another log, whether that was longer or shorter; nothing new may pass for a repeat."""

    async def some(data, count):
        async with running(data) as server, connect(server, state=tmp_path / "state.json") as ana:
            every = await ana.subscribe(type="Tick", id="all").ready()
            await ana.publish_all({"type": "Tick", "n": n} for n in range(count))
            assert [one["n"] for one in await collect(every, count)] == list(range(count))

    async def main():
        await some(tmp_path / "one", 5)
        await some(tmp_path / "one", 5)
        assert not caplog.records
        await some(tmp_path / "two", events)
        assert "another log" in caplog.text

    with caplog.at_level("WARNING", "recado.client"):
        asyncio.run(main())


def test_a_state_file_that_is_none(tmp_path):
    from recado.client import ClientError

    path = tmp_path / "state"
    for content in ("[]", "{", "{}"):
        path.write_text(content)
        with pytest.raises(ClientError, match="state"):
            StateFile(path)


def test_subscriptions_are_renewed_when_the_clock_of_the_device_is_set_back(tmp_path, monkeypatch):
    back = [0.0]
    monkeypatch.setattr(driver, "SteadyClock", lambda: SteadyClock(lambda: time.time() - back[0]))

    async def main():
        async with running(tmp_path) as server, connect(server, device="phone") as ana:
            await ana.subscribe(id="s", ttl=1.5).ready()
            back[0] = 7_200.0
            await asyncio.sleep(3.5)
            assert [one.id for one in server.engine.subscriptions(Principal("ana"))] == ["s"]
            assert server.engine.metrics.expired == 0

    asyncio.run(main())
