"""The permission matrix (R36): every way in, against a reference evaluator that knows nothing of the code's own.

Random policies (allow and deny patterns of event types, administrators) times every path on which an event or someone's
property can leave or enter: HTTP and WebSocket publish, subscribe, replay, offline delivery, mailboxes, sessions.
"""

import asyncio
import random
from fnmatch import fnmatchcase

import msgspec
import pytest
from websockets.asyncio.client import connect

import recado
from recado.client.errors import NotAllowed
from recado.client.http import HttpClient
from recado.client.urls import parse_url
from recado.protocols.sip.digest import secret_of
from recado.server.http.operations import OPERATIONS
from recado.server.tokens import SIP_REALM, TokenLine, hash_token, write_tokens
from server.running import Agent, http, m, raw, run, serving, ws_url

TYPES = ("stock.buy", "stock.sell", "news", "newsletter", "a*b")
PATTERNS = ("*", "stock.*", "stock.buy", "news", "news*", "?ews", "x*", "a*b")


def may(allow, deny, type_):
    """The reference: a plain reading of the rule for one event type. Only ``*`` and ``?`` are special."""

    def fits(pattern):
        return fnmatchcase(type_, pattern.replace("[", "[[]"))

    return any(map(fits, allow)) and not any(map(fits, deny))


def may_hear(allow, deny, type_):
    """For a subscription by pattern: every type of the pool that it takes must be allowed."""
    return all(may(allow, deny, t) for t in TYPES if fnmatchcase(t, type_))


def policies(count):
    rng = random.Random(36)
    found = []
    for number in range(count):
        pick = lambda most: tuple(rng.sample(PATTERNS, rng.randint(0, most)))  # noqa: E731
        found.append(
            TokenLine(
                f"t{number}", f"user{number}", hash_token(f"token{number}"), admin=number % 10 == 9,
                publish=pick(3), subscribe=pick(3), deny_publish=pick(2), deny_subscribe=pick(2),
            )
        )  # fmt: skip
    return found


def test_every_path_decides_as_the_reference_does(tmp_path):
    async def check():
        lines = policies(12)
        write_tokens(tmp_path / "tokens", lines)
        access = {"tokens": str(tmp_path / "tokens"), "anonymous": False}
        async with serving(tmp_path, access=access) as server:
            for number, line in enumerate(lines):
                async with http(server, token=f"token{number}") as client:
                    await _http(client, line)
                await _websocket(server, line, f"token{number}")

    async def _http(client, line):
        for type_ in TYPES:
            allowed = line.admin or may(line.publish, line.deny_publish, type_)
            one = await client.post("/v1/events", json={"type": type_})
            batch = await client.post("/events", json=[{"type": type_}, {"type": type_}])
            binary = {"ce-specversion": "1.0", "ce-id": "b", "ce-source": "/", "ce-type": type_}
            alone = await client.post("/v1/events", headers=binary)
            assert {one.status_code, batch.status_code, alone.status_code} == {202 if allowed else 403}, (line, type_)
            if "*" in type_:
                continue  # as a subscription it is a pattern, checked below
            heard = line.admin or may(line.subscribe, line.deny_subscribe, type_)
            made = await client.post("/v1/subscriptions", json={"id": "s", "type": type_})
            again = await client.get("/v1/replay", params={"type": type_, "limit": 1})
            posted = await client.post("/v1/replay", json={"sub": {"type": type_}, "limit": 1})
            assert (made.status_code, again.status_code, posted.status_code) == (
                (201, 200, 200) if heard else (403, 403, 403)
            ), (line, type_)  # fmt: skip
        for pattern in PATTERNS:
            made = await client.post("/v1/subscriptions", json={"id": "p", "type": pattern})
            if made.status_code == 201 and not line.admin:  # it may be refused for types beyond the pool
                assert may_hear(line.subscribe, line.deny_subscribe, pattern), (line, pattern)
        everything = await client.get("/v1/replay")
        if everything.status_code == 200 and not line.admin:
            assert all(may(line.subscribe, line.deny_subscribe, t) for t in TYPES)

    async def _websocket(server, line, token):
        async with connect(ws_url(server), proxy=None) as socket:
            one = Agent(socket)
            await one.send(m.Hello("d", token=token))
            await one.next(m.Welcome)
            for number, type_ in enumerate(TYPES):
                allowed = line.admin or may(line.publish, line.deny_publish, type_)
                await one.ask(m.Publish(number, raw({"type": type_})), m.Ok if allowed else m.Error)
                if "*" in type_:
                    continue
                heard = line.admin or may(line.subscribe, line.deny_subscribe, type_)
                await one.ask(
                    m.Subscribe(100 + number, raw({"id": "s", "type": type_})), m.Subscribed if heard else m.Error
                )
                replay = m.Replay(200 + number, raw({"id": "r", "type": type_}), position=10**9)
                await one.ask(replay, m.Ok if heard else m.Error)

    run(check())


