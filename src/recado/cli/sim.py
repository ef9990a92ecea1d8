"""``recado sim``: run scenarios of the simulator, and draw what came out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from recado.cli.output import complain, console, for_people, plural, write_json, write_line
from recado.cli.verb import BAD_INPUT, OK, import_from_here, verb

if TYPE_CHECKING:
    from recado.sim.recording import Recording
    from recado.sim.runs.run import Outcome
    from recado.sim.runs.scenario import Run

    Source = Callable[[Sequence[Run]], Iterator[Outcome]]

_HELP = """\
A scenario is a TOML file: a base, named configurations, sweeps over lists of values, repeats. docs/experiments.md
tells what it can say.

Examples:

  recado sim run scenario.toml --dry-run
  recado sim run scenario.toml --out results
  recado sim plot results --x topology.nodes --y subscribe.messages --by topology.kind
  recado sim draw scenario.toml --out run.html
"""

app = verb("sim", help="Run scenarios of the simulator and draw the results.", epilogue=_HELP)


@app.command
def run(
    scenario: Path,
    /,
    *,
    out: Path | None = None,
    dry_run: bool = False,
    workers: int | None = None,
    master: str | None = None,
    force: bool = False,
    pick: int | None = None,
    trace_node: str | None = None,
    trace_event: str | None = None,
    record: Path | None = None,
    record_limit: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    json: bool = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
) -> int:
    """Run a scenario; a sweep that was broken off goes on where it stopped.

    The results, results.parquet and results.csv, have a row for every run, with all parameters, metrics and where it
    was made. A folder that holds runs of another scenario, or of other code, is refused unless --force is given.

    Parameters
    ----------
    scenario
        The TOML file.
    out
        Folder for the results; the scenario's file name without its ending, in the folder runs, if not given.
    dry_run
        Check the scenario, list its runs and do nothing.
    workers
        Processes; as many as there are cores if not given.
    master
        Run on Spark executors: Spark's master, as in local[4] or spark://host:7077.
    force
        Throw away what the folder holds and begin anew.
    pick
        Only the run with this number in the list of --dry-run.
    trace_node
        Repeat one run (the first, or --pick) and tell what happened at this node.
    trace_event
        Repeat one run and tell how this event travelled, as in e17.
    record
        Repeat one run and write what happened into this file, as NDJSON, for `recado sim draw`.
    record_limit
        Transmissions that are kept; of more, one of two, four, ... is. 200,000 if not given.
    json
        Write NDJSON even on a terminal.
    quiet
        No progress.
    """
    from recado.sim.runs.scenario import read_scenario

    import_from_here()
    runs = read_scenario(scenario).runs()
    if pick is not None and not 0 <= pick < len(runs):
        complain(f"recado: --pick {pick}: the runs are numbered 0 to {len(runs) - 1}")
        return BAD_INPUT
    if trace_node is not None or trace_event is not None:
        return _trace(runs[pick or 0], trace_node, trace_event)
    if record is not None:
        return _record(runs[pick or 0], record, record_limit)
    if dry_run:
        _list(runs, json)
        return OK
    chosen = runs if pick is None else [runs[pick]]
    source = partial(_outcomes, workers=workers, master=master)
    return _sweep(chosen, out or Path("runs") / scenario.stem, source, force=force, json=json, quiet=quiet)


def _sweep(runs: Sequence[Run], out: Path, source: Source, *, force: bool, json: bool, quiet: bool) -> int:
    from recado.sim.runs.results import Journal, write_results

    people = for_people(json)
    with Journal(out, runs, force) as journal:
        missing = journal.missing()
        with _progress(len(runs), len(runs) - len(missing), quiet) as advance:
            for outcome in source(missing):
                journal.add(outcome)
                advance(outcome)
                if not people:
                    write_json(_line(outcome))
        write_results(out, journal.outcomes())
    summary = {"scenario": runs[0].scenario, "runs": len(runs), "new": len(missing), "results": str(out)}
    if people:
        console().print(f"{plural(len(runs), 'run')}, {len(missing):,} of them new; results in {out}")
    else:
        write_json({"summary": summary})
    return OK


def _outcomes(runs: Sequence[Run], workers: int | None, master: str | None) -> Iterator[Outcome]:
    if master is None:
        from recado.sim.runs.run import execute_runs

        yield from execute_runs(runs, workers)
        return
    from recado.cli.pipeline.spark import Job, session

    with session(Job(master=master, quiet=True)) as spark:
        from recado.pipeline.sweeps import execute_on_spark

        yield from execute_on_spark(spark, runs)


def _line(outcome: Outcome) -> dict[str, Any]:
    run = outcome.run
    return {
        "configuration": run.configuration,
        "run": run.number,
        "seed": outcome.seed,
        "metrics": outcome.metrics,
        "steps": outcome.steps,
        "wall_seconds": outcome.wall_seconds,
    }


def _trace(run: Run, node: str | None, event: str | None) -> int:
    """What happened at a node, and how an event travelled; one line for every step."""
    from recado.sim.runs.run import replay

    for line in replay(run, node, event):
        write_line(line)
    return OK


def _record(run: Run, path: Path, limit: int | None) -> int:
    from recado.sim.recording import LIMIT, write_recording
    from recado.sim.runs.run import record

    recording = record(run, limit or LIMIT)
    write_recording(recording, path)
    for note in recording.header.notes:
        complain(f"recado: {note}")
    complain(f"wrote {path}")
    return OK


@contextmanager
def _progress(total: int, done: int, quiet: bool) -> Iterator[Any]:
    """A bar on stderr with events a second and the time that is left."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    screen = console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    if quiet or not screen.is_terminal:
        yield lambda outcome: None
        return
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("runs", total=total, completed=done, rate="")
        steps = 0

        def advance(outcome: Outcome) -> None:
            nonlocal steps
            steps += outcome.steps
            elapsed = bar.tasks[0].elapsed or 0.0
            bar.update(task, advance=1, rate=f"{steps / elapsed:,.0f} events/s" if elapsed else "")

        yield advance


