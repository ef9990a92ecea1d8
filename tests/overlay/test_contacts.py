"""Links that are opened when they are needed: acknowledgements, failures, bounds, and peers that misbehave."""

import asyncio
import contextlib
from pathlib import Path

import msgspec
import pytest

from overlay.helpers import QUICK, Hand, run, until
from recado.model.codec import read_event, write_flat
from recado.model.event import Event
from recado.overlay.addresses import Tls
from recado.overlay.hello import Ack, Begin, FrameDecoder, Handshake, Hello, decode_control, encode_control, header
from recado.overlay.limits import OverlayError
from recado.overlay.node import Node
from recado.protocols.machine import Asked, Deliver, LinkUp, Received, Send, SendFailed, Started
from recado.protocols.pubsub import Notified, OverlayProtocol, Publish


class News(msgspec.Struct, frozen=True, tag=True, array_like=True):
    event: bytes


class Teller:
    """Tells every event that it is asked to publish to everybody it knows, and notes what failed."""

    def __init__(self, me):
        self.me, self.known, self.heard, self.failed = me, {}, [], []

    def handle(self, stimulus, now, rng):
        match stimulus:
            case Started(neighbours):
                self.known = dict.fromkeys(neighbours)
            case LinkUp(peer):
                self.known[peer] = None
            case Asked(Publish(event)):
                return [Send(peer, News(write_flat(event)), "telling") for peer in self.known]
            case Received(sender, News(text)):
                event = read_event(text)
                self.heard.append((sender, event.id))
                return [Deliver(Notified(event, ()))]
            case SendFailed(receiver, News(text)):
                self.failed.append((receiver, read_event(text).id))
        return ()

    def inspect(self):
        return {"known": list(self.known)}


TELL = OverlayProtocol(name="tell", make=lambda s, t: Teller, messages=News, requests=(Publish,), contact="anyone")
CERTIFICATES = Path(__file__).with_name("certificates")
LIMITS = msgspec.structs.replace(QUICK, hello_seconds=5.0, ack_seconds=5.0)
HURRIED = msgspec.structs.replace(LIMITS, ack_seconds=0.3)
"""For what is never acknowledged."""


def teller(name, **options):
    options.setdefault("limits", LIMITS)
    return Node(name, protocol=TELL, **options)


def heard(node):
    return [id for _, id in node.driver.machine.heard]


def failed(node):
    return node.driver.machine.failed


def me(node):
    return str(node.address)


def dialled(node):
    return sum(1 for link in node.links.links.values() if link.dialled)


def test_a_message_comes_from_the_endpoint_of_its_sender_and_is_acknowledged():
    async def test():
        async with teller("a") as a, teller("b", peers=[me(a)]) as b:
            for number in range(5):
                await b.publish(Event(f"e{number}"))
            await until(lambda: len(heard(a)) == 5)
            assert a.driver.machine.heard == [(me(b), f"e{number}") for number in range(5)]
            await until(lambda: b.links.pending_bytes == 0)
            assert (list(b.links.links), list(a.links.links)) == ([me(a)], [f"from {me(b)}"])  # one link for all
            a.connect(me(b))
            await a.publish(Event("back"))
            await until(lambda: heard(b) == ["back"])
            assert sorted(a.links.links) == sorted([me(b), f"from {me(b)}"])  # and one for the other way
            assert not failed(a)
            assert not failed(b)

    run(test())


def test_a_refused_connection_fails_at_once():
    async def test():
        async with teller("b") as b:
            gone = me(b)
        slow = msgspec.structs.replace(LIMITS, ack_seconds=60.0)
        async with teller("a", peers=[gone], limits=slow) as a:
            await a.publish(Event("e"))
            await until(lambda: failed(a) == [(gone, "e")])
            assert a.driver.counters.failed == {"News": 1}
            assert a.links.open == a.links.pending_bytes == 0

    run(test())


@contextlib.asynccontextmanager
async def server(serve):
    """A listener of the test's own; its endpoint, and the connections that came."""
    tasks = []

    def accept(reader, writer):
        tasks.append(asyncio.create_task(serve(reader, writer)))
        tasks[-1].add_done_callback(lambda _: writer.close())

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}", tasks
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)


def test_no_answer_at_all_fails_after_two_tries():
    async def test():
        async with server(silent) as (endpoint, connections), teller("a", peers=[endpoint], limits=HURRIED) as a:
            loop = asyncio.get_running_loop()
            began = loop.time()
            await a.publish(Event("e1"))
            await a.publish(Event("e2"))
            await until(lambda: len(failed(a)) == 2)
            assert failed(a) == [(endpoint, "e1"), (endpoint, "e2")]
            assert loop.time() - began >= 2 * HURRIED.ack_seconds
            assert len(connections) == 2

    run(test())


