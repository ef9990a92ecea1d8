"""``recado demo``: a first look in under a minute.

The sample (``recado/data/sample``, written by ``examples/make_sample.py``) holds four little worlds: a stock exchange,
weather stations, news and flights, and 40 subscriptions in four syntaxes. The demo matches it with the index, shows a
few events with the subscriptions they reached, and says what to try next. With ``--service`` it starts an event
service for a subscriber who goes away and comes back (``service_demo``), and with ``--spark`` it goes on with the log
of that service on Spark (``spark_demo``). It is for people, so only ``--json`` makes it write NDJSON.
"""

from __future__ import annotations

import time
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from recado.cli.engines import Engine, make_engine
from recado.cli.inputs import Counts, Problems, read_events, read_subscriptions
from recado.cli.output import console, write_json
from recado.cli.verb import verb
from recado.filters.nodes import show
from recado.model.event import Event

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

ROWS_A_WORLD = 2
ROUNDS = 25
_NEXT = [
    ("match files of your own", "recado match {sample}/subscriptions.ndjson {sample}/events.ndjson"),
    ("see why an event matches", "recado filter explain 'Price < 25' --event '{{\"Price\": 24.9}}'"),
    ("ask whether one filter covers another", "recado filter covers 'Price < 30' 'Price < 25'"),
    ("start a service, then publish and subscribe from other terminals", "recado serve"),
]


class Result(msgspec.Struct):
    """The matched sample, and how long the matching alone took once everything was warm."""

    subscriptions: int
    reached: list[tuple[Event, list[str]]]
    events_per_second: float

    @property
    def matches(self) -> int:
        return sum(len(ids) for _, ids in self.reached)


app = verb("demo", epilogue="The first run compiles the matching kernels; later runs find them on disk.")


@app.default
def demo(*, service: bool = False, spark: bool = False, out: Path = Path("recado-demo"), json: bool = False) -> int:
    """Match the sample that Recado ships and show the result.

    Parameters
    ----------
    service
        Go on with an event service, and a subscriber who goes away and comes back on another address.
    spark
        The same, and then match 100,000 subscriptions with the log of that service on Spark.
    out
        The folder for the data of the service and of Spark; what an earlier run left there is replaced.
    json
        Write the matches as NDJSON, as `recado match` does.
    """
    with as_file(files("recado") / "data" / "sample") as sample:
        if json:
            result = run(sample)
            for event, ids in result.reached:
                for id in ids:
                    write_json({"event": event.id, "subscription": id})
            return 0
        screen = console()
        with screen.status("loading (the first run compiles the kernels)"):
            result = run(sample)
        _print(screen, result)
        if service or spark:
            from recado.cli.service_demo import run_service

            outcome = run_service(out / "service")
        if spark:
            from recado.cli.spark_demo import run_on_spark

            run_on_spark(out / "spark", outcome.log)
        _print_next(screen, sample)
    return 0


def run(sample: Path) -> Result:
    """Load and match the sample; an error in it would be ours, so reading is strict."""
    problems = Problems(strict=True)
    engine = make_engine("index")
    engine.load(read_subscriptions(str(sample / "subscriptions.ndjson"), problems))
    events = list(read_events(str(sample / "events.ndjson"), problems, Counts()))
    matched = list(engine.match(events))
    by_event = list(zip(events, (ids for _, ids in matched), strict=True))
    return Result(len(engine), by_event, _speed(engine, events))


def _speed(engine: Engine, events: list[Event]) -> float:
    """Events matched in a second, over some rounds of the whole sample."""
    started = time.perf_counter()
    for _ in range(ROUNDS):
        for _ in engine.match(events):
            pass
    return ROUNDS * len(events) / (time.perf_counter() - started)


def _print(out: Console, result: Result) -> None:
    out.print()
    out.print("Some events, and the subscriptions they reached", style="bold")
    out.print()
    out.print(_event_table(result))
    out.print()
    out.print(_summary_table(result))
    out.print()


def _print_next(out: Console, sample: Path) -> None:
    out.print("Try next", style="bold")
    for why, command in _NEXT:
        out.print(f"  {why}", style="dim")
        out.print(f"  {command.format(sample=_short(sample))}", soft_wrap=True)
    out.print()


def _event_table(result: Result) -> Table:
    """The events of each world that reached most subscriptions, each with them on the line below."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    for world in ("StockExchange", "Weather", "News", "flight."):
        of_world = [pair for pair in result.reached if pair[0].type.startswith(world)]
        of_world.sort(key=lambda pair: -len(pair[1]))
        for event, ids in of_world[:ROWS_A_WORLD]:
            table.add_row(event.id, Text(_headline(event), overflow="ellipsis", no_wrap=True))
            table.add_row("", Text.assemble("→ ", (", ".join(ids), "green")))
    return table


def _headline(event: Event) -> str:
    """The event's type and first attributes, on one line."""
    parts = []
    for name, value in event.attributes.items():
        shown = "/".join(map(show, value)) if isinstance(value, tuple) else show(value)
        parts.append(f"{name} {shown}")
    return f"{event.type}: {', '.join(parts)}".replace('"', "")


def _summary_table(result: Result) -> Table:
    from rich.table import Table

    counts: dict[str, Any] = {
        "subscriptions": result.subscriptions,
        "events": len(result.reached),
        "matches": result.matches,
        "events/s on one core": round(result.events_per_second),
    }
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", style="bold cyan")
    table.add_column()
    for name, count in counts.items():
        table.add_row(f"{count:,}", name)
    return table


def _short(path: Path) -> str:
    """The path from here, if it lies below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
