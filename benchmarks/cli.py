"""``python -m benchmarks``: measure matching, Spark, the simulator, the service and semantics on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import Parameter

from recado.cli.output import complain, console, for_people, write_json
from recado.cli.verb import BAD_INPUT, FAILED, OK, run_app, verb

if TYPE_CHECKING:
    from benchmarks.records import Record
    from benchmarks.tables import Grid

_HELP = "Measure matching, the pipeline, the simulator, the service and semantics on your machine."

app = verb("python -m benchmarks", help=_HELP)
R = TypeVar("R", bound="Record")

WorkloadName = Literal["sensor", "stock", "mix", "ranges", "wide", "text", "boolean", "words", "churn", "growth"]
PartName = Literal["compare", "kernel", "growth", "state"]
ServicePart = Literal["publishing", "filtered", "away", "handover", "restart", "attack"]


@app.command
def matching(
    *,
    json: bool = False,
    quick: bool = False,
    workload: Annotated[tuple[WorkloadName, ...], Parameter(consume_multiple=True)] = (),
    case: str = "",
    peers: bool = False,
    markdown: Path | None = None,
) -> int:
    """Measure matching on nine workloads and a growth curve.

    Every engine is first checked against the naive matcher on a sample; a difference ends the run with exit code 1.
    A full run takes about a quarter of an hour and 4 GB of memory, a quick one about a minute.

    Examples:
      python -m benchmarks matching --quick
      python -m benchmarks matching --workload mix boolean --peers
      python -m benchmarks matching --case "1 match in 10,000"
      python -m benchmarks matching --json > results.ndjson

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
    from benchmarks.cases import FULL_SETTINGS, QUICK_SETTINGS, full_plan, quick_plan
    from benchmarks.oracle import DisagreementError
    from benchmarks.report import markdown as page
    from benchmarks.runner import install_peers, run_plan, select
    from benchmarks.tables import tables

    if peers and (message := install_peers()):
        complain(message)
    cases = select(quick_plan() if quick else full_plan(), workload, case)
    if not cases:
        complain(f"recado: no case has {case!r} in its title")
        return BAD_INPUT
    settings = QUICK_SETTINGS if quick else FULL_SETTINGS
    try:
        records = _measured(json, lambda say: run_plan(cases, settings, lambda case: say(case.workload.title)))
    except DisagreementError as error:
        complain(f"recado: {error}")
        return FAILED
    _show(json, records, tables)
    if markdown:
        chosen = [*(["--workload", *workload] if workload else []), *(["--case", case] if case else [])]
        markdown.write_text(page(records, _command("matching", quick, chosen)), encoding="utf-8")
    return OK


