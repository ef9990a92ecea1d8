"""An engine in a temporary folder, with a clock that tests set, consumers that remember, and a way to die."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import wraps

from recado.model.codec import read_event
from recado.server.config import make_config
from recado.server.engine import Engine
from recado.server.permissions import Principal

START = datetime(2026, 11, 15, 12, tzinfo=UTC)
ANA, BEN, ROOT = Principal("ana"), Principal("ben"), Principal("root", admin=True)


class Clock:
    def __init__(self):
        self.now = START

    def __call__(self):
        return self.now

    def pass_(self, seconds):
        self.now += timedelta(seconds=seconds)


class TestConsumer:
    """``auto`` acknowledges at once."""

    __test__ = False
    kind = "test"
    address = "here"

    def __init__(self, window=1000, auto=None):
        self.window, self.auto = window, auto
        self.got, self.notices, self.closed = [], [], None

    def push(self, notifications):
        assert len(notifications) <= self.window
        self.got += notifications
        if self.auto is not None:
            self.auto.acknowledge(self, notifications[-1].nid)

    def notice(self, notices):
        self.notices += notices

    def say(self, messages):
        pass

    def close(self, reason):
        self.closed = reason

    @property
    def ids(self):
        return [read_event(n.event).id for n in self.got]


def config(folder, **sections):
    return make_config({"data": str(folder), **sections})


async def opened(folder, clock=None, *, compiled=True, **sections):
    """With kernels from the beginning, unless a test is about what happens before."""
    engine = await Engine.open(config(folder, **sections), clock=clock or Clock())
    await engine.when_loaded()
    if compiled:
        engine.matcher.compile()
    return engine


async def subscribed(folder, clock=None, *, record=b'{"id": "s"}', **sections):
    """The same, with a subscription of Ana's."""
    engine = await opened(folder, clock, **sections)
    await engine.subscribe(ANA, record, "phone")
    return engine


async def attached(engine, who=ANA, device="phone", seen=None, **options):
    """A consumer that has got what waited."""
    consumer = TestConsumer(**options)
    engine.attach(who, device, consumer, seen)
    await settled(engine)
    return consumer


async def positions(engine, who=ANA):
    """Of the events whose notifications wait for a user."""
    return [n.nid >> 20 for n in await engine.peek(who, who.user, 100)]


async def settled(engine):
    """Everything stored is dispatched, and what consumers were sent has been sent."""
    while not engine.committer.idle or engine.dispatcher.backlog:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0)


async def die(engine):
    """As the process would: nothing more is written. What the threads are at is finished, as a system call would be."""
    for task in engine._tasks:
        task.cancel()
    await asyncio.gather(*engine._tasks, return_exceptions=True)
    engine.state_writer._begin = lambda: None
    engine.committer._waiting.clear()
    await asyncio.to_thread(engine.maintenance.thread.shutdown)
    await asyncio.to_thread(engine.committer._thread.shutdown)
    if engine.state_writer._timer is not None:
        engine.state_writer._timer.cancel()
    await asyncio.to_thread(engine.state_writer._thread.shutdown)
    engine.state_writer._store.close()
    engine.log.close()


def event(id, **attributes):
    return read_event({"id": str(id), "type": attributes.pop("type", "t"), **attributes})


def story(test):
    """Run an asynchronous test; one that takes minutes hangs."""

    @wraps(test)
    def told(**fixtures):
        asyncio.run(asyncio.wait_for(test(**fixtures), 300))

    return told
