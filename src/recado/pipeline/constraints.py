"""Delivery constraints on Spark: of the notifications that matching found, those that their subscriptions want.

    found = match(events, subscriptions, include_constraints=True)
    wanted = constrain(found)

It works alike on a batch and on a stream, with the policy of ``recado.broker`` (mobility.md 9.3 to 9.5). An event is
judged at its own time, ``event_time`` (or ``matched_at`` where it has none), so a replay of last year's events gives
what the live stream gave. In a batch or micro-batch, the notifications of a subscription are judged in the order of
event time and event id.

Only a frequency needs to remember something, the time of the subscription's last notification. Spark's state is asked
from Python over a socket, at a price per question that far exceeds that of a judgement; so subscriptions are gathered
into ``buckets``, the state of a bucket is one packed value, and rows travel as Arrow chunks (``freight``) through
``transformWithState`` (``processor``). Everything else is decided before, and passes through without touching state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count, pairwise
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues
from pyspark.sql.types import ArrayType, BooleanType, DataType, StringType, StructField, StructType, TimestampType

from recado.broker.constraints import Constraints, decode_constraints, find_zone, frequency_of, satisfied
from recado.errors import RecadoError
from recado.pipeline.errors import PipelineError

# --- What a bucket remembers: when each of its subscriptions was last notified, packed into bytes --------------------
#
# The first byte is the number of the layout, so that a later Recado can read what this one wrote, and an earlier one
# says that it cannot. The rest is MessagePack. With an entry stands the instant until which it matters, its period
# later: from then on it can be forgotten. Instants are microseconds since 1970.


LAYOUT = 1


class Memory(msgspec.Struct, array_like=True):
    """``notified`` maps a subscription to its last notification and the end of the period after it."""

    buckets: int
    notified: dict[str, tuple[int, int]] = {}

    def notify(self, subscription: str, time: int, period: int) -> None:
        """Remember a notification; a late one, made while no frequency held, does not hide a later one."""
        last = max(time, self.notified.get(subscription, (time, 0))[0])
        self.notified[subscription] = (last, last + period)

    def forget(self, watermark: int) -> bool:
        """Drop what no event at or after the watermark asks for; was there any?"""
        kept = {id: entry for id, entry in self.notified.items() if entry[1] > watermark}
        dropped = len(kept) < len(self.notified)
        self.notified = kept
        return dropped


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Memory).decode


def pack_memory(memory: Memory) -> bytes:
    return bytes((LAYOUT,)) + _encode(memory)


def unpack_memory(packed: bytes | None, buckets: int) -> Memory:
    """The memory of a bucket, new if there is none yet."""
    if packed is None:
        return Memory(buckets)
    if packed[0] != LAYOUT:
        raise PipelineError(
            f"the checkpoint remembers notifications in layout {packed[0]}, and this Recado reads layout {LAYOUT}; "
            "continue with the Recado that wrote it, or begin a new checkpoint"
        )
    memory = _decode(packed[1:])
    if memory.buckets != buckets:
        raise PipelineError(
            f"the checkpoint was begun with {memory.buckets} buckets, and {buckets} were asked for; "
            "a stream keeps its number of buckets"
        )
    return memory


# --- The policy applied to rows of Arrow: what is decided without memory, and what with it ---------------------------
#
# Rows come with the columns that ``constrain`` asks for; instants are microseconds since 1970 on the way and datetimes
# where the policy reads them. An event outside of the years 1 to 9999 counts as at the nearer end.


Longs: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


class Terms(msgspec.Struct, frozen=True):
    """What holds for a whole query."""

    tz: str = "UTC"
    connected: bool = True
    buckets: int = 256


class Rule(msgspec.Struct, frozen=True):
    """The constraints of a text, and the period of their frequency in microseconds."""

    constraints: Constraints
    period: int | None


def judge(rows: pa.Table, memory: Memory, terms: Terms, watermark: int | None = None) -> Longs:
    """Which rows become notifications; the memory is told of them. What is older than the watermark does not.

    Every row has a subscription and constraints.
    """
    keys = pa.table({"time": judged_times(rows), "id": rows["event_id"]})
    times, subscriptions = keys["time"].to_pylist(), rows["subscription_id"].to_pylist()
    rules, connected = _rules(rows, terms), _connect(rows, terms)
    wanted = []
    for row in pc.sort_indices(keys, [("time", "ascending"), ("id", "ascending")]).to_pylist():
        time, subscription, rule = times[row], subscriptions[row], rules[row]
        if watermark is not None and time < watermark:
            continue
        now = _instant(time)
        entry = memory.notified.get(subscription)
        last = None if entry is None else _instant(entry[0])
        if satisfied(rule.constraints, now, now, last, connected[row]):
            wanted.append(row)
            if rule.period is not None:
                memory.notify(subscription, time, rule.period)
    return np.array(wanted, np.int64)


@lru_cache(maxsize=65_536)
def read_rule(text: str, tz: str) -> Rule:
    """Subscriptions often share their constraints, and come again with every batch."""
    constraints = decode_constraints(text, tz)
    frequency = frequency_of(constraints)
    return Rule(constraints, None if frequency is None else frequency.period // _MICROSECOND)


def _rules(rows: pa.Table, terms: Terms) -> list[Rule]:
    return [read_rule(text, terms.tz) for text in rows["constraints"].to_pylist()]


def judged_times(rows: pa.Table) -> Longs:
    """When each event is judged: at its own time, or else when it was matched."""
    times = pc.coalesce(rows["event_time"], rows["matched_at"])
    if times.null_count:
        row = pc.index(times.is_null(), True).as_py()
        raise PipelineError(f"event {rows['event_id'][row].as_py()!r} has neither event_time nor matched_at")
    micros = times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    clipped: Longs = np.clip(micros, _FIRST, _LAST)
    return clipped


def _connect(rows: pa.Table, terms: Terms) -> list[bool]:
    if "connected" not in rows.column_names:
        return [terms.connected] * len(rows)
    return [terms.connected if one is None else one for one in rows["connected"].to_pylist()]


def _instant(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


# --- Rows on their way through state, packed into Arrow chunks: one for each bucket instead of one for each row
#
# ``transformWithState`` hands rows to Python one by one, cell by cell, which costs more than judging them. So rows are
# packed before, in ``mapInArrow``, and unpacked behind it; no value changes its type on the way. What needs no memory
# is decided while packing: rows without constraints and rows with intervals only travel in chunks that no bucket
# opens, with negative numbers that spread them over the partitions.


Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]

BUCKET = "_bucket"
CHUNK = "chunk"
FREIGHT_SCHEMA = f"{BUCKET} int, {CHUNK} binary"
PASSING = 64
"""How many negative numbers there are."""

_ROWS = 65_536
_BYTES = 8_388_608


class Packer(msgspec.Struct, frozen=True):
    """What ``mapInArrow`` runs before the state."""

    terms: Terms

    def pack(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        passing = count(context.partitionId() if context else 0)
        for table in gathered(batches):
            chunks = list(self.chunks(table, passing))
            numbers = pa.array([number for number, _ in chunks], pa.int32())
            payloads = pa.array([to_bytes(rows) for _, rows in chunks], pa.binary())
            yield pa.RecordBatch.from_arrays([numbers, payloads], [BUCKET, CHUNK])

    def chunks(self, table: pa.Table, passing: Iterator[int]) -> Iterator[tuple[int, pa.Table]]:
        """The rows of each bucket that has some, and those that pass."""
        buckets, rows = table[BUCKET].to_numpy(), table.drop_columns([BUCKET])
        free = np.asarray(pc.or_(rows["constraints"].is_null(), rows["subscription_id"].is_null()))
        remembering = self._remembering(rows) & ~free
        passed = rows.filter(free)
        if not (free | remembering).all():
            timely = rows.filter(~free & ~remembering)
            passed = pa.concat_tables([passed, timely.take(judge(timely, Memory(0), self.terms))])
        if len(passed):
            yield -1 - next(passing) % PASSING, passed
        yield from _by_bucket(rows.filter(remembering), buckets[remembering])

    def _remembering(self, rows: pa.Table) -> Flags:
        """Which rows belong to subscriptions with a frequency. Few texts serve many rows, so each is read once."""
        encoded = rows["constraints"].combine_chunks().dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        flags = np.array([*(self._has_frequency(text, rows) for text in texts), False])
        chosen: Flags = flags[encoded.indices.fill_null(len(texts)).to_numpy()]
        return chosen

    def _has_frequency(self, text: str, rows: pa.Table) -> bool:
        try:
            return read_rule(text, self.terms.tz).period is not None
        except RecadoError as error:
            row = pc.index(rows["constraints"], text).as_py()
            raise PipelineError(f"subscription {rows['subscription_id'][row].as_py()!r}: {error}") from None


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What ``mapInArrow`` runs behind the state: the rows again, in batches of a fair size."""
    rows = (
        found
        for batch in batches
        for chunk in batch.column(CHUNK)
        for found in from_bytes(chunk.as_buffer()).to_batches()
    )
    for table in gathered(rows):
        yield from table.to_batches()


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Small batches joined, up to a number of rows and bytes; empty ones are left out."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield pa.Table.from_batches(held).combine_chunks()
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def to_bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def from_bytes(chunk: bytes | pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(chunk).read_all()


def _by_bucket(rows: pa.Table, buckets: Numbers) -> Iterator[tuple[int, pa.Table]]:
    order = np.argsort(buckets, kind="stable")
    in_order, sorted_rows = buckets[order], rows.take(order)
    starts = np.flatnonzero(np.diff(in_order, prepend=-1))
    for start, end in pairwise([*starts.tolist(), len(order)]):
        yield int(in_order[start]), sorted_rows.slice(start, end - start)


# --- The stateful step: one call for each bucket that has rows, one packed value of state for each bucket ------------
#
# It never reads a clock. With a watermark, state is forgotten as soon as it cannot matter to an event at or after the
# watermark, and earlier events are dropped, so forgetting changes no judgement.


PARCEL_SCHEMA = "chunk binary"
STATE = "notified"


class ConstraintProcessor(StatefulProcessor):
    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState(STATE, "packed binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803  # Spark's names
        if key[0] < 0:  # decided before
            for row in rows:
                yield Row(chunk=row.chunk)
            return
        table = pa.concat_tables([from_bytes(row.chunk) for row in rows]).combine_chunks()
        wanted = self._judge(table, _watermark(timerValues))
        if len(wanted):
            yield Row(chunk=to_bytes(table.take(wanted)))

    def close(self) -> None:
        pass

    def _judge(self, table: pa.Table, watermark: int | None) -> Longs:
        stored = self._state.get()
        memory = unpack_memory(bytes(stored[0]) if stored else None, self.terms.buckets)
        forgotten = watermark is not None and memory.forget(watermark)
        wanted = judge(table, memory, self.terms, watermark)
        if not memory.notified:
            self._state.clear()
        elif len(wanted) or forgotten:
            self._state.update((pack_memory(memory),))
        return wanted


def _watermark(times: TimerValues) -> int | None:
    """In microseconds; Spark says 0 before there is one, and -1 where there never is."""
    milliseconds = times.getCurrentWatermarkInMs()
    return milliseconds * 1000 if milliseconds > 0 else None


# --- Delivery constraints on Spark: of the notifications that matching found, those that their subscriptions want

BUCKETS = 256
MATCHES = "matches"

_NEEDED: dict[str, DataType] = {
    "event_id": StringType(),
    "subscription_id": StringType(),
    "event_time": TimestampType(),
    "matched_at": TimestampType(),
    "constraints": StringType(),
}
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_MOST_BYTES = 16 * 2**20
_SIZE = re.compile(r"(?P<number>\d+)(?P<unit>[kmgt]?)b?")
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def constrain(
    notifications: DataFrame,
    *,
    watermark: str | None = None,
    connected: bool = True,
    tz: str = "UTC",
    buckets: int = BUCKETS,
) -> DataFrame:
    """The notifications that satisfy their subscriptions' constraints; the columns stay as they are.

    Of rows with an array ``matches``, ``constraints`` is a member of each match, and is left out of the result; an
    event has a row with its matches that have none, and a row for each of the others.

    ``constraints`` holds a JSON list for each row, or null for none. A boolean column ``connected``, if there is one,
    says whether the owner is connected; ``connected`` stands in where it says nothing. ``tz`` is the time zone of
    constraints that name none. With a ``watermark`` such as "10 minutes", a stream forgets what can no longer matter,
    and drops what comes later than that to a subscription with a frequency; without it, it remembers every subscription
    it has notified. A stream keeps its number of ``buckets`` for life.

    A session whose Arrow batches may have more than 16 MB gets that limit: chunks are large, and Spark would put
    thousands of them into one batch.
    """
    if MATCHES in notifications.columns and "subscription_id" not in notifications.columns:
        flat = _flatten(notifications)
        judged = constrain(flat, watermark=watermark, connected=connected, tz=tz, buckets=buckets)
        return judged.select(*notifications.columns)
    _check(notifications, tz, buckets)
    _limit_batches(notifications)
    terms = Terms(tz=tz, connected=connected, buckets=buckets)
    schema, streaming = notifications.schema, notifications.isStreaming
    if not streaming:
        _ = notifications.sparkSession.streams.active  # before 4.3, what state needs is there once this was asked for
    if watermark is not None and streaming:
        notifications = _with_watermark(notifications, watermark)
    spread = F.pmod(F.xxhash64("subscription_id"), F.lit(buckets)).cast("int")
    packed = notifications.withColumn(BUCKET, spread).mapInArrow(Packer(terms).pack, FREIGHT_SCHEMA)
    judged = packed.groupBy(BUCKET).transformWithState(
        ConstraintProcessor(terms),
        PARCEL_SCHEMA,
        outputMode="append",
        timeMode="EventTime" if watermark is not None and streaming else "None",
    )
    return judged.mapInArrow(unpack, schema)


def _flatten(nested: DataFrame) -> DataFrame:
    """A row for each match that has constraints, and one with the array of the others, which is nobody's."""
    kind = nested.schema[MATCHES].dataType
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        raise PipelineError(f"column {MATCHES!r} has the type {kind.simpleString()}; match(output='nested') gives it")
    if "constraints" not in kind.elementType.names:
        raise PipelineError("the matches have no 'constraints'; match() gives them with include_constraints=True")
    names = [name for name in kind.elementType.names if name != "constraints"]

    def plain(one: Column) -> Column:
        return F.struct(*(one[name].alias(name) for name in names))

    def row(matches: Column, subscription: Column, constraints: Column) -> Column:
        return F.struct(matches.alias(MATCHES), subscription.alias("subscription_id"), constraints.alias("constraints"))

    nobody = F.lit(None).cast("string")
    given = F.coalesce(F.col(MATCHES), F.array().cast(kind))  # null of what was rejected
    free = F.transform(F.filter(given, lambda one: one["constraints"].isNull()), plain)
    others = F.transform(
        F.filter(given, lambda one: one["constraints"].isNotNull()),
        lambda one: row(F.array(plain(one)), one["subscription_id"], one["constraints"]),
    )
    kept = [name for name in nested.columns if name != MATCHES]
    flat = nested.select(*kept, F.inline(F.concat(F.array(row(free, nobody, nobody)), others)))
    wanted = F.size(MATCHES) > 0
    return flat.where(wanted | F.col("rejected").isNotNull() if "rejected" in kept else wanted)


def _limit_batches(notifications: DataFrame) -> None:
    conf = notifications.sparkSession.conf
    set_to = _SIZE.fullmatch(str(conf.get(_BATCH_BYTES)).lower())
    size = int(set_to["number"]) << _SHIFTS[set_to["unit"]] if set_to else 0
    if not 0 < size <= _MOST_BYTES:
        conf.set(_BATCH_BYTES, str(_MOST_BYTES))


def _with_watermark(notifications: DataFrame, watermark: str) -> DataFrame:
    try:
        return notifications.withWatermark("event_time", watermark)
    except PySparkException:
        raise PipelineError(f"{watermark!r} is not a length of time such as '10 minutes'") from None


def _check(notifications: DataFrame, tz: str, buckets: int) -> None:
    fields = {field.name: field for field in notifications.schema}
    for name, wanted in _NEEDED.items():
        if name not in fields:
            hint = "; match() gives it with include_constraints=True" if name == "constraints" else ""
            raise PipelineError(f"there is no column {name!r}{hint}; the columns are {', '.join(fields)}")
        _check_type(fields[name], wanted)
    if "connected" in fields:
        _check_type(fields["connected"], BooleanType())
    if BUCKET in fields:
        raise PipelineError(f"the column {BUCKET!r} is needed for constraints; give it another name")
    if not 1 <= buckets <= 1_000_000:
        raise PipelineError(f"{buckets} is no number of buckets; use 1 to 1,000,000")
    try:
        find_zone(tz)
    except ValueError as error:
        raise PipelineError(str(error)) from None
    provider = str(notifications.sparkSession.conf.get(_PROVIDER))
    if "RocksDB" not in provider:
        raise PipelineError(f"constraints keep their state in RocksDB, and {_PROVIDER} is {provider}")


def _check_type(field: StructField, wanted: DataType) -> None:
    if field.dataType != wanted:
        found, right = field.dataType.simpleString(), wanted.simpleString()
        raise PipelineError(f"column {field.name!r} has the type {found}; {right} was expected")
