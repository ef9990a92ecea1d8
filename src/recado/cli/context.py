"""``recado context``: services by name."""

from __future__ import annotations

from typing import Any

from recado.cli.output import complain, console, for_people, write_json
from recado.cli.verb import verb

_HELP = """\
A context is a service with a name, and who you are there:

  recado context add home recado://ana@localhost:7230
  recado context add work recado://ana:TOKEN@events.example:7230 --select
  recado context ls

The selected one is used where neither a flag nor RECADO_URL names a service. They are kept in contexts.json in the
recado folder of the XDG configuration folder, which only you can read.
"""

app = verb("context", epilogue=_HELP)


@app.command
def add(name: str, url: str, /, *, select: bool = False) -> int:
    """Give a service a name; a name that is taken gets the new URL.

    Parameters
    ----------
    name
        The context's name.
    url
        The service, such as recado://ana:TOKEN@localhost:7230.
    select
        Use it from now on.
    """
    from recado.client.urls import check_context_name, parse_url, read_contexts, write_contexts

    parse_url(url)
    contexts = read_contexts()
    contexts.urls[check_context_name(name)] = url
    if select or len(contexts.urls) == 1:
        contexts.selected = name
    write_contexts(contexts)
    complain(f"context {name}" + (" (selected)" if contexts.selected == name else ""))
    return 0


@app.command
def ls(*, json: bool = False) -> int:
    """List the contexts; tokens are not shown.

    Parameters
    ----------
    json
        Write NDJSON even on a terminal.
    """
    from recado.client.urls import read_contexts

    contexts = read_contexts()
    rows = [_row(name, url, name == contexts.selected) for name, url in contexts.urls.items()]
    if for_people(json):
        _table(rows)
        return 0
    for row in rows:
        write_json(row)
    return 0


def _row(name: str, url: str, selected: bool) -> dict[str, Any]:
    from recado.client.errors import AddressError
    from recado.client.urls import parse_url

    try:
        target = parse_url(url)
    except AddressError as error:
        raise AddressError(f"context {name!r}: {error}; recado context add {name} URL replaces it") from None
    where = target.description()
    return {"name": name, "selected": selected, "where": where, "user": target.user, "token": bool(target.token)}


def _table(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("", "name", "where", "user", "token"):
        table.add_column(column)
    for row in rows:
        table.add_row(
            "*" if row["selected"] else "", row["name"], row["where"], row["user"], "yes" if row["token"] else "no"
        )
    console().print(table if rows else "no contexts; make one with: recado context add NAME URL")


@app.command
def select(name: str, /) -> int:
    """Use a context from now on.

    Parameters
    ----------
    name
        The context's name.
    """
    from recado.client.urls import read_contexts, write_contexts

    contexts = read_contexts()
    _check_known(name, contexts.urls)
    contexts.selected = name
    write_contexts(contexts)
    complain(f"context {name} (selected)")
    return 0


@app.command
def rm(name: str, /) -> int:
    """Forget a context.

    Parameters
    ----------
    name
        The context's name.
    """
    from recado.client.urls import read_contexts, write_contexts

    contexts = read_contexts()
    _check_known(name, contexts.urls)
    del contexts.urls[name]
    if contexts.selected == name:
        contexts.selected = ""
    write_contexts(contexts)
    return 0


def _check_known(name: str, urls: dict[str, str]) -> None:
    from recado.client.errors import AddressError

    if name not in urls:
        raise AddressError(f"there is no context {name!r}; there are: {', '.join(urls) or 'none'}")
