"""Webhooks: signed, in order, retried, given up, and never to internal addresses."""

import asyncio
import threading
from contextlib import asynccontextmanager
from ipaddress import ip_address

import msgspec
import pytest
from websockets.asyncio.client import connect

from recado.server import maintenance
from recado.server.permissions import Principal
from recado.server.records import prepare, shown
from recado.server.requests import webhook_device
from recado.server.tokens import add_token
from recado.server.webhooks import targets as targets_module
from recado.server.webhooks.dead_letters import DeadLetter, DeadLetterStore
from recado.server.webhooks.targets import Resolver, Webhook, WebhookError, is_public, read_webhook
from recado.server.webhooks.worker import Places, Sender, Sending, headers, sending, sign
from server.running import Agent, agent, http, m, run, serving, until, ws_url

QUICK = {
    "private": True,
    "first_delay_seconds": 0.01,
    "longest_delay_seconds": 0.05,
    "attempts": 3,
    "timeout_seconds": 2,
}


class Receiver:
    """A web server that answers what it is told to, and remembers what it was asked."""

    def __init__(self):
        self.requests = []
        self.answers = []  # statuses or raw bytes; 200 when there is none
        self.url = ""

    async def serve(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
                body = await reader.readexactly(int(fields["content-length"]))
                self.requests.append((head.split("\r\n")[0], fields, body))
                answer = self.answers.pop(0) if self.answers else 200
                if isinstance(answer, int):
                    answer = f"HTTP/1.1 {answer} X\r\ncontent-length: 0\r\n\r\n".encode()
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @property
    def events(self):
        return [msgspec.json.decode(body)["id"] for _, _, body in self.requests]


@asynccontextmanager
async def receiver():
    found = Receiver()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?x=1"
    try:
        yield found
    finally:
        server.close()


async def subscribe(client, url, **more):
    answer = await client.post("/v1/subscriptions", json={"id": "w", "webhook": {"url": url, **more}})
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_notification_is_posted_and_signed(tmp_path):
    async def check():
        async with serving(tmp_path, webhooks=QUICK) as server, http(server) as client, receiver() as target:
            made = await subscribe(client, target.url, secret="s3cret")
            assert made["webhook"]["secret"] == "..."
            await client.post("/v1/events", json={"id": "é 1", "type": "T", "n": 1})
            await until(lambda: target.requests)
            line, fields, body = target.requests[0]
            assert line == "POST /hook?x=1 HTTP/1.1"
            assert msgspec.json.decode(body) == {"id": "é 1", "type": "T", "n": 1}
            assert fields["content-type"] == "application/json"
            assert (fields["recado-subscription"], fields["x-subscription-id"]) == ("w", "w")
            assert fields["x-notification-id"] == "%c3%a9%201"
            assert fields["recado-attempt"] == "1"
            assert fields["recado-signature"] == sign(
                "s3cret", fields["recado-timestamp"], fields["recado-subscription"], fields["recado-nid"], body
            )
            await until(lambda: server.gateway.metrics.webhooks_delivered == 1)
            [box] = (await client.get("/v1/mailboxes/me")).json()["mailboxes"]
            assert (box["length"], box["delivered"]) == (0, 1)
            assert (await client.get("/v1/sessions")).json() == {"sessions": []}  # a webhook is no device

    run(check())


def test_order_is_kept_while_attempts_fail(tmp_path):
    async def check():
        async with serving(tmp_path, webhooks=QUICK) as server, http(server) as client, receiver() as target:
            target.answers = [500, b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"]
            await subscribe(client, target.url)
            await client.post("/v1/events", json=[{"id": str(n)} for n in range(20)])
            await until(lambda: len(target.requests) == 22)
            assert target.events == ["0", "0", *(str(n) for n in range(20))]
            assert [fields["recado-attempt"] for _, fields, _ in target.requests[:4]] == ["1", "2", "3", "1"]
            assert len({fields["recado-nid"] for _, fields, _ in target.requests[:3]}) == 1

    run(check())


def test_dead_letters_are_listed_retried_and_forgotten(tmp_path):
    async def check():
        async with (
            serving(tmp_path, webhooks=QUICK) as server,
            http(server) as client,
            http(server, "eva") as eva,
            receiver() as target,
        ):
            target.answers = [500, 404, 503]
            await subscribe(client, target.url)
            await client.post("/v1/events", json=[{"id": "bad"}, {"id": "good"}])
            await until(lambda: target.events[-1:] == ["good"])
            [letter] = (await client.get("/v1/dead-letters")).json()["dead_letters"]
            assert (letter["event"], letter["attempts"], letter["reason"]) == ({"id": "bad"}, 3, "status 503")
            assert (await eva.get("/v1/dead-letters")).json() == {"dead_letters": []}
            assert (await eva.get("/v1/dead-letters?user=ana")).status_code == 403
            number = letter["number"]
            assert (await eva.post(f"/v1/dead-letters/{number}/retry")).status_code == 404
            assert (await eva.delete(f"/v1/dead-letters/{number}")).status_code == 404
            target.answers = [500, 500, 500]
            assert (await client.post(f"/v1/dead-letters/{number}/retry")).status_code == 202
            await until(lambda: server.gateway.metrics.webhooks_dead == 2)
            assert len((await client.get("/v1/dead-letters")).json()["dead_letters"]) == 1
            await client.post(f"/v1/dead-letters/{number}/retry")
            await until(lambda: not len(server.gateway.letters))
            assert target.events[-1] == "bad"
            server.gateway.letters.add(DeadLetter(0, "ana", "gone", 1, "u", b"{}", "r", "t", 3))
            [left] = (await client.get("/v1/dead-letters")).json()["dead_letters"]
            assert (await client.post(f"/v1/dead-letters/{left['number']}/retry")).status_code == 409
            assert (await client.delete(f"/v1/dead-letters/{left['number']}")).status_code == 204
            assert (await client.delete("/v1/dead-letters/x")).status_code == 400
            assert (await client.delete("/v1/dead-letters")).json() == {"purged": 0}

    run(check())


def test_an_administrator_sees_the_dead_letters_of_all_a_page_at_a_time(tmp_path):
    async def check():
        root, plain = (
            add_token(tmp_path / "tokens", "r", "root", admin=True),
            add_token(tmp_path / "tokens", "a", "ana"),
        )
        access = {"tokens": str(tmp_path / "tokens")}
        async with (
            serving(tmp_path, access=access) as server,
            http(server, token=root) as admin,
            http(server, token=plain) as ana,
        ):
            for user in ("ana", "eva", "ana"):
                server.gateway.letters.add(DeadLetter(0, user, "s", 1, "u", b"{}", "r", "t", 3))
            first = (await admin.get("/v1/dead-letters?user=*&limit=2")).json()
            rest = (await admin.get(f"/v1/dead-letters?user=*&after={first['next']}")).json()
            assert [one["user"] for one in first["dead_letters"] + rest["dead_letters"]] == ["ana", "eva", "ana"]
            assert "next" not in rest
            assert len((await ana.get("/v1/dead-letters")).json()["dead_letters"]) == 2
            assert (await ana.get("/v1/dead-letters?user=*")).status_code == 403
            assert (await admin.get("/v1/dead-letters")).json() == {"dead_letters": []}
            assert (await admin.delete("/v1/dead-letters?user=*")).json() == {"purged": 3}

    run(check())


def test_the_device_of_a_webhook_is_nobody_elses(tmp_path):
    """Who could call a device so would take the webhook's notifications, and end it."""

    async def check():
        async with serving(tmp_path, webhooks=QUICK) as server, http(server) as client, receiver() as target:
            await subscribe(client, target.url)
            device = webhook_device("w")
            taken = await client.post("/v1/mailboxes/me/take", json={"device": device})
            assert (taken.status_code, "stand for webhooks" in taken.text) == (400, True)
            record = {"id": "x", "scope": "this device"}
            assert (await client.post(f"/v1/subscriptions?device={device}", json=record)).status_code == 400
            async with connect(ws_url(server, "ana"), proxy=None) as socket:
                intruder = Agent(socket)
                await intruder.send(m.Hello(device))
                assert "stand for webhooks" in (await intruder.next(m.Error)).text
            await client.post("/v1/events", json={"id": "1"})
            await until(lambda: target.events == ["1"])

    run(check())


def test_410_cancels_and_tells_the_owner(tmp_path):
    async def check():
        async with (
            serving(tmp_path, webhooks=QUICK) as server,
            http(server) as client,
            receiver() as target,
            agent(server) as ana,
        ):
            target.answers = [410]
            await subscribe(client, target.url)
            await client.post("/v1/events", json=[{"id": "1"}, {"id": "2"}])
            await until(lambda: not len(server.gateway.webhooks))
            assert (await client.get("/v1/subscriptions")).json() == {"subscriptions": []}
            assert target.events == ["1"]
            told = await ana.next(m.SubCancelled)
            assert (told.sub_ids, told.reason) == (("w",), "webhook gone")

    run(check())


@pytest.mark.parametrize("how", ["expired", "cancelled"])
def test_the_owner_is_told_of_the_end_of_a_subscription_with_a_webhook(tmp_path, monkeypatch, how):
    monkeypatch.setattr(maintenance, "TURN_SECONDS", 0.02)

    async def check():
        async with (
            serving(tmp_path, webhooks=QUICK) as server,
            http(server) as client,
            receiver() as target,
            agent(server) as ana,
        ):
            ttl = {"ttl": 0.1} if how == "expired" else {}
            record = {"id": "w", "webhook": {"url": target.url}, **ttl}
            assert (await client.post("/v1/subscriptions", json=record)).status_code == 201
            if how == "cancelled":
                await server.engine.cancel(Principal("root", admin=True), "w", "ana")
            told = await ana.next(m.SubCancelled)
            assert (told.sub_ids, told.reason) == (("w",), how)

    run(check())


def test_the_owner_is_told_what_the_mailbox_of_a_webhook_dropped(tmp_path):
    async def check():
        async with (
            serving(tmp_path, webhooks=QUICK, mailbox={"length": 2}) as server,
            http(server) as client,
            receiver() as target,
            agent(server) as ana,
        ):
            target.answers = [503] * 1_000
            await subscribe(client, target.url)
            await client.post("/v1/events", json=[{"id": str(number)} for number in range(100)])
            gap = await ana.next(m.Gap)
            assert (gap.reason, gap.count > 0) == ("full", True)

    run(check())


def test_a_webhook_gets_its_own_and_goes_on_after_a_restart(tmp_path):
    async def check():
        async with receiver() as target:
            async with serving(tmp_path, webhooks=QUICK) as server, http(server) as client, agent(server) as ana:
                await ana.subscribe(1, id="mine", type="A")
                await ana.subscribe(2, id="w", type="B", webhook={"url": target.url, "format": "cloudevent"})
                await client.post(
                    "/v1/events", json=[{"id": "a", "type": "A"}, {"id": "b", "type": "B", "source": "/s"}]
                )
                await until(lambda: target.requests)
                assert target.events == ["b"]
                assert target.requests[0][1]["content-type"] == "application/cloudevents+json"
                assert msgspec.json.decode((await ana.next(m.Notify)).event)["id"] == "a"
                assert not [x for x in ana.unread if isinstance(x, m.Notify)]
                target.answers = [500] * 3  # the last attempts may fail before the service ends
            async with serving(tmp_path, webhooks=QUICK) as server, http(server) as client:
                target.answers = []
                await client.post("/v1/events", json={"id": "c", "type": "B", "source": "/s"})
                await until(lambda: target.events[-1] == "c")
                assert (await client.delete("/v1/subscriptions/w")).status_code == 204
                await until(lambda: not len(server.gateway.webhooks))

    run(check())


def test_an_unreachable_target_holds_up_nobody(tmp_path):
    async def check():
        settings = {**QUICK, "attempts": 50, "longest_delay_seconds": 60, "first_delay_seconds": 60}
        async with serving(tmp_path, webhooks=settings) as server, http(server) as client, receiver() as target:
            dead = {"id": "dead", "webhook": {"url": "http://127.0.0.1:9/"}}
            assert (await client.post("/v1/subscriptions", json=dead)).status_code == 201
            await subscribe(client, target.url)
            await client.post("/v1/events", json=[{"id": str(n)} for n in range(100)])
            await until(lambda: len(target.requests) == 100)
            assert server.gateway.metrics.webhooks_failed >= 1

    run(check())  # and the end does not wait for the back-off


def test_slow_targets_of_one_user_hold_up_no_other(tmp_path):
    """Beside 120 tarpits of one user the others waited half a minute: at most its share is under way."""

    async def check():
        tarpits, under_way = [], set()

        async def hang(reader, writer):
            under_way.add(writer)
            tarpits.append(writer)
            await reader.read()

        tarpit = await asyncio.start_server(hang, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{tarpit.sockets[0].getsockname()[1]}/"
        settings = {**QUICK, "timeout_seconds": 30, "concurrency": 8, "concurrency_per_user": 3}
        async with (
            serving(tmp_path, webhooks=settings) as server,
            http(server, "eve") as eve,
            http(server) as client,
            receiver() as target,
        ):
            for number in range(20):
                slow = {"id": f"s{number}", "webhook": {"url": url}}
                assert (await eve.post("/v1/subscriptions", json=slow)).status_code == 201
            await subscribe(client, target.url)
            await client.post("/v1/events", json=[{"id": str(n)} for n in range(20)])
            await until(lambda: len(target.requests) == 20, seconds=30)
            assert server.gateway.webhooks._places.held("eve") == 3
            assert len(under_way) == 3
        for writer in tarpits:
            writer.close()
        tarpit.close()

    run(check())


def test_users_take_turns_for_places():
    async def check():
        places, order, hold = Places(2, 1), [], asyncio.Event()

        async def work(user, number):
            async with places.take(user):
                order.append((user, number))
                await (hold.wait() if number == 0 else asyncio.sleep(0))

        tasks = [asyncio.create_task(work(user, number)) for user in ("a", "a", "a", "b", "c") for number in (0, 1)]
        await asyncio.sleep(0.01)
        assert order == [("a", 0), ("b", 0)], "one place each, and two in all"
        gone = tasks[1]
        gone.cancel()
        hold.set()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(one, asyncio.CancelledError) for one in done) == 1
        assert len(order) == 9
        assert order.index(("c", 0)) < order.index(("a", 1)), "who has nothing comes before who has had its share"
        assert not places._held
        assert not places._waiting

    run(check())


def test_names_that_do_not_answer_take_no_thread_of_the_service(tmp_path, monkeypatch):
    answers = threading.Event()

    def slow(host, port):
        answers.wait(10)
        raise OSError("no answer")

    monkeypatch.setattr(targets_module, "look_up", slow)

    async def check():
        async with serving(tmp_path, webhooks={**QUICK, "timeout_seconds": 30}) as server, http(server) as client:
            for number in range(40):
                made = {"id": f"s{number}", "webhook": {"url": f"http://slow{number}.example/"}}
                assert (await client.post("/v1/subscriptions", json=made)).status_code == 201
            await client.post("/v1/events", json={"id": "1"})
            await until(lambda: server.gateway.webhooks._places.held("ana") == 8)
            threads = [one.name for one in threading.enumerate() if one.name.startswith("webhook-names")]
            assert len(threads) <= 8
            assert await asyncio.to_thread(lambda: "others have theirs") == "others have theirs"
            answers.set()

    run(check())


def test_a_masked_secret_that_comes_back_is_the_one_that_is_kept(tmp_path):
    async def check():
        async with serving(tmp_path, webhooks=QUICK) as server, http(server) as client, receiver() as target:
            nothing = {"id": "w", "webhook": {"url": target.url, "secret": "..."}}
            refused = await client.post("/v1/subscriptions", json=nothing)
            assert (refused.status_code, "write the secret" in refused.text) == (400, True)
            await subscribe(client, target.url, secret="s3cret")
            seen = (await client.get("/v1/subscriptions/w")).json()
            seen = {name: seen[name] for name in ("id", "webhook")} | {"filter": "n > 0"}
            assert seen["webhook"]["secret"] == "..."
            assert (await client.post("/v1/subscriptions", json=seen)).status_code in (200, 201)
            await client.post("/v1/events", json={"id": "1", "n": 1})
            await until(lambda: target.requests)
            _, fields, body = target.requests[0]
            signed = fields["recado-timestamp"], fields["recado-subscription"], fields["recado-nid"]
            assert fields["recado-signature"] == sign("s3cret", *signed, body)

    run(check())


def test_webhooks_can_be_off_or_public_only(tmp_path):
    async def check(settings, url, words):
        async with serving(tmp_path, webhooks=settings) as server, http(server) as client:
            answer = await client.post("/v1/subscriptions", json={"webhook": {"url": url}})
            assert answer.status_code in (400, 403)
            assert words in answer.json()["detail"]

    run(check({}, "http://127.0.0.1:80/", "not a public address"))
    run(check({"enabled": False}, "https://example.org/", "no webhooks"))


# -- addresses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/", "http://localhost/", "http://x.localhost/", "http://[::1]/", "http://10.1.2.3/",
        "http://192.168.0.1/", "http://172.16.0.1/", "http://169.254.169.254/latest/meta-data", "http://0.0.0.0/",
        "http://[::ffff:127.0.0.1]/", "http://[fe80::1]/", "http://[fc00::1]/", "http://224.0.0.1/", "http://127.1/",
        "http://0x7f000001/", "http://2130706433/", "http://017700000001/", "http://[2002:7f00:1::]/",
        "http://[64:ff9b::7f00:1]/", "http://255.255.255.255/", "http://100.64.0.1/", "http://[::]/",
        "http://[fec0::1]/",
        "ftp://example.org/", "http:///x", "example.org", "http://user:pw@example.org/", "http://example.org/#f",
        "http://exa mple.org/", "http://example.org\\@127.0.0.1/", "http://[::1", "http://example.org:99999/", "",
        "http://ex\u00e4mple.org/", "http://example.org/\r\nX: y", "h" * 3000,
    ],
)  # fmt: skip
def test_targets_that_are_refused(url):
    with pytest.raises(WebhookError, match=r"\$\.webhook"):
        read_webhook({"url": url}, private=False)