async def silent(reader, writer):
    """Take the connection, and say nothing."""
    await asyncio.sleep(30)


class Listener:
    """Greets as a node of ``overlay`` and then does what a test wants with every frame."""

    def __init__(self, node, act):
        self.node, self.act, self.endpoint, self.frames = node, act, "", []

    async def serve(self, reader, writer):
        decoder = FrameDecoder(1 << 20)

        def say(message, control=True):
            payload = encode_control(message)
            writer.write(header(payload, control=control) + payload)

        hello = Hello(1, self.node.overlay, self.node.protocol.name, "x", b"n" * 16, (f"at={self.endpoint}",))
        handshake = Handshake(hello, b"", dialled=False)
        with contextlib.suppress(OSError):
            while data := await reader.read(4096):
                decoder.feed(data)
                for frame in decoder.frames():
                    if handshake.accepted:
                        what = decode_control(frame.payload) if frame.control else frame.payload
                        self.frames.append(what)
                        self.act(what, say)
                        continue
                    for answer in handshake.receive(frame.payload):
                        say(answer)
                    if handshake.proven and handshake.decides:
                        say(handshake.accept())


def test_who_takes_and_never_acknowledges_gets_the_same_numbers_again_and_fails():
    async def test():
        async with teller("a", limits=HURRIED) as a:
            listener = Listener(a, lambda what, say: None)
            async with server(listener.serve) as (endpoint, connections):
                listener.endpoint = endpoint
                a.connect(endpoint)
                await a.publish(Event("e1"))
                await a.publish(Event("e2"))
                await until(lambda: len(failed(a)) == 2)
                first, one, two, *again = listener.frames
                assert again == [first, one, two]
                assert first.first == 1
                assert len(connections) == 2

    run(test())


def test_a_slow_receiver_that_acknowledges_something_is_waited_for():
    limits = msgspec.structs.replace(LIMITS, ack_seconds=1.0)

    async def test():
        async with teller("a", limits=limits) as a:
            taken = []

            def act(what, say):
                if isinstance(what, bytes):
                    taken.append(what)
                    number = len(taken)
                    asyncio.get_running_loop().call_later(0.4 * number, say, Ack(number))

            listener = Listener(a, act)
            async with server(listener.serve) as (endpoint, connections):
                listener.endpoint = endpoint
                a.connect(endpoint)
                for number in range(5):
                    await a.publish(Event(f"e{number}"))
                await until(lambda: not a.links.pending_bytes)
                assert (failed(a), len(connections), len(taken)) == ([], 1, 5)

    run(test())


def test_who_acknowledges_one_message_and_then_nothing_more_fails_with_the_others():
    async def test():
        async with teller("a", limits=HURRIED) as a:
            listener = Listener(a, lambda what, say: say(Ack(1)) if isinstance(what, bytes) else None)
            async with server(listener.serve) as (endpoint, connections):
                listener.endpoint = endpoint
                a.connect(endpoint)
                for number in range(3):
                    await a.publish(Event(f"e{number}"))
                await until(lambda: failed(a) == [(endpoint, "e1"), (endpoint, "e2")])
                assert len(connections) == 2

    run(test())


@pytest.mark.parametrize(
    "answer",
    [(Ack(7), True), (["Nonsense"], True), (["News", b"{}"], False), (Begin(1, 1), True)],
    ids=["acknowledges what was never sent", "nonsense", "sends messages", "begins"],
)
def test_who_answers_badly_loses_the_link(answer):
    async def test():
        async with teller("a") as a, teller("b") as b:
            listener = Listener(a, lambda what, say: say(*answer) if isinstance(what, bytes) else None)
            async with server(listener.serve) as (endpoint, connections):
                listener.endpoint = endpoint
                a.connect(endpoint)
                a.connect(me(b))
                await a.publish(Event("e"))
                await until(lambda: failed(a) == [(endpoint, "e")] and heard(b) == ["e"])
                assert len(connections) == 2

    run(test())


