"""The Spark job that writes a partitioned set.

The driver sees a sample of the subscriptions, from which it makes the plan, and in the end what each partition tells
the router. Executors send every row to its partition and build the index there, so a set may be larger than the driver
could hold. They write it into the folder if they see it, as Parquet to a URL, or else send it to the driver's disk.

Subscriptions have no order in a DataFrame, so of two with one id neither is the newer: that is an error. Rows that are
no subscriptions end the job, or are left out and reported (``bad_rows="skip"``).
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from recado.errors import RecadoError
from recado.filters import expression
from recado.matching.index import Index
from recado.model.subscription import Subscription
from recado.pipeline import sets
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.locations import HadoopPath, digest_of, locate, remove_tree
from recado.pipeline.match import is_here
from recado.pipeline.partitioned.folder import (
    PARTS,
    PIECES,
    PIECES_SCHEMA,
    BadRow,
    Manifest,
    Part,
    PartitionedSet,
    draft_beside,
    finish,
    finish_at_url,
    partition_path,
    pieces_of,
    refuse_existing,
    write_piece,
)
from recado.pipeline.partitioned.plan import HEAVY, Key, Plan, accesses, make_plan, make_router, tell
from recado.pipeline.session import is_remote
from recado.pipeline.sets import DETAILS, INDEX, check_columns, read_batch

SAMPLE = 20_000
"""Subscriptions that the plan is made from: enough for a hundred partitions to come out within some percent."""
ROUTER_KEYS = 65_536
"""Entries of the router, over all partitions."""
SHOWN = 100
"""Bad rows that are kept in the manifest."""

PARTITION, REASON = "partition", "reason"


class Built(msgspec.Struct):
    """What an executor reports of one partition; of the rows that have none, only how many and why."""

    partition: int
    subscriptions: int = 0
    expiring: int = 0
    constrained: int = 0
    bytes: int = 0
    digest: str = ""
    told: list[str] = []
    names: list[str] = []
    bad_rows: list[BadRow] = []


def build_partitions(
    subscriptions: DataFrame,
    folder: str | os.PathLike[str] | HadoopPath,
    *,
    partitions: int | None = None,
    max_subscriptions: int | None = None,
    bad_rows: Literal["fail", "skip"] = "fail",
    router_keys: int = ROUTER_KEYS,
    ship: bool | None = None,
) -> PartitionedSet:
    """Write the subscriptions of a DataFrame as a partitioned set into a new folder, or to a URL that Spark reaches.

    ``ship=False`` says that executors see the folder and write into it; ``True``, that they do not and send what they
    made to the driver's disk. Unless it is given, that is done where executors run elsewhere.

    Either ``partitions`` says how many there are, or ``max_subscriptions`` about how many each may hold. The rows are
    those that ``match`` takes; ``router_keys`` bounds the router, which every worker holds.
    """
    check_columns(subscriptions.columns)
    target = locate(folder)
    with user_errors():
        refuse_existing(target)
        _refuse_repeated(subscriptions)
        total = subscriptions.count()
        count = _partition_count(total, partitions, max_subscriptions)
        plan = make_plan(list(_sample(subscriptions, total)), count)
        placed = _place(subscriptions, plan)
        most_keys = max(router_keys // count, 1)
        if isinstance(target, HadoopPath):
            return _build_at_url(placed, Builder(plan, "", most_keys), target, bad_rows)
        if ship is None:
            ship = not is_here(subscriptions.sparkSession) and not is_remote(subscriptions.sparkSession)
        draft = draft_beside(target)
        try:
            reports = _build_here(placed, Builder(plan, "" if ship else str(draft), most_keys), draft)
            return finish(draft, target, *_sum_up(reports, count, bad_rows))
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _partition_count(total: int, partitions: int | None, max_subscriptions: int | None) -> int:
    if (partitions is None) is (max_subscriptions is None):
        raise PipelineError("give either partitions, their number, or max_subscriptions, how many each may hold")
    if partitions is None:
        assert max_subscriptions is not None
        _need_positive("max_subscriptions", max_subscriptions)
        return max(ceil((1 + HEAVY) * total / max_subscriptions), 1)
    _need_positive("partitions", partitions)
    return partitions


def _need_positive(name: str, value: int) -> None:
    if value < 1:
        raise PipelineError(f"{name} is {value}; it must be at least 1")


def _refuse_repeated(subscriptions: DataFrame) -> None:
    id = F.get_json_object("value", "$.id") if subscriptions.columns == ["value"] else F.col("id").cast("string")
    ids = subscriptions.select(id.alias("id")).where("id IS NOT NULL")
    rows = ids.groupBy("id").count().where("count > 1").orderBy("id").limit(5).collect()
    if rows:
        shown = ", ".join(f"{row[0]!r} ({row[1]} times)" for row in rows)
        raise PipelineError(f"a subscription's id must be there once; more than once are: {shown}")


def _sample(subscriptions: DataFrame, total: int) -> Iterator[list[tuple[Key, ...]]]:
    """What the filters of about ``SAMPLE`` subscriptions offer; rows that are none are met again later."""
    some = subscriptions if total <= SAMPLE else subscriptions.sample(fraction=SAMPLE / total, seed=1)
    for batch in some.toArrow().to_batches():
        for found in read_batch(batch):
            if isinstance(found, Subscription):
                yield accesses(found)


def _place(subscriptions: DataFrame, plan: Plan) -> DataFrame:
    """The subscriptions, those of a partition together in one task."""
    fields = [*subscriptions.schema.fields, StructField(PARTITION, IntegerType()), StructField(REASON, StringType())]
    placed = subscriptions.mapInArrow(Placer(plan).__call__, StructType(fields))
    return placed.repartitionById(plan.partitions + 1, PARTITION)


def _build_here(placed: DataFrame, builder: Builder, draft: Path) -> list[tuple[Built, str]]:
    """Partitions into a folder of the driver's: by the executors, or, if they do not see it, from what they send."""
    made = placed.mapInArrow(builder.__call__, PIECES_SCHEMA)
    if builder.draft:
        return [(_report(row[0]), "") for row in made.select("bytes").collect()]
    made = made.persist(StorageLevel.DISK_ONLY)  # each is asked for twice: all at once, and one after the other
    try:
        reports = [(_report(row[0]), "") for row in made.where("file = ''").select("bytes").collect()]
        for row in made.where("file != ''").toLocalIterator():
            folder = partition_path(draft, row["partition"])
            folder.mkdir(exist_ok=True)
            write_piece(folder, row["file"], row["start"], row["bytes"])
        return reports
    finally:
        made.unpersist()


