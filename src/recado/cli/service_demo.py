"""The service in ``recado demo``: three subscribers, one of whom goes away and comes back on another address.

A service is started on free ports of this machine. Ana subscribes from 127.0.0.2, over SIP and RUDP, and is switched
off while quotes are published; she comes back on 127.0.0.3 and gets what she missed. Bruno names things otherwise:
"share" and "cost" instead of Stock and Price. Carla counts in seconds what the exchange counts in milliseconds. What
they received is compared with what the plain evaluator says
they should have. The log that the service wrote is what the demo goes on with on Spark.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from recado.cli.output import console
from recado.kernels import prepare

if TYPE_CHECKING:
    from rich.table import Table

    from recado.client import Client
    from recado.client.subscription import ClientSubscription
    from recado.server.server import Server

QUOTES = 30_000
SYMBOLS = 500
SEED = 20261116
ANA = 'Stock == "S001" and Price < 60'
BRUNO = "{share, EQ, S000; cost, GT, 50}"
BRUNO_MEANS = 'Stock == "S000" and Price > 50'
CARLA = "{delay_s, GT, 3.9}"
CARLA_MEANS = "delay_ms > 3900"
_PATIENCE = 60.0


class Received(msgspec.Struct):
    """What a subscriber got: each event's id as often as it came, and how many of them had waited in the mailbox."""

    wanted: list[str]
    got: Counter[str] = msgspec.field(default_factory=Counter)
    waited: int = 0

    @property
    def lost(self) -> int:
        return sum(1 for id in self.wanted if not self.got[id])

    @property
    def repeated(self) -> int:
        return self.got.total() - len(self.got)

    @property
    def complete(self) -> bool:
        return self.got.total() >= len(self.wanted)


class Outcome(msgspec.Struct):
    """The service's part of the demo in figures; ``log`` is the folder of the event log."""

    log: Path
    published: int
    published_per_second: float
    ana: Received
    bruno: Received
    carla: Received


def run_service(out: Path, quotes: int = QUOTES) -> Outcome:
    """Run it and show it; ``out`` is replaced."""
    shutil.rmtree(out, ignore_errors=True)
    screen = console()
    screen.print("An event service, and a subscriber who goes away", style="bold")
    with screen.status("compiling the kernels of the index, once for this machine") as status:
        prepare(
            lambda seconds: status.update(f"compiling the kernels of the index, once for this machine: {seconds:.0f} s")
        )
    with screen.status("a service starts, quotes are published, Ana moves"):
        outcome = asyncio.run(_run(out, quotes))
    screen.print("Ana listens on 127.0.0.2, is switched off, and comes back on 127.0.0.3.")
    screen.print("Bruno has other words for Stock and Price. Carla asks in seconds; the exchange says milliseconds.")
    screen.print()
    screen.print(_table(outcome))
    screen.print()
    screen.print(f"{outcome.published:>12,}  events published and acknowledged, each on disk before that")
    screen.print(f"{outcome.published_per_second:>12,.0f}  of them a second")
    screen.print()
    return outcome


async def _run(out: Path, quotes: int) -> Outcome:
    from recado.client import connect
    from recado.server.config import make_config
    from recado.server.server import Server

    events = list(some_quotes(quotes))
    ana, bruno, carla = (Received(_matching(events, asked)) for asked in (ANA, BRUNO_MEANS, CARLA_MEANS))
    sip = {"registrar": "embedded", "port": 0, "rudp_port": 0}
    config = make_config({"data": str(out), "http": {"port": 0}, "sip": sip, "logging": {"level": "warning"}})
    async with Server.start(config) as server:
        await server.engine.when_loaded()
        async with connect(_web(server, "bruno")) as bruno_client, connect(_web(server, "carla")) as carla_client:
            dear = await bruno_client.subscribe(BRUNO, semantic=True, id="dear").ready()
            slow = await carla_client.subscribe(CARLA, semantic=True, id="slow").ready()
            reading = asyncio.gather(_read(dear, bruno), _read(slow, carla))
            seconds = await _publish(server, events, ana)
            await asyncio.wait_for(reading, _PATIENCE)
    return Outcome(out / "log", quotes, quotes / seconds, ana, bruno, carla)


