"""``recado backup``: a copy of a service's data, whether it runs or not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from recado.cli.flags import service_config
from recado.cli.output import write_line
from recado.cli.verb import verb

if TYPE_CHECKING:
    from recado.server.config import Config

_HELP = """\
  recado backup /backup/2026-11-16 --data recado-data
  recado serve --data /backup/2026-11-16              to restore: a service on the copy

A service that runs makes the copy itself, as of one moment, and goes on serving. The copy has the event log,
subscriptions, mailboxes, dead letters and tokens.
"""

app = verb("backup", epilogue=_HELP)
_START_SECONDS = 60.0
"""How long a service that has the folder, but does not answer yet, is waited for."""


@app.default
def backup(target: Path, /, *, config: Path | None = None, data: Path | None = None) -> None:
    """Copy the event log, subscriptions, mailboxes, dead letters and tokens of a service into a new folder.

    Parameters
    ----------
    target
        The folder to make; it must not be there, or be empty.
    config
        The configuration of the service.
    data
        The data folder of the service, instead of the configured one.
    """
    import asyncio
    import time

    from recado.errors import RecadoError
    from recado.server.control import Request, ask
    from recado.store.log.settings import BusyError

    os.umask(0o077)
    chosen = service_config(config, data)
    folder = Path(chosen.data)
    if not folder.is_dir():
        raise RecadoError(f"{folder} is no data folder of a service; name one with --data")
    deadline = time.monotonic() + _START_SECONDS
    while not ask(folder, Request(str(target.absolute()))):
        try:
            asyncio.run(_alone(chosen, target))
            break
        except BusyError:  # a service has the folder, and is about to listen
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    write_line(f"{folder} is copied to {target}")


async def _alone(config: Config, target: Path) -> None:
    """No service runs: open the folder for a moment."""
    from recado.server.control import back_up
    from recado.server.engine import Engine
    from recado.server.gateway import Gateway
    from recado.server.server import token_path
    from recado.server.tokens import Tokens

    engine = await Engine.open(config)
    try:
        await engine.when_loaded()
        gateway = Gateway(engine, Tokens())
        await back_up(gateway, token_path(config), target)
        await gateway.close()
    finally:
        await engine.close()
