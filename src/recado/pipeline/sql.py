"""Matching in SQL: a table function and a scalar one, which ``register`` makes known to a session.

    register(spark, {"alerts": "sets/alerts"})
    SELECT * FROM recado_match(TABLE(events), 'alerts')
    SELECT * FROM events WHERE recado_matches('Price < 25', payload)

``recado_match`` is an Arrow table function: batches of the table reach the same code as those of ``match``. Such a
function has no say when a query is planned (Spark 4.3 gives that only to functions that take row by row), so what
``match`` does there is done here, before or behind:

- a set is registered under a name, and shipped, if executors run elsewhere, by ``register``; a query uses the version
  that was the newest then. The folder of one version may be named as well, which executors must see;
- rows are brought into form in Arrow, and only columns that some filter names are looked at. Spark sends all columns of
  the table: name those that count, ``TABLE(SELECT id, Price FROM events)``, where there are many;
- the time of matching is the argument ``now``, or else that of the task.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import arrow_udtf
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import BooleanType, VariantVal
from pyspark.sql.udtf import UserDefinedTableFunction

from recado.errors import EventError
from recado.filters.evaluate import matches
from recado.filters.syntax import parse_filter
from recado.matching.canary import SHARE
from recado.matching.encode import is_text
from recado.model.codec import read_event
from recado.model.filter import Filter
from recado.pipeline import source, worker
from recado.pipeline.canary import make_watch
from recado.pipeline.errors import PipelineError
from recado.pipeline.events import INSTANT, json_of, variant_field
from recado.pipeline.locations import HadoopPath
from recado.pipeline.match import NOTIFICATION_FIELDS, as_set, no_time, place_of, send_tables
from recado.pipeline.sets import INDEX, SubscriptionSet
from recado.pipeline.worker import ROW, EventForm, Place, match_record_batch
from recado.semantics.engine import Knowledge

MATCH, MATCHES = "recado_match", "recado_matches"
_COLUMNS = "event_id string, subscription_id string, owner string, event_time timestamp, matched_at timestamp"
_SENT = ("event_id", "subscription_id", "owner", "event_time", "expires_at")
_RESULT = pa.schema(
    [(name, INSTANT if name in ("event_time", "matched_at") else pa.string()) for name in NOTIFICATION_FIELDS]
)

Subscriptions = DataFrame | SubscriptionSet | str | os.PathLike[str] | HadoopPath
_registered: WeakKeyDictionary[SparkSession, dict[str, Place]] = WeakKeyDictionary()
"""What names stand for, by session."""


def register(
    spark: SparkSession,
    sets: Mapping[str, Subscriptions] | Iterable[str] = (),
    *,
    ship: bool | None = None,
    knowledge: Knowledge | None = None,
) -> None:
    """Make ``format("recado")``, ``recado_match`` and ``recado_matches`` known to the session.

    ``sets`` are the names that SQL uses and the sets behind them, or paths, which are their own names. A name stands
    for the version that is the newest now; call this again to take a newer one, or to add names. ``ship`` and
    ``knowledge`` are as for ``match``.
    """
    named: Mapping[str, Subscriptions] = sets if isinstance(sets, Mapping) else {path: path for path in sets}
    places = _registered.setdefault(spark, {})
    for name, subscriptions in named.items():
        subscription_set, number = as_set(subscriptions, None)
        newest = subscription_set.current().number if number is None else number
        places[name] = place_of(spark, subscription_set, newest, ship)
    source.register(spark)
    known = send_tables(spark, Knowledge.read() if knowledge is None else knowledge, ship)
    handler = _table_function(dict(places), known)
    spark.udtf.register(MATCH, cast(UserDefinedTableFunction, arrow_udtf(handler, returnType=_COLUMNS)))
    scalar: Any = arrow_udf  # its types ask for a kind of function, and it warns if it is given one
    spark.udf.register(MATCHES, scalar(_hold, BooleanType()))


# --- recado_match(TABLE(events), 'set')


def _table_function(places: Mapping[str, Place], knowledge: Knowledge) -> type:
    """The class that Spark sends to executors, with what the names stand for."""

    class RecadoMatch:
        def __init__(self) -> None:
            self._started = datetime.now(UTC)

        def eval(  # noqa: PLR0917  # SQL's arguments may be given by position
            self,
            events: pa.RecordBatch,
            subscriptions: pa.Array,
            json: pa.Array | None = None,
            variant: pa.Array | None = None,
            cloudevents: pa.Array | None = None,
            now: pa.Array | None = None,
        ) -> Iterator[pa.Table]:
            if not isinstance(events, pa.RecordBatch):
                raise PipelineError(f"{MATCH} takes a table first, as in {MATCH}(TABLE(events), 'set')")
            if not events.num_rows:
                return
            loaded = worker.opened(_find(places, _first(subscriptions)))
            semantic = loaded.meanings(knowledge) is not None
            batch, form = shape(
                events,
                None if semantic else loaded.index.dictionary.names,
                json=_first(json),
                variant=_first(variant),
                cloudevents=bool(_first(cloudevents)),
            )
            instant = pa.scalar(_first(now) or self._started, INSTANT)
            watch = make_watch(SHARE, None)
            for found in match_record_batch(loaded, batch, form, _SENT, "fail", knowledge=knowledge, watch=watch):
                yield _finish(found, instant)

    return RecadoMatch


def _first(argument: pa.Array | None) -> Any:
    """The value of an argument, which Spark gives for each row."""
    return None if argument is None else argument[0].as_py()


def _find(places: Mapping[str, Place], name: str | None) -> Place:
    """Where the set of that name is; else the folder of a version."""
    if name is not None and name in places:
        return places[name]
    folder = Path(name or "")
    if (folder / INDEX).is_file():
        return Place(str(folder))
    known = ", ".join(map(repr, sorted(places))) or "none"
    raise PipelineError(
        f"{MATCH}: no set is registered as {name!r}; there are: {known}. recado.pipeline.register(spark, "
        "{'alerts': 'sets/alerts'}) registers one; the folder of one version, as sets/alerts/000001, will do as well, "
        "if executors see it"
    )


def _finish(found: pa.RecordBatch, now: pa.Scalar) -> pa.Table:
    """The time of matching added, what has expired taken out."""
    matched_at = pa.repeat(now, found.num_rows)
    expires = found.column("expires_at")
    table = pa.table(
        [matched_at if name == "matched_at" else found.column(name) for name in NOTIFICATION_FIELDS], schema=_RESULT
    )
    if expires.null_count == len(expires):
        return table
    valid = pc.less(pc.coalesce(found.column("event_time"), matched_at), expires)
    return table.filter(pc.fill_null(valid, True))


# --- Rows of a table as events, in Arrow: what ``match`` lets Spark do to columns


def shape(
    batch: pa.RecordBatch,
    names: Collection[str] | None,
    *,
    json: str | None = None,
    variant: str | None = None,
    cloudevents: bool = False,
) -> tuple[pa.RecordBatch, EventForm]:
    """The batch in one of the forms that are matched, and which one it is; as ``match.event_form``.

    ``names`` are those that filters ask for, or None if every column may count.
    """
    if sum((json is not None, variant is not None, cloudevents)) > 1:
        raise PipelineError("give only one of json, variant and cloudevents: each says what the rows are")
    _refuse_alike(batch.schema.names)
    if json is not None:
        _need(batch, json, pa.types.is_string, "a string column with JSON")
        return batch, EventForm("json", json)
    if variant is not None:
        _need(batch, variant, is_variant, "a VARIANT column")
        return _texts(batch, variant, map(_text, _values(batch.column(variant))))
    for name in ("id", "source", "type") if cloudevents else ("id",):
        if name not in batch.schema.names:
            kind = "CloudEvents" if cloudevents else "events in typed columns"
            raise PipelineError(f"{kind} need a column {name!r}; there are: {', '.join(batch.schema.names)}")
    if cloudevents:
        batch = _cloudevent_columns(batch)
        variants = tuple(field.name for field in batch.schema if is_variant(field.type))
        return _with_floats(batch), EventForm("cloudevents", variants=variants)
    if "time" in batch.schema.names and not _is_time(kind := batch.schema.field("time").type):
        raise no_time(str(kind))
    if names is not None:
        tops = {name.partition(".")[0] for name in names} | set(names) | {"id", "time"}
        batch = batch.select([name for name in batch.schema.names if name in tops])
    if not any(_is_open(field.type) for field in batch.schema):
        return _with_floats(batch), EventForm("columns")
    for field in batch.schema:
        _refuse_in_row(field.name, field.type, names)
    columns = [_values(batch.column(name)) for name in batch.schema.names]
    rows = (dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True))
    return _texts(batch, ROW, map(json_of, rows))


def _is_time(kind: pa.DataType) -> bool:
    types = pa.types
    plain = types.is_timestamp(kind) or types.is_date(kind) or is_text(kind) or types.is_null(kind)
    return bool(plain or is_variant(kind))


def _cloudevent_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """CloudEvents whose columns are what JSON has, as ``match`` makes them."""
    for number, field in enumerate(batch.schema):
        if pa.types.is_date(field.type):
            batch = batch.set_column(number, field.name, batch.column(number).cast(pa.string()))
        elif not is_variant(field.type) and pa.types.is_nested(field.type) and _is_beyond_json(field.type):
            _refuse_in_row(field.name, field.type, None)
            cells = _values(batch.column(number))
            texts = [None if cell is None else json_of(cell, envelope=False) for cell in cells]
            batch = batch.set_column(number, variant_field(field.name), pa.array(texts, pa.string()))
    return batch


def _is_beyond_json(kind: pa.DataType) -> bool:
    """Is it, or has it inside, a VARIANT, a date or binary?"""
    if is_variant(kind) or pa.types.is_date(kind) or pa.types.is_binary(kind):
        return True
    if pa.types.is_map(kind):
        return _is_beyond_json(kind.item_type)
    if pa.types.is_struct(kind):
        return any(_is_beyond_json(field.type) for field in kind)
    return pa.types.is_list(kind) and _is_beyond_json(kind.value_type)


def is_variant(kind: pa.DataType) -> bool:
    """Is this how Spark sends a VARIANT?"""
    if not pa.types.is_struct(kind) or [field.name for field in kind] != ["value", "metadata"]:
        return False
    return all(pa.types.is_binary(field.type) for field in kind)


def _texts(batch: pa.RecordBatch, column: str, texts: Iterable[str | None]) -> tuple[pa.RecordBatch, EventForm]:
    made = pa.array(texts, pa.string())
    if column in batch.schema.names:
        return batch.set_column(batch.schema.names.index(column), column, made), EventForm("json", column)
    return batch.append_column(column, made), EventForm("json", column)


def _need(batch: pa.RecordBatch, name: str, fits: Callable[[pa.DataType], bool], what: str) -> None:
    if name not in batch.schema.names:
        raise PipelineError(f"there is no column {name!r}; the columns are {', '.join(batch.schema.names)}")
    if not fits(batch.schema.field(name).type):
        raise PipelineError(f"column {name!r} has the type {batch.schema.field(name).type}; {what} was expected")


def _refuse_alike(names: list[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise PipelineError(
                f"the columns {seen[name.lower()]!r} and {name!r} have names that Spark does not tell apart; rename one"
            )
        seen[name.lower()] = name


def _is_open(kind: pa.DataType) -> bool:
    """Has the type attributes whose names are not known before the rows are?"""
    if is_variant(kind) or pa.types.is_map(kind):
        return True
    if pa.types.is_struct(kind):
        return any(_is_open(field.type) for field in kind)
    return pa.types.is_list(kind) and _is_open(kind.value_type)


def _refuse_in_row(name: str, kind: pa.DataType, names: Collection[str] | None) -> None:
    """Refuse what no attribute can be, as it is refused where columns are matched one by one."""
    if is_variant(kind):
        return
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise PipelineError(
                f"column {name!r} is a map with keys of the type {kind.key_type}; keys are parts of attribute names, "
                "so they must be strings"
            )
    elif pa.types.is_struct(kind):
        for field in kind:
            _refuse_in_row(f"{name}.{field.name}", field.type, names)
    elif pa.types.is_list(kind):
        _refuse_in_row(name, kind.value_type, names)
    elif (pa.types.is_date(kind) or pa.types.is_binary(kind)) and names is not None and name in names:
        raise PipelineError(
            f"column {name!r} has the type {kind}; use strings, numbers, booleans, timestamps or lists of these"
        )


def _values(column: pa.Array) -> list[Any]:
    """The cells as Python values, each VARIANT as what it holds."""
    return [_value(cell, column.type) for cell in column.to_pylist(maps_as_pydicts="strict")]


def _value(cell: Any, kind: pa.DataType) -> Any:
    if cell is None:
        return None
    if is_variant(kind):
        return VariantVal(cell["value"], cell["metadata"]).toPython()
    if pa.types.is_struct(kind):
        return {field.name: _value(cell[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return {name: _value(inner, kind.item_type) for name, inner in cell.items()}
    return [_value(inner, kind.value_type) for inner in cell] if pa.types.is_list(kind) else cell


def _with_floats(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Decimals, also nested ones, as the nearest floats."""
    for number, field in enumerate(batch.schema):
        kind = _float_type(field.type)
        if kind != field.type and not is_variant(field.type):
            cells = [_floats(cell) for cell in batch.column(number).to_pylist()]
            batch = batch.set_column(number, pa.field(field.name, kind), pa.array(cells, kind))
    return batch