def test_what_is_sent_twice_is_taken_once():
    async def test():
        async with teller("a") as a:
            at = "127.0.0.1:9"
            for numbers in ([1], [1, 2], [2, 3]):
                hand = await (await Hand.to(a)).become("x", a, at=at)
                hand.say(Begin(77, numbers[0]))
                for number in numbers:
                    hand.say(["News", write_flat(Event(f"e{number}"))], control=False)
                while (await hand.control()) != Ack(numbers[-1]):
                    pass
                hand.writer.close()
            assert a.driver.machine.heard == [(at, "e1"), (at, "e2"), (at, "e3")]
            hand = await (await Hand.to(a)).become("x", a, at=at)
            hand.say(Begin(78, 1))  # another session: the node began anew
            hand.say(["News", write_flat(Event("anew"))], control=False)
            assert await hand.control() == Ack(1)
            assert heard(a)[-1] == "anew"
            hand.writer.close()

    run(test())


def test_few_links_serve_many_peers():
    limits = msgspec.structs.replace(LIMITS, contacts=3, ack_seconds=5.0)

    async def test():
        others = [await teller(f"b{number}").start() for number in range(12)]
        async with teller("a", peers=[me(other) for other in others], limits=limits) as a:
            most = 0
            for number in range(4):
                await a.publish(Event(f"e{number}"))
                while not all(len(heard(other)) == number + 1 for other in others):
                    most = max(most, dialled(a))
                    await asyncio.sleep(0)
            assert 1 <= most <= 3
            assert not failed(a)
        for other in others:
            assert heard(other) == ["e0", "e1", "e2", "e3"]
            await other.stop()

    run(test())


def test_a_node_takes_in_new_senders_by_letting_go_of_old_ones():
    limits = msgspec.structs.replace(LIMITS, connections=8)

    async def test():
        async with teller("a", limits=limits) as a:
            others = [await teller(f"b{number}", peers=[me(a)]).start() for number in range(10)]
            for turn in range(2):
                for number, other in enumerate(others):
                    await other.publish(Event(f"e{turn}-{number}"))
                    await until(lambda id=f"e{turn}-{number}": id in heard(a))
                    assert len(a.links.links) <= 4
            assert len(heard(a)) == 20
            assert not any(failed(other) for other in others)
            for other in others:
                await other.stop()

    run(test())


def test_a_link_that_is_not_used_is_closed():
    limits = msgspec.structs.replace(LIMITS, contact_idle_seconds=0.2)

    async def test():
        async with teller("a") as a, teller("b", peers=[me(a)], limits=limits) as b:
            await b.publish(Event("e1"))
            await until(lambda: heard(a) == ["e1"] and dialled(b) == 1)
            await until(lambda: not b.links.links and not a.links.links)
            await b.publish(Event("e2"))
            await until(lambda: heard(a) == ["e1", "e2"])
            assert not failed(b)

    run(test())


def test_a_node_that_comes_back_at_its_endpoint_is_reached_again():
    async def test():
        a = await teller("a").start()
        async with teller("b", peers=[me(a)]) as b:
            await b.publish(Event("e1"))
            await until(lambda: heard(a) == ["e1"])
            await a.stop()
            await b.publish(Event("e2"))
            await until(lambda: failed(b) == [(me(a), "e2")])
            async with teller("a", listen=me(a)) as again:
                await b.publish(Event("e3"))
                await until(lambda: heard(again) == ["e3"])

    run(test())


@pytest.mark.parametrize("endpoint", ["nobody", "10.11.12.13:700", "localhost:700", "127.0.0.1:0", "[::1:7"])
def test_what_is_no_endpoint_for_this_node_fails_at_once(endpoint):
    async def test():
        async with teller("a") as a:
            a.driver.tell(LinkUp(endpoint))
            await a.publish(Event("e"))
            assert failed(a) == [(endpoint, "e")]
            assert a.links.open == 0

    run(test())


def test_a_peer_may_be_named_by_its_host():
    async def test():
        async with teller("a") as a, teller("b", peers=[f"localhost:{a.address.port}"], listen="localhost:0") as b:
            assert b.driver.machine.inspect()["known"] == [me(a)]
            await b.publish(Event("e"))
            await until(lambda: heard(a) == ["e"])

    run(test())


def test_a_node_that_others_are_told_of_listens_on_one_address():
    async def test():
        with pytest.raises(OverlayError, match=r"listen on one address, not on 0\.0\.0\.0"):
            await teller("a", listen="0.0.0.0:0", key=b"k" * 16).start()
        with pytest.raises(OverlayError, match="has no address"):
            await teller("a", peers=["no-such-host.invalid:7"]).start()

    run(test())


def test_other_keys_and_overlays_are_failures():
    async def test():
        async with (
            teller("a", key=b"k" * 16) as a,
            teller("c", overlay="other") as c,
            teller("b", peers=[me(a), me(c)]) as b,
        ):
            await b.publish(Event("e"))
            await until(lambda: sorted(failed(b)) == sorted([(me(a), "e"), (me(c), "e")]))
            assert not heard(a)
            assert not heard(c)

    run(test())


