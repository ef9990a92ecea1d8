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
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, StructField, StructType

from recado.matching.canary import SHARE
from recado.pipeline.canary import Verification, Watch, make_watch
from recado.pipeline.errors import PipelineError
from recado.pipeline.events import match_rows
from recado.pipeline.match import event_form, finished, output_schema, quoted, travelling
from recado.pipeline.partitioned.build import PartitionedSet, load_router, partition_path, without_subscriptions
from recado.pipeline.partitioned.plan import Router
from recado.pipeline.sets import LoadedSet, load_folder
from recado.pipeline.worker import BadRows, EventForm, match_record_batch

VISIT = "_recado_visit"
"""The column that says where a routed row goes: partition * tasks a partition + one of these tasks."""
KEEP_OPEN = 2


def match_partitioned(
    events: DataFrame,
    subscriptions: PartitionedSet | str | os.PathLike[str],
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
) -> DataFrame:
    """The notifications of the events, as ``match`` gives them for the same subscriptions.

    ``keep_open`` is how many partitions a worker process keeps open. ``tasks_per_partition`` shares the events of
    each partition between several tasks, for streams of events of which most go to few partitions. ``verify_share`` and
    ``verification`` are as for ``match``; what the router leaves out is not compared.
    """
    known = subscriptions if isinstance(subscriptions, PartitionedSet) else PartitionedSet(subscriptions)
    if min(keep_open, tasks_per_partition) < 1:
        raise PipelineError("keep_open and tasks_per_partition must be at least 1")
    shaped, form = event_form(events, json=json, variant=variant, cloudevents=cloudevents)
    if form.form == "columns" and not include_event:
        shaped = _only_needed(shaped, known.manifest.names)
    schema = output_schema(
        shaped,
        include_event=include_event,
        include_constraints=include_constraints,
        expiry=known.manifest.expiring > 0,
        rejected=bad_rows == "keep",
    )
    shaped, form = travelling(shaped, form)
    stamp = known.manifest.built_at.isoformat()
    place = Place(str(known.folder), stamp, known.manifest.partitions, tasks_per_partition)
    routed = shaped.mapInArrow(
        Route(place, form).__call__, StructType([*shaped.schema.fields, StructField(VISIT, IntegerType())])
    )
    spread = routed.repartitionById(place.partitions * place.tasks, VISIT)
    visit = Visit(place, form, tuple(schema.names), bad_rows, keep_open, make_watch(verify_share, verification))
    return finished(spread.mapInArrow(visit.__call__, schema))


def _only_needed(events: DataFrame, names: tuple[str, ...]) -> DataFrame:
    tops = {name.partition(".")[0] for name in names} | set(names) | {"id", "time"}
    return events.select(*(quoted(name) for name in events.columns if name in tops))


# -- in executors ------------------------------------------------------------------------------------------------------


class Place(msgspec.Struct, frozen=True):
    """Where executors find the set, its number of partitions, and how many tasks share each.

    ``stamp`` tells a set from another one that was in the same folder before, which a worker may still have open.
    """

    folder: str
    stamp: str
    partitions: int
    tasks: int


class Route(msgspec.Struct, frozen=True):
    """Events in; out, each once for every partition that it has to visit."""

    place: Place
    event_form: EventForm

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        router = _router(self.place.folder, self.place.stamp)
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

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            partitions = batch.column(VISIT).to_numpy() // self.place.tasks
            events = batch.drop_columns([VISIT])
            for partition in np.unique(partitions).tolist():
                rows = np.flatnonzero(partitions == partition)
                own = events if len(rows) == len(events) else events.take(pa.array(rows))
                yield from match_record_batch(
                    self._opened(partition), own, self.event_form, self.fields, self.bad_rows, watch=self.watch
                )

    def _opened(self, partition: int) -> LoadedSet:
        if partition == self.place.partitions:
            return without_subscriptions(_router(self.place.folder, self.place.stamp))
        return _opened(self.place, partition, self.keep_open)


_open: OrderedDict[tuple[Place, int], LoadedSet] = OrderedDict()


def _opened(place: Place, partition: int, keep: int) -> LoadedSet:
    """A partition, opened unless this process has it open; those not used for longest are closed."""
    key = place, partition
    found = _open.get(key)
    if found is None:
        while len(_open) >= keep:
            _open.popitem(last=False)
        found = _open[key] = load_folder(partition_path(Path(place.folder), partition))
    _open.move_to_end(key)
    return found


@lru_cache(maxsize=2)
def _router(folder: str, stamp: str) -> Router:  # the stamp makes another set another entry
    return load_router(Path(folder))