def _float_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.float64()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _float_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_float_type(kind.value_type))
    return pa.map_(kind.key_type, _float_type(kind.item_type)) if pa.types.is_map(kind) else kind


def _floats(cell: Any) -> Any:
    if isinstance(cell, Decimal):
        return float(cell)
    if isinstance(cell, dict):
        return {name: _floats(inner) for name, inner in cell.items()}
    if isinstance(cell, list | tuple):  # a map's entries are pairs
        return type(cell)(_floats(inner) for inner in cell)
    return cell


# --- recado_matches(filter, event)


def _hold(filters: pa.Array, events: pa.Array) -> pa.Array:
    """Does each filter hold of the event beside it? Null if one of them is null."""
    texts = events.to_pylist() if pa.types.is_string(events.type) else [_text(cell) for cell in _values(events)]
    answers = [
        None if filter is None or text is None else _holds(filter, text)
        for filter, text in zip(filters.to_pylist(), texts, strict=True)
    ]
    return pa.array(answers, pa.bool_())


def _text(value: Any) -> str | None:
    return None if value is None else json_of(value)


def _holds(condition: str, text: str) -> bool:
    try:
        return matches(_parse(condition), read_event(text, default_id="-"))
    except EventError as error:
        raise PipelineError(f"{MATCHES}: {error}") from None


@lru_cache(maxsize=1024)
def _parse(condition: str) -> Filter:
    return parse_filter(condition)
