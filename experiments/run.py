"""Running an experiment: all its sweeps and studies on all cores, and going on where an earlier run stopped.

A sweep has a folder with its journal (``recado.sim.runs.results``); a study has a file with its answers, kept as long
as the code is the same.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import msgspec

from experiments.base import Experiment, Results, load, package
from experiments.expected import ExperimentError
from recado import files
from recado.sim.runs.results import Journal, Row, code_digest, read_results, write_results
from recado.sim.runs.run import execute_runs
from recado.sim.runs.scenario import Scenario


class Progress(msgspec.Struct, frozen=True):
    """How far one part of an experiment is."""

    part: str
    done: int
    total: int
    steps: int = 0


class Answers(msgspec.Struct, frozen=True):
    """What a study gave, and by which code."""

    code: str
    quick: bool
    measured: dict[str, float | str]


Tell = Callable[[Progress], None]


def run_experiment(
    experiment: Experiment,
    out: Path,
    *,
    quick: bool = False,
    force: bool = False,
    workers: int | None = None,
    only: Sequence[str] = (),
    tell: Tell = lambda progress: None,
) -> Results:
    """Everything that is not there yet; the results of all. With ``only``, these studies and nothing else is run."""
    unknown = [name for name in only if name not in experiment.studies]
    if unknown:
        raise ExperimentError(
            f"{experiment.name} has no study {unknown[0]!r}; there are: {', '.join(experiment.studies)}"
        )
    for progress in _studies(experiment, out, quick, force, workers, only or experiment.studies):
        tell(progress)
    if only:
        return read_all(experiment, out, quick, so_far=True)
    for sweep in experiment.sweeps:
        scenario = experiment.scenario(sweep, quick)
        for progress in _sweep(scenario, out / sweep, force, workers) if scenario else ():
            tell(progress)
    return read_all(experiment, out, quick)


def _sweep(scenario: Scenario, folder: Path, force: bool, workers: int | None) -> Iterator[Progress]:
    runs = scenario.runs()
    with Journal(folder, runs, force) as journal:
        missing = journal.missing()
        done, steps = len(runs) - len(missing), 0
        yield Progress(folder.name, done, len(runs))
        for outcome in execute_runs(missing, workers):
            journal.add(outcome)
            done, steps = done + 1, steps + outcome.steps
            yield Progress(folder.name, done, len(runs), steps)
        write_results(folder, journal.outcomes())


def _studies(  # noqa: PLR0917
    experiment: Experiment, out: Path, quick: bool, force: bool, workers: int | None, wanted: Collection[str]
) -> Iterator[Progress]:
    """The studies that are missing; their answers are of the code that was there at the start, whatever is edited."""
    total, code = len(wanted), _code(experiment)
    missing = [name for name in wanted if force or _answers(out, name, code, quick) is None]
    done = total - len(missing)
    yield Progress("studies", done, total)
    if not missing:
        return
    count = min(workers or os.cpu_count() or 1, len(missing))
    with ProcessPoolExecutor(count, multiprocessing.get_context("spawn")) as pool:
        under_way = {
            pool.submit(perform_study, experiment.name, name, quick, experiment.size): name for name in missing
        }
        for future in as_completed(under_way):
            _keep(_place(out, under_way[future]), Answers(code, quick, future.result()))
            done += 1
            yield Progress("studies", done, total)


def perform_study(experiment: str, name: str, quick: bool, size: str = "") -> dict[str, float | str]:
    """What a worker does: studies are found by name, since functions of a module travel badly."""
    return load(experiment, size).studies[name](quick)


def _place(out: Path, study: str) -> Path:
    return out / "studies" / f"{study}.json"


def _code(experiment: Experiment) -> str:
    """A fingerprint of all that a study's answers depend on."""
    folder = Path(__file__).parent / package(experiment.name)
    places = [folder / name for name in experiment.sources] or [folder]
    return f"{code_digest(*places, *experiment.rooms)} {experiment.inputs()}".strip()


def _keep(path: Path, answers: Answers) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, msgspec.json.encode(answers))


def _answers(out: Path, study: str, code: str, quick: bool) -> dict[str, float | str] | None:
    try:
        answers = msgspec.json.decode(_place(out, study).read_bytes(), type=Answers)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return answers.measured if (answers.code, answers.quick) == (code, quick) else None


def read_all(experiment: Experiment, out: Path, quick: bool, so_far: bool = False) -> Results:
    """The results in a folder; an error names what is missing there, unless those that are there ``so_far`` will do."""
    rows: dict[str, list[Row]] = {}
    for sweep in experiment.sweeps:
        if experiment.scenario(sweep, quick) is not None:
            rows[sweep] = read_results(out / sweep)
    studies: dict[str, dict[str, float | str]] = {}
    code = _code(experiment)
    for name in experiment.studies:
        found = _answers(out, name, code, quick)
        if found is None and so_far:
            continue
        if found is None:
            raise ExperimentError(
                f"{_place(out, name)} is not there, or was made by other code; first: "
                f"python -m experiments run {experiment.name}{f' --{experiment.size}' if experiment.size else ''}"
            )
        studies[name] = found
    return Results(rows, studies, quick)