def test_sip_decides_as_the_reference_does(tmp_path):
    """The same policies, by a token that is the password of SIP."""

    async def check():
        secret = lambda line: secret_of("SHA-256", line.user, SIP_REALM, f"token{line.name[1:]}")  # noqa: E731
        lines = [msgspec.structs.replace(line, sip=secret(line)) for line in policies(12)[::4]]
        write_tokens(tmp_path / "tokens", lines)
        access = {"tokens": str(tmp_path / "tokens"), "anonymous": False}
        sip = {"registrar": "embedded", "port": 0, "rudp_port": 0}
        async with serving(tmp_path, access=access, sip=sip) as server:
            for line in lines:
                where = f"{line.user}:token{line.name[1:]}@localhost;registrar={server.sip_address}"
                async with recado.connect(f"recado+sip://{where}", device="d") as device:
                    for type_ in TYPES:
                        await asks(device.publish(type_, {}), line.admin or may(line.publish, line.deny_publish, type_))
                        if "*" not in type_:
                            heard = line.admin or may(line.subscribe, line.deny_subscribe, type_)
                            await asks(device.subscribe(type=type_, id="s").ready(), heard)
                            replay = device.replay(type=type_, position=10**9)
                            await asks(anext(aiter(replay), None), heard)

    async def asks(request, allowed):
        try:
            await request
        except NotAllowed:
            assert not allowed
        else:
            assert allowed

    run(check())


def test_offline_delivery_has_only_what_was_allowed(tmp_path):
    async def check():
        lines = [
            TokenLine("a", "ana", hash_token("ana"), subscribe=("stock.*",), deny_subscribe=("stock.sell",)),
            TokenLine("b", "bob", hash_token("bob")),
        ]
        write_tokens(tmp_path / "tokens", lines)
        access = {"tokens": str(tmp_path / "tokens"), "anonymous": False}
        async with (
            serving(tmp_path, access=access) as server,
            http(server, token="ana") as ana,
            http(server, token="bob") as bob,
        ):
            for type_ in ("", "*", "stock.*", "stock.sell", "stock.buy", "s*", "stock.b*"):
                await ana.post("/v1/subscriptions", json={"type": type_} if type_ else {})
            await bob.post("/v1/events", json=[{"type": t} for t in TYPES] + [{"id": "none"}])
            await bob.post("/v1/events", json={"type": "news"})
            waiting = (await ana.post("/v1/mailboxes/me/take", json={"wait": 1})).json()["notifications"]
            assert {told["event"]["type"] for told in waiting} == {"stock.buy"}
            assert len((await ana.get("/v1/subscriptions")).json()["subscriptions"]) == 2

    run(check())


def test_a_user_named_beside_a_token_is_that_of_the_token(tmp_path):
    async def check():
        write_tokens(tmp_path / "tokens", [TokenLine("a", "ana", hash_token("ana"))])
        async with serving(tmp_path, access={"tokens": str(tmp_path / "tokens")}) as server:
            async with http(server, token="ana", **{"x-recado-user": "ana"}) as same:
                assert (await same.get("/v1/subscriptions")).status_code == 200
            target = msgspec.structs.replace(parse_url(server.url), token="ana", user="bob")
            with (
                HttpClient(target) as other,
                pytest.raises(NotAllowed, match="the token is that of 'ana', not of 'bob'"),
            ):
                await asyncio.to_thread(other.call, "GET", "/v1/subscriptions")

    run(check())