def test_targets_that_are_fine():
    for url in ("https://example.org/hook", "http://93.184.216.34:8080/", "https://[2606:4700::1111]/a?b=c"):
        assert read_webhook({"url": url}, private=False).url == url
    assert read_webhook({"url": "http://127.0.0.1/", "secret": "x"}, private=True).secret == "x"
    for bad in ({}, {"url": "https://example.org", "more": 1}, {"url": 7}, [], {"url": "https://a/", "format": "xml"}):
        with pytest.raises(WebhookError):
            read_webhook(bad, private=True)


def test_public_addresses():
    assert is_public(ip_address("8.8.8.8"))
    assert is_public(ip_address("2606:4700::1111"))
    assert not is_public(ip_address("2002:0a00:0001::1"))
    assert not is_public(ip_address("::ffff:10.0.0.1"))
    assert not is_public(ip_address("64:ff9b::0a00:1"))


def test_a_name_that_means_an_internal_address_is_refused(monkeypatch):
    async def check():
        found = [(2, 1, 6, "", ("93.184.216.34", 80)), (2, 1, 6, "", ("10.0.0.1", 80))]
        monkeypatch.setattr(targets_module, "look_up", lambda host, port: found)
        resolver = Resolver(1)
        with pytest.raises(WebhookError, match=r"10\.0\.0\.1"):
            await resolver.resolve("http://example.org/", private=False)
        assert str(await resolver.resolve("http://example.org/", private=True)) == "93.184.216.34"
        resolver.close()

    run(check())


