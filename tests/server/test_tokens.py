"""Tokens that end, are taken back, and are changed by several at the same time."""

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from websockets.asyncio.client import connect

from recado.cli import token as verb
from recado.errors import RecadoError
from recado.server import server as server_module
from recado.server.identity import _check_not_a_page
from recado.server.permissions import Denied
from recado.server.server import token_path
from recado.server.tokens import Tokens, add_token, read_tokens, revoke_token
from server.running import Agent, http, m, run, serving, until, ws_url

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_list_shows_no_secret(tmp_path, capsys):
    """Neither in a pipe nor with --json: the digest secret suffices to log in by SIP."""
    made = add_token(tmp_path / "tokens", "phone", "ana", sip=True)
    secret = read_tokens(tmp_path / "tokens")[0]
    for json_flag in (False, True):
        verb.ls(data=tmp_path, json=json_flag)
        shown = capsys.readouterr().out
        assert "phone" in shown
        for hidden in (made, secret.sip, secret.sha256):
            assert hidden not in shown
        assert json.loads(shown)["sip"] is True


def test_a_token_ends_when_it_was_asked_to(tmp_path):
    now = [NOW]
    made = add_token(tmp_path / "tokens", "t", "ana", sip=True, expires_at=NOW + timedelta(hours=1))
    stays = add_token(tmp_path / "tokens", "u", "bob")
    tokens = Tokens(tmp_path / "tokens", clock=lambda: now[0])
    who = tokens.find(made)
    assert who is not None
    assert tokens.by_sip("ana") is not None
    assert not tokens.has_changed()
    now[0] += timedelta(hours=1)
    assert (tokens.find(made), tokens.by_sip("ana"), tokens.current(who)) == (None, None, None)
    assert tokens.find(stays) is not None
    assert tokens.has_changed()
    assert not tokens.has_changed(), "it is told once"
    tokens.reload()  # as a service does then
    assert tokens.find(made) is None
    assert not tokens.has_changed(), "a service read the file anew every second from then on"


@pytest.mark.parametrize(("text", "words"), [("soon", "--expires"), ("2020-01-01T00:00:00Z", "over already")])
def test_ends_that_make_no_sense(tmp_path, text, words):
    with pytest.raises(RecadoError, match=words):
        verb.add("t", user="ana", data=tmp_path, expires=text)


def test_an_end_can_be_a_span(tmp_path, capsys):
    verb.add("t", user="ana", data=tmp_path, expires="30d")
    [line] = read_tokens(tmp_path / "tokens")
    assert timedelta(days=29) < line.expires_at - datetime.now(UTC) <= timedelta(days=30)


def test_revoking_takes_effect_at_once(tmp_path, capsys):
    """By the verb, without a signal: it returns when the service has taken it up."""

    async def main():
        async with serving(tmp_path, access={"anonymous": False}) as server:
            data = token_path(server.gateway.config).parent
            made = add_token(data / "tokens", "t", "ana")
            await until(lambda: server.gateway.tokens.find(made) is not None)  # it looks by itself
            async with http(server, token=made) as client:
                assert (await client.get("/v1/subscriptions")).status_code == 200
                await asyncio.to_thread(verb.revoke, "t", data=data)
                assert (await client.get("/v1/subscriptions")).status_code == 401

    run(main())


def test_what_is_open_ends_with_its_token(tmp_path, monkeypatch):
    monkeypatch.setattr(server_module, "WATCH_SECONDS", 0.05)

    async def main():
        async with serving(tmp_path, access={"anonymous": False}) as server:
            path = token_path(server.gateway.config)
            ends = datetime.now(UTC) + timedelta(seconds=2)
            made = add_token(path, "t", "ana", expires_at=ends)
            await until(lambda: server.gateway.tokens.find(made) is not None)
            async with http(server, token=made) as client:
                assert (await client.get("/v1/subscriptions")).status_code == 200
                async with connect(
                    ws_url(server), additional_headers={"authorization": f"Bearer {made}"}, proxy=None
                ) as socket:
                    session = Agent(socket)
                    await session.send(m.Hello("d"))
                    await session.next(m.Welcome)
                    assert (await session.next(m.Closing)).reason == "revoked"
                assert (await client.get("/v1/subscriptions")).status_code == 401

    run(main())


SCRIPT = """
import sys
from pathlib import Path
from recado.server.tokens import add_token, revoke_token

path, which = Path(sys.argv[1]), int(sys.argv[2])
for n in range(10):
    add_token(path, f"new {which} {n}", "ana")
for n in range(5 * which, 5 * which + 5):
    revoke_token(path, f"old {n}")
"""


def test_changes_at_the_same_time_lose_nothing(tmp_path):
    """Each read the file, changed its copy, and wrote that: the last one won."""
    path = tmp_path / "tokens"
    for number in range(10):
        add_token(path, f"old {number}", "ana")
    others = [subprocess.Popen([sys.executable, "-c", SCRIPT, str(path), str(n)]) for n in range(2)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: add_token(path, f"thread {number}", "ana"), range(20)))
    assert [other.wait(60) for other in others] == [0, 0]
    names = {line.name for line in read_tokens(path)}
    assert names == {f"thread {n}" for n in range(20)} | {f"new {w} {n}" for w in range(2) for n in range(10)}
    with pytest.raises(RecadoError, match="no token with the name"):
        revoke_token(path, "old 3")


@pytest.mark.parametrize(
    ("site", "allowed"),
    [(None, True), ("none", True), ("same-origin", True), ("same-site", False), ("cross-site", False), ("x", False)],
)
def test_what_a_page_of_another_site_caused_is_refused(site, allowed):
    """A form, an image or a script of a page sends no Origin with GET, but says this."""
    headers = {"host": "127.0.0.1:7230"} | ({"sec-fetch-site": site} if site else {})
    if allowed:
        _check_not_a_page(headers)
    else:
        with pytest.raises(Denied):
            _check_not_a_page(headers)
