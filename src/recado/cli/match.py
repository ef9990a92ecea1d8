"""``recado match``: the events of one file against the subscriptions of another.

Events flow through in chunks, so their number does not matter for memory; subscriptions are held in the engine. The
three engines give the same pairs in the same order: events as they come, subscription ids sorted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from recado.cli.engines import Engine, EngineName, Tell, Verified, make_engine
from recado.cli.flags import KnowledgeFlags
from recado.cli.inputs import (
    Block,
    Counts,
    Problems,
    display_name,
    event_blocks,
    event_records,
    open_input,
    read_subscriptions,
)
from recado.cli.output import complain, console, for_people, plural
from recado.cli.verb import FAILED, OK, Source, verb
from recado.errors import RecadoError
from recado.filters.records import read_subscription
from recado.model.codec import read_event
from recado.model.event import Event
from recado.model.filter import TRUE
from recado.model.subscription import Subscription

CHUNK = 4096
SHOWN = 20

_HELP = """\
One {"event": ..., "subscription": ...} is written for each match, in the order of the events, subscription ids sorted.
On a terminal a table shows the first matches; --json writes all of them.

Subscriptions are JSON lines, and events are JSON lines (flat or CloudEvents) or one JSON array of them:

  {"id": "s-1", "filter": "Price < 25", "type": "StockExchange"}
  {"id": "e-1", "type": "StockExchange", "Stock": "PETR4", "Price": 24.9}

A line that cannot be read is reported on stderr with its place, counted and skipped; --strict stops there. If no line
of a file can be read, the exit code is 1.

Examples:

  recado match subscriptions.ndjson events.ndjson
  zcat events.gz | recado match subscriptions.ndjson - > matches.ndjson
  recado match subscriptions.ndjson batch.json --engine naive --strict
