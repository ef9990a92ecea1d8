"""The audit log: who did what, from where; no contents, no secrets; private; rotated by renaming."""

import asyncio
import json
import os
import time

import pytest
from websockets.asyncio import client as websockets
from websockets.exceptions import InvalidStatus

from recado.client import connect
from recado.client.errors import ClientError
from recado.server.control import Request, ask
from recado.server.tokens import add_token, revoke_token
from server.running import agent, http, m, raw, run, serving, until, ws_url

WRONG = {"authorization": "Bearer rcd_wrong"}


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def did(path):
    return [(one.get("user"), one["over"], one["did"]) for one in lines(path)]


def test_who_published_subscribed_and_was_refused_and_from_where(tmp_path):
    path = tmp_path / "audit.log"

    async def main():
        async with serving(tmp_path, logging={"audit": str(path)}) as server:
            made = add_token(server.gateway.tokens.path, "phone of ana", "ana")
            server.reload()
            async with http(server, token=made) as ana, http(server, token="rcd_wrong") as eve:
                record = {
                    "id": "s",
                    "filter": "secretname == 'x'",
                    "webhook": {"url": "https://a.example/", "secret": "sss"},
                }
                assert (await ana.post("/v1/subscriptions", json=record)).status_code == 201
                assert (await ana.get("/v1/subscriptions")).status_code == 200
                assert (await ana.post("/v1/events", json=[{"secretname": "y"}] * 3)).status_code == 202
                assert (await eve.get("/v1/subscriptions")).status_code == 401
                assert (await ana.get("/v1/sessions?user=bob")).status_code == 403
            async with agent(server, "bob") as bob:
                await bob.subscribe(1, id="mine")
                await bob.publish(2, id="e", secretname="z")
            found = did(path)
            for expected in (
                ("ana", "http", "POST /v1/subscriptions"),
                ("ana", "http", "POST /v1/events"),
                (None, "http", "GET /v1/subscriptions"),
                ("ana", "http", "GET /v1/sessions"),
                ("bob", "websocket", "connect"),
                ("bob", "websocket", "subscribe"),
                ("bob", "websocket", "publish"),
            ):
                assert expected in found
            assert ("ana", "http", "GET /v1/subscriptions") not in found, "who reads what is its own leaves no line"
            assert all(one["from"].startswith("127.0.0.1") for one in lines(path) if one["over"] != "tokens")
            assert {one.get("token") for one in lines(path) if one.get("user") == "ana"} == {"phone of ana"}
            text = path.read_text()
            assert not any(hidden in text for hidden in (made, "rcd_", "secretname", "sss"))
            assert path.stat().st_mode & 0o077 == 0

    run(main())


def test_whose_things_an_administrator_asked_for_and_who_read_the_log(tmp_path):
    path = tmp_path / "audit.log"

    async def main():
        async with serving(tmp_path, logging={"audit": str(path)}) as server:
            made = add_token(server.gateway.tokens.path, "root's", "root", admin=True)
            server.reload()
            async with http(server) as ana, http(server, token=made) as root:
                assert (await ana.post("/v1/subscriptions", json={"id": "s"})).status_code == 201
                assert (await ana.get("/v1/mailboxes/me?limit=1")).status_code == 200
                assert (await root.get("/v1/subscriptions?user=ana")).status_code == 200
                assert (await root.get("/v1/lag?user=*")).status_code == 200
                assert (await root.get("/v1/mailboxes/ana/notifications")).status_code == 200
                assert (await root.delete("/v1/subscriptions/s?user=ana")).status_code == 204
                assert (await ana.get("/v1/replay?type=t")).status_code == 200
            async with agent(server, "bob", device="d") as bob:
                await bob.ask(m.Replay(1, raw({"id": "r"})))
                await bob.send(m.Bye(forget=True))
                await until(lambda: not server.gateway.connections)

    run(main())
    found = [{name: one[name] for name in ("user", "did", "of", "subscription") if name in one} for one in lines(path)]
    assert found[1:] == [  # the first is the token's
        {"user": "ana", "did": "POST /v1/subscriptions", "subscription": "s"},
        {"user": "root", "did": "GET /v1/subscriptions", "of": "ana"},
        {"user": "root", "did": "GET /v1/mailboxes/ana/notifications", "of": "ana"},
        {"user": "root", "did": "DELETE /v1/subscriptions/s", "of": "ana"},
        {"user": "ana", "did": "GET /v1/replay"},
        {"user": "bob", "did": "connect"},
        {"user": "bob", "did": "replay"},
        {"user": "bob", "did": "forget"},
    ]


