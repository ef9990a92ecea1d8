"""``recado match``: the events of one file against the subscriptions of another.

Events flow through in chunks, so their number does not matter for memory; subscriptions are held in the engine. The
three engines give the same pairs in the same order: events as they come, subscription ids sorted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Literal, Protocol

import msgspec
from cyclopts import Parameter

from recado.cli.inputs import Block, Problems, display_name, event_blocks, event_records, lines, opened
from recado.cli.meaning import Meaning
from recado.cli.output import complain, console, for_people, plural
from recado.cli.verb import FAILED, OK, Source, verb
from recado.errors import RecadoError
from recado.filters.records import KnownFilters, read_subscription
from recado.kernels import Build, prepare
from recado.matching.canary import Disagreement
from recado.matching.kernels.cache import can_write, is_prepared
from recado.model.codec import read_event
from recado.model.event import Event
from recado.model.filter import FALSE, TRUE, Filter
from recado.model.limits import LIMITS
from recado.model.subscription import Subscription
from recado.semantics.engine import Knowledge
from recado.semantics.match import semantic_match
from recado.semantics.settings import read_settings

# --- The three engines of ``recado match`` behind one face: load subscriptions, then match a chunk of events ---------
#
# All of them understand semantic subscriptions by the same knowledge: the index and its batches through the semantic
# matcher, the naive one through the plain oracle.


BATCH_FROM = 32
"""So many events go through the batch kernel."""
EngineName = Literal["index", "naive", "batch"]
Read = Callable[[int], Event | None]
Matched = Iterator[tuple[str, list[str]]]
"""For each event of a chunk, in order: its id and the sorted ids of its subscriptions."""


class Engine(Protocol):
    def check(self, subscription: Subscription) -> None:
        """Load what a semantic subscription needs; a RecadoError says what is missing."""

    def load(self, subscriptions: Iterable[Subscription]) -> None:
        """Take subscriptions that were read from records, and so are checked."""

    def match(self, events: Sequence[Event]) -> Matched: ...

    def match_block(self, block: Block, read: Read) -> Matched:
        """Match the events of a block; ``read`` gives that of the record with a number, or None if it is none."""

    def close(self) -> None:
        """Leave nothing running."""

    def __len__(self) -> int: ...


class Verified:
    """An engine whose every answer is compared with the plain evaluator's, which is the one that counts."""

    def __init__(self, engine: Engine, knowledge: Knowledge, told: Callable[[Disagreement], None]) -> None:
        self._engine, self._told = engine, told
        self._plain = _Naive(knowledge)
        self.pairs = self.disagreements = 0

    def __len__(self) -> int:
        return len(self._engine)

    def check(self, subscription: Subscription) -> None:
        self._engine.check(subscription)

    def load(self, subscriptions: Iterable[Subscription]) -> None:
        held = list(subscriptions)
        self._plain.load(held)
        self._engine.load(held)

    def close(self) -> None:
        self._engine.close()

    def match(self, events: Sequence[Event]) -> Matched:
        return self._compared(events, self._engine.match(events))

    def match_block(self, block: Block, read: Read) -> Matched:
        events = [read(number) for number in range(len(block))]  # once: what is bad is reported then
        found = self._engine.match_block(block, events.__getitem__)
        return self._compared([event for event in events if event is not None], found)

    def _compared(self, events: Sequence[Event], found: Matched) -> Matched:
        expected = self._plain.match(events)
        for event, (id, ids), (_, right) in zip(events, found, expected, strict=True):
            self.pairs += len(self._plain)
            if ids != right:
                self._tell(event, set(ids), set(right))
            yield id, right

    def _tell(self, event: Event, ids: set[str], right: set[str]) -> None:
        for id in sorted(ids ^ right):
            self.disagreements += 1
            self._told(Disagreement(event, id, self._plain.filter(id), id in ids))


Tell = Callable[[str, bool], None]
"""Takes a sentence for people; True says that it is the last one again, with another time."""


