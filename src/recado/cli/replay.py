"""``recado replay``: events of the log, through a filter."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from recado.cli.flags import SemanticFlags, ServiceFlags, parse_start
from recado.cli.output import complain
from recado.cli.service_output import notification_writer
from recado.cli.verb import AtMost, verb

_HELP = """\
  recado replay                                   everything, from the first position that is kept
  recado replay 'Price < 25' --type Tick --from 15m
  recado replay --from 1000 --limit 10 --format '%p %t %j'

The placeholders of --format are those of: recado sub --help
"""

app = verb("replay", epilogue=_HELP)


@app.default
def replay(
    filter: str = "",
    /,
    *,
    type: str = "",
    start: Annotated[str, Parameter(name="--from")] = "start",
    limit: Annotated[AtMost, Parameter(name=("--limit", "--count", "-C"))] = None,
    format: Annotated[str, Parameter(name=("--format", "-F"))] = "",
    meaning: SemanticFlags = SemanticFlags(),  # noqa: B008  # frozen, made once
    json: bool = False,
    where: ServiceFlags = ServiceFlags(),  # noqa: B008  # frozen, made once
) -> int:
    """Show events that the service has in its log.

    Parameters
    ----------
    filter
        What the events must be like, such as 'Price < 25'.
    type
        Only events of this type, or pattern of types.
    start
        Where to begin: a position (17), an instant (2026-11-15T10:00:00Z), a span back from now (15m), or start.
    limit
        At most so many.
    format
        How to write each; see recado sub.
    json
        Write NDJSON even on a terminal.
    """
    from msgspec.json import encode

    position, since = parse_start(start)
    write = notification_writer(format, json)
    by_meaning = meaning.record()
    query = {"filter": filter, "type": type, "position": position, "since": since, "limit": limit}
    query["semantic"] = None if by_meaning is None else encode(by_meaning).decode()
    with where.http() as http:
        damaged = False
        for one in http.lines("/v1/replay", query):
            if "damage" in one:
                damaged = True
                complain(f"the replay is not whole: {one['damage']}")
            else:
                write(one)
    return int(damaged)
