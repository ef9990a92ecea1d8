"""Matching events as they arrive: one streaming query from events to notifications in Parquet.

    events -> match -> constraints -> out/batch=N/ , rejected/batch=N/

- *Checkpoint.* Spark records which events a micro-batch has, we record beside it which version of the subscription set
  it used (``checkpoint/recado/versions``). A change of the set takes effect with the next micro-batch; a replay of a
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
from typing import Any

import msgspec
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from recado import files
from recado.pipeline.canary import Verification
from recado.pipeline.constraints import constrain
from recado.pipeline.errors import PipelineError
from recado.pipeline.match import match, notifications, rejections
from recado.pipeline.sets import SubscriptionSet
from recado.pipeline.worker import read_choice

# --- Exactly once into Parquet: a folder with one subfolder for each micro-batch -------------------------------------
#
#     out/batch=0/part-….parquet    out/batch=1/…
#
# A micro-batch is written aside and appears by one rename, so a reader of any kind sees all of it or nothing. Its
# number is its identity: after a crash Spark runs the unfinished micro-batch again under the same number, and what is
# there already is not written again. Unlike the list of files that Spark's own file sink keeps, this needs nothing of
# a reader. The folder must be on a file system with an atomic rename that the driver mounts, as local disks and NFS
# are.


_STAGING = "_staging"  # readers skip names that begin with an underscore


class BatchFolder:
    """A folder of micro-batches."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).absolute()

    def path(self, batch: int) -> Path:
        return self.folder / f"batch={batch}"

    def has(self, batch: int) -> bool:
        return self.path(batch).is_dir()

    def write(self, rows: DataFrame, batch: int) -> int:
        """Write a micro-batch that is not there yet; how many rows it has."""
        staged = self.folder / _STAGING / f"batch={batch}"
        shutil.rmtree(staged, ignore_errors=True)  # of an attempt that was cut off
        try:
            staged.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PipelineError(f"{self.folder} cannot be written: {error.strerror}") from None
        rows.write.parquet(str(staged))
        parts = sorted(staged.glob("*.parquet"))
        for path in [*parts, staged]:
            files.sync_path(path)
        count = sum(int(pq.read_metadata(path).num_rows) for path in parts)
        staged.rename(self.path(batch))
        files.sync_folder(self.folder)
        return count


# --- Matching events as they arrive: one streaming query from events to notifications in Parquet ---------------------

_log = logging.getLogger("recado.pipeline")
PathLike = str | os.PathLike[str]


class BatchSummary(msgspec.Struct, frozen=True):
    """What came of one micro-batch."""

    batch: int
    notifications: int
    rejected: int
    version: int | None
    """The version of the subscription set; none if there was no event to match."""
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


def start_stream(
    events: DataFrame,
    subscriptions: SubscriptionSet | PathLike,
    out: PathLike,
    checkpoint: PathLike,
    *,
    rejected: PathLike | None = None,
    place: str = "",
    constraints: bool = True,
    watermark: str | None = None,
    include_event: bool = False,
    trigger: Mapping[str, Any] | None = None,
    on_batch: Callable[[BatchSummary], None] | None = None,
    **form: Any,
) -> StreamingQuery:
    """Start the query. ``form`` says what the rows are, as for ``match``; ``trigger`` is Spark's, by default endless.

    ``form`` may also have ``knowledge`` and ``include_renamed``, for semantic subscriptions. ``constraints=False``
    leaves delivery constraints to whoever delivers; ``watermark`` is for them, as ``constrain`` says. ``on_batch`` is
    told of each micro-batch. ``form`` may have ``verify_share``, as for ``match``.
    """
    if not events.isStreaming:
        raise PipelineError("these events are not a stream; read them with spark.readStream, or use match")
    subscription_set = subscriptions if isinstance(subscriptions, SubscriptionSet) else SubscriptionSet(subscriptions)
    subscription_set.current()
    home = Path(checkpoint).absolute()
    bad = Path(rejected).absolute() if rejected is not None else Path(f"{Path(out).absolute()}-rejected")
    _claim(home, Identity(str(subscription_set.folder), str(Path(out).absolute()), str(bad), constraints, place))
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
        **form,
    )
    if constraints:
        found = constrain(found, watermark=watermark).drop("constraints")
    each = BatchWriter(BatchFolder(out), BatchFolder(bad), choices, on_batch, verification)
    writer = found.writeStream.foreachBatch(each).option("checkpointLocation", str(home)).outputMode("append")
    return (writer.trigger(**trigger) if trigger else writer).start()


class BatchWriter:
    """What is done with each micro-batch."""

    def __init__(
        self,
        out: BatchFolder,
        bad: BatchFolder,
        choices: Path,
        on_batch: Callable[[BatchSummary], None] | None,
        verification: Verification,
    ) -> None:
        self._out, self._bad = out, bad
        self._choices = choices
        self._on_batch = on_batch
        self._verification = verification
        self._before = 0, 0

    def __call__(self, found: DataFrame, batch: int) -> None:
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
            choice = read_choice(self._choices, batch)
            version = choice.version if choice else None
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
            return self._out.write(notifications(found), batch), rejected
        finally:
            found.unpersist()


def _write_note(note: Path, identity: Identity) -> None:
    note.parent.mkdir(parents=True, exist_ok=True)
    draft = note.with_suffix(".tmp")
    draft.write_bytes(msgspec.json.encode(identity))
    draft.replace(note)


def _claim(checkpoint: Path, identity: Identity) -> None:
    """Note what the checkpoint belongs to, or compare."""
    note = checkpoint / "recado" / "stream.json"
    try:
        if not note.exists():
            _write_note(note, identity)
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
