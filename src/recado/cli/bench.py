"""``recado bench``: measure matching, the Spark pipeline, the simulator, the service and semantics on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from recado.cli.output import complain, console, for_people, write_json
from recado.cli.verb import BAD_INPUT

if TYPE_CHECKING:
    from recado.bench.pipeline.records import AnyRecord as PipelineRecord
    from recado.bench.records import AnyRecord, Record
    from recado.bench.semantics.records import AnyRecord as SemanticsRecord
    from recado.bench.service.records import AnyRecord as ServiceRecord
    from recado.bench.sim.records import AnyRecord as SimRecord
    from recado.bench.tables import Grid

app = App(
    name="bench",
    help="Measure matching, the pipeline, the simulator and the service on your machine.",
    help_format="plaintext",
)

WorkloadName = Literal["sensor", "stock", "mix", "wide", "text", "boolean", "churn", "growth"]
PartName = Literal["compare", "kernel", "growth", "state"]
ServicePart = Literal["publishing", "filtered", "away", "handover", "restart"]


@app.command
def matching(
    *,
    json: bool = False,
    quick: bool = False,
    workload: Annotated[tuple[WorkloadName, ...], Parameter(consume_multiple=True, negative="")] = (),
    case: str = "",
    peers: Annotated[bool, Parameter(negative="")] = False,
    markdown: Path | None = None,
) -> int:
    """Measure matching on seven workloads and a growth curve.

    Every engine is first checked against the naive matcher on a sample; a difference ends the run with exit code 1.
    A full run takes about a quarter of an hour and 4 GB of memory, a quick one about a minute.

    Examples:
      recado bench matching --quick
      recado bench matching --workload mix boolean --peers
      recado bench matching --case "1 match in 10,000"
      recado bench matching --json > results.ndjson

    Parameters
    ----------
    json
        Write NDJSON even on a terminal.
    quick
        Smaller sizes and shorter runs.
    workload
        Only these workloads.
    case
        Only the cases whose title, as the first column of the results has it, contains this text.
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
    cases = select(quick_plan() if quick else full_plan(), workload, case)
    if not cases:
        complain(f"recado: no case has {case!r} in its title")
        return BAD_INPUT
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
        from recado.bench.tables import tables

        _show(records, tables(records))
    if markdown:
        _write_page(markdown, records, quick, workload, case)
    return 0


def _show(records: Sequence[Record], grids: Sequence[Grid], used: str = " (one used)") -> None:
    from recado.bench.records import Machine
    from recado.bench.report import rich_table
    from recado.bench.tables import machine_line

    out = console()
    for record in records:
        if isinstance(record, Machine):
            out.print(machine_line(record, used), style="dim")
    for grid in grids:
        out.print()
        out.print(rich_table(grid))


def _write_page(path: Path, records: list[AnyRecord], quick: bool, workloads: tuple[str, ...], case: str) -> None:
    from recado.bench.report import markdown

    words = ["recado", "bench", "matching", *(["--quick"] if quick else [])]
    words += ["--workload", *workloads] if workloads else []
    words += ["--case", case] if case else []
    path.write_text(markdown(records, shlex.join(words)), encoding="utf-8")


@app.command
def pipeline(
    *,
    json: bool = False,
    quick: bool = False,
    part: Annotated[tuple[PartName, ...], Parameter(consume_multiple=True, negative="")] = (),
    markdown: Path | None = None,
) -> int:
    """Measure the pipeline on Spark, on all cores of this machine.

    Four parts: against a join and a Python function that a Spark user would write (compare), against the matcher
    without Spark (kernel), more subscriptions, events and cores (growth), delivery constraints on a stream (state).
    Sides that are compared must first give the same pairs; a difference ends the run with exit code 1. A full run takes
    about a quarter of an hour and 8 GB of memory, a quick one about two minutes. Needs Java 17 or later.

    Examples:
      recado bench pipeline --quick
      recado bench pipeline --part compare kernel
      recado bench pipeline --json > results.ndjson

    Parameters
    ----------
    json
        Write NDJSON even on a terminal.
    quick
        Smaller sizes and shorter runs.
    part
        Only these parts.
    markdown
        Write the results as a page of Markdown to this file, too, with a picture of the growth in images beside it.
    """
    from recado.bench.oracle import DisagreementError
    from recado.bench.pipeline.plan import full_plan, quick_plan
    from recado.bench.pipeline.run import run_plan

    people = for_people(json)
    records: list[PipelineRecord] = []
    status = console(stderr=True).status("starting Spark") if people else nullcontext()
    try:
        with status as spinner:
            announce = spinner.update if spinner else (lambda step: None)
            for record in run_plan((quick_plan if quick else full_plan)(part), announce):
                records.append(record)
                if not people:
                    write_json(record)
    except DisagreementError as error:
        complain(f"recado: {error}")
        return 1
    if people:
        from recado.bench.pipeline.tables import tables

        _show(records, tables(records), used="")
    if markdown:
        from recado.bench.pipeline.page import write_page

        words = ["recado", "bench", "pipeline", *(["--quick"] if quick else []), *(["--part", *part] if part else [])]
        write_page(markdown, records, shlex.join(words))
    return 0