def _build_at_url(
    placed: DataFrame, builder: Builder, target: HadoopPath, bad_rows: Literal["fail", "skip"]
) -> PartitionedSet:
    parts = str(target / PARTS)
    try:
        made = placed.mapInArrow(builder.__call__, PIECES_SCHEMA)
        written = made.write.option("maxRecordsPerFile", 0).option("parquet.enable.dictionary", "false")
        written.parquet(parts)
        spark = placed.sparkSession
        told = spark.read.schema(PIECES_SCHEMA).parquet(parts).where("file = ''").select("bytes", "_metadata.file_name")
        reports = [(_report(row[0]), row[1]) for row in told.collect()]
        return finish_at_url(target, *_sum_up(reports, builder.plan.partitions, bad_rows))
    except Exception:
        remove_tree(target)
        raise


def _report(packed: bytes) -> Built:
    return msgspec.msgpack.decode(packed, type=Built)


def _sum_up(told: list[tuple[Built, str]], count: int, bad_rows: Literal["fail", "skip"]) -> tuple[Index, Manifest]:
    """Router and manifest from what was told of each partition, and in which file it is."""
    reports, files = [report for report, _ in told], {report.partition: file for report, file in told}
    bad = next((report for report in reports if report.partition == count), Built(count))
    if bad.bad_rows and bad_rows == "fail":
        first = bad.bad_rows[0]
        more = f" (and {bad.subscriptions - 1:,} more rows)" if bad.subscriptions > 1 else ""
        raise PipelineError(f"subscriptions, row {first.row!r}: {first.reason}{more}")
    good = sorted((report for report in reports if report.partition < count), key=lambda report: report.partition)
    names = sorted({name for report in good for name in report.names})
    manifest = Manifest(
        subscriptions=sum(report.subscriptions for report in good),
        expiring=sum(report.expiring for report in good),
        constrained=sum(report.constrained for report in good),
        names=tuple(names),
        partitions=count,
        parts=tuple(
            Part(r.partition, r.subscriptions, len(r.told), r.bytes, r.digest, files[r.partition]) for r in good
        ),
        rejected=bad.subscriptions,
        bad_rows=tuple(bad.bad_rows),
    )
    keys = {report.partition: map(expression.read_back, report.told) for report in good}
    return make_router(keys, names), manifest