def test_the_request_goes_to_the_address_that_was_checked(monkeypatch):
    async def check():
        async with receiver() as target:
            port = target.url.split(":")[2].split("/")[0]
            asked = []

            def once(host, port):
                asked.append(host)
                return [(2, 1, 6, "", ("127.0.0.1", port))]

            monkeypatch.setattr(targets_module, "look_up", once)
            import ssl

            sender = Sender(True, 2, ssl.create_default_context(), Resolver(1))
            what = Sending("s", 1, "e", b"{}", "application/json")
            outcome = await sender.send(Webhook(f"http://nowhere.invalid:{port}/x"), what, 1, "0")
            await sender.close()
            assert outcome.taken
            assert len(asked) == 1
            assert target.requests[0][1]["host"] == f"nowhere.invalid:{port}"

    run(check())


def test_answers_without_end_and_without_sense(tmp_path):
    async def check():
        async with receiver() as target:
            import ssl

            sender = Sender(True, 0.5, ssl.create_default_context(), Resolver(1))
            what = Sending("s", 1, "e", b"{}", "application/json")
            endless = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n" + b"x" * 100_000
            target.answers = [
                endless,
                b"nonsense\r\n\r\n",
                b"",
                b"HTTP/1.1 503 X\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n",
            ]
            outcomes = [await sender.send(Webhook(target.url), what, 1, "0") for _ in range(4)]
            await sender.close()
            assert outcomes[0].taken
            assert (outcomes[1].status, outcomes[2].status) == (0, 0)
            assert "no answer within" in outcomes[2].reason
            assert (outcomes[3].status, outcomes[3].after) == (503, 7.0)

    run(check())


