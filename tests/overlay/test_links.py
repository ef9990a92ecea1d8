"""Links between live nodes: they come up once, come back, and end with a reason; strangers harm nobody."""

import asyncio
import logging
from pathlib import Path
from random import Random

import msgspec
import pytest

from overlay.flood import FLOOD, News, Odd
from overlay.helpers import QUICK, Hand, Proxy, node, run, take, until
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.overlay.addresses import Tls
from recado.overlay.hello import Hello, Ping, Pong, Refuse, encode_control, header
from recado.overlay.limits import OverlayError
from recado.overlay.node import Node
from recado.protocols.wire import encode

CERTIFICATES = Path(__file__).parent / "certificates"
KEY = b"0123456789abcdef"


def refusals(words):
    return [word.reason for word in words if isinstance(word, Refuse)]


# -- links come up, once


def test_a_message_crosses_two_links():
    async def test():
        async with node("a") as a, node("b", peers=[str(a.address)]) as b, node("c", peers=[str(b.address)]) as c:
            await a.wait_for_links("b")
            await b.wait_for_links("a", "c")
            stream = await c.subscribe(Subscription("s"))
            await a.publish(Event("e"))
            assert await take(stream, 1) == ["e"]

    run(test())


@pytest.mark.parametrize("attempt", range(5))
def test_two_nodes_that_dial_each_other_have_one_link(attempt):
    async def test():
        async with node("a") as a, node("b") as b:
            a.connect(str(b.address))
            b.connect(str(a.address))
            await a.wait_for_links("b")
            await b.wait_for_links("a")
            await until(lambda: a.links.open == b.links.open == 1)
            assert a.links.links["b"].dialled is not b.links.links["a"].dialled
            stream = await b.subscribe(Subscription("s"))
            await a.publish(Event("e"))
            assert await take(stream, 1) == ["e"]
            assert (a.driver.counters.steps, b.driver.counters.steps) == (3, 4)  # no link went up and down again

    run(test())


def test_many_that_all_dial_each_other_have_one_link_a_pair():
    async def test():
        nodes = [await node(f"n{i}").start() for i in range(6)]
        for one in nodes:
            for other in nodes:
                if one is not other:
                    one.connect(str(other.address))
        for one in nodes:
            await one.wait_for_links(*(other.name for other in nodes if other is not one))
        await until(lambda: all(one.links.open == 5 for one in nodes))
        for one in nodes:
            await one.stop()

    run(test())


def test_a_node_that_dials_itself_says_so(caplog):
    async def test():
        async with node("a") as a:
            a.connect(str(a.address))
            await until(lambda: "both sides are called 'a'" in caplog.text)

    run(test())


# -- the other side goes away


def test_a_dialler_comes_back_to_a_node_that_was_away():
    async def test():
        a = await node("a").start()
        address = str(a.address)
        async with node("b", peers=[address]) as b:
            stream = await b.subscribe(Subscription("s"))
            for turn in range(3):
                await a.wait_for_links("b")
                await a.publish(Event(f"e{turn}"))
                assert await take(stream, 1) == [f"e{turn}"]
                await a.stop()
                await until(lambda: not b.links.links)
                a = await node("a", listen=address).start()
            await a.stop()

    run(test())


def test_a_cut_link_is_told_to_both_machines_and_comes_back():
    async def test():
        async with node("a") as a, Proxy(a.address) as proxy, node("b", peers=[proxy.address]) as b:
            await b.wait_for_links("a")
            proxy.open = False
            proxy.cut()
            await until(lambda: not a.driver.machine.neighbours and not b.driver.machine.neighbours)
            proxy.open = True
            await until(lambda: a.driver.machine.neighbours and b.driver.machine.neighbours)

    run(test())


def test_a_silent_peer_is_noticed_and_others_are_not_disturbed(caplog):
    async def test():
        async with (
            node("a") as a,
            Proxy(a.address) as proxy,
            node("b", peers=[proxy.address]) as b,
            node("c", peers=[str(a.address)]) as c,
        ):
            await a.wait_for_links("b", "c")
            proxy.flowing.clear()
            await until(lambda: "b" not in a.links.links)
            assert "c" in a.links.links
            stream = await c.subscribe(Subscription("s"))
            await a.publish(Event("e"))
            assert await take(stream, 1) == ["e"]
            proxy.flowing.set()
            proxy.cut()
            await b.wait_for_links("a")

    caplog.set_level(logging.INFO)
    run(test())
    assert "link to b is down: silent for" in caplog.text


def test_an_idle_link_stays():
    async def test():
        async with node("a") as a, node("b", peers=[str(a.address)]) as b:
            await a.wait_for_links("b")
            link = a.links.links["b"]
            await until(lambda: asyncio.get_running_loop().time() - link.since > 2 * QUICK.silence_seconds)
            assert a.links.links["b"] is link
            assert b.links.links

    run(test())


