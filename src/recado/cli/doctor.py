"""``recado doctor``: what stands against a service on this machine, and what to do about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from recado.cli.flags import service_config
from recado.cli.output import console, for_people, plural, write_json
from recado.cli.verb import FAILED, OK, verb

if TYPE_CHECKING:
    from recado.server.doctor import Finding

_HELP = """\
  recado doctor --data /var/lib/recado
  recado doctor --config /etc/recado/recado.toml --json

It looks at the configuration, the data folder and its modes, the disk, the clock, the compiled kernels, the ports and
the certificates. Run it as the user who runs the service, before it starts or while it runs; it changes nothing, but
for a small file that it writes to the data folder and removes.

A warning leaves the exit code 0; it is 1 if something is wrong.
"""

app = verb("doctor", epilogue=_HELP)


@app.default
def doctor(
    *,
    config: Annotated[Path | None, Parameter(alias="-c")] = None,
    data: Path | None = None,
    host: str | None = None,
    port: int | None = None,
    sip: str | None = None,
    json: bool = False,
) -> int:
    """Look for what stands against a service, and say what to do.

    Parameters
    ----------
    config
        The TOML file of the service.
    data
        The data folder of the service, instead of the configured one.
    host
        The address to listen on, instead of the configured one.
    port
        The port of HTTP and WebSocket, instead of the configured one.
    sip
        The home SIP server, or embedded, instead of the configured one.
    json
        Write one JSON object for each finding.
    """
    import asyncio

    from recado.server.config import ConfigError
    from recado.server.doctor import Finding, examine

    try:
        findings = asyncio.run(examine(service_config(config, data, host, port, sip)))
    except ConfigError as error:  # a file that cannot be read says nothing about the rest
        advice = "recado serve --print-config writes a file with every member"
        findings = [Finding("configuration", "wrong", str(error), advice)]
    _show(findings, json)
    return FAILED if any(finding.state == "wrong" for finding in findings) else OK


def _show(findings: list[Finding], json: bool) -> None:
    if not for_people(json):
        for finding in findings:
            write_json(finding)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for finding in findings:
        style = {"ok": "green", "warning": "yellow", "wrong": "bold red"}[finding.state]
        table.add_row(finding.check, finding.state, finding.found)
        if finding.advice:
            table.add_row("", "", f"-> {finding.advice}", style=style)
    console().print(table)
    wrong = sum(finding.state == "wrong" for finding in findings)
    warnings = sum(finding.state == "warning" for finding in findings)
    console().print(f"{plural(wrong, 'thing is', 'things are')} wrong, {plural(warnings, 'warning')}")
