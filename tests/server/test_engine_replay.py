"""A replay passes over what cannot be read, and says so whichever way it was asked for."""

from __future__ import annotations

import asyncio
import sqlite3

import msgspec

import recado
from recado.cli.flags import ServiceFlags
from recado.cli.replay import replay
from server.engine_kit import BEN, event
from server.running import http, run, serving

MISSING = "position 1 cannot be read"


def test_positions_that_cannot_be_read_are_named(tmp_path, capsys):
    async def story():
        async with serving(tmp_path) as server:
            await server.engine.publish(BEN, [event(number) for number in range(3)])
            await asyncio.to_thread(damage, tmp_path / "data" / "log")
            async with http(server) as client:
                lines = (await client.get("/v1/replay")).text.splitlines()
                alone = (await client.get("/v1/replay", params={"type": "none"})).text.splitlines()
            first, last, told = [msgspec.json.decode(line) for line in lines]
            assert (first["position"], last["position"]) == (0, 2)
            assert MISSING in told["damage"]
            assert [MISSING in line for line in alone] == [True]
            await asked_by_a_client(server.url)
            assert await asyncio.to_thread(replay, where=ServiceFlags(url=server.url, user="ana")) == 1

    run(story())
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 2
    assert shown.err.startswith("the replay is not whole: position 1")


def test_of_very_many_that_cannot_be_read_some_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr("recado.server.gateway._DAMAGE_TOLD", 0)

    async def story():
        async with serving(tmp_path) as server, http(server) as client:
            await server.engine.publish(BEN, [event(number) for number in range(3)])
            await asyncio.to_thread(damage, tmp_path / "data" / "log")
            told = msgspec.json.decode((await client.get("/v1/replay")).text.splitlines()[-1])
            assert told == {"damage": "and more positions: recado log check names all of them"}

    run(story())


def damage(folder):
    with sqlite3.connect(folder / "tail.sqlite") as db:
        db.execute("UPDATE tail SET event = zeroblob(10) WHERE position = 1")
    db.close()


async def asked_by_a_client(url):
    heard = []
    async with recado.connect(url, user="ana") as client:
        assert [place async for place, _ in client.replay(on_damage=heard.append)] == [0, 2]
    assert len(heard) == 1
    assert MISSING in heard[0]
