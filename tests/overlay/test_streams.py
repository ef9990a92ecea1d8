"""A stream yields everything in order, or says exactly what is missing."""

import asyncio

import msgspec
import pytest

from overlay.helpers import node, run
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.overlay.limits import OVERLAY_LIMITS, OverlayError
from recado.overlay.streams import Gap, Streams
from recado.protocols.pubsub import Notified, Settled


def notified(number, *subscriptions, text=""):
    return Notified(Event(f"e{number}", attributes={"text": text, "many": ("x", 1)}), subscriptions or ("s",))


async def drain(stream):
    stream.close()
    return [item async for item in stream]


def streams(**limits):
    return Streams(msgspec.structs.replace(OVERLAY_LIMITS, **limits))


def test_everybody_gets_their_own():
    async def test():
        all = streams()
        one, two = all.open("one"), all.open("two")
        all.deliver(notified(1, "one"), 1.0)
        all.deliver(notified(2, "one", "two", "nobody follows this"), 2.0)
        all.report(Settled("two", True))
        assert [item.event.id for item in await drain(one)] == ["e1", "e2"]
        assert await drain(two) == [notified(2, "one", "two", "nobody follows this"), Settled("two", True)]
        assert [delivery.event for delivery in all.deliveries] == ["e1", "e2"]

    run(test())


def test_what_is_dropped_is_told_exactly():
    async def test():
        all = streams(stream_notifications=3)
        stream = all.open("s")
        for number in range(5):
            all.deliver(notified(number), 0.0)
        assert await anext(stream) == Gap(2, ("e0", "e1"))
        assert (await anext(stream)).event.id == "e2"
        for number in range(5, 7):
            all.deliver(notified(number), 0.0)
        rest = await drain(stream)
        assert rest[0] == Gap(1, ("e3",))
        assert [item.event.id for item in rest[1:]] == ["e4", "e5", "e6"]
        assert (stream.dropped, stream.delivered) == (3, 4)

    run(test())


def test_a_stream_is_bounded_in_bytes_too():
    async def test():
        all = streams(stream_bytes=30_000)
        stream = all.open("s")
        for number in range(10):
            all.deliver(notified(number, text="x" * 10_000), 0.0)
        gap, *rest = await drain(stream)
        assert gap.count == 8
        assert [item.event.id for item in rest] == ["e8", "e9"]

    run(test())


def test_a_reader_waits_for_what_comes():
    async def test():
        all = streams()
        waiting = asyncio.create_task(anext(all.open("s")))
        await asyncio.sleep(0)
        all.deliver(notified(7), 0.0)
        assert (await waiting).event.id == "e7"
        all.close_all()

    run(test())


def test_a_second_subscription_of_the_same_name_is_refused_and_the_first_one_lives():
    async def test():
        async with node("a") as a:
            stream = await a.subscribe(Subscription("s"))
            with pytest.raises(OverlayError, match="a subscription 's' at this node already"):
                await a.subscribe(Subscription("s"))
            await a.publish(Event("e"))
            assert (await anext(stream)).event.id == "e"
            assert a.follow("s") is stream
            with pytest.raises(OverlayError, match="no subscription 'x'; it has s"):
                a.follow("x")

    run(test())
