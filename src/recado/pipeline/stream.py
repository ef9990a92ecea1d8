"""Matching events as they arrive: one streaming query from events to notifications, in Parquet or any other sink.

    events -> match -> constraints -> out/batch=N/ , rejected/batch=N/

- *Checkpoint.* Spark records which events a micro-batch has, the driver records beside it, before any task runs, which
  version of the subscription set it uses (``checkpoint/recado/versions``), and sends that version to executors that
  have it not. A change of the set takes effect with the next micro-batch; a replay of a
  micro-batch finds its version in the record and gives the same rows.
- *Exactly once.* ``sink`` writes a micro-batch once under its number. A replayed micro-batch that is there already is
  computed but not written, since the state of the constraints has to go on from it.
- *Bad rows* do not stop the stream: they are written to ``rejected`` with their reason.

A checkpoint belongs to one set, one output and, where it has a name, one place of events; starting with others is
refused, since it would lose or repeat events.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from recado import files
from recado.pipeline.canary import Verification
from recado.pipeline.constraints import constrain
from recado.pipeline.errors import PipelineError
from recado.pipeline.locations import HadoopPath, Location, for_spark, locate, write_file
from recado.pipeline.match import accepted, check_written, count_of, match, place_of, rejections
from recado.pipeline.session import is_remote
from recado.pipeline.sets import SubscriptionSet
from recado.pipeline.sinks import Sink, StreamSink
from recado.pipeline.worker import CHOSEN, record_choice

# --- Exactly once into Parquet: a folder with one subfolder for each micro-batch -------------------------------------
#
#     out/batch=0/part-….parquet    out/batch=1/…
#
# A micro-batch is written aside and appears by one rename, so a reader of any kind sees all of it or nothing. Its
# number is its identity: after a crash Spark runs the unfinished micro-batch again under the same number, and what is
# there already is not written again. Unlike the list of files that Spark's own file sink keeps, this needs nothing of
# a reader. Where a rename is not one step (object stores), the micro-batch is written in its place, and is there when
# Spark's own mark ``_SUCCESS`` is: what has no mark is written anew.


_STAGING = "_staging"  # readers skip names that begin with an underscore


class BatchFolder:
    """A folder of micro-batches."""

    def __init__(self, folder: str | os.PathLike[str] | HadoopPath) -> None:
        self.folder = locate(folder)

    @property
    def name(self) -> str:
        return str(self.folder)

    def path(self, batch: int) -> Location:
        return self.folder / f"batch={batch}"

    def has(self, batch: int) -> bool:
        if isinstance(self.folder, Path) or self.folder.has_atomic_rename:
            return self.path(batch).is_dir()
        return (self.path(batch) / "_SUCCESS").exists()

    def write(self, rows: DataFrame, batch: int) -> int:
        """Write a micro-batch that is not there yet; how many notifications its rows stand for, or how many rows."""
        if isinstance(self.folder, HadoopPath):
            return self._write_to_url(rows, self.folder, batch)
        staged = self.folder / _STAGING / f"batch={batch}"
        shutil.rmtree(staged, ignore_errors=True)  # of an attempt that was cut off
        try:
            staged.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PipelineError(f"{self.folder} cannot be written: {error.strerror}") from None
        seen = Observation()
        _counted(rows, seen).write.parquet(for_spark(staged))
        check_written(rows.sparkSession, staged, int(seen.get.get("written", 0)))
        for path in [*sorted(staged.glob("*.parquet")), staged]:
            files.sync_path(path)
        staged.rename(self.folder / f"batch={batch}")
        files.sync_folder(self.folder)
        return int(seen.get.get("rows", 0))

    @staticmethod
    def _write_to_url(rows: DataFrame, folder: HadoopPath, batch: int) -> int:
        seen, target = Observation(), folder / f"batch={batch}"
        counted = _counted(rows, seen)
        if not folder.has_atomic_rename:
            counted.write.mode("overwrite").parquet(str(target))
            if not (target / "_SUCCESS").exists():  # Spark writes it, unless it was told not to
                (target / "_SUCCESS").write_bytes(b"")
            return int(seen.get.get("rows", 0))
        staged = folder / _STAGING / f"batch={batch}"
        counted.write.mode("overwrite").parquet(str(staged))
        staged.rename(target)
        return int(seen.get.get("rows", 0))


def _counted(rows: DataFrame, seen: Observation) -> DataFrame:
    count = F.coalesce(F.sum(count_of(rows)), F.lit(0))
    return rows.observe(seen, count.alias("rows"), F.count(F.lit(1)).alias("written"))


# --- Matching events as they arrive: one streaming query from events to notifications in Parquet ---------------------

_log = logging.getLogger("recado.pipeline")
PathLike = str | os.PathLike[str] | HadoopPath


class BatchSummary(msgspec.Struct, frozen=True):
    """What came of one micro-batch."""

    batch: int
    notifications: int
    rejected: int
    version: int
    """The version of the subscription set."""
    replayed: bool = False
    compared: int = 0
    """Pairs of an event and a subscription that were compared with the plain evaluator."""
    disagreements: int = 0
    """Of these, how many differed: a fault of Recado, which ``warning`` tells of."""
    warning: str = ""


class Identity(msgspec.Struct, frozen=True):
    """What a checkpoint belongs to."""

    subscriptions: str
    out: str
    rejected: str
    constraints: bool
    events: str = ""
    """Where they come from, if that has a name."""
    output: str = "rows"


def start_stream(
    events: DataFrame,
    subscriptions: SubscriptionSet | PathLike,
    out: PathLike | Sink | StreamSink,
    checkpoint: PathLike,
    *,
    rejected: PathLike | None = None,
    place: str = "",
    constraints: bool = True,
    watermark: str | None = None,
    include_event: bool = False,
    trigger: Mapping[str, Any] | None = None,
    on_batch: Callable[[BatchSummary], None] | None = None,
    ship: bool | None = None,
    output: Literal["rows", "nested"] = "rows",
    **form: Any,
) -> StreamingQuery:
    """Start the query. ``form`` says what the rows are, as for ``match``; ``trigger`` is Spark's, by default endless.

    ``form`` may also have ``knowledge`` and ``include_renamed``, for semantic subscriptions. ``constraints=False``
    leaves delivery constraints to whoever delivers; ``watermark`` is for them, as ``constrain`` says. ``on_batch`` is
    told of each micro-batch. ``out`` is a folder for Parquet, or one of ``recado.pipeline.sinks``, which says what each
    promises; rejected rows then go to ``CHECKPOINT-rejected`` unless told otherwise. ``form`` may have
    ``verify_share``, as for ``match``; ``ship`` and ``output`` are as there, without ordinals, which another version
    would number anew. Output, checkpoint and set may be URLs.
    """
    if not events.isStreaming:
        raise PipelineError("these events are not a stream; read them with spark.readStream, or use match")
    if output not in ("rows", "nested"):
        raise PipelineError(f"a stream writes rows or nested ones, not {output!r}")
    if is_remote(events.sparkSession):
        raise PipelineError(
            "a stream that keeps its promises needs a driver of its own: start it on a master, not over Spark Connect "
            "(there, match works on a streaming DataFrame, with the version that is the newest when it starts)"
        )
    subscription_set = subscriptions if isinstance(subscriptions, SubscriptionSet) else SubscriptionSet(subscriptions)
    subscription_set.current()
    home = locate(checkpoint)
    sink = out if isinstance(out, Sink | StreamSink) else BatchFolder(out)
    beside = sink.folder if isinstance(sink, BatchFolder) else home
    bad = locate(rejected if rejected is not None else f"{beside}-rejected")
    if isinstance(sink, StreamSink) and (on_batch is not None or rejected is not None):
        raise PipelineError("a sink of Spark's own tells of no micro-batch, and takes rejected rows with the others")
    _claim(home, Identity(str(subscription_set.folder), sink.name, str(bad), constraints, place, output))
    if isinstance(sink, StreamSink):
        found = match(
            events,
            subscription_set,
            include_event=include_event,
            include_constraints=constraints,
            ship=ship,
            output=output,
            **form,
        )
        if constraints:
            found = constrain(found, watermark=watermark).drop("constraints")
        return _start(sink.configure(found.writeStream), home, trigger)
    choices = home / "recado" / "versions"
    verification = Verification(events.sparkSession)
    found = match(
        events,
        subscription_set,
        bad_rows="keep",
        include_event=include_event,
        include_constraints=constraints,
        choices=choices,
        verification=verification,
        output=output,
        **form,
    )
    if constraints:
        found = constrain(found, watermark=watermark).drop("constraints")
    versions = VersionChooser(subscription_set, choices, ship)
    each = BatchWriter(sink, BatchFolder(bad), versions, on_batch, verification)
    return _start(found.writeStream.foreachBatch(each), home, trigger)


def _start(writer: DataStreamWriter, checkpoint: Location, trigger: Mapping[str, Any] | None) -> StreamingQuery:
    writer = writer.option("checkpointLocation", for_spark(checkpoint)).outputMode("append")
    return (writer.trigger(**trigger) if trigger else writer).start()


class VersionChooser:
    """Chooses the version of each micro-batch, on the driver, before its tasks run."""

    def __init__(self, subscription_set: SubscriptionSet, choices: Location, ship: bool | None) -> None:
        self._set, self._choices, self._ship = subscription_set, choices, ship

    def choose(self, found: DataFrame, batch: int) -> int:
        """The recorded version, or the newest, which is recorded; the tasks of this thread are told where it is."""
        spark = found.sparkSession
        version = record_choice(self._choices, batch, self._set.current().number).version
        place = place_of(spark, self._set, version, self._ship)
        spark.sparkContext.setLocalProperty(CHOSEN, msgspec.json.encode(place).decode())
        return version


class BatchWriter:
    """What is done with each micro-batch."""

    def __init__(
        self,
        out: Sink,
        bad: BatchFolder,
        versions: VersionChooser,
        on_batch: Callable[[BatchSummary], None] | None,
        verification: Verification,
    ) -> None:
        self._out, self._bad = out, bad
        self._versions = versions
        self._on_batch = on_batch
        self._verification = verification
        self._before = 0, 0

    def __call__(self, found: DataFrame, batch: int) -> None:
        version = self._versions.choose(found, batch)
        replayed = self._out.has(batch)
        if replayed:
            found.write.format("noop").mode("append").save()
            counts = (0, 0)
        else:
            counts = self._write(found, batch)
        verified = self._verify()
        if verified[2]:
            _log.error("micro-batch %d: %s", batch, verified[2])
        if self._on_batch is not None:
            compared, differed, warning = verified
            self._on_batch(
                BatchSummary(
                    batch,
                    *counts,
                    version,
                    replayed=replayed,
                    compared=compared,
                    disagreements=differed,
                    warning=warning,
                )
            )

    def _verify(self) -> tuple[int, int, str]:
        """Since the last time: how many pairs were compared, how many differed, and what to say of it."""
        seen = self._verification
        agreed, differed = seen.agreements - self._before[0], seen.disagreements - self._before[1]
        self._before = seen.agreements, seen.disagreements
        return agreed + differed, differed, seen.warning() if differed else ""

    def _write(self, found: DataFrame, batch: int) -> tuple[int, int]:
        """The numbers of notifications and of rejected rows. These are written first: ``out`` says that all is done."""
        found.persist()
        try:
            refused = rejections(found)
            rejected = 0
            if not self._bad.has(batch) and not refused.isEmpty():
                rejected = self._bad.write(refused, batch)
            return self._out.write(accepted(found), batch), rejected
        finally:
            found.unpersist()


def _claim(checkpoint: Location, identity: Identity) -> None:
    """Note what the checkpoint belongs to, or compare."""
    note = checkpoint / "recado" / "stream.json"
    try:
        if not note.exists():
            write_file(note, msgspec.json.encode(identity))
        before = msgspec.json.decode(note.read_bytes(), type=Identity)
    except OSError as error:
        raise PipelineError(f"the checkpoint {checkpoint} cannot be used: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise PipelineError(f"{note} is damaged: {error}") from None
    for name in identity.__struct_fields__:
        was, now = getattr(before, name), getattr(identity, name)
        if was != now and "" not in (was, now):
            raise PipelineError(
                f"the checkpoint {checkpoint} belongs to a stream whose {name} is {was!r}, not {now!r}; "
                "go on with that, or start with a new checkpoint"
            )