def make_engine(
    name: EngineName,
    knowledge: Knowledge | None = None,
    *,
    tell: Tell = lambda _text, _again: None,
    plain: bool = True,
) -> Engine:
    """The engine of that name, empty; unless it may be ``plain``, it uses the kernels from the beginning."""
    known = knowledge or Knowledge()
    if name == "naive":
        return _Naive(known)
    return _Index(known, tell, plain) if name == "index" else _Batch(known, tell, plain)


class _Naive:
    def __init__(self, knowledge: Knowledge) -> None:
        self._default = knowledge.default
        self._semantics = knowledge.semantics()
        self._subscriptions: dict[str, Subscription] = {}

    def __len__(self) -> int:
        return len(self._subscriptions)

    def filter(self, id: str) -> Filter:
        """Of a subscription, with its type; none matches if the engine found what is not there."""
        return self._subscriptions[id].whole_filter() if id in self._subscriptions else FALSE

    def check(self, subscription: Subscription) -> None:
        settings = read_settings(subscription.semantic, self._default)
        if settings is not None:
            self._semantics.prepare(settings)

    def load(self, subscriptions: Iterable[Subscription]) -> None:
        self._subscriptions |= {subscription.id: subscription for subscription in subscriptions}

    def match(self, events: Sequence[Event]) -> Matched:
        held = sorted(self._subscriptions.items())
        for event in events:
            yield event.id, [id for id, one in held if self._matches(event, one)]

    def match_block(self, block: Block, read: Read) -> Matched:
        return self.match(_all_of(block, read))

    def close(self) -> None:
        pass

    def _matches(self, event: Event, subscription: Subscription) -> bool:
        return semantic_match(event, subscription, None, self._semantics, self._default) is not None


PLAIN_PAIRS = 100_000
"""So many pairs of a subscription and an event are evaluated before the kernels are loaded, which takes as long."""
PLAIN_SUBSCRIPTIONS = 2_000
"""More of them are not evaluated one by one while the kernels are compiled; the command waits for these."""


class _Index:
    """Subscriptions are evaluated one by one until it pays to load the kernels; then they are compiled.

    If these are not on disk, another process compiles them, and a large set waits for it. ``tell`` hears how that
    goes: a sentence, and whether it only replaces the one before it.
    """

    def __init__(self, knowledge: Knowledge, tell: Tell, plain: bool) -> None:
        from recado.semantics.matcher import SemanticMatcher

        self._matcher = SemanticMatcher(knowledge.semantics(), knowledge.default, plain=True)
        self._tell, self._plain = tell, plain
        self._pairs = 0
        self._build: Build | None = None

    def __len__(self) -> int:
        return len(self._matcher)

    def check(self, subscription: Subscription) -> None:
        self._matcher.check(subscription)

    def load(self, subscriptions: Iterable[Subscription]) -> None:
        waiting = iter(subscriptions)
        self._matcher.add_many(islice(waiting, PLAIN_SUBSCRIPTIONS), checked=True)
        more = list(islice(waiting, 1))
        if more or not self._plain:
            self._wait()
            self._matcher.add_many(chain(more, waiting), checked=True)
            self._matcher.match_many([Event("warm-up")] * BATCH_FROM)  # so that loading kernels is not matching

    def match(self, events: Sequence[Event]) -> Matched:
        for event in events:
            self._count(1)
            yield event.id, self._matcher.match(event)

    def close(self) -> None:
        if self._build is not None:
            self._build.stop()
            self._build = None

    def _count(self, events: int) -> None:
        """So many events are about to be matched: are kernels worth it, and ready?"""
        if self._matcher.exact.is_compiled:
            return
        self._pairs += events * len(self._matcher)
        if self._pairs <= PLAIN_PAIRS:
            return
        if self._build is None and not is_prepared() and can_write():
            self._build = Build(background=True)
        if self._build is None:
            self._matcher.compile()
        elif not self._build.is_running:
            seconds, fault = self._build.seconds, self._build.fault
            self.close()
            if not fault:
                self._tell(f"the kernels of the index are compiled ({seconds:.0f} s) and used from here on", False)
            self._matcher.compile()

    def _wait(self) -> None:
        """A large set: the kernels are needed now."""
        begun = "compiling the kernels of the index, once for this machine"
        if not is_prepared():
            self._tell(f"{begun} ...", False)
            prepare(lambda seconds: self._tell(f"{begun}: {seconds:.0f} s", True))
        self._matcher.compile()

    def match_block(self, block: Block, read: Read) -> Matched:
        """Through columns in one go, if all subscriptions are exact; semantic ones need events."""
        if self._matcher.semantic or not self._matcher.exact.is_compiled:
            yield from self.match(_all_of(block, read))
            return
        from recado.matching.batch import match_texts

        index = self._matcher.exact.compiled
        found = match_texts(index, block.texts(), read)
        subscriptions, offsets = found.pairs.ids(index).to_pylist(), found.pairs.offsets.tolist()
        for number, event in enumerate(found.ids(block.default_id)):
            if event is not None:
                yield event, sorted(subscriptions[offsets[number] : offsets[number + 1]])


