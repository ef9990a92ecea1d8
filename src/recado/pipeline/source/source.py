"""The data source: one class that makes readers and writers from options and a schema.

Spark makes an instance in a Python process of its own, pickles it, and sends it to the processes that plan, read and
write; so an instance holds nothing but the options. A schema given by the user reaches ``reader``, not this class,
which is why a wrong column is reported when a query is planned and a wrong option already at ``load``.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from recado.pipeline.errors import PipelineError
from recado.pipeline.source.columns import Columns, default_schema
from recado.pipeline.source.options import read_options
from recado.pipeline.source.reader import PushingReader, RangeReader
from recado.pipeline.source.stream import StreamReader
from recado.pipeline.source.writer import BatchWriter, StreamWriter
from recado.store.log import LogReader

FORMAT = "recado"


class RecadoSource(DataSource):
    """``format("recado")``: the event log as a table that can be read, streamed and appended to."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._settings = read_options(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        LogReader(self._settings.path)  # a missing log is told at load, before any plan
        return default_schema(self._settings.damage == "rows")

    def reader(self, schema: StructType) -> RangeReader:
        kind = PushingReader if self._settings.push_down else RangeReader
        return kind(self._settings, self._columns(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802  # Spark's name
        return StreamReader(self._settings, self._columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(self._settings, _appended(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802  # Spark's name
        return StreamWriter(self._settings, _appended(schema, overwrite))

    def _columns(self, schema: StructType) -> Columns:
        return Columns(schema, self._settings.damage == "rows")


def register(spark: SparkSession) -> None:
    """Make ``format("recado")`` known to the session, and let Spark hand its predicates over."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(RecadoSource)


def _appended(schema: StructType, overwrite: bool) -> StructType:
    if overwrite:
        raise PipelineError("a log is only ever appended to: write with mode('append'), or outputMode('append')")
    return schema
