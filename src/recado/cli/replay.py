"""``recado replay``: events of the log, through a filter."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from recado.cli.context_target import Where, beginning
from recado.cli.verb import verb

app = verb("replay")


@app.default
def replay(
    filter: str = "",
    /,
    *,
    type: str = "",
    start: Annotated[str, Parameter(name="--from")] = "start",
    limit: int | None = None,
    format: str = "",
    json: bool = False,
    where: Where = Where(),  # noqa: B008  # frozen, made once
) -> int:
    """Show events that the service has in its log.

    Parameters
    ----------
    filter
        What the events must be like, such as 'Price < 25'.
    type
        Only events of this type, or pattern of types.
    start
        Where to begin: a position (17), an instant (2026-11-15T10:00:00Z), or a span back from now (15m).
    limit
        At most so many.
    format
        How to write each; see recado sub.
    json
        Write NDJSON even on a terminal.
    """
    from recado.cli.sub_format import writer

    position, since = beginning(start)
    write = writer(format, json)
    query = {"filter": filter, "type": type, "position": position, "since": since, "limit": limit}
    with where.http() as http:
        for one in http.lines("/v1/replay", query):
            write(one)
    return 0