def test_a_crash_that_nobody_noticed_gives_way_to_the_new_connection():
    """The old connection is probed when the same name comes again, and cut when it does not answer."""

    async def test():
        async with node("m", limits=msgspec.structs.replace(QUICK, ping_seconds=60.0, silence_seconds=60.0)) as m:
            ghost = await (await Hand.to(m)).become("b", m)
            await m.wait_for_links("b")
            dead = m.links.links["b"]
            async with node("b", peers=[str(m.address)]) as b:
                await b.wait_for_links("m")
                await m.wait_for_links("b")
                assert m.links.links["b"] is not dead
            ghost.writer.close()

    run(test())


def test_the_side_that_does_not_decide_takes_what_the_other_accepts():
    """The peer lost its end of the link without a word and comes again; it has the greater name, so it knows better."""

    async def test():
        async with node("a") as a:
            first = await (await Hand.to(a)).become("z", a)
            await a.wait_for_links("z")
            old = a.links.links["z"]
            second = await (await Hand.to(a)).become("z", a)
            await until(lambda: a.links.links.get("z") not in (None, old))
            assert set(await first.last_words()) == {Ping()}
            ups_and_downs = [step["what"] for step in a.driver.story.tell("z")]
            assert ups_and_downs == ["LinkUp", "LinkDown", "LinkUp"]
            second.writer.close()

    run(test())


@pytest.mark.parametrize(("middle", "double"), [("ana", "zoe"), ("zoe", "ana")])
def test_a_second_node_of_a_name_does_not_take_the_link_of_the_first(middle, double, caplog):
    async def test():
        caplog.set_level(logging.INFO)
        async with node(middle) as m, node(double, peers=[str(m.address)]) as first:
            await m.wait_for_links(double)
            link = m.links.links[double]
            async with node(double, peers=[str(m.address)]):
                await until(lambda: "name already" in caplog.text or "names are unique in an overlay" in caplog.text)
                await asyncio.sleep(2 * QUICK.probe_seconds)
            assert m.links.links[double] is link
            assert [step["what"] for step in m.driver.story.tell(double)] == ["LinkUp"]
            assert [step["what"] for step in first.driver.story.tell(middle)] == ["LinkUp"]

    run(test())


# -- a slow peer


def test_a_slow_peer_is_cut_and_others_are_not_hurt(caplog):
    limits = msgspec.structs.replace(QUICK, queue_bytes=200_000, ping_seconds=60.0, silence_seconds=60.0)

    async def test():
        async with node("a", limits=limits) as a, node("c", peers=[str(a.address)], limits=limits) as c:
            slow = await (await Hand.to(a)).become("b", a)
            await a.wait_for_links("b", "c")
            stream = await c.subscribe(Subscription("s"))
            sent = 0
            while "b" in a.links.links:
                assert a.links.links["b"].queued_bytes <= limits.queue_bytes
                await a.publish(Event(f"e{sent}", attributes={"text": "x" * 50_000}))
                sent += 1
            assert await take(stream, sent) == [f"e{i}" for i in range(sent)]
            slow.writer.close()

    caplog.set_level(logging.INFO)
    run(test())
    assert "link to b is down: too slow: " in caplog.text
    assert "the limit is 200,000" in caplog.text


def test_a_publisher_waits_for_a_crowded_link():
    limits = msgspec.structs.replace(QUICK, queue_bytes=400_000, publish_wait_seconds=10.0)

    async def test():
        async with node("a", limits=limits) as a, node("c", peers=[str(a.address)], limits=limits) as c:
            await a.wait_for_links("c")
            stream = await c.subscribe(Subscription("s"))
            for number in range(100):
                await a.publish(Event(f"e{number}", attributes={"text": "x" * 60_000}))
            assert len(await take(stream, 100)) == 100
            assert "c" in a.links.links

    run(test())


def test_a_message_that_no_peer_would_take_is_not_sent(caplog):
    async def test():
        limits = msgspec.structs.replace(QUICK, frame_bytes=1_000)
        async with node("a", limits=limits) as a, node("b", peers=[str(a.address)]) as b:
            await a.wait_for_links("b")
            stream = await b.subscribe(Subscription("s"))
            await a.publish(Event("large", attributes={"text": "x" * 1_000}))
            await a.publish(Event("small"))
            assert await take(stream, 1) == ["small"]
            assert a.driver.counters.failed == {"News": 1}

    run(test())
    assert "bytes is too large to send" in caplog.text


# -- strangers