@app.command
def pipeline(
    *,
    json: bool = False,
    quick: bool = False,
    part: Annotated[tuple[PartName, ...], Parameter(consume_multiple=True)] = (),
    markdown: Path | None = None,
) -> int:
    """Measure the pipeline on Spark, on all cores of this machine.

    Four parts: against a join and a Python function that a Spark user would write (compare), against the matcher
    without Spark (kernel), more subscriptions, events and cores (growth), delivery constraints on a stream (state).
    Sides that are compared must first give the same pairs; a difference ends the run with exit code 1. A full run takes
    about a quarter of an hour and 8 GB of memory, a quick one about two minutes. Needs Java 17 or later.

    Examples:
      python -m benchmarks pipeline --quick
      python -m benchmarks pipeline --part compare kernel
      python -m benchmarks pipeline --json > results.ndjson

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
    from benchmarks.oracle import DisagreementError
    from benchmarks.pipeline.page import write_page
    from benchmarks.pipeline.plan import full_plan, quick_plan
    from benchmarks.pipeline.run import run_plan
    from benchmarks.pipeline.tables import tables

    plan = (quick_plan if quick else full_plan)(part)
    try:
        records = _measured(json, lambda say: run_plan(plan, say), "starting Spark")
    except DisagreementError as error:
        complain(f"recado: {error}")
        return FAILED
    _show(json, records, tables, used="")
    if markdown:
        write_page(markdown, records, _command("pipeline", quick, _parts(part)))
    return OK


@app.command
def sim(*, json: bool = False, quick: bool = False, markdown: Path | None = None) -> int:
    """Measure the simulator on one core: steps of protocol machines a second.

    A trivial machine on 100, 1,000 and 20,000 nodes, with two network models, and subscription trees on 100 and 20,000.
    SimPy runs the same tokens if it is installed. A full run takes about two minutes, a quick one about a quarter of
    one.

    Examples:
      python -m benchmarks sim --quick
      python -m benchmarks sim --json > results.ndjson

    Parameters
    ----------
    json
        Write NDJSON even on a terminal.
    quick
        Fewer sizes and shorter runs.
    markdown
        Write the results as a page of Markdown to this file, too.
    """
    from benchmarks.sim.plan import full_plan, quick_plan
    from benchmarks.sim.run import run_plan
    from benchmarks.sim.tables import markdown as page
    from benchmarks.sim.tables import tables

    plan = (quick_plan if quick else full_plan)()
    records = _measured(json, lambda say: run_plan(plan, say))
    _show(json, records, tables)
    if markdown:
        markdown.write_text(page(records, _command("sim", quick)), encoding="utf-8")
    return OK


@app.command
def service(
    *,
    json: bool = False,
    quick: bool = False,
    part: Annotated[tuple[ServicePart, ...], Parameter(consume_multiple=True)] = (),
    markdown: Path | None = None,
) -> int:
    """Measure the event service against nats-server and mosquitto, each as a process on loopback.

    Six parts: durable publications (publishing), delivery to many interests (filtered), a subscriber who is away and
    comes back (away), a subscriber whose address changes (handover), a kill and a restart (restart), one user's costly
    filters and large events (attack). A broker that is not installed has a row that says so. A full run takes about
    half an hour, a quick one about five minutes.

    Examples:
      python -m benchmarks service --quick
      python -m benchmarks service --part publishing filtered
      python -m benchmarks service --markdown docs/service-benchmarks.md

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
    from benchmarks.service.plan import full_plan, quick_plan
    from benchmarks.service.run import run_plan
    from benchmarks.service.tables import markdown as page
    from benchmarks.service.tables import tables

    plan = (quick_plan if quick else full_plan)(part)
    records = _measured(json, lambda say: run_plan(plan, say))
    _show(json, records, tables, used="")
    if markdown:
        markdown.write_text(page(records, _command("service", quick, _parts(part))), encoding="utf-8")
    return OK


@app.command
def semantics(*, json: bool = False, quick: bool = False, markdown: Path | None = None) -> int:
    """Measure semantic matching on one core, against what the work published and against exact matching.

    Events a second with 0 to 50 subscribers as in the work, then with 200, 10,000 and 100,000 semantic subscriptions
    and as many exact ones; the first event of a new shape; memory. A full run takes about five minutes, a quick one
    about half of one.

    Examples:
      python -m benchmarks semantics --quick
      python -m benchmarks semantics --markdown docs/semantics-benchmarks.md

    Parameters
    ----------
    json
        Write NDJSON even on a terminal.
    quick
        Fewer sizes and shorter runs.
    markdown
        Write the results as a page of Markdown to this file, too.
    """
    from benchmarks.semantics.plan import full_plan, quick_plan
    from benchmarks.semantics.run import run_plan
    from benchmarks.semantics.tables import markdown as page
    from benchmarks.semantics.tables import tables

    plan = (quick_plan if quick else full_plan)()
    records = _measured(json, lambda say: run_plan(plan, say))
    _show(json, records, tables)
    if markdown:
        markdown.write_text(page(records, _command("semantics", quick)), encoding="utf-8")
    return OK


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    return run_app(app, arguments)


def _measured(json: bool, run: Callable[[Callable[[str], Any]], Iterable[R]], first: str = "starting") -> list[R]:
    """All records of a run: for people with a word on what is being measured, for programs written as they come."""
    people = for_people(json)
    records: list[R] = []
    with console(stderr=True).status(first) if people else nullcontext() as spinner:
        for record in run(spinner.update if spinner else lambda step: None):
            records.append(record)
            if not people:
                write_json(record)
    return records


def _show(json: bool, records: list[R], tables: Callable[[Sequence[R]], list[Grid]], used: str = " (one used)") -> None:
    """The machine and the tables, for people; programs have had their records."""
    from benchmarks.records import Machine
    from benchmarks.report import rich_table
    from benchmarks.tables import machine_line

    if not for_people(json):
        return
    out = console()
    for record in records:
        if isinstance(record, Machine):
            out.print(machine_line(record, used), style="dim")
    for grid in tables(records):
        out.print()
        out.print(rich_table(grid))


def _parts(part: Sequence[str]) -> list[str]:
    return ["--part", *part] if part else []


def _command(name: str, quick: bool, more: Sequence[str] = ()) -> str:
    """The command that made a page, for the page."""
    return shlex.join(["python", "-m", "benchmarks", name, *(["--quick"] if quick else []), *more])
