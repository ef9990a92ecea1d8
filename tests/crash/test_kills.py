"""kill -9 of the real service under load, at random moments: nothing that was acknowledged is lost or comes twice."""

import asyncio
import random

import pytest

from crash.checker import Load


async def kill_often(service, kills: int, seed: int) -> Load:
    rng = random.Random(seed)
    service.start()
    async with Load(service) as load:
        for _ in range(kills):
            await load.progress(rng.randrange(5, 150))
            await asyncio.sleep(rng.uniform(0, 0.2))
            await asyncio.to_thread(service.kill)
            await asyncio.to_thread(service.start)
        await load.progress(100)
        await load.settle()
    service.stop()
    return load


def check(load: Load) -> None:
    verdict = load.verdict()
    print(verdict)
    assert verdict["ok"] == len(load.acked) == len(load.published)
    assert (verdict["lost"], verdict["duplicated"], verdict["unexpected"]) == (0, 0, 0)
    load.check_order()
    load.check_log()


def test_a_few_kills_lose_nothing(service):
    check(asyncio.run(kill_often(service, kills=4, seed=1)))


@pytest.mark.long
def test_a_hundred_kills_lose_nothing(service):
    check(asyncio.run(kill_often(service, kills=100, seed=2)))


def test_sigterm_under_load_loses_nothing(service):
    async def scenario() -> Load:
        service.start()
        async with Load(service) as load:
            await load.progress(200)
            code = await asyncio.to_thread(service.stop)
            assert code == 0
            await asyncio.to_thread(service.start)
            await load.progress(100)
            await load.settle()
        service.stop()
        return load

    check(asyncio.run(scenario()))
