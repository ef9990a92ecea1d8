"""A subscriber that goes away and comes back: what it missed waits for it, nothing comes twice.

Run: ``python examples/away_and_back.py``. It starts a service of its own; with RECADO_URL it uses that one.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import recado
from recado.server.config import make_config
from recado.server.server import Server


async def listen(ana: recado.Client, last: float) -> None:
    """Take what comes under the name "cheap" until a price is seen."""
    async for one in ana.subscribe("Price < 25", type="Tick", id="cheap"):
        print(f"  {one['Stock']} at {one['Price']}" + (" (it waited)" if one.queued else ""))
        if one["Price"] == last:
            break


async def story(url: str, folder: Path) -> None:
    phone = folder / "phone.json"  # the device's name, what it has seen, its subscriptions
    async with recado.connect(url, user="exchange") as exchange:
        print("ana listens")
        async with recado.connect(url, user="ana", state=phone) as ana:
            await ana.subscribe("Price < 25", type="Tick", id="cheap").ready()
            await exchange.publish("Tick", {"Stock": "PETR4", "Price": 24.9})
            await listen(ana, last=24.9)

        print("ana is away")
        for price in (24.0, 26.0, 23.5):
            await exchange.publish("Tick", {"Stock": "PETR4", "Price": price})

        print("ana is back")
        async with recado.connect(url, user="ana", state=phone) as ana:
            await listen(ana, last=23.5)
            print(f"delivered: {ana.delivered}, pending: {ana.pending}, dropped by the service: {ana.dropped}")
            await ana.cancel("cheap")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        if "RECADO_URL" in os.environ:
            await story(os.environ["RECADO_URL"], Path(folder))
            return
        config = make_config({"data": f"{folder}/data", "http": {"port": 0}})
        async with Server.start(config) as server:
            await story(server.url, Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