# -- parts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["\u00b2", "-5", "soon", "Fri, 01 Jan 0101 00:00:00 -0000"])
def test_a_retry_after_without_sense_is_none(tmp_path, asked):
    """It is an answer like any other: the letter is given up after the last attempt."""

    async def check():
        async with serving(tmp_path, webhooks=QUICK) as server, http(server) as client, receiver() as target:
            head = b"HTTP/1.1 503 X\r\ndate: Fri, 01 Jan 2027 00:00:00 GMT\r\ncontent-length: 0\r\nretry-after: "
            target.answers = [head + asked.encode() + b"\r\n\r\n"] * QUICK["attempts"]
            await subscribe(client, target.url)
            await client.post("/v1/events", json={"id": "a", "type": "T"})
            await until(lambda: len(server.gateway.letters) == 1, 5)
            assert len(target.requests) == QUICK["attempts"]

    run(check())


def test_the_signature_can_be_checked_as_the_docs_say():
    import hashlib
    import hmac

    body, timestamp = b'{"id":"1"}', "1700000000"
    expected = hmac.new(b"key", b"1700000000.my%20sub.7." + body, hashlib.sha256).hexdigest()
    made = headers(Webhook("https://a/", "key"), Sending("my sub", 7, "e", body, "m"), 1, timestamp)
    assert made["recado-signature"] == f"v2={expected}"
    others = [Sending("my sub", 8, "e", body, "m"), Sending("other", 7, "e", body, "m")]
    for other in others:  # what the receiver goes by is signed, too
        assert headers(Webhook("https://a/", "key"), other, 1, timestamp)["recado-signature"] != f"v2={expected}"
    assert "recado-signature" not in headers(Webhook("https://a/"), Sending("s", 1, "e", body, "m"), 1, "0")
    assert "key" not in repr(Webhook("https://a/", "key"))


