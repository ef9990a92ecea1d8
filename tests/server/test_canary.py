"""The canary of a service: a fault planted in the index is counted, logged, told and mended."""

from __future__ import annotations

import asyncio
import logging
from random import Random

import numpy as np
import pytest

from recado.matching.canary import Canary
from recado.matching.index import Index
from recado.server import canary as canary_module
from recado.server.metrics import exposition
from server.engine_kit import ANA, BEN, attached, config, event, opened, positions, settled, story, subscribed


def watched(engine, clock=lambda: 0.0):
    """Every slice is compared: by this clock it takes no time."""
    engine.canary._canary = Canary(1.0, Random(1), clock)
    return engine


def spoilt(index, change):
    """The index with other answers."""
    registry = index.registry

    def run_view(view):
        found, uncertain = Index.run_view(index, view)
        ids = change(registry.id_array(registry.slots(found)).to_pylist())
        entries = {int(registry.entry_of[registry.slot(id)]) for id in ids if registry.slot(id) >= 0}
        return np.array(sorted(entries), np.int32), uncertain

    index.run_view = run_view


def lost(ids):
    return []


async def answers(engine):
    await settled(engine)
    while engine.dispatcher.backlog:
        await asyncio.sleep(0.001)


@story
async def test_agreements_are_counted_and_shown(tmp_path):
    engine = watched(await subscribed(tmp_path, record=b'{"id": "s", "filter": "n < 3"}'))
    await engine.subscribe(ANA, b'{"id": "t", "filter": "n > 5"}', "phone")
    for number in range(4):
        await engine.publish(BEN, [event(number, n=number)])
    await answers(engine)
    assert engine.metrics.canary_agreements >= 4
    assert (engine.metrics.canary_disagreements, engine.metrics.index_rebuilds) == (0, 0)
    text = exposition(engine.metrics, {}, {}).decode()
    assert f"recado_canary_agreements_total {engine.metrics.canary_agreements}.0" in text
    assert "recado_canary_disagreements_total 0.0" in text
    assert engine.status()["trouble"] == []
    await engine.close()


@pytest.mark.parametrize("fault", ["lost", "added"])
@story
async def test_a_fault_is_counted_logged_told_and_mended_by_a_new_index(tmp_path, caplog, fault):
    engine = watched(await subscribed(tmp_path, record=b'{"id": "s", "filter": "n < 3"}'))
    await engine.subscribe(ANA, b'{"id": "t", "filter": "n < 3 or n > 90"}', "phone")
    broken = engine.matcher.exact
    spoilt(broken.compiled, lost if fault == "lost" else lambda ids: ["1", "2"])
    sent = 1 if fault == "lost" else 5
    await engine.publish(BEN, [event(sent, n=sent)])
    await engine.publish(BEN, [event(2, n=2), event(99, n=99)])
    await answers(engine)
    consumer = await attached(engine)
    expected = ["1", "1", "2", "2", "99"] if fault == "lost" else ["2", "2", "99"]
    assert consumer.ids == expected  # the event that was found out is matched again
    assert engine.matcher.exact is not broken
    assert engine.metrics.canary_disagreements == 2
    assert engine.metrics.index_rebuilds == 1
    [trouble] = engine.status()["trouble"]
    assert "matching differed from the plain evaluator on 2 of " in trouble
    assert "the index was built anew" in trouble
    said = "the index misses it" if fault == "lost" else "the index matches it, the plain evaluator does not"
    assert f"event '{sent}' and subscription '1': {said}; filter: n < 3; event: " in "\n".join(caplog.messages)
    assert f'"n":{sent}' in "\n".join(caplog.messages)
    assert "differ on subscription 's' of user 'ana'" in "\n".join(caplog.messages)
    await engine.close()


@story
async def test_subscriptions_that_come_and_go_meanwhile_are_in_the_new_index(tmp_path, monkeypatch):
    engine = watched(await subscribed(tmp_path, record=b'{"id": "s", "filter": "n < 3"}'))
    await engine.subscribe(ANA, b'{"id": "gone", "filter": "n < 4"}', "phone")
    spoilt(engine.matcher.exact.compiled, lost)
    begun, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    build = engine.matcher.build

    def slow(subscriptions):
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
        return build(subscriptions)

    monkeypatch.setattr(engine.matcher, "build", slow)
    await engine.publish(BEN, [event(1, n=1)])
    await begun.wait()
    assert "being built anew, and events wait for it" in engine.status()["trouble"][0]
    await engine.subscribe(ANA, b'{"id": "new", "filter": "n < 5"}', "phone")
    await engine.publish(BEN, [event(2, n=2)])
    await engine.cancel(ANA, "gone")
    await engine.publish(BEN, [event(3, n=3)])
    assert engine.dispatcher.position == 0
    go_on.set()
    await answers(engine)
    assert await positions(engine) == [0, 0, 1, 1, 1, 2]  # "gone" gets what was accepted before its end
    await engine.close()


