"""Every HTTP endpoint over real sockets."""

import asyncio
import base64
from contextlib import AsyncExitStack

import httpx
import msgspec

from recado.server import server as server_module
from recado.server.http.app import App, paths, routes
from recado.server.http.operations import OPERATIONS
from recado.server.permissions import Principal
from server.running import agent, http, m, run, serving, until


async def take(client, **members):
    answer = await client.post("/v1/mailboxes/me/take", json=members)
    assert answer.status_code == 200, answer.text
    return answer.json()


def problem(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["title"]
    return body


def test_one_event_in_every_form_comes_back_by_replay(tmp_path):
    async def check():
        async with serving(tmp_path) as server, http(server) as client:
            ce = {"specversion": "1.0", "id": "c", "source": "/s", "type": "T", "data": {"n": 2}}
            flat = await client.post("/v1/events", json={"id": "f", "type": "T", "n": 1})
            assert flat.status_code == 202
            assert flat.json() == {"id": "f", "position": 0, "notificationId": "f"}
            for media in ("application/json", "application/cloudevents+json"):
                sent = {**ce, "id": media}
                answer = await client.post(
                    "/v1/events", content=msgspec.json.encode(sent), headers={"content-type": media}
                )
                assert answer.status_code == 202, answer.text
            binary = {"ce-specversion": "1.0", "ce-id": "b", "ce-source": "/s", "ce-type": "T%20%C3%A9"}
            assert (await client.post("/v1/events", json={"n": 3}, headers=binary)).status_code == 202
            text = {**binary, "ce-id": "t", "content-type": "text/plain"}
            assert (await client.post("/v1/events", content="héllo".encode(), headers=text)).status_code == 202
            bytes_ = {**binary, "ce-id": "o", "content-type": "application/octet-stream"}
            assert (await client.post("/v1/events", content=b"\xff\x00", headers=bytes_)).status_code == 202
            lines = (await client.get("/v1/replay")).text.splitlines()
            events = [msgspec.json.decode(line)["event"] for line in lines]
            assert [event["id"] for event in events] == [
                "f",
                "application/json",
                "application/cloudevents+json",
                "b",
                "t",
                "o",
            ]
            assert [event.get("n") for event in events[:4]] == [1, 2, 2, 3]
            assert events[3]["type"] == "T é"
            assert events[4]["data"] == "héllo"
            assert base64.b64decode(events[5]["data_base64"]) == b"\xff\x00"

    run(check())


def test_batches_are_all_or_nothing(tmp_path):
    async def check():
        async with serving(tmp_path, limits={"batch_events": 3}) as server, http(server) as client:
            batch = await client.post("/v1/events", json=[{"id": "1"}, {"id": "2"}])
            assert batch.json() == {"count": 2, "positions": [0, 1], "ids": ["1", "2"]}
            lines = await client.post(
                "/v1/events", content=b'{"id": "3"}\n\n{"id": "4"}\n', headers={"content-type": "application/x-ndjson"}
            )
            assert lines.json()["positions"] == [2, 3]
            ce = {"specversion": "1.0", "id": "c", "source": "/s", "type": "T"}
            mixed = await client.post(
                "/v1/events",
                content=msgspec.json.encode([ce, {"id": "flat"}]),
                headers={"content-type": "application/cloudevents-batch+json"},
            )
            assert problem(mixed, 400)["place"] == "event 1 of the batch: $.specversion"
            for wrong in ("ce-data", "ce-datacontenttype"):
                context = {"ce-specversion": "1.0", "ce-id": "b", "ce-source": "/s", "ce-type": "T", wrong: "x"}
                assert wrong in problem(await client.post("/v1/events", headers=context), 400)["detail"]
            bad = problem(await client.post("/v1/events", json=[{"id": "5"}, {"id": {}}]), 400)
            assert bad["place"] == "event 1 of the batch: $.id"
            problem(await client.post("/v1/events", json=[{"id": str(n)} for n in range(4)]), 413)
            problem(await client.post("/v1/events", json=[]), 400)
            again = await client.post("/v1/events", json={"id": "1"})  # the same event, sent again
            assert again.json()["position"] == 0
            assert len((await client.get("/v1/replay")).text.splitlines()) == 4

    run(check())


BAD_BODIES = [
    (b"{", "application/json", 400, "ends too early"),
    (b"7", "application/json", 400, "JSON object"),
    (b'{"id": "\xff"}', "application/json", 400, "not UTF-8"),
    (b"[" * 100_000, "application/json", 400, "nested far too deep"),
    (b'{"a":' * 100_000, "application/json", 400, "nested far too deep"),
    (b'{"id": "x"}', "application/xml", 415, "content-type"),
    (b'{"id": "x"}', "", 415, "none was given"),
    (b'{"id": "x"}', "application/cloudevents+json", 400, "CloudEvent"),
    (b'{"specversion": "9"}', "application/json", 400, "1.0"),
    (b'{"id": "x", "a": {"b": 1, "b": 2}}', "application/json", 400, "$.a: the key 'b' is given twice"),
    (b'{"id": "x", "s": "' + b"y" * 700_000 + b'"}', "application/json", 413, "600,000"),
    (b"z" * 900_000, "application/json", 413, "800,000"),
]


def test_bad_bodies_are_told_where_and_why(tmp_path):
    async def check():
        limits = {"event_bytes": 600_000, "body_bytes": 800_000}
        async with serving(tmp_path, limits=limits) as server, http(server) as client:
            for body, media, status, words in BAD_BODIES:
                answer = await client.post("/v1/events", content=body, headers={"content-type": media} if media else {})
                assert words in problem(answer, status)["detail"], body[:100]
                chunked = await client.post("/v1/events", content=_chunks(body), headers={"content-type": media})
                assert chunked.status_code == status

    run(check())


async def _chunks(body):
    for start in range(0, len(body), 10_000):
        yield body[start : start + 10_000]


def test_compressed_bodies_are_not_read(tmp_path):
    async def check():
        async with serving(tmp_path) as server, http(server) as client:
            packed = {"content-type": "application/json", "content-encoding": "gzip"}
            problem(await client.post("/v1/events", content=b"\x1f\x8b" + b"0" * 100, headers=packed), 415)

    run(check())


def test_the_life_of_a_subscription(tmp_path):
    async def check():
        async with serving(tmp_path) as server, http(server) as client, http(server, "eva") as eva:
            made = await client.post("/v1/subscriptions", json={"filter": "n > 1", "type": "T", "ttl": 60})
            assert made.status_code == 201
            id = made.json()["id"]
            assert made.headers["location"] == f"/v1/subscriptions/{id}"
            shown = (await client.get(f"/v1/subscriptions/{id}")).json()
            assert (shown["filter"], shown["type"], shown["scope"]) == ("n > 1", "T", "all")
            renewed = await client.patch(f"/v1/subscriptions/{id}", json={"ttl": 3000})
            assert renewed.json()["expires_at"] > shown["expires_at"]
            listed = (await client.get("/v1/subscriptions")).json()["subscriptions"]
            assert [(s["user"], s["id"]) for s in listed] == [("ana", id)]
            assert (await eva.get("/v1/subscriptions")).json() == {"subscriptions": []}
            problem(await eva.get(f"/v1/subscriptions/{id}"), 404)
            problem(await eva.delete(f"/v1/subscriptions/{id}"), 404)
            problem(await eva.patch(f"/v1/subscriptions/{id}", json={}), 404)
            problem(await eva.get("/v1/subscriptions?user=ana"), 403)
            assert (await client.delete(f"/v1/subscriptions/{id}")).status_code == 204
            problem(await client.get(f"/v1/subscriptions/{id}"), 404)
            for bad in (
                {"filter": "n >"},
                {"filtre": "x"},
                {"ttl": -1},
                {"scope": "us"},
                {"id": ""},
                7,
                {"owner": "eva"},
            ):
                problem(await client.post("/v1/subscriptions", json=bad), 400)
            problem(await client.patch(f"/v1/subscriptions/{id}", json={"ttl": 1, "expires_at": "x"}), 400)
            problem(await client.patch(f"/v1/subscriptions/{id}", json={"until": 1}), 400)

    run(check())


def test_a_subscription_may_have_any_id(tmp_path):
    """Its place is the Location of the answer, whatever has to be encoded there."""

    async def check():
        async with serving(tmp_path) as server, http(server) as client:
            for id in (
                "a b",
                "ключ",
                "a?b",
                "a#b",
                "a/b",
                "100%",
                "a%41",
                "a\\b",
                "a\r\nX-Other: y",
                "ana@example.org",
            ):
                made = await client.post("/v1/subscriptions", json={"id": id, "type": "T"})
                assert made.status_code == 201, made.text
                place = made.headers["location"]
                assert "x-other" not in made.headers
                assert (await client.get(place)).json()["id"] == id
                assert (await client.delete(place)).status_code == 204
            assert (await client.get("/v1/subscriptions")).json() == {"subscriptions": []}
            problem(await client.get("/v1/subscr%0Aiptions"), 404)

    run(check())


def test_a_new_start_discards(tmp_path):
    async def check():
        async with serving(tmp_path) as server, http(server) as client:
            for scope, device in (("all", "a"), ("this device", "a"), ("this device", "b")):
                await client.post(f"/v1/subscriptions?device={device}", json={"scope": scope})
            problem(await client.delete("/v1/subscriptions"), 400)
            assert (await client.delete("/v1/subscriptions?device=a")).json() == {"cancelled": 2}

    run(check())


def test_the_paths_of_the_semantics_document(tmp_path):
    async def check():
        async with serving(tmp_path) as server, http(server) as client:
            publisher = (await client.post("/publishers", json={"name": "estação 1"})).json()["publisherId"]
            made = await client.post("/subscriptions", json={"subscription": "{umidade, GT, 60; local, SF, ias}"})
            assert made.status_code == 201
            event = {"umidade": 70, "local": "Caxias"}
            sent = await client.post("/events", json=event, headers={"x-publisher-id": publisher})
            assert sent.status_code == 202
            [told] = (await take(client, wait=5))["notifications"]
            assert told["event"] == {"id": sent.json()["notificationId"], "source": publisher, **event}
            [listed] = (await client.get("/subscriptions")).json()["subscriptions"]
            assert listed["id"] == made.json()["id"]
            assert (await client.get("/v1/subscriptions")).json()["subscriptions"] == [listed]
            assert (await client.delete(f"/subscriptions/{listed['id']}")).status_code == 204
            assert (await client.delete(f"/subscriptions/{listed['id']}")).status_code == 404
            problem(await client.post("/publishers", json={"name": "?"}), 400)

    run(check())


def test_a_long_poll_waits_and_repeats_until_acknowledged(tmp_path):
    async def check():
        async with serving(tmp_path) as server, http(server) as client, http(server, "eva") as eva:
            await client.post("/v1/subscriptions", json={"id": "s"})
            waiting = asyncio.create_task(take(client, wait=20))
            await asyncio.sleep(0.05)
            await client.post("/v1/events", json={"id": "1"})
            [first] = (await waiting)["notifications"]
            await client.post("/v1/events", json={"id": "2"})
            both = (await take(client))["notifications"]
            assert [told["event"]["id"] for told in both] == ["1", "2"]
            assert (await client.post("/v1/mailboxes/me/ack", json={"upto": first["nid"]})).status_code == 204
            [second] = (await take(client, limit=1))["notifications"]
            assert second["event"]["id"] == "2"
            assert (await take(client, upto=second["nid"]))["notifications"] == []
            assert (await take(client, wait=0.01)) == {"notifications": [], "notices": []}
            problem(await eva.post("/v1/mailboxes/ana/take", json={}), 403)
            problem(await eva.post("/v1/mailboxes/ana/ack", json={}), 403)
            problem(await eva.post("/v1/mailboxes/me/ack", json={"upto": 1}), 409)
            for bad in ({"limit": 0}, {"limit": 10**6}, {"wait": 9999}, {"wait": -1}, {"device": "a/b"}, {"upto": "x"}):
                problem(await client.post("/v1/mailboxes/me/take", json=bad), 400)

    run(check())


def test_the_newest_poll_of_a_device_wins_and_nothing_is_lost(tmp_path):
    """Whoever asked before may be gone without a word, as the first one here is."""

    async def check():
        async with serving(tmp_path) as server, http(server) as client:
            await client.post("/v1/subscriptions", json={"id": "s"})
            host, port = server.url.removeprefix("http://").split(":")
            _, gone = await asyncio.open_connection(host, port)
            head = (
                b"POST /v1/mailboxes/me/take?user=ana HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            )
            gone.write(head + b'Content-Length: 12\r\n\r\n{"wait": 30}')
            await until(lambda: server.gateway.polls._consumers)
            gone.transport.abort()
            waiting = asyncio.create_task(client.post("/v1/mailboxes/me/take", json={"wait": 30}))
            await asyncio.sleep(0.05)
            newest = asyncio.create_task(take(client, wait=30))
            assert "newer request" in problem(await waiting, 409)["detail"]
            await client.post("/v1/events", json={"id": "1"})
            [told] = (await newest)["notifications"]
            assert told["event"]["id"] == "1"
            assert (await take(client, upto=told["nid"]))["notifications"] == []

    run(check())


def test_who_stops_polling_is_disconnected(tmp_path):
    async def check():
        async with serving(tmp_path, limits={"poll_seconds": 0.05}) as server, http(server) as client:
            await take(client, device="phone")
            [info] = (await client.get("/v1/sessions/me")).json()["sessions"]
            assert (info["device"], info["connected"], info["kind"]) == ("phone", True, "poll")
            await asyncio.sleep(0.2)
            [info] = (await client.get("/v1/sessions/me")).json()["sessions"]
            assert not info["connected"]

    run(check())


def test_mailboxes_are_looked_at_and_purged(tmp_path):
    async def check():
        async with serving(tmp_path) as server, http(server) as client, http(server, "eva") as eva:
            await client.post("/v1/subscriptions", json={"id": "s"})
            await client.post("/v1/events", json=[{"id": str(n)} for n in range(5)])
            await asyncio.sleep(0.05)
            [info] = (await client.get("/v1/mailboxes")).json()["mailboxes"]
            assert (info["user"], info["length"]) == ("ana", 5)
            [again] = (await client.get("/v1/mailboxes/ana")).json()["mailboxes"]
            assert again.pop("lag_seconds") >= info.pop("lag_seconds") > 0
            assert again == info
            page = (await client.get("/v1/mailboxes/me/notifications?limit=2")).json()
            seen = page["notifications"]
            assert page["next"] == seen[1]["nid"]
            assert [told["event"]["id"] for told in seen] == ["0", "1"]
            rest = (await client.get(f"/v1/mailboxes/me/notifications?after={page['next']}")).json()
            assert [told["event"]["id"] for told in rest["notifications"]] == ["2", "3", "4"]
            assert "next" not in rest
            for path in (
                "/v1/mailboxes/ana",
                "/v1/mailboxes/ana/notifications",
                "/v1/mailboxes?user=ana",
                "/v1/mailboxes?user=*",
            ):
                problem(await eva.get(path), 403)
            problem(await eva.delete("/v1/mailboxes/ana/notifications"), 403)
            assert (await eva.get("/v1/mailboxes/me")).json() == {"mailboxes": []}
            assert (await eva.get("/v1/mailboxes/me/notifications")).json() == {"notifications": [], "notices": []}
            assert (await eva.delete("/v1/mailboxes/me/notifications")).json() == {"purged": 0}
            assert (await client.delete("/v1/mailboxes/me/notifications")).json() == {"purged": 5}
            [notice] = (await take(client))["notices"]
            assert (notice["type"], notice["count"], notice["reason"]) == ("GAP", 5, "purged")
            for bad in ("limit=0", "limit=x", "limit=-1", "after=1.5", "limit=1&limit=2", "limit=", "limits=3"):
                problem(await client.get(f"/v1/mailboxes/me/notifications?{bad}"), 400)

    run(check())


def test_pages_of_a_mailbox_have_bounded_bytes(tmp_path):
    """Ten notifications of 300 kB are no answer of 3 MB."""

    async def check():
        async with serving(tmp_path) as server, http(server) as client:
            await client.post("/v1/subscriptions", json={"id": "s"})
            pads = {f"pad{n}": "x" * 60_000 for n in range(5)}
            await client.post("/v1/events", json=[{"id": str(n), **pads} for n in range(10)])
            await until(lambda: server.engine.status()["waiting"] == 10)
            seen, after, pages = [], None, 0
            while after is not None or not pages:
                query = {} if after is None else {"after": after}
                answer = await client.get("/v1/mailboxes/me/notifications", params=query)
                assert len(answer.content) < 1.5 * 2**20
                seen += [told["event"]["id"] for told in answer.json()["notifications"]]
                pages, after = pages + 1, answer.json().get("next")
            assert seen == [str(n) for n in range(10)]
            assert pages == 4
            taken, upto = [], {}
            while found := (await take(client, **upto))["notifications"]:
                assert len(found) <= 3
                taken += [told["event"]["id"] for told in found]
                upto = {"upto": found[-1]["nid"]}
            assert taken == seen

    run(check())


def test_sessions_are_shown_and_ended(tmp_path):
    async def check():
        async with (
            serving(tmp_path) as server,
            http(server) as client,
            http(server, "eva") as eva,
            agent(server) as ana,
        ):
            [info] = (await client.get("/v1/sessions")).json()["sessions"]
            assert (info["device"], info["kind"], info["connected"]) == ("d", "websocket", True)
            problem(await eva.get("/v1/sessions/ana"), 403)
            problem(await eva.delete("/v1/sessions/ana"), 403)
            assert (await eva.get("/v1/sessions/me")).json() == {"sessions": []}
            problem(await client.delete("/v1/sessions/me?device=other"), 404)
            assert (await client.delete("/v1/sessions/me?device=d")).json() == {"ended": 1}
            assert (await ana.next(m.Closing)).reason == "ended"

    run(check())


def test_replay_from_a_position_and_an_instant(tmp_path):
    async def check():
        async with serving(tmp_path) as server, http(server) as client:
            for number in range(6):
                await client.post("/v1/events", json={"id": str(number), "type": "T", "n": number})

            async def replayed(**query):
                answer = await client.get("/v1/replay", params=query)
                assert answer.status_code == 200, answer.text
                assert answer.headers["content-type"] == "application/x-ndjson"
                return [msgspec.json.decode(line)["position"] for line in answer.text.splitlines()]

            assert await replayed() == [0, 1, 2, 3, 4, 5]
            assert await replayed(position=2, filter="n != 3", limit=2) == [2, 4]
            assert await replayed(type="Other") == []
            assert await replayed(since="2020-01-01T00:00:00Z", type="T", limit=1) == [0]
            assert await replayed(since="2999-01-01T00:00:00Z") == []
            body = {"sub": {"filters": [{"exact": {"type": "T"}}]}, "position": 5}
            assert msgspec.json.decode((await client.post("/v1/replay", json=body)).content)["position"] == 5
            for bad in (
                "position=-1",
                "position=x",
                "since=monday",
                "position=1&since=2020-01-01T00:00:00Z",
                "filter=n%20%3E",
            ):
                problem(await client.get(f"/v1/replay?{bad}"), 400)
            problem(await client.post("/v1/replay", json={"sub": {"filter": "("}}), 400)
            for bad in ({"limit": 0}, {"limit": -3}, {"position": -1}):
                assert problem(await client.post("/v1/replay", json=bad), 400)["place"] == f"$.{next(iter(bad))}"
            problem(await client.get("/v1/replay?limit=0"), 400)

    run(check())


def test_replays_at_the_same_time_are_bounded(tmp_path):
    async def check():
        limits = {"replays_per_user": 2, "replays_in_all": 3}
        async with (
            serving(tmp_path, limits=limits) as server,
            http(server) as ana,
            http(server, "eva") as eva,
            http(server, "ivo") as ivo,
        ):
            pads = {f"pad{n}": "x" * 60_000 for n in range(10)}
            await ana.post("/v1/events", json=[{"id": str(n), **pads} for n in range(20)])  # more than sockets hold
            async with AsyncExitStack() as held:
                for client in (ana, ana, eva):
                    answer = await held.enter_async_context(client.stream("GET", "/v1/replay"))
                    assert answer.status_code == 200
                refused = await ana.get("/v1/replay")
                problem(refused, 429)
                assert int(refused.headers["retry-after"]) >= 1
                problem(await ivo.get("/v1/replay?limit=1"), 503)
            await until(lambda: not server.gateway._replays)
            assert (await ana.head("/v1/replay")).status_code == 200
            await until(lambda: not server.gateway._replays)
            assert len((await ivo.get("/v1/replay")).text.splitlines()) == 20

    run(check())


def test_operators_see_health_figures_and_the_interface(tmp_path):
    async def check():
        async with (
            serving(tmp_path) as server,
            http(server) as client,
            httpx.AsyncClient(base_url=server.url) as nobody,
        ):
            await server.gateway.engine.when_loaded()
            for path in ("/healthz", "/readyz", "/openapi.json"):
                assert (await nobody.get(path)).status_code == 200
            await client.post("/v1/events", json={"id": "1"})
            text = (await client.get("/metrics")).text
            assert "recado_published_total 1.0" in text
            assert 'recado_http_requests_total{method="POST",route="/v1/events",status="202"} 1.0' in text
            assert 'recado_publish_seconds_bucket{le="+Inf"} 1.0' in text
            assert "recado_end_position 1.0" in text
            assert (await client.get("/v1/status")).json()["end"] == 1
            server.gateway.engine._loaded.clear()
            answer = await nobody.get("/readyz")
            assert (answer.status_code, answer.json()) == (503, {"status": "loading"})
            server.gateway.engine._loaded.set()
            server.gateway.draining = True
            assert (await nobody.get("/readyz")).status_code == 503
            problem(await client.post("/v1/events", json={"id": "1"}), 503)
            server.gateway.draining = False

    run(check())


def test_methods_paths_and_parameters_that_there_are_not(tmp_path):
    async def check():
        async with serving(tmp_path) as server, http(server) as client:
            wrong = await client.put("/v1/events")
            assert problem(wrong, 405)
            assert wrong.headers["allow"] == "OPTIONS, POST"
            options = await client.options("/v1/subscriptions")
            assert (options.status_code, options.headers["allow"]) == (204, "DELETE, GET, HEAD, OPTIONS, POST")
            assert not [name for name in options.headers if name.startswith("access-control")]
            head = await client.head("/v1/subscriptions")
            assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "20")
            assert (await client.head("/healthz")).status_code == 200
            problem(await client.post("/healthz"), 405)
            for path in (
                "/",
                "/v1",
                "/v1/events/",
                "/v1//events",
                "/v2/events",
                "/v1/subscriptions/",
            ):
                assert (await client.get(path)).status_code in (404, 405), path
            problem(await client.get("/v1/subscriptions?usr=ana"), 400)
            for path in (
                "/v1/subscriptions/%ED%A0%80",
                "/v1/replay?filter=x%20%3D%3D%20%22%FF%22",
                "/v1/sessions/a%FF",
            ):
                assert "its percent-encoding is not UTF-8" in problem(await client.get(path), 400)["detail"], path
            problem(await client.get("/v1/session"), 426)  # a WebSocket lives there, and this is none

    run(check())


def test_methods_that_do_not_exist_are_counted_as_one(tmp_path):
    """Else everyone could fill the memory with the names of methods."""

    async def check():
        async with serving(tmp_path) as server, http(server) as client:
            for number in range(3):
                problem(await client.request(f"ODD{number}", "/v1/events"), 405)
            assert server.gateway.metrics.requests["-", "/v1/events", "405"] == 3
            assert len(server.gateway.metrics.requests) == 1

    run(check())


def test_what_is_not_done_when_the_service_stops_is_told_so(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(server_module, "DRAIN_SECONDS", 0.05)

    async def check():
        async with serving(tmp_path) as server, http(server) as client:
            asked = asyncio.Event()

            async def never(*_):
                asked.set()
                await asyncio.Event().wait()

            server.engine.publish = never
            waiting = asyncio.create_task(client.post("/v1/events", json={"id": "1"}))
            await asked.wait()
            await server.drain()
            assert "stopped before" in problem(await waiting, 503)["detail"]

    run(check())
    assert "Traceback" not in caplog.text


def test_errors_that_nobody_foresaw_say_nothing(tmp_path, caplog):
    async def check():
        async with serving(tmp_path) as server, http(server) as client:
            server.engine.page_of_sessions = lambda *_: 1 / 0
            assert "division" not in problem(await client.get("/v1/sessions"), 500)["detail"]
            assert server.gateway.metrics.requests["GET", "/v1/sessions", "500"] == 1, "it is counted where it was"

    run(check())
    assert "division" in caplog.text


def test_rates_per_user(tmp_path):
    async def check():
        limits = {"publish_per_second": 0.5, "requests_per_second": 5}
        async with serving(tmp_path, limits=limits) as server, http(server) as client, http(server, "eva") as eva:
            server.gateway._requests._clock = server.gateway._publications._clock = lambda: 0.0  # time stands still
            assert (await client.post("/v1/events", json={})).status_code == 202
            refused = await client.post("/v1/events", json={})
            problem(refused, 429)
            assert int(refused.headers["retry-after"]) >= 1
            assert (await eva.post("/v1/events", json={})).status_code == 202
            statuses = [(await client.get("/v1/status")).status_code for _ in range(10)]
            assert statuses == [200] * 3 + [429] * 7

    run(check())


def test_every_operation_has_one_route():
    assert sum(len(route.operations) for route in routes()) == sum(len(list(paths(o))) for o in OPERATIONS)
    assert App  # the table is what the application is made of
    assert len({operation.id for operation in OPERATIONS}) == len(OPERATIONS)


async def poll_loop(client, seen, **first):
    """As docs/http.md describes it: each take acknowledges the answer before it."""
    upto = first
    while found := (await take(client, device="cron", limit=2, **upto))["notifications"]:
        seen += [told["event"]["id"] for told in found]
        upto = {"upto": found[-1]["nid"]}
    return upto


def test_a_device_that_polls_goes_on_after_a_pause_longer_than_poll_seconds(tmp_path):
    async def main():
        async with serving(tmp_path, limits={"poll_seconds": 0.05}) as server, http(server) as client:
            await client.post("/v1/subscriptions", json={"id": "s"})
            await client.post("/v1/events", json=[{"id": str(n), "type": "t"} for n in range(5)])
            seen, devices = [], lambda: {one.device: one.connected for one in server.engine.sessions(Principal("ana"))}
            found = (await take(client, device="cron", limit=2))["notifications"]
            await until(lambda: not devices()["cron"])
            seen += [told["event"]["id"] for told in found]
            upto = await poll_loop(client, seen, upto=found[-1]["nid"])
            assert seen == ["0", "1", "2", "3", "4"]
            await client.post("/v1/events", json={"id": "5", "type": "t"})
            found = (await take(client, device="cron", **upto))["notifications"]
            await until(lambda: not devices()["cron"])
            ack = await client.post("/v1/mailboxes/me/ack", json={"device": "cron", "upto": found[-1]["nid"]})
            assert ack.status_code == 204
            assert (await client.get("/v1/mailboxes/me")).json()["mailboxes"][0]["length"] == 0
            await until(lambda: not devices()["cron"])

    run(main())


def test_a_device_that_polls_goes_on_after_a_restart(tmp_path):
    async def main():
        seen = []
        async with serving(tmp_path) as server, http(server) as client:
            await client.post("/v1/subscriptions", json={"id": "s"})
            await client.post("/v1/events", json=[{"id": str(n), "type": "t"} for n in range(5)])
            found = (await take(client, device="cron", limit=2))["notifications"]
        async with serving(tmp_path) as server, http(server) as client:
            seen += [told["event"]["id"] for told in found]
            await poll_loop(client, seen, upto=found[-1]["nid"])
            assert seen == ["0", "1", "2", "3", "4"]

    run(main())


def test_a_device_that_never_polled_or_is_connected_otherwise_cannot_acknowledge(tmp_path):
    async def main():
        async with serving(tmp_path) as server, http(server) as client, agent(server, device="laptop"):
            for device in ("unknown", "laptop"):
                answer = await client.post("/v1/mailboxes/me/ack", json={"device": device, "upto": 1})
                assert "take first" in problem(answer, 409)["detail"]

    run(main())
