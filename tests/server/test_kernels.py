"""A service begins without kernels, and takes them when they are there: nobody's notifications change."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys

import pytest

from recado.matching.index import Index
from recado.server import prefetch as matching_kernels
from server.engine_kit import ANA, BEN, attached, event, opened, settled, story

SUB = b'{"id": "s", "filter": "x > 3"}'


class FakeBuild:
    """It is over when the test says so."""

    over, stopped, fault, seconds = False, False, "", 21.0

    def __init__(self, *, background):
        assert background

    @property
    def is_running(self):
        return not FakeBuild.over

    def stop(self):
        FakeBuild.stopped = True


@pytest.fixture(autouse=True)
def build(monkeypatch):
    """As on a machine that has never compiled anything."""
    monkeypatch.setattr(matching_kernels, "Build", FakeBuild)
    monkeypatch.setattr(matching_kernels, "FIRST_ANSWERS_SECONDS", 0.0)
    monkeypatch.setattr(matching_kernels, "is_prepared", lambda: False)
    monkeypatch.setattr(matching_kernels, "can_write", lambda: True)
    monkeypatch.setattr(matching_kernels, "prepare", lambda: None)
    monkeypatch.setattr(FakeBuild, "over", False)
    monkeypatch.setattr(FakeBuild, "stopped", False)


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


@story
async def test_it_serves_before_it_has_kernels_and_takes_them_over(tmp_path, caplog):
    caplog.set_level(logging.INFO, "recado.server")
    engine = await opened(tmp_path, compiled=False)
    await engine.subscribe(ANA, SUB, "phone")
    consumer = await attached(engine, auto=engine)
    for number in range(6):
        await engine.publish(BEN, [event(number, x=number)])
    await settled(engine)
    assert consumer.ids == ["4", "5"]
    assert not engine.matcher.is_compiled
    FakeBuild.over = True
    await until(lambda: "from here on" in caplog.text)
    assert engine.matcher.is_compiled
    await engine.subscribe(ANA, b'{"id": "t", "filter": "x == 2"}', "phone")
    await engine.publish(BEN, [event(number, x=number - 10) for number in range(10, 16)])
    await settled(engine)
    assert consumer.ids == ["4", "5", "12", "14", "15"]
    assert caplog.text.count("were compiled in 21 s, and match 1 subscriptions from here on") == 1
    assert FakeBuild.stopped
    await engine.close()


@story
async def test_a_service_that_stops_stops_the_build(tmp_path):
    engine = await opened(tmp_path, compiled=False)
    await asyncio.sleep(0.05)
    await engine.close()
    assert FakeBuild.stopped


@story
async def test_kernels_that_cannot_be_used_leave_matching_as_it_was(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(Index, "add", lambda *_, **__: 1 / 0)
    FakeBuild.over = True
    engine = await opened(tmp_path, compiled=False)
    await engine.subscribe(ANA, SUB, "phone")
    await until(lambda: "cannot be used; filters are evaluated one by one" in caplog.text)
    consumer = await attached(engine, auto=engine)
    await engine.publish(BEN, [event(1, x=4)])
    await settled(engine)
    assert consumer.ids == ["1"]
    await engine.close()


@story
async def test_many_stored_subscriptions_wait_for_the_kernels(tmp_path, monkeypatch):
    """Until they are there, it is not ready."""
    engine = await opened(tmp_path, compiled=False)
    for number in range(5):
        await engine.subscribe(ANA, b'{"id": "s%d", "filter": "x > 3"}' % number, "phone")
    await engine.close()
    monkeypatch.setattr("recado.server.recovery.PLAIN_SUBSCRIPTIONS", 4)
    waited = []
    monkeypatch.setattr(matching_kernels, "prepare", lambda: waited.append(True))
    engine = await opened(tmp_path, compiled=False)
    assert waited == [True]
    assert engine.matcher.is_compiled
    assert len(engine.matcher) == 5
    await engine.close()


def test_nothing_slow_is_loaded_before_the_first_notification(tmp_path):
    code = f"""
import asyncio, sys
sys.path[:0] = {sys.path!r}
from server.engine_kit import ANA, BEN, attached, event, opened, settled

async def check():
    engine = await opened({str(tmp_path)!r}, compiled=False)
    await engine.subscribe(ANA, {SUB!r}, "phone")
    consumer = await attached(engine, auto=engine)
    await engine.publish(BEN, [event(1, x=4)])
    await settled(engine)
    assert consumer.ids == ["1"]
    assert not {{"numba", "llvmlite"}} & set(sys.modules)
    await engine.close()

asyncio.run(check())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
