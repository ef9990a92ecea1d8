"""A publisher: a random walk of prices, many publications in flight, each acknowledged when it is on disk.

Run: ``python examples/ticker.py``. It starts a service of its own; with RECADO_URL it uses that one.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from random import Random

import recado
from recado.server.config import make_config
from recado.server.server import Server


async def publish(url: str) -> None:
    walk, price = Random(7), 25.0  # noqa: S311  # prices are no secret
    async with recado.connect(url, user="exchange", in_flight=256) as exchange:
        waiting = []
        for _ in range(1_000):
            price = round(price + walk.uniform(-0.5, 0.5), 2)
            await exchange.room()
            waiting.append(exchange.publish_soon("Tick", {"Stock": "PETR4", "Price": price}))
        positions = await asyncio.gather(*waiting)
        print(f"{len(positions)} events are in the log, in order: {positions == sorted(positions)}")
        print(f"not answered: {exchange.unanswered}, given up: {exchange.given_up}")


async def main() -> None:
    if "RECADO_URL" in os.environ:
        await publish(os.environ["RECADO_URL"])
        return
    with tempfile.TemporaryDirectory() as folder:
        config = make_config({"data": folder, "http": {"port": 0}})
        async with Server.start(config) as server:
            await publish(server.url)


if __name__ == "__main__":
    asyncio.run(main())