class _Batch(_Index):
    def match(self, events: Sequence[Event]) -> Matched:
        """The whole chunk in one call of the batch matcher."""
        self._count(len(events))
        if not self._matcher.exact.is_compiled:
            yield from super().match(events)
            return
        found = self._matcher.match_many(events)
        yield from ((event.id, sorted(ids)) for event, ids in zip(events, found, strict=True))


def _all_of(block: Block, read: Read) -> list[Event]:
    return [event for number in range(len(block)) if (event := read(number)) is not None]


# --- ``recado match``: the events of one file against the subscriptions of another -----------------------------------

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
    meaning: Meaning = Meaning(),  # noqa: B008  # frozen
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
    matcher = make_engine(engine, knowledge, tell=_teller(quiet), plain=not verify)
    verified = Verified(matcher, knowledge, lambda wrong: complain(str(wrong))) if verify else None
    matcher = matcher if verified is None else verified
    with closing(matcher):
        matcher.load(read_subscriptions(subscriptions, problems, matcher.check))
        if problems.count and not len(matcher):
            return _nothing_read(subscriptions, "subscription")
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
            return _nothing_read(events, "event")
        return OK if verified is None else _verdict(verified)


def _verdict(verified: Verified) -> int:
    wrong = verified.disagreements
    differ = f"differ on {plural(wrong, 'pair')}; the plain answers were used" if wrong else "agree"
    complain(f"{plural(verified.pairs, 'pair')} compared: the engine and the plain evaluator {differ}")
    return FAILED if wrong else OK


def _teller(quiet: bool) -> Tell:
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
    with opened(path) as stream:
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


def _nothing_read(path: str, what: str) -> int:
    complain(f"{display_name(path)}: no {what} could be read")
    return FAILED


class Counts(msgspec.Struct):
    """What has gone through so far."""

    events: int = 0
    matches: int = 0
    bytes: int = 0


def read_subscriptions(
    path: str, problems: Problems, check: Callable[[Subscription], None] = lambda _: None
) -> Iterator[Subscription]:
    """The subscriptions of an NDJSON file that pass; a later one replaces an earlier one of the same id."""
    known = KnownFilters()
    with opened(path) as stream:
        for record in lines(stream, LIMITS.subscription_bytes):
            try:
                subscription = read_subscription(record.text(), known=known)
                check(subscription)
            except RecadoError as error:
                problems.report(path, record.place, str(error))
            else:
                yield subscription


def read_events(path: str, problems: Problems, counts: Counts) -> Iterator[Event]:
    """The events of a file; one without an id is called after its line."""
    with opened(path) as stream:
        for record in event_records(stream, path):
            counts.bytes += len(record.raw)
            try:
                yield read_event(record.text(), default_id=record.default_id)
            except RecadoError as error:
                problems.report(path, record.place, str(error))


def matched_pairs(
    matcher: Engine, path: str, problems: Problems, counts: Counts, advance: Callable[[Counts], None]
) -> Iterator[tuple[str, str]]:
    """Event id and subscription id, for every match, block by block."""
    with opened(path) as stream:
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