def test_no_path_gives_one_user_anything_of_another(tmp_path):
    """Every operation that names a user, an id or a number of someone else: 403 or 404, and nothing changes."""

    async def check():
        lines = [TokenLine(name, name, hash_token(name), admin=name == "root") for name in ("ana", "eva", "root")]
        write_tokens(tmp_path / "tokens", lines)
        access = {"tokens": str(tmp_path / "tokens"), "anonymous": False}
        async with (
            serving(tmp_path, access=access, webhooks={"private": True}) as server,
            http(server, token="ana") as ana,
            http(server, token="eva") as eva,
            http(server, token="root") as root,
        ):
            await ana.post("/v1/subscriptions", json={"id": "s"})
            await ana.post("/v1/events", json={"id": "1"})
            await ana.post("/v1/mailboxes/me/take", json={"wait": 5})
            from recado.server.webhooks.dead_letters import DeadLetter

            server.gateway.letters.add(DeadLetter(0, "ana", "s", 1, "u", b"{}", "r", "t", 1))
            tried = 0
            for operation in OPERATIONS:
                path = (
                    operation.path.format(id="s", user="ana", number="1") if "{" in operation.path else operation.path
                )
                if path == operation.path:
                    if "user" not in operation.query:
                        continue
                    path += "?user=ana"
                body = {"json": {}} if operation.body is not None else {}
                answer = await eva.request(operation.method, path, **body)
                assert answer.status_code in (403, 404), (operation.method, path, answer.text)
                tried += 1
            assert tried >= 15
            for path in ("/metrics", "/v1/status"):
                assert (await eva.get(path)).status_code == 403
                assert (await root.get(path)).status_code == 200
            assert len((await ana.get("/v1/subscriptions")).json()["subscriptions"]) == 1
            assert (await ana.get("/v1/mailboxes/me")).json()["mailboxes"][0]["length"] == 1
            assert (await ana.get("/v1/sessions/me")).json()["sessions"][0]["connected"]
            assert len((await ana.get("/v1/dead-letters")).json()["dead_letters"]) == 1
            assert (await root.get("/v1/subscriptions?user=ana")).json()["subscriptions"]
            assert len((await root.get("/v1/mailboxes?user=*")).json()["mailboxes"]) == 1
            assert (await root.get("/v1/mailboxes/ana/notifications")).json()["notifications"]
            assert (await eva.delete("/v1/subscriptions/s?user=ana")).status_code == 403
            assert (await root.delete("/v1/subscriptions/s?user=ana")).status_code == 204
            assert (await ana.get("/v1/subscriptions")).json()["subscriptions"] == []

    run(check())


def test_without_a_token_nothing_but_health_is_answered(tmp_path):
    async def check():
        write_tokens(tmp_path / "tokens", [TokenLine("a", "ana", hash_token("ana"))])
        access = {"tokens": str(tmp_path / "tokens"), "anonymous": False}
        async with serving(tmp_path, access=access) as server, http(server, "ana") as nobody:
            for operation in OPERATIONS:
                path = (
                    operation.path.format(id="s", user="ana", number="1") if "{" in operation.path else operation.path
                )
                answer = await nobody.request(operation.method, path)
                assert answer.status_code == 401, (operation.method, path)
                assert answer.headers["www-authenticate"].startswith("Bearer")
            assert server.engine.broker.state.users == {}

    run(check())


def test_before_hello_no_message_reaches_the_engine(tmp_path):
    """R37: from every state before HELLO is accepted, every kind of message leads to the end and to nothing else."""

    async def check():
        async with serving(tmp_path) as server:
            kinds = [
                m.Subscribe(1, raw({"id": "s"})), m.Unsubscribe(1, "s"), m.Renew(1, "s"), m.QuerySubs(1),
                m.DiscardSubs(1), m.Publish(1, raw({"id": "1"})), m.Replay(1, raw({"id": "r"})), m.Ack(1), m.Ping(1),
                m.Bye(), m.Hello("d", token="wrong"), m.Hello("bad/device"),
            ]  # fmt: skip
            for first in kinds:
                async with connect(ws_url(server, "ana"), proxy=None) as socket:
                    one = Agent(socket)
                    await one.send(first, m.Publish(2, raw({"id": "2"})), m.Subscribe(3, raw({"id": "t"})))
                    await one.next(m.Error)
                    assert not [x for x in one.unread if not isinstance(x, m.Closing | m.Error)]
            assert (server.engine.log.end, server.engine.broker.state.subscriptions) == (0, {})

    run(check())
