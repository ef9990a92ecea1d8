"""Recado's event log on Spark: ``format("recado")``, batch and streaming, reading and writing; and ``read_log``."""

from recado.pipeline.errors import explain_old_spark

try:
    from recado.pipeline.source.archive import read_log
    from recado.pipeline.source.reader import lag
    from recado.pipeline.source.source import FORMAT, RecadoSource, register
except ImportError as error:
    raise explain_old_spark(error, "the event log as a source of Spark") from None

__all__ = ["FORMAT", "RecadoSource", "lag", "read_log", "register"]