def test_contacts_over_tls():
    async def test():
        tls = Tls(CERTIFICATES / "node.pem", CERTIFICATES / "node.key", CERTIFICATES / "ca.pem")
        stranger = Tls(CERTIFICATES / "stranger.pem", CERTIFICATES / "stranger.key", CERTIFICATES / "ca.pem")
        async with (
            teller("a", tls=tls) as a,
            teller("b", tls=tls, peers=[me(a)]) as b,
            teller("c", tls=stranger, peers=[me(a)]) as c,
            teller("d", peers=[me(a)]) as d,
        ):
            for number, one in enumerate((b, c, d)):
                await one.publish(Event(f"e{number}"))
            await until(lambda: heard(a) == ["e0"] and failed(c) == [(me(a), "e1")] and failed(d) == [(me(a), "e2")])
            assert not failed(b)

    run(test())


# -- peers that misbehave


@pytest.mark.parametrize(
    ("at", "sent", "reason"),
    [
        ("", [], "says it is at ''"),
        ("10.1.2.3:77", [], "says it is at '10.1.2.3:77'"),
        ("127.0.0.2:77", [], "says it is at '127.0.0.2:77' speaks from 127.0.0.1"),
        ("localhost:77", [], "says it is at 'localhost:77'"),
        ("127.0.0.1:077", [], "says it is at '127.0.0.1:077'"),
        ("127.0.0.1:77", [(["News", b"{}"], False)], "before it was said how messages are numbered"),
        ("127.0.0.1:77", [(Begin(1, 1), True), (Begin(1, 1), True)], "begin out of turn"),
        ("127.0.0.1:77", [(Ack(1), True)], "ack out of turn"),
        ("127.0.0.1:77", [(Begin(1, 0), True)], "numbered from 1 on"),
        ("127.0.0.1:77", [(Begin(1, 1), True), (["Odd"], False)], "no message of protocol 'tell'"),
        ("127.0.0.1:77", [(Begin(1, 1), True), (["News", b"x" * 3_000_000], False)], "the limit here is 2,097,152"),
    ],
)
def test_a_peer_that_breaks_the_rules_loses_its_link_and_nothing_else(at, sent, reason):
    async def test():
        async with teller("a") as a, teller("b", peers=[me(a)]) as b:
            hand = await (await Hand.to(a)).become("x", a, at=at)
            for message, control in sent:
                hand.say(message, control=control)
            words = await hand.last_words()
            assert reason in words[-1].reason
            await until(lambda: a.links.refused == 1)
            await b.publish(Event("e"))
            await until(lambda: heard(a) == ["e"])

    run(test())


def test_a_peer_that_floods_is_read_slowly_and_others_are_not_hurt():
    limits = msgspec.structs.replace(LIMITS, messages_a_second=200)

    async def test():
        loop = asyncio.get_running_loop()
        async with teller("a", limits=limits) as a, teller("b", peers=[me(a)]) as b:
            hand = await (await Hand.to(a)).become("x", a, at="127.0.0.1:77")
            hand.say(Begin(1, 1))
            began = loop.time()
            text = write_flat(Event("flood", attributes={"text": "x" * 1_000}))
            for _ in range(500):
                hand.say(["News", text], control=False)
            for number in range(10):
                await b.publish(Event(f"e{number}"))
            await until(lambda: "e9" in heard(a))
            assert heard(a).count("flood") < 500
            await until(lambda: len(heard(a)) == 510)
            assert loop.time() - began > 1.2  # 200 at once, and 300 more at 200 a second
            assert not failed(b)
            hand.writer.close()

    run(test())


def test_a_peer_that_does_not_take_anything_holds_a_bounded_amount():
    limits = msgspec.structs.replace(HURRIED, queue_bytes=100_000)

    async def test():
        async with (
            server(silent) as (endpoint, _),
            teller("b") as b,
            teller("a", peers=[endpoint, me(b)], limits=limits) as a,
        ):
            for number in range(30):
                await a.publish(Event(f"e{number}", attributes={"text": "x" * 10_000}))
                await until(lambda n=number: len(heard(b)) == n + 1)
                assert a.links.pending_bytes < 110_000
            assert len(failed(a)) >= 15  # at once, since no more may wait for this peer
            await until(lambda: len(failed(a)) == 30)
            assert {receiver for receiver, _ in failed(a)} == {endpoint}

    run(test())