def test_any_bytes_at_all_harm_nobody():
    """A thousand connections that send something random, or something right that was changed in one place."""

    async def test():
        rng = Random(4)
        hello = encode_control(Hello(1, "recado", "flood", "x", b"n" * 16))
        right = header(hello, control=True) + hello
        async with node("a") as a, node("b", peers=[str(a.address)]) as b:
            await a.wait_for_links("b")
            for _ in range(1_000):
                data = bytearray(right if rng.random() < 0.7 else rng.randbytes(rng.randrange(1, 200)))
                for _ in range(rng.randrange(3)):
                    data[rng.randrange(len(data))] = rng.randrange(256)
                hand = await Hand.to(a)
                hand.writer.write(data)
                hand.writer.write_eof()
                await hand.last_words()
            assert list(a.links.links) == ["b"]
            stream = await b.subscribe(Subscription("s"))
            await a.publish(Event("e"))
            assert await take(stream, 1) == ["e"]
            await until(lambda: a.links.open == 1)

    run(test())


def test_any_bytes_at_all_on_a_link_harm_nobody():
    """Somebody who went through the hello sends frames that are almost right."""

    async def test():
        rng = Random(5)
        payload = encode(News(b'{"id": "e-1", "Price": 3}'))
        async with node("a") as a, node("b", peers=[str(a.address)]) as b:
            await a.wait_for_links("b")
            for _ in range(150):
                hand = await (await Hand.to(a)).become("x", a)
                data = bytearray((header(payload) + payload) * 3)
                for _ in range(rng.randrange(1, 6)):
                    data[rng.randrange(len(data))] = rng.randrange(256)
                hand.writer.write(data)
                hand.writer.write_eof()
                await hand.last_words()
                await until(lambda: "x" not in a.links.links)
            stream = await b.subscribe(Subscription("s"))
            await a.publish(Event("e"))
            assert (await take(stream, 1))[-1] == "e"

    run(test())


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "a frame claims 1,195,725,856 bytes and the limit here is 4,096"),
        (b"\x00\x00\x10\x01", "a frame claims 4,097 bytes"),
        (b"\x80\x00\x00\x03\xc1\xc1\xc1", "did not say hello"),
        (b"\x00\x00\x00\x01\xc0", "a message before the hello"),
        (b"", "no complete hello within 0.5 s"),
        (b"\x80\x00\x00\x20\x95\xa5hel", "no complete hello within 0.5 s"),
    ],
)
def test_garbage_ends_that_connection_with_a_reason_and_nothing_else(sent, reason, caplog):
    async def test():
        async with node("a") as a, node("b", peers=[str(a.address)]) as b:
            await a.wait_for_links("b")
            hand = await Hand.to(a)
            hand.writer.write(sent)
            (told,) = refusals(await hand.last_words())
            assert reason in told
            stream = await b.subscribe(Subscription("s"))
            await a.publish(Event("e"))
            assert await take(stream, 1) == ["e"]
            await until(lambda: a.links.refused == 1)

    run(test())
    assert reason in caplog.text


def test_a_connection_that_closes_without_a_word_is_forgotten():
    async def test():
        async with node("a") as a:
            hand = await Hand.to(a)
            hand.writer.close()
            await until(lambda: a.links.refused == 1 and a.links.open == 0)

    run(test())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x00\x00\x03abc", "is no message of protocol 'flood'"),
        (b"\x80\x00\x00\x01\xc0", "a control frame that is none"),
        (b"\x7f\xff\xff\xff", "a frame claims 2,147,483,647 bytes"),
        (header(b"x" * 10) + b"\x81\xa4type\xa4news", "is no message of protocol 'flood'"),
        (header(b"x" * 5) + b"\x91" * 5, "is no message of protocol 'flood'"),
    ],
)
def test_garbage_on_a_link_ends_that_link_only(data, reason, caplog):
    async def test():
        async with node("a") as a, node("c", peers=[str(a.address)]) as c:
            hand = await (await Hand.to(a)).become("b", a)
            await a.wait_for_links("b", "c")
            hand.writer.write(data)
            (told,) = refusals(await hand.last_words())
            assert reason in told
            await until(lambda: "b" not in a.links.links)
            stream = await c.subscribe(Subscription("s"))
            await a.publish(Event("e"))
            assert await take(stream, 1) == ["e"]

    caplog.set_level(logging.INFO)
    run(test())
    assert reason in caplog.text


def test_half_a_frame_before_the_end_is_told_in_the_log(caplog):
    async def test():
        async with node("a") as a:
            hand = await (await Hand.to(a)).become("b", a)
            await a.wait_for_links("b")
            hand.writer.write(b"\x00\x00\x01\x00half")
            hand.writer.close()
            await until(lambda: not a.links.links)

    caplog.set_level(logging.INFO)
    run(test())
    assert "ended inside a frame, after 8 bytes of it" in caplog.text


