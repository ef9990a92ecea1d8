"""What the events of a job are: the options that the verbs on Spark share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from cyclopts import Parameter

Format = Literal["auto", "parquet", "ndjson", "cloudevents", "log"]


@Parameter(name="*")
@dataclass(frozen=True)
class Rows:
    """What the user says of the events."""

    format: Format = "auto"
    """What the events are; auto looks at names and first bytes."""
    json_column: str | None = None
    """Of Parquet: the column that holds each event as JSON."""
    variant_column: str | None = None
    """Of Parquet: the column that holds each event as VARIANT."""
    cloudevents: bool = False
    """Of Parquet: the rows are CloudEvents, with a column data."""

    def form(self) -> dict[str, Any]:
        """What was said of the columns, as ``recado.pipeline.match`` wants it."""
        given = {"json": self.json_column, "variant": self.variant_column, "cloudevents": self.cloudevents}
        return {name: value for name, value in given.items() if value}
