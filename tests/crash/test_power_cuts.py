"""A power cut at every commit of the log and of the state: what was not synced is gone, wholly or in part.

Whatever is left must open; have every event whose commit had returned; and bring to a subscriber who was away all that
the log has, except for what it had acknowledged before, each under the nid that it had the first time.
"""

import asyncio
import random

import pytest

from crash.engines import ANA, BOB, RECORD, Disk, Leg, drained, event, opened


async def live(folder, operations: int, seed: int, positions: dict, acknowledged: dict) -> None:
    """Publish; now and then the subscriber comes, takes some and goes."""
    rng = random.Random(seed)
    engine = await opened(folder)
    await engine.subscribe(ANA, RECORD, "desk")
    number = 0
    consumer = None
    for _ in range(operations):
        events = [event(number + more) for more in range(rng.choice((1, 1, 2, 5)))]
        number += len(events)
        for position, one in zip(await engine.publish(BOB, events), events, strict=True):
            positions[one.id] = position
        await asyncio.sleep(rng.choice((0, 0, 0.006)))
        if consumer is None and rng.random() < 0.3:
            consumer = Leg(window=8)
            engine.attach(ANA, "desk", consumer)
        elif consumer is not None and consumer.got and rng.random() < 0.5:
            upto = rng.choice(consumer.got)[0]
            acknowledged |= {id: nid for nid, id in consumer.got if nid <= upto}
            engine.acknowledge(consumer, upto)
            if rng.random() < 0.3:
                engine.lose(consumer, "it went away")
                consumer = None
    await engine.close()


async def check(path, least: int, most: int, positions: dict, acknowledged: dict) -> int:
    engine = await opened(path)
    assert not engine.damage, (path, engine.damage)
    assert least <= engine.log.end <= most, path
    consumer = await drained(engine)
    stored = [id for id, position in positions.items() if position < engine.log.end]
    got = [id for _, id in consumer.got]
    assert len(got) == len(set(got)), path
    missing = [id for id in stored if id not in got and id not in acknowledged]
    assert not missing, (path, missing)
    for nid, id in consumer.got:
        assert nid >> 20 == positions.get(id, nid >> 20), path
        assert acknowledged.get(id, nid) == nid, path
    assert [nid for nid, _ in consumer.got] == sorted(nid for nid, _ in consumer.got)
    await engine.close()
    return len(got)


def power_cuts(tmp_path, monkeypatch, operations: int, seed: int, every: int) -> None:
    positions, acknowledged = {}, {}
    with monkeypatch.context() as patch:
        disk = Disk(tmp_path / "data", tmp_path / "images", acknowledged, patch, seed)
        asyncio.run(live(disk.folder, operations, seed, positions, acknowledged))
    assert len(disk.images) > 2 * operations
    delivered = 0
    for path, least, most, known in disk.images[::every]:
        delivered += asyncio.run(check(path, least, most, positions, known))
    assert delivered > 0


def test_both_databases_sync_every_commit(tmp_path):
    """What the images rest on."""

    async def scenario():
        engine = await opened(tmp_path / "data")
        databases = (engine.log._tail._db, engine.state_writer._store._db)
        found = [
            (db.execute("PRAGMA journal_mode").fetchone()[0], db.execute("PRAGMA synchronous").fetchone()[0])
            for db in databases
        ]
        await engine.close()
        return [(mode if isinstance(mode, str) else mode.decode(), level) for mode, level in found]

    assert asyncio.run(scenario()) == [("wal", 2), ("wal", 2)]


def test_power_cuts_lose_nothing_that_was_stored(tmp_path, monkeypatch):
    power_cuts(tmp_path, monkeypatch, operations=25, seed=1, every=3)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_every_power_cut(tmp_path, monkeypatch, seed):
    power_cuts(tmp_path, monkeypatch, operations=200, seed=seed + 10, every=1)
