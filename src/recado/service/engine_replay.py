"""Replay: stored events through a filter, from a position or an instant on.

The filter is that of a subscription, and whoever may not subscribe to it may not replay it. The log is read in a
thread, some hundred rows at a time, so a long replay hurts nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import datetime

from recado.errors import RecadoError
from recado.service.engine_requests import read_filter
from recado.service.permissions import Principal, authorise
from recado.store.log import Damage, LogReader

ROWS = 512
_log = logging.getLogger("recado.service")


async def replayed(
    reader: LogReader,
    who: Principal,
    record: bytes,
    *,
    position: int | None,
    since: datetime | None,
    limit: int | None,
) -> AsyncIterator[tuple[int, bytes]]:
    """Position and JSON of each event, oldest first, up to the log's end at the time of the call."""
    subscription = read_filter(record)
    if subscription.semantic is not None:
        raise RecadoError("$.semantic: a replay matches names as they are; leave the member out")
    authorise(who, "subscribe", type=subscription.type)
    if position is not None and since is not None:
        raise RecadoError("a replay begins at a position or at an instant, not at both")
    if position is not None and position < 0:
        raise RecadoError(f"{position} is no position; positions begin at 0")
    start = position
    if since is not None:
        start = await asyncio.to_thread(reader.position_at, since, _damaged)
    batches = reader.read(start, where=subscription.whole_filter(), batch_rows=ROWS, on_damage=_damaged)
    left = limit
    while left is None or left > 0:
        batch = await asyncio.to_thread(next, batches, None)
        if batch is None:
            return
        rows = zip(batch.column("position").to_pylist(), batch.column("event").to_pylist(), strict=True)
        for number, event in list(rows)[:left]:
            yield number, event.encode()
        left = None if left is None else left - batch.num_rows


def _damaged(damage: Damage) -> None:
    if not damage.expired:
        _log.error("the event log: %s", damage)