def test_a_message_that_the_machine_fails_at_ends_that_link_only(caplog):
    async def test():
        async with node("a") as a, node("c", peers=[str(a.address)]) as c:
            hand = await (await Hand.to(a)).become("b", a)
            await a.wait_for_links("b", "c")
            payload = encode(Odd())
            hand.writer.write(header(payload) + payload)
            (told,) = refusals(await hand.last_words())
            assert "b sent a Odd that cannot be taken: a bug in the machine" in told
            await until(lambda: list(a.links.links) == ["c"])
            assert c.links.links

    run(test())
    assert "the machine failed at" in caplog.text


def test_a_ping_is_answered_and_a_hello_on_a_link_is_not_taken():
    async def test():
        async with node("a") as a:
            hand = await (await Hand.to(a)).become("b", a)
            hand.say(Ping())
            assert await hand.control() == Pong()
            hand.say(Hello(1, a.overlay, "flood", "b", b"n" * 16))
            assert "hello on a link that is already accepted" in refusals(await hand.last_words())[0]

    run(test())


def test_too_many_connections_are_refused_with_the_limit():
    async def test():
        limits = msgspec.structs.replace(QUICK, connections=3, hello_seconds=5.0)
        async with node("a", limits=limits) as a, node("b", peers=[str(a.address)]) as b:
            await a.wait_for_links("b")
            hands = [await Hand.to(a) for _ in range(2)]
            await until(lambda: a.links.open == 3)
            extra = await Hand.to(a)
            assert refusals(await extra.last_words()) == ["3 connections are open, and the limit is 3"]
            stream = await b.subscribe(Subscription("s"))
            await a.publish(Event("e"))
            assert await take(stream, 1) == ["e"]
            for hand in hands:
                hand.writer.close()
            await until(lambda: a.links.open == 1)
            late = await (await Hand.to(a)).become("c", a)
            late.writer.close()

    run(test())


# -- who may link


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"overlay": "other"}, "the other side is of overlay"),
        ({"key": b"another key, long"}, "the shared keys differ"),
        ({"key": b""}, "the shared keys differ"),
        ({"protocol": msgspec.structs.replace(FLOOD, name="other")}, "the other side is of protocol"),
    ],
)
def test_nodes_that_do_not_fit_do_not_link(options, reason, caplog):
    async def test():
        options.setdefault("key", KEY)
        async with node("a", key=KEY) as a, node("b", peers=[str(a.address)], **options) as b:
            await until(lambda: caplog.text.count(reason) >= 2)  # both logs tell
            assert not a.links.links
            assert not b.links.links

    run(test())
    assert "no link to 127.0.0.1" in caplog.text


def test_nodes_with_the_same_key_link():
    async def test():
        async with node("a", key=KEY) as a, node("b", key=KEY, peers=[str(a.address)]) as b:
            await b.wait_for_links("a")

    run(test())


def test_another_version_is_refused_by_its_number():
    async def test():
        async with node("a") as a:
            hand = await Hand.to(a)
            hand.say(Hello(2, "recado", "flood", "b", b"n" * 16))
            assert refusals(await hand.last_words()) == ["this node speaks version 1 and the other side version 2"]

    run(test())


def test_without_a_key_a_node_listens_on_loopback_only():
    async def test():
        with pytest.raises(OverlayError, match="a shared key is needed"):
            await node("a", listen="0.0.0.0:0").start()

    run(test())


def test_a_port_in_use_is_named():
    async def test():
        async with node("a") as a:
            with pytest.raises(OverlayError, match=f"cannot listen on {a.address}"):
                await node("b", listen=str(a.address)).start()

    run(test())


def tls(name, ca="ca.pem"):
    return Tls(CERTIFICATES / f"{name}.pem", CERTIFICATES / f"{name}.key", CERTIFICATES / ca)


def test_links_over_tls():
    async def test():
        async with node("a", tls=tls("node")) as a, node("b", tls=tls("node"), peers=[str(a.address)]) as b:
            await a.wait_for_links("b")
            assert a.links.links["b"]._writer.get_extra_info("cipher")
            stream = await b.subscribe(Subscription("s"))
            await a.publish(Event("e"))
            assert await take(stream, 1) == ["e"]

    run(test())


@pytest.mark.parametrize("other", [None, tls("stranger"), tls("stranger", "stranger.pem")])
def test_without_the_right_certificate_there_is_no_link(other, caplog):
    async def test():
        async with node("a", tls=tls("node")) as a, node("b", tls=other, peers=[str(a.address)]) as b:
            await until(lambda: "b: no link to" in caplog.text)
            assert not a.links.links
            assert not b.links.links

    run(test())


@pytest.mark.parametrize("name", ["", "a b", "../a", ".a", "x" * 65, "a/b"])
def test_names_are_checked(name):
    with pytest.raises(OverlayError, match="is no name of a node or overlay"):
        Node(name, protocol=FLOOD)
