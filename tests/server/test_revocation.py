"""A token that is revoked, or has other rights, when the service reads the tokens again: what is open by it ends."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

import recado
from recado.client.errors import ClientError
from recado.server.consumer import REVOKED
from recado.server.permissions import Principal
from recado.server.polls import Poll
from recado.server.problems import UnauthenticatedError
from recado.server.tokens import TokenLine, add_token, read_tokens, revoke_token, write_tokens
from server.running import Agent, http, m, raw, run, serving, until, ws_url


@asynccontextmanager
async def closed_service(folder, **sections):
    """A service that believes tokens only, with two tokens of one user."""
    tokens = folder / "tokens"
    old, new = add_token(tokens, "old", "ana"), add_token(tokens, "new", "ana")
    async with serving(folder, access={"tokens": str(tokens), "anonymous": False}, **sections) as server:
        yield server, tokens, old, new


@asynccontextmanager
async def session(server, token, device):
    async with connect(ws_url(server), proxy=None) as socket:
        found = Agent(socket)
        await found.send(m.Hello(device, token=token))
        await found.next(m.Welcome)
        yield found


def test_a_session_ends_with_its_token_and_others_go_on(tmp_path):
    async def check():
        async with (
            closed_service(tmp_path) as (server, tokens, old, new),
            session(server, old, "a") as gone,
            session(server, new, "b") as stays,
            connect(ws_url(server), additional_headers={"Authorization": f"Bearer {old}"}, proxy=None) as early,
        ):
            await stays.subscribe(1, id="s")
            server.reload()
            assert (await gone.publish(1, id="before")).position == 0
            await gone.next(m.Notify)
            revoke_token(tokens, "old")
            server.reload()
            assert await gone.next(m.Closing) == m.Closing("revoked")
            with pytest.raises(ConnectionClosed) as closed:
                await gone.socket.recv()
            assert closed.value.rcvd.code == 1008
            late = Agent(early)  # its handshake was fine, its HELLO comes too late
            await late.send(m.Hello("c"))
            assert (await late.next(m.Error)).code == 401
            await stays.publish(2, id="after")
            told = [(await stays.next(m.Notify)).event for _ in range(2)]
            assert [b"before" in bytes(event) for event in told] == [True, False]
            assert server.gateway.metrics.by["sessions_closed"]["revoked"] == 1

    run(check())


def test_other_rights_hold_for_open_sessions(tmp_path):
    async def check():
        async with closed_service(tmp_path) as (server, tokens, old, _), session(server, old, "a") as ana:
            await ana.publish(1, id="1", type="salary")
            lines = [
                TokenLine(line.name, line.user, line.sha256, deny_publish=("salary",), deny_subscribe=("salary",))
                for line in read_tokens(tokens)
            ]
            write_tokens(tokens, lines)
            server.reload()
            assert (await ana.ask(m.Publish(2, raw({"id": "2", "type": "salary"})), m.Error)).code == 403
            assert (await ana.ask(m.Subscribe(3, raw({"id": "s", "type": "salary"})), m.Error)).code == 403
            await ana.publish(4, id="4", type="news")

    run(check())


def test_a_poll_that_was_closed_before_it_waits_does_not_wait():
    async def check():
        poll = Poll(Principal("ana"), "here", lambda: None)
        poll.close(REVOKED)
        async with asyncio.timeout(60):
            with pytest.raises(UnauthenticatedError, match="revoked"):
                await poll.wait(60)

    run(check())


def test_a_poll_that_waits_ends_with_its_token_and_takes_nothing(tmp_path):
    async def check():
        async with (
            closed_service(tmp_path) as (server, tokens, old, new),
            http(server, token=old) as gone,
            http(server, token=new) as stays,
        ):
            await stays.post("/v1/subscriptions", json={"id": "s"})
            waiting = asyncio.create_task(gone.post("/v1/mailboxes/me/take", json={"wait": 30, "device": "a"}))
            await until(lambda: server.gateway.polls._consumers)
            revoke_token(tokens, "old")
            server.reload()
            assert (await waiting).status_code == 401
            assert not server.gateway.polls._consumers
            await stays.post("/v1/events", json={"id": "1"})
            answer = await stays.post("/v1/mailboxes/me/take", json={"wait": 30, "device": "a"})
            assert [told["event"]["id"] for told in answer.json()["notifications"]] == ["1"]

    run(check())


def test_a_replay_is_cut_short_when_its_token_is_gone(tmp_path, caplog):
    async def check():
        async with closed_service(tmp_path) as (server, tokens, old, _), http(server, token=old) as client:
            pads = {f"pad{n}": "x" * 60_000 for n in range(10)}
            await client.post("/v1/events", json=[{"id": str(n), **pads} for n in range(20)])
            async with client.stream("GET", "/v1/replay") as answer:
                revoke_token(tokens, "old")
                server.reload()
                with pytest.raises(Exception, match="incomplete chunked read"):
                    await answer.aread()
            await until(lambda: not server.gateway._replays)

    run(check())
    assert "an answer was not finished" in caplog.text
    assert "Traceback" not in caplog.text


def test_a_sip_session_ends_with_its_token(tmp_path):
    async def check():
        tokens = tmp_path / "tokens"
        password = add_token(tokens, "phone", "ana", sip=True)
        sip = {"registrar": "embedded", "port": 0, "rudp_port": 0, "profile": "lab"}
        access = {"tokens": str(tokens), "anonymous": False}
        async with serving(tmp_path, access=access, sip=sip) as server:
            url = f"recado+sip://ana:{password}@localhost;registrar={server.sip_address};profile=lab"
            async with recado.connect(url, device="phone", timeout=5) as ana:
                await ana.publish("Tick", {"n": 1})
                revoke_token(tokens, "phone")
                server.reload()
                await until(lambda: not server.engine.broker.state.consumers)
                assert server.gateway.metrics.by["sessions_closed"]["revoked"] == 1
                with pytest.raises(ClientError):
                    await ana.publish("Tick", {"n": 2})

    run(check())
