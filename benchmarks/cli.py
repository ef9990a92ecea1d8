"""``python -m benchmarks run SUBJECT``: measure a subject on this machine; ``list`` says which there are."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from cyclopts import Parameter

from recado.cli.output import complain, console, for_people, write_json
from recado.cli.verb import BAD_INPUT, FAILED, OK, run_app, verb

if TYPE_CHECKING:
    from benchmarks.harness import Record, Subject

app = verb("python -m benchmarks", help="Measure matching, the pipeline, the simulator, the service and more.")

SubjectName = Literal["matching", "pipeline", "sim", "service", "semantics", "log", "rudp"]
SUBJECTS: dict[str, str] = {
    "matching": "engines on nine workloads and a growth curve: a quarter of an hour and 4 GB, quick a minute",
    "pipeline": "matching on Spark, on all cores (needs Java 17): about an hour and 8 GB, quick some minutes",
    "sim": "steps of protocol machines a second: two minutes, quick a quarter of one",
    "service": "the event service beside nats-server and mosquitto: half an hour, quick five minutes",
    "semantics": "semantic matching beside exact matching and published figures: five minutes, quick half of one",
    "log": "durable appends, sealing and reading of the event log: two minutes, quick a quarter of one",
    "rudp": "RUDP on loopback: a quarter of a minute",
}


@app.command
def run(
    subject: SubjectName,
    /,
    *,
    json: bool = False,
    quick: bool = False,
    part: Annotated[tuple[str, ...], Parameter(name=("--part", "--workload"), consume_multiple=True)] = (),
    case: str = "",
    peers: bool = False,
    markdown: Path | None = None,
) -> int:
    """Measure one subject.

    Engines are first checked against the oracle; a difference ends the run with exit code 1. A peer that is not
    installed has a row that says so.

    Examples:
      python -m benchmarks run matching --quick
      python -m benchmarks run matching --workload mix boolean --peers
      python -m benchmarks run service --part publishing --json > results.ndjson
      python -m benchmarks run sim --markdown docs/sim-benchmarks.md

    Parameters
    ----------
    subject
        What to measure; ``python -m benchmarks list`` has a line on each.
    json
        Write NDJSON even on a terminal.
    quick
        Smaller sizes and shorter runs.
    part
        Only these parts; those of matching are its workloads.
    case
        Only the cases whose title contains this text.
    peers
        Install the peers of matching that are missing (Polars, DuckDB, rule-engine, CEL) from PyPI first.
    markdown
        Write the results as a page of Markdown to this file, too.
    """
    from benchmarks import harness

    chosen = load(subject)
    if unknown := [name for name in part if name not in (*chosen.parts, *chosen.extra_parts)]:
        known = ", ".join((*chosen.parts, *chosen.extra_parts))
        complain(f"recado: {subject} has no part {unknown[0]!r}; it has {known}")
        return BAD_INPUT
    if peers and (message := _install_peers()):
        complain(message)
    cases = chosen.select(quick, part, case)
    if not cases:
        complain(f"recado: no case has {case!r} in its title")
        return BAD_INPUT
    try:
        records = _measure(json, lambda say: harness.run(chosen, cases, say))
    except harness.DisagreementError as error:
        complain(f"recado: {error}")
        return FAILED
    if for_people(json):
        _show(chosen, records)
    if markdown:
        options = [*(["--part", *part] if part else []), *(["--case", case] if case else [])]
        quickly = ["--quick"] if quick else []
        command = shlex.join(["python", "-m", "benchmarks", "run", subject, *quickly, *options])
        harness.write_page(chosen, records, command, markdown)
    return OK


@app.command(name="list")
def list_subjects() -> int:
    """Say which subjects there are, with their parts."""
    for name, summary in SUBJECTS.items():
        chosen = load(name)
        print(f"{name:10} {summary}")
        print(f"{'':10} parts: {', '.join(chosen.parts)}")
        if chosen.extra_parts:
            print(f"{'':10} only when named: {', '.join(chosen.extra_parts)}")
    return OK


def load(name: str) -> Subject:
    """A subject by its name; its libraries are imported here and not before."""
    found: Subject = import_module(f"benchmarks.{name}").SUBJECT
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. A subject's name alone means to run it."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in get_args(SubjectName):
        given.insert(0, "run")
    return run_app(app, given)


def _install_peers() -> str:
    from benchmarks.baselines import install_missing

    return install_missing()


def _measure(json: bool, start: Callable[[Callable[[str], Any]], Iterable[Record]]) -> list[Record]:
    """All records of a run: for people with a word on what is being measured, for programs written as they come."""
    people = for_people(json)
    records: list[Record] = []
    with console(stderr=True).status("starting") if people else nullcontext() as spinner:
        for record in start(spinner.update if spinner else lambda step: None):
            records.append(record)
            if not people:
                write_json(record)
    return records


def _show(subject: Subject, records: Sequence[Record]) -> None:
    """What the run says of itself, and the tables."""
    from benchmarks import harness

    out = console()
    for sentence in harness.sentences(subject, records):
        out.print(sentence, style="dim")
    for grid in harness.make_tables(subject, records):
        out.print()
        out.print(harness.rich_table(grid))
