"""``recado bench``: measure the matching engines on this machine, against each other and against peers."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from recado.cli.output import complain, console, for_people, write_json

if TYPE_CHECKING:
    from recado.bench.records import AnyRecord

app = App(name="bench", help="Measure the matching engines on your machine.", help_format="plaintext")

WorkloadName = Literal["sensor", "stock", "mix", "wide", "text", "boolean", "churn", "growth"]


@app.command
def matching(
    *,
    json: bool = False,
    quick: bool = False,
    workload: Annotated[tuple[WorkloadName, ...], Parameter(consume_multiple=True, negative="")] = (),
    peers: Annotated[bool, Parameter(negative="")] = False,
    markdown: Path | None = None,
) -> int:
    """Measure matching on seven workloads and a growth curve.

    Every engine is first checked against the naive matcher on a sample; a difference ends the run with exit code 1.
    A full run takes about a quarter of an hour and 4 GB of memory, a quick one about a minute.

    Examples:
      recado bench matching --quick
      recado bench matching --workload mix boolean --peers
      recado bench matching --json > results.ndjson

    Parameters
    ----------
    json
        Write NDJSON even on a terminal.
    quick
        Smaller sizes and shorter runs.
    workload
        Only these workloads.
    peers
        Install the peers that are missing (Polars, DuckDB, rule-engine, CEL) from PyPI first.
    markdown
        Write the results as a page of Markdown to this file, too.
    """
    from recado.bench.cases import FULL_SETTINGS, QUICK_SETTINGS, full_plan, quick_plan
    from recado.bench.oracle import DisagreementError
    from recado.bench.runner import install_peers, run_plan, select

    if peers and (message := install_peers()):
        complain(message)
    cases = select(quick_plan() if quick else full_plan(), workload)
    settings = QUICK_SETTINGS if quick else FULL_SETTINGS
    people = for_people(json)
    records: list[AnyRecord] = []
    status = console(stderr=True).status("starting") if people else nullcontext()
    try:
        with status as spinner:
            announce = (lambda case: spinner.update(case.workload.title)) if spinner else (lambda case: None)
            for record in run_plan(cases, settings, announce):
                records.append(record)
                if not people:
                    write_json(record)
    except DisagreementError as error:
        complain(f"recado: {error}")
        return 1
    if people:
        _show(records)
    if markdown:
        _write_page(markdown, records, quick, workload)
    return 0


def _show(records: list[AnyRecord]) -> None:
    from recado.bench.records import Machine
    from recado.bench.report import rich_table
    from recado.bench.tables import machine_line, tables

    out = console()
    for record in records:
        if isinstance(record, Machine):
            out.print(machine_line(record), style="dim")
    for grid in tables(records):
        out.print()
        out.print(rich_table(grid))


def _write_page(path: Path, records: list[AnyRecord], quick: bool, workloads: tuple[str, ...]) -> None:
    from recado.bench.report import markdown

    words = ["recado", "bench", "matching", *(["--quick"] if quick else [])]
    words += ["--workload", *workloads] if workloads else []
    path.write_text(markdown(records, shlex.join(words)), encoding="utf-8")