# -- in executors ------------------------------------------------------------------------------------------------------


class Placer(msgspec.Struct, frozen=True):
    """Rows in, each with its partition out; those that are no subscriptions go behind the last one, with a reason."""

    plan: Plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [self._place(found) for found in read_batch(batch)]
            yield batch.append_column(PARTITION, pa.array([row[0] for row in rows], pa.int32())).append_column(
                REASON, pa.array([row[1] for row in rows], pa.string())
            )

    def _place(self, found: Subscription | RecadoError) -> tuple[int, str | None]:
        if isinstance(found, RecadoError):
            return self.plan.partitions, str(found)
        try:
            sets.detail_of(found)  # refuses bad constraints
            if found.semantic is not None:
                raise PipelineError(
                    "a semantic subscription may match any event, so it has no partition; put the semantic ones into a "
                    "file of their own, match that without partitions, and take both results"
                )
        except RecadoError as error:
            return self.plan.partitions, str(error)
        offered = accesses(found)
        return self.plan.partition(found.id, self.plan.choose(offered), offered), None


class Builder(msgspec.Struct, frozen=True):
    """Placed rows in; out, of each partition a report and, unless there is a ``draft`` to write into, its files.

    A report is a piece of a file without a name.
    """

    plan: Plan
    draft: str
    most_keys: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        for batch in batches:
            for partition in batch.column(PARTITION).unique().to_pylist():
                received[partition].append(batch.filter(pc.equal(batch.column(PARTITION), partition)))
        for partition in list(received):
            rows = received.pop(partition)
            if partition == self.plan.partitions:
                yield _told(_bad(partition, rows))
            elif self.draft:
                yield _told(self._build(partition, rows, partition_path(Path(self.draft), partition)))
            else:
                with TemporaryDirectory(prefix="recado-partition-") as scratch:
                    folder = Path(scratch) / "partition"
                    report = self._build(partition, rows, folder)
                    yield from pieces_of(folder, partition)
                yield _told(report)

    def _build(self, partition: int, rows: list[pa.RecordBatch], folder: Path) -> Built:
        keys: set[Key] = set()
        index, details = sets.build(self._noting(rows, keys), checked=True)
        if len(index) != sum(batch.num_rows for batch in rows):
            raise PipelineError(f"partition {partition}: two subscriptions have the same id")
        return Built(
            partition=partition,
            subscriptions=len(index),
            expiring=len(details) - details["expires_at"].null_count,
            constrained=len(details) - details["constraints"].null_count,
            bytes=_write(folder, index, details),
            digest=digest_of(folder / INDEX, folder / DETAILS),
            told=[expression.format_expression(filter) for filter in tell(keys, self.most_keys)],
            names=sorted(index.dictionary.names),
        )

    def _noting(self, rows: list[pa.RecordBatch], keys: set[Key]) -> Iterator[Subscription]:
        """The subscriptions, and on the way the keys that they are found by."""
        for batch in rows:
            for found in read_batch(batch.drop_columns([PARTITION, REASON])):
                assert isinstance(found, Subscription)  # others were sorted out when they were placed
                keys.update(self.plan.choose(accesses(found)))
                yield found


def _told(report: Built) -> pa.RecordBatch:
    return pa.record_batch([[report.partition], [""], [0], [msgspec.msgpack.encode(report)]], schema=PIECES)


def _bad(partition: int, rows: list[pa.RecordBatch]) -> Built:
    shown: list[BadRow] = []
    for batch in rows:
        names = batch.column("id" if "id" in batch.schema.names else "value").to_pylist()
        shown += map(BadRow, map(_shorten, names), batch.column(REASON).to_pylist())
    return Built(partition, subscriptions=len(shown), bad_rows=sorted(shown, key=lambda bad: bad.row)[:SHOWN])


def _shorten(name: object) -> str:
    text = str(name)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _write(place: Path, index: Index, details: pa.Table) -> int:
    """A finished folder under its name; another attempt of the same task may have been there before."""
    draft = place.with_name(f"{place.name}.{uuid.uuid4().hex[:8]}")
    draft.mkdir()
    size = sets.write_folder(draft, index, details)
    try:
        draft.rename(place)
    except OSError:  # the same content is there already
        shutil.rmtree(draft, ignore_errors=True)
    return size