def test_an_event_that_is_no_cloudevent_goes_as_it_is():
    assert sending(Webhook("https://a/", format="cloudevent"), "s", 1, b'{"id":"1"}').media == "application/json"


def test_letters_are_kept_and_bounded(tmp_path):
    letters = DeadLetterStore(tmp_path / "l.sqlite", 3)
    for number in range(5):
        letters.add(DeadLetter(0, "ana", "s", number, "u", b"{}", "r", "t", 1))
    assert [letter.nid for letter in letters.of("ana")] == [2, 3, 4]
    letters.close()
    again = DeadLetterStore(tmp_path / "l.sqlite", 3)
    assert len(again) == 3
    assert again.purge("ana") == 3
    again.close()
    with pytest.raises(Exception, match="cannot be opened"):
        DeadLetterStore(tmp_path / "none" / "l.sqlite", 3)


def test_records_are_translated_on_their_way_in():
    record, webhook = prepare(b'{"subscription": "{a, GT, 1}", "callback": "https://example.org/"}', private=False)
    members = msgspec.json.decode(record)
    assert (members["filter"], members["webhook"], bool(members["id"])) == (
        "{a, GT, 1}",
        {"url": "https://example.org/"},
        True,
    )
    assert webhook == Webhook("https://example.org/")
    assert shown({"webhook": {"url": "u", "secret": "x"}}) == {"webhook": {"url": "u", "secret": "..."}}
    for bad in (b"{", b"[]", b'"\xff"', b"[" * 50_000, b'{"filter": "x", "subscription": "y"}', b" " * 70_000,
                b'{"callback": "https://a/", "webhook": {"url": "https://a/"}}'):  # fmt: skip
        with pytest.raises(Exception, match=r"\$|limit"):
            prepare(bad, private=False)
