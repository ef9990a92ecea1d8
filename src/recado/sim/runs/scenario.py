"""Scenario files: a base, named configurations that change it, and sweeps over lists of values.

    name = "Cost of a subscription"

    [topology]                      # the base
    kind = "random-graph"

    [sweep]                         # every combination is a configuration of its own
    topology.nodes = [10, 100]

    where = "topology.nodes < 100 or workload.types == 1"       # only such combinations

    [configurations.flooding]       # changes to the base; `extends` names another configuration to begin with
    protocol.name = "flooding"

Without ``configurations`` the base itself is the only one, called "base". An element of a sweep list may be a table of
several values that go together. ``where`` is a filter of Recado's own language over the parameters. An error names the
file and the place where the wrong value was written, wherever that value was inherited from.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import msgspec
from msgspec import field

from recado.errors import FilterError
from recado.filters.evaluate import matches
from recado.filters.syntax import parse_filter
from recado.model.event import Event
from recado.model.filter import TRUE, Filter
from recado.sim.runs.setting import PARTS, Part, ScenarioError, Setting, flatten, parameters

MOST_RUNS = 1_000_000

Table: TypeAlias = dict[str, Any]


class Run(msgspec.Struct, frozen=True):
    """One run to be done: all that another process needs to know."""

    scenario: str
    configuration: str
    number: int
    setting: Setting


class Section(Part, frozen=True):
    """The base, or one configuration; the parts are checked once they are put together."""

    topology: Table = field(default_factory=dict)
    protocol: Table = field(default_factory=dict)
    network: Table = field(default_factory=dict)
    workload: Table = field(default_factory=dict)
    faults: Table = field(default_factory=dict)
    run: Table = field(default_factory=dict)
    sweep: Table = field(default_factory=dict)
    where: str = ""
    extends: str = ""


class ScenarioFile(Section, frozen=True):
    name: str = ""
    description: str = ""
    configurations: dict[str, Section] = field(default_factory=dict)


class Scenario(msgspec.Struct, frozen=True):
    """A file with every configuration worked out."""

    name: str
    description: str
    settings: tuple[tuple[str, Setting], ...]

    def runs(self) -> list[Run]:
        """All runs, first all configurations of run 0: a sweep that is broken off has something of everything."""
        most = max(setting.run.repeats for _, setting in self.settings)
        return [
            Run(self.name, name, number, setting)
            for number in range(most)
            for name, setting in self.settings
            if number < setting.run.repeats
        ]


def read_scenario(path: Path) -> Scenario:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from None
    return parse_scenario(text, str(path), path.stem)


def parse_scenario(text: str, source: str = "scenario", name: str = "scenario") -> Scenario:
    """The scenario that a TOML text describes; ``source`` is what errors call it."""
    try:
        file = msgspec.convert(tomllib.loads(text), ScenarioFile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ScenarioError(f"{source}: {error}") from None
    if file.extends:
        raise ScenarioError(f"{source}: the base extends nothing; a configuration may - at `$.extends`")
    settings = [
        (configuration, setting)
        for configuration in (*file.configurations,) or ("base",)
        for setting in _Configuration(file, configuration, source).settings()
    ]
    count = sum(setting.run.repeats for _, setting in settings)
    if not 0 < count <= MOST_RUNS:
        raise ScenarioError(f"{source}: {count:,} runs; a scenario has 1 to {MOST_RUNS:,}")
    return Scenario(file.name or name, file.description, tuple(settings))


class _Configuration:
    """One configuration of a file: the sections it is made of, the nearest first."""

    def __init__(self, file: ScenarioFile, name: str, source: str) -> None:
        self.name, self.source = name, source
        self.chain = _chain(file, name, source)

    def settings(self) -> Iterator[Setting]:
        """The setting of every combination of the sweep that ``where`` admits."""
        merged: dict[str, Any] = {}
        for _, section in reversed(self.chain):
            merged = _merge(merged, {part: getattr(section, part) for part in PARTS})
        where = self._where()
        sweep = self._sweep()
        for choice in product(*(range(len(values)) for _, values in sweep)):
            tree = merged
            for (path, values), index in zip(sweep, choice, strict=True):
                tree = _merge(tree, _nested(path, values[index]))
            setting = self._convert(tree, sweep, choice)
            if matches(where, Event("setting", attributes=_visible(setting))):
                yield setting

    def _sweep(self) -> list[tuple[str, list[Any]]]:
        """Dotted paths with their values; a nearer section's list takes the place of a farther one's."""
        found: dict[str, list[Any]] = {}
        for prefix, section in reversed(self.chain):
            for path, values in flatten(section.sweep):
                if not isinstance(values, list) or not values or path.partition(".")[0] not in PARTS:
                    raise self._error(
                        f"a sweep gives a list of values for a name such as topology.nodes, not {path} = {values!r}",
                        f"{prefix}.sweep.{path}",
                    )
                found[path] = values
        return list(found.items())

    def _where(self) -> Filter:
        for prefix, section in self.chain:
            if section.where:
                try:
                    return parse_filter(section.where, "expression")
                except FilterError as error:
                    raise self._error(str(error), f"{prefix}.where") from None
        return TRUE

    def _convert(self, tree: dict[str, Any], sweep: Sequence[tuple[str, list[Any]]], choice: Sequence[int]) -> Setting:
        try:
            return msgspec.convert(tree, Setting)
        except msgspec.ValidationError as error:
            reason, _, place = str(error).partition(" - at `$")
            path = place.rstrip("`").lstrip(".")
            if unknown := re.search(r"unknown field `(.+?)`", reason):
                path = f"{path}.{unknown[1]}".lstrip(".")
            elif reason.startswith("Invalid enum value"):
                reason = f"{reason}, not one of {', '.join(_choices(path))}"
            raise self._error(reason, self._where_written(path, sweep, choice)) from None

    def _where_written(self, path: str, sweep: Sequence[tuple[str, list[Any]]], choice: Sequence[int]) -> str:
        """Where the value of a path stands in the file."""
        for (swept, _), index in zip(sweep, choice, strict=True):
            if path == swept or path.startswith(f"{swept}."):
                prefix = next(prefix for prefix, section in self.chain if swept in dict(flatten(section.sweep)))
                return f"{prefix}.sweep.{swept}[{index}]{path[len(swept) :]}"
        for prefix, section in self.chain:
            if _holds(section, path):
                return f"{prefix}.{path}"
        return f"$.{path}"

    def _error(self, reason: str, place: str) -> ScenarioError:
        return ScenarioError(f"{self.source}: {reason} - at `{place}`")


def _chain(file: ScenarioFile, name: str, source: str) -> list[tuple[str, Section]]:
    """The sections that make up a configuration with their places in the file, the nearest first, the base last."""
    chain: dict[str, tuple[str, Section]] = {}
    while name in file.configurations:
        if name in chain:
            raise ScenarioError(f"{source}: configuration {name!r} extends itself - at `$.configurations.{name}`")
        section = file.configurations[name]
        chain[name] = (f"$.configurations.{name}", section)
        if section.extends and section.extends not in file.configurations:
            raise ScenarioError(
                f"{source}: there is no configuration {section.extends!r} - at `$.configurations.{name}.extends`"
            )
        name = section.extends
    return [*chain.values(), ("$", file)]


def _choices(path: str) -> list[str]:
    """What a place admits where only some words are allowed."""
    kind: Any = Setting
    for name in path.split("."):
        kind = get_type_hints(kind).get(name)
        if kind is None or get_origin(kind) is Literal:
            break
    return [str(choice) for choice in get_args(kind)]


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``below`` with the changes of ``above``, table by table."""
    merged = dict(below)
    for name, value in above.items():
        earlier = merged.get(name)
        merged[name] = _merge(earlier, value) if isinstance(earlier, dict) and isinstance(value, dict) else value
    return merged


def _nested(path: str, value: Any) -> dict[str, Any]:
    for name in reversed(path.split(".")):
        value = {name: value}
    return dict(value)


def _holds(section: Section, path: str) -> bool:
    part, *names = path.split(".")
    tree = getattr(section, part, None)
    for name in names:
        if not isinstance(tree, dict) or name.partition("[")[0] not in tree:
            return False
        tree = tree[name.partition("[")[0]]
    return bool(tree) or bool(names)


def _visible(setting: Setting) -> dict[str, Any]:
    """The parameters that a filter can speak of: lists and tables of options are left out."""
    return {name: value for name, value in parameters(setting).items() if isinstance(value, (str, int, float, bool))}
