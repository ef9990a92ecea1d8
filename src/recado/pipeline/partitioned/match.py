"""Matching against a partitioned set: route every event, send it to the partitions, match it there.

    events -> mapInArrow(route) -> repartitionById -> mapInArrow(match) -> notifications

The routed rows are the events themselves, once for each partition that they have to visit; an event that no partition
can match goes nowhere. A task of the second stage serves one partition, so it opens one index, and a worker process
keeps a few open for the tasks that come. Both stages are stateless: a stream takes the same way as a batch.

A row that is no event is refused by the router, which knows every attribute of the set, as one index would refuse it.
It travels under a number behind the last partition and is reported once, by whichever task receives it.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from recado.matching.canary import SHARE
from recado.pipeline.canary import Verification, Watch, make_watch
from recado.pipeline.errors import PipelineError
from recado.pipeline.events import match_rows
from recado.pipeline.locations import HadoopPath, digest_of, keep, keep_copy
from recado.pipeline.match import (
    Output,
    event_form,
    finished,
    is_here,
    nest_schema,
    output_schema,
    send_file,
    travelling,
)
from recado.pipeline.partitioned.folder import (
    PARTS,
    ROUTER,
    PartitionedSet,
    join_pieces,
    load_router,
    partition_path,
    without_subscriptions,
)
from recado.pipeline.partitioned.plan import Router
from recado.pipeline.session import is_remote
from recado.pipeline.sets import DETAILS, INDEX, LoadedSet
from recado.pipeline.worker import BadRows, EventForm, load_here, match_record_batch

VISIT = "_recado_visit"
"""The column that says where a routed row goes: partition * tasks a partition + one of these tasks."""
KEEP_OPEN = 2


def match_partitioned(
    events: DataFrame,
    subscriptions: PartitionedSet | str | os.PathLike[str] | HadoopPath,
    *,
    json: str | None = None,
    variant: str | None = None,
    cloudevents: bool = False,
    include_event: bool = False,
    include_constraints: bool = False,
    bad_rows: BadRows = "fail",
    keep_open: int = KEEP_OPEN,
    tasks_per_partition: int = 1,
    verify_share: float = SHARE,
    verification: Verification | None = None,
    output: Output = "rows",
    ship: bool | None = None,
) -> DataFrame:
    """The notifications of the events, as ``match`` gives them for the same subscriptions.

    With ``output="nested"`` an event has a row for each partition where it matches something. There are no ordinals.

    ``keep_open`` is how many partitions a worker process keeps open. ``tasks_per_partition`` shares the events of
    each partition between several tasks, for streams of events of which most go to few partitions. ``verify_share`` and
    ``verification`` are as for ``match``; what the router leaves out is not compared. ``ship`` is as there, too: every
    executor gets the files of all partitions, and opens those that it needs.
    """
    if output not in ("rows", "nested"):
        raise PipelineError(f"a partitioned set gives rows or nested ones, not {output}: it has no ordinals")
    known = subscriptions if isinstance(subscriptions, PartitionedSet) else PartitionedSet(subscriptions)
    if min(keep_open, tasks_per_partition) < 1:
        raise PipelineError("keep_open and tasks_per_partition must be at least 1")
    shaped, form = event_form(
        events,
        json=json,
        variant=variant,
        cloudevents=cloudevents,
        names=known.manifest.names,
        keep_all=include_event,
    )
    schema = output_schema(
        shaped,
        include_event=include_event,
        include_constraints=include_constraints,
        expiry=known.manifest.expiring > 0,
        rejected=bad_rows == "keep",
    )
    schema, nested = nest_schema(schema, output)
    shaped, form = travelling(shaped, form)
    place = place_of(events.sparkSession, known, tasks_per_partition, ship)
    routed = shaped.mapInArrow(
        Route(place, form).__call__, StructType([*shaped.schema.fields, StructField(VISIT, IntegerType())])
    )
    spread = routed.repartitionById(place.partitions * place.tasks, VISIT)
    visit = Visit(place, form, tuple(schema.names), bad_rows, keep_open, make_watch(verify_share, verification), nested)
    return finished(spread.mapInArrow(visit.__call__, schema), output)


def place_of(spark: SparkSession, known: PartitionedSet, tasks: int, ship: bool | None) -> Place:
    """Where the executors of a session find the set, which is sent to them if they need that."""
    folder, parts = known.folder, known.manifest.parts
    place = Place(str(folder), known.manifest.built_at.isoformat(), known.manifest.partitions, tasks)
    if isinstance(folder, HadoopPath):
        sent = [
            (part.number, Sent(part.digest, (send_file(spark, folder / PARTS / part.file, part.file),)))
            for part in parts
        ]
    elif ship if ship is not None else not is_here(spark) and not is_remote(spark):
        sent = []
        for part in parts:
            digest, files = known.digest(part), known.path(part)
            names = [send_file(spark, files / name, f"{digest}-{name}") for name in (INDEX, DETAILS)]
            sent.append((part.number, Sent(digest, tuple(names))))
    else:
        return place
    router = known.router_path()
    return msgspec.structs.replace(
        place, sent=tuple(sent), router=send_file(spark, router, f"{digest_of(router)}-{ROUTER}")
    )


# -- in executors ------------------------------------------------------------------------------------------------------


class Sent(msgspec.Struct, frozen=True):
    """The files of a partition that Spark brings: index and details, or one with both in pieces."""

    digest: str
    names: tuple[str, ...]


class Place(msgspec.Struct, frozen=True):
    """Where executors find the set, its number of partitions, and how many tasks share each.

    ``router`` and ``sent`` are names of files, if it was sent. ``stamp`` tells a set from another one that was in the
    same folder before, which a worker may still have open.
    """

    folder: str
    stamp: str
    partitions: int
    tasks: int
    router: str = ""
    sent: tuple[tuple[int, Sent], ...] = ()


class Route(msgspec.Struct, frozen=True):
    """Events in; out, each once for every partition that it has to visit."""

    place: Place
    event_form: EventForm

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        router = _router(self.place)
        for batch in batches:
            matched = match_rows(
                router.index, self.event_form.named(batch), self.event_form.form, self.event_form.column
            )
            rows, partitions = router.visits(matched.pairs)
            refused = np.array([row for row, _ in matched.rejected], np.int64)
            rows = np.concatenate((rows, refused))
            partitions = np.concatenate((partitions, np.full(len(refused), self.place.partitions, np.int64)))
            visits = partitions * self.place.tasks + rows % self.place.tasks
            yield batch.take(pa.array(rows)).append_column(VISIT, pa.array(visits, pa.int32()))


class Visit(msgspec.Struct, frozen=True):
    """Routed events in, notifications out."""

    place: Place
    event_form: EventForm
    fields: tuple[str, ...]
    bad_rows: BadRows
    keep_open: int
    watch: Watch | None = None
    nested: tuple[str, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            partitions = batch.column(VISIT).to_numpy() // self.place.tasks
            events = batch.drop_columns([VISIT])
            for partition in np.unique(partitions).tolist():
                rows = np.flatnonzero(partitions == partition)
                own = events if len(rows) == len(events) else events.take(pa.array(rows))
                yield from match_record_batch(
                    self._opened(partition),
                    own,
                    self.event_form,
                    self.fields,
                    self.bad_rows,
                    watch=self.watch,
                    nested=self.nested,
                )

    def _opened(self, partition: int) -> LoadedSet:
        if partition == self.place.partitions:
            return without_subscriptions(_router(self.place))
        return _opened(self.place, partition, self.keep_open)


_open: OrderedDict[tuple[Place, int], LoadedSet] = OrderedDict()


def _opened(place: Place, partition: int, keep: int) -> LoadedSet:
    """A partition, opened unless this process has it open; those not used for longest are closed."""
    key = place, partition
    found = _open.get(key)
    if found is None:
        while len(_open) >= keep:
            _open.popitem(last=False)
        found = _open[key] = load_here(lambda: _folder(place, partition))
    _open.move_to_end(key)
    return found


def _folder(place: Place, partition: int) -> Path:
    """The folder of a partition on this host: at its path, or the copy of what was sent."""
    sent = dict(place.sent).get(partition)
    if sent is None:
        return partition_path(Path(place.folder), partition)
    files = [Path(SparkFiles.get(name)) for name in sent.names]
    if len(files) == 1:
        return keep(sent.digest, lambda draft: join_pieces(files, partition, draft), INDEX, DETAILS)
    return keep_copy(sent.digest, dict(zip((INDEX, DETAILS), files, strict=True)))


@lru_cache(maxsize=2)
def _router(place: Place) -> Router:
    path = Path(SparkFiles.get(place.router)) if place.router else Path(place.folder) / ROUTER
    if not path.is_file():
        raise PipelineError(
            f"{place.folder} is not on this executor; use a path that all hosts mount, or ship the set with the job"
        )
    return load_router(path)
