"""Changed bytes in the files of a service: noticed and named, and the rest goes on; nothing wrong is ever delivered.

A folder with events for a subscriber who is away is damaged in one byte, and the service opened on it. Either it says
which file it cannot use, or it runs: then what it delivers is what was published, and what it cannot deliver is named,
to whoever runs the service (``damage``) or to the subscriber (a gap).
"""

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from crash.engines import ANA, BOB, RECORD, drained, event, opened
from recado.errors import RecadoError
from recado.store.log import Damage

EVENTS = 120


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Half of the events in a segment, half in the tail; everything waits in a mailbox."""
    folder = tmp_path_factory.mktemp("filled") / "data"

    async def fill():
        engine = await opened(folder)
        await engine.subscribe(ANA, RECORD, "desk")
        for first in range(0, EVENTS, 10):
            await engine.publish(BOB, [event(number) for number in range(first, first + 10)])
            if first == EVENTS // 2:
                await asyncio.to_thread(engine.log.seal, True)
        await engine.close()

    async def take():
        engine = await opened(copy)
        consumer = await drained(engine)
        await engine.close()
        return consumer.events

    asyncio.run(fill())
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    expected = asyncio.run(take())
    assert len(expected) == EVENTS
    return folder, expected


async def look(folder: Path, expected: dict[str, bytes]) -> str:
    try:
        engine = await opened(folder)
    except RecadoError as error:
        assert any(name in str(error) for name in ("tail.sqlite", "manifest.json", "state", ".parquet")), error
        return "refused"
    try:
        consumer = await drained(engine)
        assert {id: expected[id] for id in consumer.events} == consumer.events
        gaps = sum(notice.count for notice in consumer.notices if hasattr(notice, "nids"))
        damage = [*engine.damage, *await replay(engine, expected)]
        await engine.publish(BOB, [event(10_000)])
    finally:
        await engine.close()
    if len(consumer.events) == len(expected):
        return "noticed" if damage else "harmless"
    assert damage or gaps, f"{len(expected) - len(consumer.events)} are missing, and nobody says so"
    return "named"


async def replay(engine, expected: dict[str, bytes]) -> list[str]:
    """The log read again: what comes is what was published, and the service names what does not come."""
    damage: list[Damage] = []
    count = 0
    async for position, raw in engine.replay(ANA, RECORD, position=0, on_damage=damage.append):
        if position < len(expected):
            assert raw == expected[f"e-{position}"]
            count += 1
    assert count == len(expected) or damage, "nobody says what is missing"
    return [str(one) for one in damage]


def flip(tmp_path, filled, name: str, flips: int, seed: int) -> dict[str, int]:
    source, expected = filled
    rng = random.Random(seed)
    found: dict[str, int] = {}
    for number in range(flips):
        copy = tmp_path / f"{number}"
        shutil.copytree(source, copy)
        path = next(iter(sorted(copy.rglob(name))))
        raw = bytearray(path.read_bytes())
        at = rng.randrange(len(raw))
        raw[at] ^= 1 << rng.randrange(8)
        path.write_bytes(raw)
        try:
            word = asyncio.run(look(copy, expected))
        except Exception as error:
            raise AssertionError(f"byte {at} of {name}, now {raw[at]}: {error!r}") from error
        found[word] = found.get(word, 0) + 1
        shutil.rmtree(copy)
    print(name, found)
    return found


FILES = ("tail.sqlite", "*.parquet", "manifest.json", "state*.sqlite")


@pytest.mark.parametrize("name", FILES)
def test_a_changed_bit_is_noticed_or_harmless(tmp_path, filled, name):
    found = flip(tmp_path, filled, name, flips=12, seed=1)
    assert sum(found.values()) == 12
    assert found.get("harmless", 0) < 12
    assert name != "*.parquet" or "harmless" not in found


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_many_changed_bits(tmp_path, filled, name):
    flip(tmp_path, filled, name, flips=1_000, seed=2)
