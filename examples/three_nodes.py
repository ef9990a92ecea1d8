"""Three nodes of an overlay in one program: a subscription reaches a publisher two links away.

Nodes are usually processes on several machines (``recado node run``); inside a program they are objects.

Run: ``python examples/three_nodes.py``
"""

from __future__ import annotations

import asyncio

from recado.filters import expression
from recado.model import Event, Subscription
from recado.overlay import Node, Notified, Settled


async def main() -> None:
    async with (
        Node("ana") as ana,
        Node("bruno", peers=[str(ana.address)]) as bruno,
        Node("carla", peers=[str(bruno.address)]) as carla,
    ):
        await ana.wait_for_links("bruno")
        await carla.wait_for_links("bruno")

        await carla.become_publisher("Tick")
        cheap = await ana.subscribe(Subscription("cheap", expression.parse("Price < 25"), type="Tick"))
        async for item in cheap:
            if isinstance(item, Settled):
                print("a publisher was found:", item.published)
                break

        for number, price in enumerate((24.9, 31.0, 7.5)):
            await carla.publish(Event(f"t-{number}", "Tick", attributes={"Price": price}))
        async for item in cheap:
            if isinstance(item, Notified):
                print(item.event.id, "costs", item.event.attributes["Price"])
                if item.event.id == "t-2":
                    break

        print("bruno's row:", bruno.show()["machine"]["tables"]["Tick"]["cheap"])


if __name__ == "__main__":
    asyncio.run(main())
