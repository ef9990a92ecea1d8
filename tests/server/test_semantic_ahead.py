"""New names and values are compared off the event loop, before their events are stored; nobody else waits for it."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from recado.errors import RecadoError
from recado.semantics.matcher import SemanticMatcher
from recado.semantics.measures import registry
from recado.semantics.measures.base import Measured
from recado.server import prefetch as matching_ahead
from recado.server.permissions import Busy
from recado.server.prefetch import SimilarityPrefetcher
from server.engine_kit import ANA, BEN, ROOT, attached, die, event, opened, settled, story, subscribed

RECORD = b'{"id": "s", "filter": "{cost, GT, 1}", "semantic": {"measure": "watched"}}'


class Watched(Measured):
    """Names with the same first letter are alike. It remembers who asks, and waits where a test wants that."""

    key = "watched"

    def __init__(self):
        self.askers, self.steps = {}, []
        self.gates = {}

    def matrix(self, a, b):
        self.askers[threading.current_thread().name] = None
        self.steps.append(len(b))
        for name in b:
            if name.name in self.gates:
                assert self.gates[name.name].wait(30)
        return np.array([[0.9 * (one.name[:1] == other.name[:1]) for other in b] for one in a], float)


@pytest.fixture
def watched(monkeypatch, tmp_path):
    monkeypatch.setenv("RECADO_DATA", str(tmp_path / "words"))
    measure = Watched()
    monkeypatch.setitem(registry._entries, "watched", registry.Entry(lambda _: measure, lambda _: 0.5, False, ""))
    return measure


def prices(count, **others):
    return [event(f"e{n}", **{f"c{n}": n + 5, f"x{n}": n}, **others) for n in range(count)]


@story
async def test_the_loop_asks_no_measure(tmp_path, watched):
    text = b'{"id": "t", "filter": "{label, SM, loud}", "semantic": {"measure": "watched"}}'
    engine = await subscribed(tmp_path, record=RECORD)
    await engine.subscribe(BEN, text, "phone")
    consumer, other = await attached(engine), await attached(engine, BEN)
    for one in prices(20):
        await engine.publish(ROOT, [one])
    await engine.publish(ROOT, prices(20))  # the same, sent again
    for value in ("loud", "low", "quiet", "long"):
        await engine.publish(ROOT, [event(f"v-{value}", label=value, c=2)])
    await engine.subscribe(ANA, RECORD.replace(b'"s"', b'"later"').replace(b"cost", b"xylophone"), "phone")
    await engine.publish(ROOT, [event("known", c1=7, x1=7)])
    await settled(engine)
    assert (
        consumer.ids
        == [f"e{n}" for n in range(20)] + [f"v-{v}" for v in ("loud", "low", "quiet", "long")] + ["known"] * 2
    )
    assert other.ids == ["v-loud", "v-low", "v-long"]
    assert list(watched.askers) == ["recado-meaning_0"]
    assert engine.metrics.held_back == 25
    await engine.close()


@story
async def test_only_the_user_with_new_names_waits_and_stays_in_order(tmp_path, watched):
    gate = watched.gates["cc"] = threading.Event()
    engine = await subscribed(tmp_path, record=RECORD)
    consumer = await attached(engine)
    await engine.publish(BEN, [event("first", c=2)])
    slow = asyncio.create_task(engine.publish(ANA, [event("a1", cc=2)]))
    await asyncio.sleep(0)
    after = asyncio.create_task(engine.publish(ANA, [event("a2", c=2)]))  # its name is known, but it comes after a1
    await engine.publish(BEN, [event("b", c=3)])
    await settled(engine)
    assert consumer.ids == ["first", "b"]
    assert not slow.done()
    assert not after.done()
    gate.set()
    assert (await slow)[0] < (await after)[0]
    await settled(engine)
    assert consumer.ids == ["first", "b", "a1", "a2"]
    await engine.close()


@story
async def test_what_waits_is_bounded_for_each_user_and_refused_at_the_end(tmp_path, watched):
    gate = watched.gates["c0"] = threading.Event()
    engine = await subscribed(tmp_path, record=RECORD, semantics={"waiting_bytes": 200})
    many = [asyncio.create_task(engine.publish(BEN, [one])) for one in prices(40)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    refused = [task for task in many if task.done()]
    assert 30 < len(refused) < 40
    assert all("names or values that the service has not met" in str(task.exception()) for task in refused)
    other = asyncio.create_task(engine.publish(ANA, [event("new", cc=2)]))
    await asyncio.sleep(0)
    assert not other.done()
    assert engine.metrics.by["refused"]["busy"] == len(refused)
    closing = asyncio.create_task(engine.close())
    while not other.done():
        await asyncio.sleep(0.001)
    gate.set()
    await closing
    with pytest.raises(Busy, match="stopping"):
        await other
    assert engine.log.end == 0
    assert all(isinstance(task.exception(), Busy) for task in many)


@story
async def test_after_a_crash_the_same_events_match_the_same(tmp_path, watched):
    engine = await subscribed(tmp_path, record=RECORD)
    consumer = await attached(engine)
    for one in prices(10):
        await engine.publish(ROOT, [one])
    await settled(engine)
    before = [(note.nid, note.event) for note in consumer.got]
    assert len(before) == 10
    await die(engine)
    watched.askers.clear()
    again = await opened(tmp_path)
    consumer = await attached(again)
    assert [(note.nid, note.event) for note in consumer.got] == before
    assert threading.main_thread().name not in watched.askers
    await again.close()


def test_one_event_with_very_many_names_is_worked_out_in_short_steps(tmp_path, watched):
    from recado.server.config import make_config
    from recado.server.matching import ServiceMatcher
    from recado.server.requests import read_filter

    matcher, plain = ServiceMatcher(make_config({"data": str(tmp_path)})), SemanticMatcher()
    best = read_filter(RECORD)
    joint = read_filter(RECORD.replace(b'"watched"', b'"watched", "assignment": "one-to-one"').replace(b'"s"', b'"j"'))
    for one in (matcher, plain):
        one.add_many([best, joint])
    wide = event("wide", **{f"n{n}": n for n in range(500)}, c1=7)
    watched.steps.clear()
    assert not matcher.prepared([wide])
    assert sum(1 for _ in matcher.preparing([wide])) > 100
    assert max(watched.steps) <= 8
    assert matcher.prepared([wide])
    watched.steps.clear()
    assert matcher.match(wide) == ["j", "s"]
    assert not watched.steps
    assert plain.match(wide) == ["j", "s"]


def test_users_take_turns_and_a_failure_is_its_owner_s(monkeypatch):
    monkeypatch.setattr(matching_ahead, "TURN_SECONDS", 0)  # a turn is a step
    order = []

    def steps(user, count):
        for number in range(count):
            order.append(user)
            yield number

    def failing():
        yield 1
        raise RecadoError("no")

    async def check():
        ahead = SimilarityPrefetcher(asyncio.get_running_loop(), share=1, user_bytes=1, all_bytes=1)
        one, two = (asyncio.create_task(ahead.run(user, steps(user, 3))) for user in ("one", "two"))
        bad = asyncio.create_task(ahead.run("three", failing()))
        assert await one == await two == [0, 1, 2]
        with pytest.raises(RecadoError, match="no"):
            await bad
        await ahead.close()
        with pytest.raises(Busy):
            await ahead.run("one", iter(()))

    asyncio.run(check())
    assert order == ["one", "two"] * 3