"""

app = verb("match", epilogue=_HELP)


@app.default
def match(
    subscriptions: Source,
    events: Source,
    /,
    *,
    engine: EngineName = "index",
    meaning: KnowledgeFlags = KnowledgeFlags(),  # noqa: B008  # frozen
    strict: bool = False,
    verify: bool = False,
    json: bool = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
) -> int:
    """Match a file of events against a file of subscriptions.

    Parameters
    ----------
    subscriptions
        NDJSON file of subscriptions, or - for standard input.
    events
        NDJSON file or JSON array of events, or - for standard input.
    engine
        index is the compiled index, batch the same on Arrow batches, naive the plain evaluator.
    strict
        Stop at the first line that cannot be read, with exit code 2.
    verify
        Compare every answer with the plain evaluator's; tell on stderr where they differ, and end with exit code 1.
    json
        Write NDJSON even on a terminal.
    quiet
        No progress bar and no summary.
    """
    if subscriptions == events == "-":
        raise RecadoError("only one of the two files can be standard input")
    _check_order(subscriptions, events)
    problems, counts = Problems(strict), Counts()
    knowledge = meaning.knowledge()
    matcher = make_engine(engine, knowledge, tell=_make_tell(quiet), plain=not verify)
    verified = Verified(matcher, knowledge, lambda wrong: complain(str(wrong))) if verify else None
    matcher = matcher if verified is None else verified
    with closing(matcher):
        matcher.load(read_subscriptions(subscriptions, problems, matcher.check))
        if problems.count and not len(matcher):
            return _report_nothing_read(subscriptions, "subscription")
        bad_subscriptions, started = problems.count, time.perf_counter()
        first: list[tuple[str, str]] = []
        with _progress(events, quiet) as advance:
            pairs = matched_pairs(matcher, events, problems, counts, advance)
            if for_people(json):
                first = list(islice(pairs, SHOWN))
                for _ in pairs:  # they are counted
                    pass
            else:
                write_pairs(pairs)
        if for_people(json):  # only now, below where the progress bar was
            _show(first, counts.matches)
        sys.stdout.flush()
        if not quiet:
            complain(_summary(len(matcher), counts, problems.count, time.perf_counter() - started))
        if problems.count > bad_subscriptions and not counts.events:
            return _report_nothing_read(events, "event")
        return OK if verified is None else _verdict(verified)


def _verdict(verified: Verified) -> int:
    wrong = verified.disagreements
    differ = f"differ on {plural(wrong, 'pair')}; the plain answers were used" if wrong else "agree"
    complain(f"{plural(verified.pairs, 'pair')} compared: the engine and the plain evaluator {differ}")
    return FAILED if wrong else OK


def _make_tell(quiet: bool) -> Tell:
    """On stderr; a sentence that is told again with another time is rewritten on a terminal, and left out elsewhere."""
    if quiet:
        return lambda _text, _again: None
    terminal = sys.stderr.isatty()

    def tell(text: str, again: bool) -> None:
        if not again:
            complain(text)
        elif terminal:
            sys.stderr.write(f"\x1b[1A\r{text}\x1b[K\n")
            sys.stderr.flush()

    return tell


def _check_order(subscriptions: str, events: str) -> None:
    """A RecadoError if the files were given the wrong way round. Standard input cannot be looked at beforehand."""
    first, second = _first_line(subscriptions), _first_line(events)
    swapped = _subscription(second)
    if _subscription(first) is None and _is_event(first) and swapped is not None and swapped.filter != TRUE:
        raise RecadoError(
            f"the files are the wrong way round: {subscriptions} has events and {events} has subscriptions; "
            f"give the subscriptions first, recado match {events} {subscriptions}"
        )


def _first_line(path: str) -> bytes:
    """The first record of a file that can be read twice; empty elsewhere."""
    if not Path(path).is_file():
        return b""
    with open_input(path) as stream:
        return next((record.raw for record in event_records(stream, path)), b"")


def _subscription(line: bytes) -> Subscription | None:
    try:
        return read_subscription(line)
    except RecadoError:
        return None


def _is_event(line: bytes) -> bool:
    try:
        read_event(line, default_id="event")
    except RecadoError:
        return False
    return True


def _report_nothing_read(path: str, what: str) -> int:
    complain(f"{display_name(path)}: no {what} could be read")
    return FAILED


def matched_pairs(
    matcher: Engine, path: str, problems: Problems, counts: Counts, advance: Callable[[Counts], None]
) -> Iterator[tuple[str, str]]:
    """Event id and subscription id, for every match, block by block."""
    with open_input(path) as stream:
        for block in event_blocks(stream, path):
            counts.bytes += block.bytes
            for event, subscriptions in matcher.match_block(block, partial(_read_in, block, path, problems)):
                counts.events += 1
                counts.matches += len(subscriptions)
                for subscription in subscriptions:
                    yield event, subscription
            advance(counts)


def _read_in(block: Block, path: str, problems: Problems, number: int) -> Event | None:
    """The event of a record; None if it is blank or, which is reported, none."""
    record = block.record(number)
    if record is None:
        return None
    try:
        return read_event(record.text(), default_id=record.default_id)
    except RecadoError as error:
        problems.report(path, record.place, str(error))
        return None


class Pair(msgspec.Struct, gc=False):
    """A line of output."""

    event: str
    subscription: str


def write_pairs(pairs: Iterator[tuple[str, str]]) -> None:
    """All of them, a line each, many at a time."""
    encode = msgspec.json.Encoder().encode_lines
    while some := [Pair(event, subscription) for event, subscription in islice(pairs, CHUNK)]:
        sys.stdout.buffer.write(encode(some))


def _show(pairs: list[tuple[str, str]], matches: int) -> None:
    """A table of the first pairs, and how many more there are."""
    from rich.table import Table

    table = Table("event", "subscription", box=None, header_style="bold", pad_edge=False)
    for event, subscription in pairs:
        table.add_row(event, subscription)
    more = matches - len(pairs)
    out = console()
    out.print(table if table.row_count else "no matches")
    if more:
        out.print(f"... and {plural(more, 'more match', 'more matches')}; --json writes all", style="dim")


@contextmanager
def _progress(path: str, quiet: bool) -> Iterator[Callable[[Counts], None]]:
    """A bar on a terminal's stderr that follows the bytes read; nothing elsewhere. Call it after every chunk."""
    if quiet or not sys.stderr.isatty():
        yield lambda counts: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    total = Path(path).stat().st_size if Path(path).is_file() else None
    columns = (BarColumn(), TextColumn("{task.fields[events]:,} events"), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("matching", total=total, events=0)
        yield lambda counts: progress.update(task, completed=counts.bytes, events=counts.events)


def _summary(subscriptions: int, counts: Counts, bad: int, seconds: float) -> str:
    rate = counts.events / seconds if seconds > 0 else 0.0
    parts = [
        plural(subscriptions, "subscription"),
        plural(counts.events, "event"),
        plural(counts.matches, "match", "matches"),
        plural(bad, "bad line"),
        f"{rate:,.0f} events/s",
    ]
    return ", ".join(parts)
