"""Similarities of all names of a subscription set with all names of an event archive, computed on Spark.

    names = event_names(events, json="value")
    table = align(names, subscriptions)              # scope, constraint, attribute, similarity
    run_align(spark, subscriptions, source, "similarities.json")

The scores are the library's own, digit for digit: executors ask the same measures. ``run_align`` writes them as the
file of ``recado.semantics.cache``, which services and jobs load, so that no event waits for a measure: it holds what
the measures say; similarities that people gave are applied where it is used. Names are few, so the names of the
subscriptions travel with the job, and those of the events are the rows that are spread.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from recado.model.event import ENVELOPE
from recado.model.subscription import Subscription
from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.locations import locate
from recado.pipeline.match import event_form, send_tables, travelling
from recado.pipeline.meanings import good_events, semantics
from recado.pipeline.readers import Source
from recado.pipeline.worker import EventForm
from recado.semantics.alignment import constraint_names
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Knowledge, Semantics
from recado.semantics.match import attribute_names
from recado.semantics.settings import DEFAULT, SemanticSettings, read_settings

ROWS = 1_024
"""Attributes that are compared at a time."""
MOST = 5_000_000
"""Pairs that one file holds."""
_PAIRS = "scope string, constraint string, attribute string, similarity double"
_PAIR_SCHEMA = pa.schema(
    [("scope", pa.string()), ("constraint", pa.string()), ("attribute", pa.string()), ("similarity", pa.float64())]
)
_NAME_SCHEMA = pa.schema([("name", pa.string())])


class Wanted(msgspec.Struct, frozen=True):
    """Names of subscriptions that are understood by the same settings."""

    settings: SemanticSettings
    names: tuple[str, ...]


def event_names(
    events: DataFrame, *, json: str | None = None, variant: str | None = None, cloudevents: bool = False
) -> DataFrame:
    """Every attribute name that the events have, once, in the column ``name``; rows that are no events have none."""
    shaped, form = travelling(*event_form(events, json=json, variant=variant, cloudevents=cloudevents))
    return shaped.mapInArrow(_Names(form).__call__, "name string").distinct()


def align(
    names: DataFrame,
    subscriptions: Iterable[Subscription],
    *,
    knowledge: Knowledge = Knowledge(),  # noqa: B008  # frozen
) -> DataFrame:
    """The similarity of each subscription's names with each of ``names``, by the subscription's measure.

    Subscriptions without ``semantic`` count with the default: so a set can be judged before it is made semantic.
    """
    known = send_tables(names.sparkSession, knowledge)
    compare = _Compare(tuple(wanted_names(subscriptions, known.default)), known, semantics(known).digest)
    return names.select("name").mapInArrow(compare.__call__, _PAIRS)


def wanted_names(subscriptions: Iterable[Subscription], default: SemanticSettings = DEFAULT) -> list[Wanted]:
    """The names of the subscriptions, by what they are compared by."""
    found: dict[tuple[Any, ...], tuple[SemanticSettings, dict[str, None]]] = {}
    for subscription in subscriptions:
        settings = default if subscription.semantic is None else read_settings(subscription.semantic, default)
        assert settings is not None  # there is an object
        key = settings.measure, repr(sorted(settings.options.items())), settings.languages, settings.vetoes
        _, names = found.setdefault(key, (settings, {}))
        names |= dict.fromkeys(name for name in constraint_names(subscription.filter) if name not in ENVELOPE)
    return [Wanted(settings, tuple(names)) for settings, names in found.values() if names]


def run_align(
    spark: SparkSession,
    subscriptions: Iterable[Subscription],
    source: Source,
    out: str | Path,
    *,
    knowledge: Knowledge = Knowledge(),  # noqa: B008  # frozen
) -> dict[str, Any]:
    """Compute all similarities and write the file; what came of it, in figures."""
    started = time.perf_counter()
    wanted = list(subscriptions)
    knowledge = send_tables(spark, knowledge)
    with user_errors():
        names = event_names(source.events, **source.form).persist()
        try:
            table = align(names, wanted, knowledge=knowledge).limit(MOST + 1).toArrow()
            count = names.count()
        finally:
            names.unpersist()
    if table.num_rows > MOST:
        raise PipelineError(f"there are more than {MOST:,} pairs of names, which one file does not hold")
    write_similarities(table, out, semantics(knowledge).digest)
    return {
        "subscriptions": len(wanted),
        "names": sum(len(one.names) for one in wanted_names(wanted, knowledge.default)),
        "attributes": count,
        "pairs": table.num_rows,
        "seconds": round(time.perf_counter() - started, 3),
        "out": str(out),
    }


def write_similarities(table: pa.Table, out: str | Path, digest: str) -> None:
    """The table as the file that caches load."""
    cache = SimilarityCache(max(1, table.num_rows))
    columns = [table.column(name).to_pylist() for name in _PAIR_SCHEMA.names]
    for scope, constraint, attribute, similarity in zip(*columns, strict=True):
        cache.put(scope, [(constraint, attribute, similarity)])
    target = locate(out)
    try:
        if isinstance(target, Path):
            cache.save(target, digest)
        else:
            with TemporaryDirectory(prefix="recado-align-") as folder:
                cache.save(Path(folder) / "similarities", digest)
                target.put(Path(folder) / "similarities")
    except OSError as error:
        raise PipelineError(f"{out} cannot be written: {error.strerror}") from None


# -- in executors ------------------------------------------------------------------------------------------------------


class _Names(msgspec.Struct, frozen=True):
    """Events in, the names that they have out, each once for a task."""

    form: EventForm

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen: dict[str, None] = {}
        for batch in batches:
            new: dict[str, None] = {}
            for event in good_events(self.form.named(batch), self.form.form, self.form.column):
                new |= dict.fromkeys(name for name in attribute_names(event) if name not in seen)
            seen |= new
            names = [name for name in new if name not in ENVELOPE]
            yield pa.RecordBatch.from_arrays([pa.array(names, pa.string())], schema=_NAME_SCHEMA)


class _Compare(msgspec.Struct, frozen=True):
    """Attribute names in, their similarities with all wanted names out."""

    wanted: tuple[Wanted, ...]
    knowledge: Knowledge
    digest: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        knowing = semantics(self.knowledge)
        if knowing.digest != self.digest:
            raise PipelineError("this executor has another lexicon than the driver: install the same packages on both")
        for batch in batches:
            names = batch.column(0).to_pylist()
            for at in range(0, len(names), ROWS):
                for one in self.wanted:
                    yield _compare(one, names[at : at + ROWS], knowing)


def _compare(wanted: Wanted, attributes: list[str], knowing: Semantics) -> pa.RecordBatch:
    """What measure and vetoes say, before people are asked: as the cache has it."""
    pairs = [(name, attribute) for name in wanted.names for attribute in attributes]
    values = knowing.judge(wanted.names, attributes, wanted.settings)
    scope = knowing.scope(wanted.settings)
    columns = [[scope] * len(pairs), [a for a, _ in pairs], [b for _, b in pairs], values.ravel().tolist()]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, _PAIR_SCHEMA.types, strict=True)], schema=_PAIR_SCHEMA
    )
