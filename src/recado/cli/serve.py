"""``recado serve``: the event service in this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from recado.cli.flags import service_config
from recado.cli.output import complain, write_line
from recado.cli.verb import BAD_INPUT, FAILED, OK, verb

if TYPE_CHECKING:
    from recado.server.config import Config

_HELP = """\
Try it:

  recado serve                                     in one terminal
  recado sub 'Price < 25' --user ana               in another
  recado pub '{"type": "Tick", "Price": 24.9}'     in a third

Or with curl:

  curl -H 'X-Recado-User: ana' -H 'Content-Type: application/json' \\
       -d '{"type": "Tick", "Price": 24.9}' http://127.0.0.1:7230/v1/events

It listens on loopback unless --host or the configuration says otherwise, and then it needs tokens (recado token add).
Without --data everything is kept in ./recado-data.

Signals: SIGTERM and Ctrl-C drain and stop; SIGHUP reads tokens, certificates and log level again.
"""

app = verb("serve", epilogue=_HELP)


@app.default
def serve(
    *,
    config: Annotated[Path | None, Parameter(alias="-c")] = None,
    data: Path | None = None,
    host: str | None = None,
    port: int | None = None,
    sip: str | None = None,
    print_config: bool = False,
    check_config: Path | None = None,
) -> int:
    """Run the event service until it is stopped.

    Parameters
    ----------
    config
        A TOML file; what it leaves out has its default.
    data
        The folder of everything that must survive; made if it is not there.
    host
        The address to listen on.
    port
        The port of HTTP and WebSocket; 0 lets the system choose.
    sip
        The home SIP server as host:port, or embedded to be one: devices may then come by SIP, too.
    print_config
        Print the whole configuration with its meanings, and stop.
    check_config
        Read a file, say what is wrong with it, and stop: all that the service would refuse to start with, but for a
        port that is in use and a folder that has a service.
    """
    from recado.server.config import config_text

    if check_config is not None:
        return _check(service_config(check_config, data, host, port, sip), check_config)
    chosen = service_config(config, data, host, port, sip)
    if print_config:
        sys.stdout.write(config_text(chosen))
        return OK
    return _serve(chosen, config)


def _check(config: Config, path: Path) -> int:
    import asyncio

    from recado.server.server import check_config

    asyncio.run(check_config(config))
    write_line(f"{path} is right")
    return OK


def _serve(config: Config, path: Path | None) -> int:
    import asyncio

    from recado.errors import RecadoError
    from recado.server.config import ConfigError
    from recado.server.logs import configure_logs
    from recado.server.spans import configure_export

    configure_logs(config.logging)
    end_export = configure_export()
    os.umask(0o077)  # whatever is made from here on is this user's alone
    try:
        asyncio.run(_run(config, path))
    except ConfigError as error:
        complain(f"recado: {error}")
        return BAD_INPUT
    except RecadoError as error:
        complain(f"recado: the service cannot run: {error}")
        return FAILED
    finally:
        end_export()
    return OK


async def _run(config: Config, path: Path | None) -> None:
    from recado.server.config import read_config
    from recado.server.server import Server

    async with Server.start(config, (lambda: read_config(path)) if path is not None else None) as server:
        if sys.stdout.isatty():
            _welcome(server.url, config, server.sip_address)
        else:
            write_line(server.url)
        sys.stdout.flush()
        await server.run()


def _welcome(url: str, config: Config, sip: str) -> None:
    write_line(f"Recado serves at {url} and keeps its data in {config.data}")
    if config.access.anonymous:
        write_line("From this machine no token is needed. In other terminals, try:")
        write_line("  recado sub 'Price < 25' --user ana")
        write_line("""  recado pub '{"type": "Tick", "Stock": "PETR4", "Price": 24.9}'""")
    if sip:
        domain = config.sip.uri.rpartition("@")[2]
        write_line(f"By SIP it is {config.sip.uri}; try --url 'recado+sip://ana@{domain};registrar={sip}'")
    write_line(f"Health {url}/readyz   figures {url}/metrics   interface {url}/openapi.json   stop with Ctrl-C")