def _list(runs: Sequence[Run], json: bool) -> None:
    """The runs with the parameters in which they differ."""
    from recado.sim.runs.run import seed_of
    from recado.sim.runs.scenario import parameters

    flat = [parameters(run.setting) for run in runs]
    names = dict.fromkeys(name for each in flat for name in each)
    varied = [name for name in names if any(each.get(name) != flat[0].get(name) for each in flat)]
    rows = [
        {"pick": place, "configuration": run.configuration, "run": run.number, "seed": seed_of(run)}
        | {name: each[name] for name in varied if name in each}
        for place, (run, each) in enumerate(zip(runs, flat, strict=True))
    ]
    if not for_people(json):
        for row in rows:
            write_json(row)
        return
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for name in ("pick", "configuration", "run", "seed", *varied):
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(str(row.get(name, "")) for name in ("pick", "configuration", "run", "seed", *varied)))
    console().print(table)


@app.command
def plot(
    results: Path,
    /,
    *,
    x: str,
    y: str,
    by: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = (),
    where: str = "",
    out: Path | None = None,
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
) -> int:
    """Draw a metric over a parameter, a line for every value of another, with 95% intervals.

    Parameters
    ----------
    results
        The folder that `recado sim run` wrote, or its results.parquet or results.csv.
    x
        Column for the x axis, as in topology.nodes; words give bars.
    y
        Column for the y axis, as in subscribe.messages.
    by
        Columns whose values get a line each.
    where
        Only rows that this filter admits, as in 'topology.nodes <= 200'.
    out
        Picture to write, .svg or .png; if not given, both, named after y and x, beside the results.
    title
        Heading of the picture.
    log_x
        Logarithmic x axis.
    log_y
        Logarithmic y axis.
    """
    from recado.sim.runs.plot import Look, draw, select, series_of
    from recado.sim.runs.results import read_results

    rows = select(read_results(results), where)
    folder = results if results.is_dir() else results.parent
    name = f"{y}-over-{x}".replace(".", "-")
    paths = [out] if out else [folder / f"{name}.svg", folder / f"{name}.png"]
    draw(series_of(rows, x, y, by), Look(x, y, title, log_x, log_y), paths)
    for path in paths:
        complain(f"wrote {path}")
    return OK


@app.command
def draw(
    run: Path,
    /,
    *,
    out: Path | None = None,
    pick: int = 0,
    limit: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    picture: tuple[str, Path] | None = None,
    subscription: str = "",
    publication: str = "",
) -> int:
    """Draw a run as a page for a browser: who sent what, who held what, and how publications travelled.

    The page is one file and needs no network. It has a time slider, counters, and a choice of subscriptions,
    publications and nodes.

    Parameters
    ----------
    run
        What `recado sim run --record` wrote; or a scenario, of which one run is done again.
    out
        The page; beside the run, ending in .html, if not given.
    pick
        With a scenario, the run with this number in the list of `recado sim run --dry-run`.
    limit
        With a scenario, the transmissions that are kept; 200,000 if not given.
    picture
        Instead of a page, one moment as a picture: a time, or end, and a file ending in .svg.
    subscription
        In the picture, show who holds this subscription.
    publication
        In the picture, show what was sent about this publication up to then.
    """
    from recado.sim.drawing.page import draw_page
    from recado.sim.drawing.picture import Choice, draw_picture, moment_of

    recording = _recording_of(run, pick, limit)
    if picture is not None:
        time, path = picture
        text = draw_picture(recording, moment_of(recording, time), Choice(subscription, publication))
    elif subscription or publication:
        complain("recado: --subscription and --publication are for a --picture; on a page they are chosen there")
        return BAD_INPUT
    else:
        path, text = out or run.with_suffix(".html"), draw_page(recording)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    complain(f"wrote {path}")
    return OK


def _recording_of(run: Path, pick: int, limit: int | None) -> Recording:
    """A recording that was made before; or, from a scenario, one that is made now."""
    from recado.sim.recording import LIMIT, RecordingError, read_recording

    if run.suffix.lower() != ".toml":
        return read_recording(run)
    from recado.sim.runs.run import record
    from recado.sim.runs.scenario import read_scenario

    import_from_here()
    runs = read_scenario(run).runs()
    if not 0 <= pick < len(runs):
        raise RecordingError(f"--pick {pick}: the runs are numbered 0 to {len(runs) - 1}")
    return record(runs[pick], limit or LIMIT)