@story
async def test_a_new_index_that_differs_as_well_is_not_built_again_and_corrected(tmp_path, monkeypatch, caplog):
    engine = watched(await subscribed(tmp_path, record=b'{"id": "s", "filter": "n < 3"}'))
    nothing = np.zeros(0, np.int32)
    monkeypatch.setattr(Index, "run_view", lambda self, view: (nothing, nothing))
    for number in range(5):
        await engine.publish(BEN, [event(number, n=number)])
    await answers(engine)
    assert await positions(engine) == [0, 1, 2]
    assert engine.metrics.index_rebuilds == 1
    assert engine.metrics.canary_disagreements == 3
    assert "a new index differs as well" in engine.status()["trouble"][0]
    await engine.close()


@story
async def test_after_an_hour_an_index_is_built_again(tmp_path, monkeypatch):
    engine = watched(await subscribed(tmp_path, record=b'{"id": "s", "filter": "n < 3"}'))
    now = [0.0]
    engine.canary._timer = lambda: now[0]
    for rebuilds in (1, 2):
        spoilt(engine.matcher.exact.compiled, lost)
        await engine.publish(BEN, [event(rebuilds, n=1)])
        await answers(engine)
        assert engine.metrics.index_rebuilds == rebuilds
        now[0] += canary_module.REBUILD_SECONDS
    assert await positions(engine) == [0, 1]
    await engine.close()


@story
async def test_an_index_that_cannot_be_built_holds_nobody_up(tmp_path, monkeypatch, caplog):
    engine = watched(await subscribed(tmp_path, record=b'{"id": "s", "filter": "n < 3"}'))
    spoilt(engine.matcher.exact.compiled, lost)

    def broken(subscriptions):
        raise RuntimeError("no room")

    monkeypatch.setattr(engine.matcher, "build", broken)
    await engine.publish(BEN, [event(1, n=1), event(7, n=7)])
    await answers(engine)
    assert engine.dispatcher.position == 2
    assert "a new index could not be built: no room" in "\n".join(caplog.messages)
    assert engine.status()["trouble"]
    await engine.close()


@story
async def test_it_is_quiet_without_a_share(tmp_path):
    engine = await subscribed(tmp_path, record=b'{"id": "s", "filter": "n < 3"}', matching={"canary_share": 0})
    spoilt(engine.matcher.exact.compiled, lost)
    await engine.publish(BEN, [event(1, n=1)])
    await answers(engine)
    assert engine.metrics.canary_agreements == engine.metrics.canary_disagreements == 0
    await engine.close()


@story
async def test_by_default_it_takes_part(tmp_path):
    assert config(tmp_path).matching.canary_share == 0.001
    engine = await subscribed(tmp_path, record=b'{"id": "s", "filter": "n < 3"}')
    await engine.publish(BEN, [event(1, n=1)])
    await answers(engine)
    assert engine.metrics.canary_agreements == 1
    await engine.close()


@story
async def test_what_is_matched_by_meaning_is_left_out(tmp_path):
    engine = watched(await opened(tmp_path))
    await engine.subscribe(ANA, b'{"id": "s", "filter": "n < 3", "semantic": {"measure": "levenshtein"}}', "phone")
    await engine.publish(BEN, [event(1, n=1)])
    await answers(engine)
    assert await positions(engine) == [0]
    assert engine.metrics.canary_agreements == engine.metrics.canary_disagreements == 0
    await engine.close()


@story
async def test_what_is_logged_of_one_event_is_bounded(tmp_path, caplog):
    caplog.set_level(logging.ERROR)
    engine = watched(await opened(tmp_path))
    for number in range(canary_module.LOGGED + 5):
        await engine.subscribe(ANA, b'{"id": "s-%d", "filter": "n > %d"}' % (number, 100 + number), "phone")
    spoilt(engine.matcher.exact.compiled, lambda ids: [str(serial) for serial in engine.broker.state.subscriptions])
    await engine.publish(BEN, [event(1, n=1)])
    await answers(engine)
    assert "\n".join(caplog.messages).count("the index and the plain evaluator differ") == canary_module.LOGGED
    assert "and on 5 more subscriptions" in "\n".join(caplog.messages)
    assert await positions(engine) == []
    await engine.close()
