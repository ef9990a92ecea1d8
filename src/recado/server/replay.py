"""Replay: stored events through a filter, from a position or an instant on.

The filter is that of a subscription, and whoever may not subscribe to it may not replay it. The log is read in threads
of its own, a bounded stretch of it at a time, so a long replay hurts nobody, and one that nobody wants any more ends
soon, also if its filter finds nothing. Positions that cannot be read are passed over, and named to ``on_damage``.

A subscription by meaning finds what it would have been sent, with the knowledge of words that the service has now.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import Executor
from datetime import datetime

from recado.errors import RecadoError
from recado.model.filter import Filter
from recado.model.subscription import Subscription, type_filter
from recado.server.permissions import Principal, authorise
from recado.server.requests import read_filter
from recado.store.log import Damage
from recado.store.log.settings import OnDamage
from recado.store.protocols import EventLog

ROWS = 512
STRETCH = 10_000
"""Positions that are looked through before it is known whether the caller is still there."""
SIEVED = 32
"""Events that are looked at by meaning before the caller gets what is among them."""
_log = logging.getLogger("recado.server")

Rows = list[tuple[int, bytes]]
"""Positions and the texts of events."""
Sieve = Callable[[Rows], Awaitable[Rows]]
"""Leaves those that match, as their owner is sent them."""


async def replay(
    log: EventLog,
    threads: Executor,
    understood: Callable[[Principal, Subscription], Awaitable[Sieve | None]],
    who: Principal,
    record: bytes,
    *,
    position: int | None,
    since: datetime | None,
    limit: int | None,
    on_damage: OnDamage,
) -> AsyncGenerator[tuple[int, bytes], None]:
    """Position and JSON of each event, oldest first, up to the log's end at the time of the call."""
    subscription = read_filter(record)
    authorise(who, "subscribe", event_type=subscription.type)
    if position is not None and since is not None:
        raise RecadoError("a replay begins at a position or at an instant, not at both")
    if position is not None and position < 0:
        raise RecadoError(f"$.position: {position} is no position; positions begin at 0")
    if limit is not None and limit < 1:
        raise RecadoError(f"$.limit: must be at least 1, not {limit}; without it there is no bound")

    def damaged(damage: Damage) -> None:
        if not damage.expired:
            _log.error("the event log: %s", damage)
            on_damage(damage)

    sieve = await understood(who, subscription)
    run = asyncio.get_running_loop().run_in_executor
    first, stop = log.first, log.end
    start = first if position is None else max(position, first)
    if since is not None:
        start = await run(threads, log.position_at, since, damaged)
    where, left = _where(subscription, by_meaning=sieve is not None), limit
    step = ROWS if sieve is None else SIEVED
    for at in range(start, stop, STRETCH):
        end = min(at + STRETCH, stop)
        batches = log.read(at, end, where=where, batch_rows=ROWS, on_damage=damaged)
        while (batch := await run(threads, next, batches, None)) is not None:
            texts = [text.encode() for text in batch.column("event").to_pylist()]
            rows = list(zip(batch.column("position").to_pylist(), texts, strict=True))
            for number in range(0, len(rows), step):
                found = rows[number : number + step]
                if sieve is not None:
                    found = await sieve(found)
                for row in found[:left]:
                    yield row
                if left is not None and (left := left - len(found)) <= 0:
                    return


def _where(subscription: Subscription, *, by_meaning: bool) -> Filter | None:
    """What the log is asked for; of a filter by meaning it can judge the type alone."""
    if not by_meaning:
        return subscription.whole_filter()
    return type_filter(subscription.type) if subscription.type else None