async def _publish(server: Server, events: list[dict[str, Any]], ana: Received) -> float:
    """Publish while Ana is there, while she is away, and while she is back; the seconds that publishing took."""
    from recado.client import connect

    thirds = [events[part::3] for part in range(3)]
    seconds = 0.0
    async with connect(_web(server, "exchange")) as exchange:
        async with connect(_phone(server, "127.0.0.2"), device="phone") as phone:
            subscription = await phone.subscribe(ANA, id="cheap").ready()
            reading = asyncio.create_task(_read(subscription, ana, _in(thirds[0], ana)))
            seconds += await _time_publishing(exchange, thirds[0])
            await asyncio.wait_for(reading, _PATIENCE)
        seconds += await _time_publishing(exchange, thirds[1])  # she is away
        while server.engine.dispatcher.backlog:  # it all goes to her mailbox before she is back
            await asyncio.sleep(0.01)
        async with connect(_phone(server, "127.0.0.3"), device="phone") as phone:
            reading = asyncio.create_task(_read(phone.follow("cheap"), ana))
            seconds += await _time_publishing(exchange, thirds[2])
            await asyncio.wait_for(reading, _PATIENCE)
    return seconds


async def _time_publishing(client: Client, events: list[dict[str, Any]]) -> float:
    started = time.perf_counter()
    await client.publish_all(events)
    return time.perf_counter() - started


async def _read(subscription: ClientSubscription, into: Received, enough: int | None = None) -> None:
    """Take notifications until there are ``enough`` of them, or all that are wanted."""
    async for one in subscription:
        into.got[one.event.id] += 1
        into.waited += one.queued
        if into.got.total() >= (len(into.wanted) if enough is None else enough):
            subscription.finish()
            return


def _in(events: list[dict[str, Any]], received: Received) -> int:
    """How many of the events are wanted."""
    wanted = set(received.wanted)
    return sum(event["id"] in wanted for event in events)


def _web(server: Server, user: str) -> str:
    return server.url.replace("://", f"://{user}@", 1)


def _phone(server: Server, host: str) -> str:
    return f"recado+sip://ana@localhost;registrar={server.sip_address};host={host}"


def some_quotes(count: int) -> Iterator[dict[str, Any]]:
    """Quotes of a made-up exchange, a few symbols traded far more than the others; the same ones every time."""
    drawn = random.Random(SEED)
    for number in range(count):
        yield {
            "id": f"q-{number}",
            "type": "quote",
            "source": "/exchange",
            "Stock": f"S{int(SYMBOLS * drawn.random() ** 3):03d}",
            "Price": drawn.randrange(0, 10_000) / 100,
            "Volume": drawn.randrange(0, 10_000),
            "delay_ms": number * 7_919 % 4_000,
        }


def _matching(events: list[dict[str, Any]], filter: str) -> list[str]:
    from recado.filters.evaluate import evaluate
    from recado.filters.expression import parse
    from recado.model.codec import read_event
    from recado.model.event import expansions

    wanted = parse(filter)
    return [e["id"] for e in events if any(evaluate(wanted, view) for view in expansions(read_event(e)))]


def _table(outcome: Outcome) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("who", style="bold")
    table.add_column("asked for")
    for name in ("wanted", "got", "waited", "lost", "repeated"):
        table.add_column(name, justify="right")
    for name, asked, one in (
        ("Ana", ANA, outcome.ana),
        ("Bruno", BRUNO, outcome.bruno),
        ("Carla", CARLA, outcome.carla),
    ):
        counts = (len(one.wanted), one.got.total(), one.waited, one.lost, one.repeated)
        table.add_row(name, asked, *(f"{count:,}" for count in counts))
    return table
