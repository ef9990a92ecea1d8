"""A disk that fills up under the real service: nothing is acknowledged that is not stored, and it goes on later."""

import asyncio
import resource

import pytest

import recado.client as recado
from crash.checker import OPTIONS
from recado.store.log import LogReader


def stored_ids(service) -> list[str]:
    return [id for batch in LogReader(service.data / "log").read() for id in batch.column("id").to_pylist()]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the system cannot limit another process")
def test_a_full_disk_refuses_and_recovers(service):
    async def publish(client, name: str, events: int) -> tuple[list[str], list[str]]:
        """Those that were acknowledged, and those that were refused."""
        ids = [f"{name}-{number}" for number in range(events)]
        made = [client.publish({"id": id, "type": "Reading", "text": "x" * 5_000}) for id in ids]
        answers = await asyncio.gather(*made, return_exceptions=True)
        refused = [id for id, answer in zip(ids, answers, strict=True) if isinstance(answer, Exception)]
        for answer in answers:
            assert isinstance(answer, int | recado.Refused), answer
        return [id for id in ids if id not in refused], refused

    async def scenario():
        service.start()
        async with recado.connect(service.url("bob"), **OPTIONS) as client:
            before, _ = await publish(client, "before", 20)
            largest = max(path.stat().st_size for path in service.data.rglob("*") if path.is_file())
            unlimited = resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (largest + 60_000, resource.RLIM_INFINITY))
            during, refused = await publish(client, "during", 100)
            more, also_refused = await publish(client, "still", 100)
            resource.prlimit(service.pid, resource.RLIMIT_FSIZE, unlimited)
            after, after_refused = await publish(client, "after", 20)
        return [*before, *during, *more, *after], [*refused, *also_refused], after_refused

    acked, refused, after_refused = asyncio.run(scenario())
    assert refused
    assert after_refused == []
    code = service.stop()
    assert code == 0
    stored = stored_ids(service)
    assert set(acked) == set(stored)
    assert len(stored) == len(set(stored))
    service.start()
    service.stop()