def test_a_publication_that_is_refused_is_one_line_that_says_so(tmp_path):
    path = tmp_path / "audit.log"

    async def main():
        access = {"default_publish": ["stock.*"]}
        async with serving(tmp_path, logging={"audit": str(path)}, access=access) as server, agent(server) as ana:
            await ana.publish(1, type="stock.buy")
            await ana.ask(m.Publish(2, raw({"type": "news"})), m.Error)

    run(main())
    published = [(one["events"], one.get("status")) for one in lines(path) if one["did"] == "publish"]
    assert published == [(1, None), (1, 403)]
    assert [one["did"] for one in lines(path)] == ["connect", "publish", "publish"]


def test_refused_connections_changes_of_tokens_and_backups(tmp_path):
    path, sip = tmp_path / "audit.log", {"registrar": "embedded", "port": 0, "rudp_port": 0}

    async def main():
        access = {"anonymous": False}
        add_token(tmp_path / "data" / "tokens", "phone", "ana", sip=True)
        async with serving(tmp_path, logging={"audit": str(path)}, access=access, sip=sip) as server:
            with pytest.raises(InvalidStatus):
                await websockets.connect(ws_url(server), additional_headers=WRONG, proxy=None)
            async with websockets.connect(ws_url(server), proxy=None) as socket:
                await socket.send('{"type": "HELLO", "device": "d", "token": "rcd_wrong"}')
                assert "401" in await socket.recv()
            url = f"recado+sip://ana:wrong@localhost;registrar={server.sip_address};profile=lab"
            with pytest.raises(ClientError):
                await connect(url, device="d", timeout=10).__aenter__()
            add_token(server.gateway.tokens.path, "laptop", "ana")
            assert await asyncio.to_thread(ask, tmp_path / "data", Request(tokens=True))
            revoke_token(server.gateway.tokens.path, "laptop")
            server.reload_tokens()
            assert await asyncio.to_thread(ask, tmp_path / "data", Request(backup=str(tmp_path / "copy")))

    (tmp_path / "data").mkdir(mode=0o700)
    run(main())
    found = [(one["over"], one["did"], one.get("status", one.get("name"))) for one in lines(path)]
    assert found.count(("websocket", "connect", 401)) == 2
    for expected in (
        ("sip", "login", 401),
        ("control", "tokens", None),
        ("tokens", "token added", "laptop"),
        ("tokens", "token gone", "laptop"),
        ("control", "backup", None),
    ):
        assert expected in found
    asked = [one["from"] for one in lines(path) if one["over"] == "control"]
    assert asked == [f"user {os.geteuid()} of this machine"] * 2
    assert "rcd_" not in path.read_text()


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path, monkeypatch):
    path = tmp_path / "audit.log"
    monkeypatch.setattr("recado.server.audit._LOOK_SECONDS", 0.0)

    async def main():
        async with serving(tmp_path, logging={"audit": str(path)}) as server, http(server) as client:
            await client.post("/v1/events", json={})
            await until(lambda: len(lines(path)) == 1)
            path.rename(tmp_path / "audit.1")
            time.sleep(0.001)
            await client.post("/v1/events", json={})
            assert (len(lines(tmp_path / "audit.1")), len(lines(path))) == (1, 1)

    run(main())
