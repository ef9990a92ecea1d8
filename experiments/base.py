"""What an experiment is: sweeps of scenarios, studies written in Python, measurements of both, and figures.

A **study** is a function of one argument, ``quick``, which gives numbers and texts by name; it is for what no scenario
can say, such as a proof by a thousand small networks. A **sweep** is a scenario file of the experiment's folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec

from experiments.blocks import Table
from experiments.expected import Expected, ExperimentError, Measured, read_expected
from recado.sim.runs.results import Row
from recado.sim.runs.scenario import Scenario, Setting, parse_scenario

NAMES = ("trees", "semantics", "semantics-names", "mobility", "super-nodes", "sensor-network")
QUICK_NODES = 25
QUICK_OPERATIONS = 16
LARGE_NODES = 500
"""What is larger than this is left out of a quick run; what is smaller is made as small as a quick run needs it."""

Study = Callable[[bool], dict[str, float | str]]


class Figure(msgspec.Struct, frozen=True):
    """A picture of the report: where it goes, what it shows, and how it is drawn from the results."""

    name: str
    caption: str
    draw: Callable[[Results, Path], None]
    """Writes the picture; raises ``ExperimentError`` if the results do not have what it needs."""


class Results(msgspec.Struct, frozen=True):
    """Everything that was run: the rows of each sweep, the answers of each study."""

    rows: Mapping[str, Sequence[Row]]
    studies: Mapping[str, Measured]
    quick: bool


class Experiment(msgspec.Struct, frozen=True):
    name: str
    title: str
    introduction: str
    sweeps: tuple[str, ...]
    studies: Mapping[str, Study]
    measure: Callable[[Results], dict[str, float | str]]
    tables: Callable[[Results], Sequence[tuple[str, Table]]]
    figures: tuple[Figure, ...]
    rooms: tuple[str, ...] = ()
    """Rooms of the package, beside those of the simulator, whose code decides what studies answer."""
    inputs: Callable[[], str] = str
    """A fingerprint of what the studies' answers depend on beside the code, such as a lexicon of the user's."""
    sources: tuple[str, ...] = ()
    """Files of the experiment's folder that decide what studies answer; all of them if not given."""
    full: bool = False
    """Is it large enough for the lines that are marked so?"""
    size: str = ""
    """``full`` is the document's own, which takes hours; ``middle`` is between that and the usual one. See ``load``."""

    def folder(self) -> Traversable:
        return files("experiments") / package(self.name)

    def expected(self) -> Expected:
        path = self.folder() / "expected.toml"
        return read_expected(path.read_text(encoding="utf-8"), f"{self.name}/expected.toml")

    def scenario(self, sweep: str, quick: bool = False) -> Scenario | None:
        """A scenario of the experiment; a quick one has one repeat of what is small, and is None if nothing is."""
        path = self.folder() / "scenarios" / f"{sweep}.toml"
        scenario = parse_scenario(path.read_text(encoding="utf-8"), f"{self.name}/scenarios/{sweep}.toml", sweep)
        return _quickened(scenario) if quick else scenario


def _quickened(scenario: Scenario) -> Scenario | None:
    small: list[tuple[str, Setting]] = []
    for name, setting in scenario.settings:
        smaller = (name, _smaller(setting))
        if setting.topology.nodes < LARGE_NODES and smaller not in small:
            small.append(smaller)
    return Scenario(scenario.name, scenario.description, tuple(small)) if small else None


def _smaller(setting: Setting) -> Setting:
    replace = msgspec.structs.replace
    topology = replace(setting.topology, nodes=min(QUICK_NODES, setting.topology.nodes))
    workload = replace(setting.workload, operations=min(QUICK_OPERATIONS, setting.workload.operations))
    return replace(setting, topology=topology, workload=workload, run=replace(setting.run, repeats=1))


def package(name: str) -> str:
    """The folder of an experiment's code."""
    return name.replace("-", "")


SIZES = ("", "middle", "full")


def load(name: str, size: str = "") -> Experiment:
    """An experiment by its name; in another size than the usual one if it has that."""
    if name not in NAMES:
        raise ExperimentError(f"there is no experiment {name!r}; there are: {', '.join(NAMES)}")
    module = import_module(f"experiments.{package(name)}.experiment")
    experiment = getattr(module, size.upper() or "EXPERIMENT", None)
    if experiment is None:
        raise ExperimentError(f"{name} has no other size: what it runs is all that the document has")
    assert isinstance(experiment, Experiment)
    return experiment