@app.command
def sim(*, json: bool = False, quick: bool = False, markdown: Path | None = None) -> int:
    """Measure the simulator on one core: steps of protocol machines a second.

    A trivial machine on 100, 1,000 and 20,000 nodes, with two network models, and subscription trees on 100 and 20,000.
    SimPy runs the same tokens if it is installed. A full run takes about two minutes, a quick one about a quarter of
    one.

    Examples:
      recado bench sim --quick
      recado bench sim --json > results.ndjson

    Parameters
    ----------
    json
        Write NDJSON even on a terminal.
    quick
        Fewer sizes and shorter runs.
    markdown
        Write the results as a page of Markdown to this file, too.
    """
    from recado.bench.sim.plan import full_plan, quick_plan
    from recado.bench.sim.run import run_plan

    people = for_people(json)
    records: list[SimRecord] = []
    with console(stderr=True).status("starting") if people else nullcontext() as spinner:
        announce = spinner.update if spinner else (lambda step: None)
        for record in run_plan((quick_plan if quick else full_plan)(), announce):
            records.append(record)
            if not people:
                write_json(record)
    if people:
        from recado.bench.sim.tables import tables

        _show(records, tables(records))
    if markdown:
        from recado.bench.sim.tables import markdown as page

        words = ["recado", "bench", "sim", *(["--quick"] if quick else [])]
        markdown.write_text(page(records, shlex.join(words)), encoding="utf-8")
    return 0


@app.command
def service(
    *,
    json: bool = False,
    quick: bool = False,
    part: Annotated[tuple[ServicePart, ...], Parameter(consume_multiple=True, negative="")] = (),
    markdown: Path | None = None,
) -> int:
    """Measure the event service against nats-server and mosquitto, each as a process on loopback.

    Five parts: durable publications (publishing), delivery to many interests (filtered), a subscriber who is away and
    comes back (away), a subscriber whose address changes (handover), a kill and a restart (restart). A broker that is
    not installed has a row that says so. A full run takes about half an hour, a quick one about four minutes.

    Examples:
      recado bench service --quick
      recado bench service --part publishing filtered
      recado bench service --markdown docs/service-benchmarks.md

    Parameters
    ----------
    json
        Write NDJSON even on a terminal.
    quick
        Shorter runs, fewer moves, one size of absence.
    part
        Only these parts.
    markdown
        Write the results as a page of Markdown to this file, too.
    """
    from recado.bench.service.plan import full_plan, quick_plan
    from recado.bench.service.run import run_plan

    people = for_people(json)
    records: list[ServiceRecord] = []
    with console(stderr=True).status("starting") if people else nullcontext() as spinner:
        announce = spinner.update if spinner else (lambda step: None)
        for record in run_plan((quick_plan if quick else full_plan)(part), announce):
            records.append(record)
            if not people:
                write_json(record)
    if people:
        from recado.bench.service.tables import tables

        _show(records, tables(records), used="")
    if markdown:
        from recado.bench.service.tables import markdown as page

        words = ["recado", "bench", "service", *(["--quick"] if quick else []), *(["--part", *part] if part else [])]
        markdown.write_text(page(records, shlex.join(words)), encoding="utf-8")
    return 0


@app.command
def semantics(*, json: bool = False, quick: bool = False, markdown: Path | None = None) -> int:
    """Measure semantic matching on one core, against what the work published and against exact matching.

    Events a second with 0 to 50 subscribers as in the work, then with 200, 10,000 and 100,000 semantic subscriptions
    and as many exact ones; the first event of a new shape; memory. A full run takes about five minutes, a quick one
    about half of one.

    Examples:
      recado bench semantics --quick
      recado bench semantics --markdown docs/semantics-benchmarks.md

    Parameters
    ----------
    json
        Write NDJSON even on a terminal.
    quick
        Fewer sizes and shorter runs.
    markdown
        Write the results as a page of Markdown to this file, too.
    """
    from recado.bench.semantics.plan import full_plan, quick_plan
    from recado.bench.semantics.run import run_plan

    people = for_people(json)
    records: list[SemanticsRecord] = []
    with console(stderr=True).status("starting") if people else nullcontext() as spinner:
        announce = spinner.update if spinner else (lambda step: None)
        for record in run_plan((quick_plan if quick else full_plan)(), announce):
            records.append(record)
            if not people:
                write_json(record)
    if people:
        from recado.bench.semantics.tables import tables

        _show(records, tables(records))
    if markdown:
        from recado.bench.semantics.tables import markdown as page

        words = ["recado", "bench", "semantics", *(["--quick"] if quick else [])]
        markdown.write_text(page(records, shlex.join(words)), encoding="utf-8")
    return 0
