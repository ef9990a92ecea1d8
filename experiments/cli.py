"""``python -m experiments``: repeat what a document measured or claims, and report how far it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from recado.cli.output import console, for_people, write_json, write_line
from recado.cli.verb import FAILED, OK, run_app, verb

if TYPE_CHECKING:
    from experiments.report import Written
    from experiments.run import Progress

_HELP = """\
Examples:

  python -m experiments list
  python -m experiments run trees --quick
  python -m experiments report trees --docs docs/experiments/trees
"""

app = verb("python -m experiments", help="Repeat the experiments of the documents and report.", epilogue=_HELP)


@app.command(name="list")
def list_experiments(*, json: bool = False) -> int:
    """List the experiments.

    Parameters
    ----------
    json
        Write NDJSON even on a terminal.
    """
    from experiments.base import NAMES, load

    for name in NAMES:
        experiment = load(name)
        expected = experiment.expected()
        if for_people(json):
            write_line(f"{name}  {experiment.title}")
            counted = f"{len(expected.values)} values, {len(expected.rows)} rows, {len(expected.claims)} claims"
            write_line(f"{' ' * len(name)}  {counted}")
        else:
            counts = {"values": len(expected.values), "rows": len(expected.rows), "claims": len(expected.claims)}
            write_json({"name": name, "title": experiment.title, **counts})
    return OK


@app.command
def run(
    name: str,
    /,
    *,
    quick: bool = False,
    middle: bool = False,
    full: bool = False,
    out: Path | None = None,
    docs: Path | None = None,
    study: tuple[str, ...] = (),
    workers: int | None = None,
    force: bool = False,
    json: bool = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
) -> int:
    """Run an experiment on all cores, and write its report; what an earlier run has done is not done again.

    Exit code 1 if anything came out otherwise than the experiment expects.

    Parameters
    ----------
    name
        As `python -m experiments list` shows it.
    quick
        Small networks and few repeats: less than a minute. Its report does not have everything.
    middle
        A size between the usual one and the document's own, for experiments that have one.
    full
        The document's own size, for experiments that are scaled down otherwise: hours, and gigabytes of memory.
    out
        Folder for the results of the runs; build/experiments/NAME if not given.
    docs
        Folder for the report; report in the folder of the results if not given.
    study
        Run this study and no other, such as `super-1.4-0.8-s1`; may be given again. The report has what is done so far.
    workers
        Processes; as many as there are cores if not given.
    force
        Throw away earlier results.
    json
        Write NDJSON even on a terminal.
    quiet
        No progress.
    """
    from experiments.base import load
    from experiments.report import write_report
    from experiments.run import run_experiment

    size = _one_size(quick=quick, middle=middle, full=full)
    experiment = load(name, "" if quick else size)
    folder = out or _folder(name, size)
    with _progress(quiet) as tell:
        results = run_experiment(experiment, folder, quick=quick, force=force, workers=workers, only=study, tell=tell)
    return _tell(write_report(experiment, results, docs or folder / "report"), json)


@app.command
def report(
    name: str,
    /,
    *,
    quick: bool = False,
    middle: bool = False,
    full: bool = False,
    so_far: bool = False,
    out: Path | None = None,
    docs: Path | None = None,
    json: bool = False,
) -> int:
    """Write the report of an experiment from runs that are done.

    Parameters
    ----------
    name
        As `python -m experiments list` shows it.
    quick
        The report of a quick run.
    middle
        The report of a run between the usual size and the document's own.
    full
        The report of a run in the document's own size.
    so_far
        Also if some studies were not done yet; the report says how many.
    out
        Folder with the results of the runs; build/experiments/NAME if not given.
    docs
        Folder for the report; report in the folder of the results if not given.
    json
        Write NDJSON even on a terminal.
    """
    from experiments.base import load
    from experiments.report import write_report
    from experiments.run import read_all

    size = _one_size(quick=quick, middle=middle, full=full)
    experiment = load(name, "" if quick else size)
    folder = out or _folder(name, size)
    results = read_all(experiment, folder, quick, so_far)
    return _tell(write_report(experiment, results, docs or folder / "report"), json)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    return run_app(app, arguments)


def _one_size(**wanted: bool) -> str:
    """The size that was asked for; empty for the usual one."""
    from experiments.expected import ExperimentError

    sizes = [size for size, wants in wanted.items() if wants]
    if len(sizes) > 1:
        raise ExperimentError(f"--{sizes[0]} and --{sizes[1]} are two sizes; choose one")
    return sizes[0] if sizes else ""


def _folder(name: str, size: str) -> Path:
    return Path("build") / "experiments" / (f"{name}-{size}" if size else name)


def _tell(written: Written, json: bool) -> int:
    verdicts = [one.verdict for one in written.judged]
    counts = {verdict: verdicts.count(verdict) for verdict in ("holds", "differs", "not measured")}
    if for_people(json):
        write_line(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
        for one in written.surprises:
            write_line(f"  {one.line.id} {one.verdict}, otherwise than expected: {', '.join(one.shown)}")
        for path in written.paths:
            write_line(f"wrote {path}")
    else:
        for one in written.judged:
            write_json({"id": one.line.id, "verdict": one.verdict, "measured": one.shown, "surprise": one.surprising})
        write_json({"summary": counts, "report": [str(path) for path in written.paths]})
    return FAILED if written.surprises else OK


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[Progress], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    screen = console(stderr=True)
    if quiet or not screen.is_terminal:
        yield lambda progress: None
        return
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    with Bar(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=screen) as bar:
        tasks: dict[str, TaskID] = {}

        def tell(progress: Progress) -> None:
            task = tasks.get(progress.part)
            if task is None:
                task = tasks[progress.part] = bar.add_task(progress.part, total=progress.total, rate="")
            elapsed = bar.tasks[task].elapsed or 0.0
            rate = f"{progress.steps / elapsed:,.0f} events/s" if elapsed and progress.steps else ""
            bar.update(task, completed=progress.done, total=progress.total, rate=rate)

        yield tell
