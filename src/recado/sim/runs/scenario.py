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
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, field

from recado.errors import FilterError, RecadoError
from recado.filters.evaluate import matches
from recado.filters.syntax import parse_filter
from recado.model.event import Event
from recado.model.filter import TRUE, Filter
from recado.protocols.pubsub import ConfiguredProtocol, ProtocolError
from recado.protocols.registry import DEFAULT, find_protocol
from recado.sim.radio.energy import CC2420
from recado.sim.radio.signal import RANGE_METRES, SENSE_METRES

# --- What one run is made of: the parts that a scenario file can say, with their defaults ----------------------------
#
# A ``Setting`` and a seed determine a run. Every part is plain data, so a setting travels to another process or host as
# JSON, and ``parameters`` gives it as the flat columns of a table of results.
#
# Times are in the time units of the network: one unit is what a message takes on a link if ``network.delay`` is "unit".


Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Positive = Annotated[float, Meta(gt=0.0)]
NotNegative = Annotated[float, Meta(ge=0.0)]
Count = Annotated[int, Meta(ge=0)]
Percent = Annotated[str, Meta(pattern=r"^(100|[0-9]{1,2})(\.[0-9]+)?%$")]

TopologyKind = Literal[
    "line", "ring", "star", "complete", "grid", "random-tree", "random-graph", "scale-free",
    "NET-13", "NET-16", "NET-5.1", "edges",
]  # fmt: skip
DelayKind = Literal["unit", "constant", "uniform", "exponential", "lognormal"]
PlacementKind = Literal["uniform", "connected", "line", "grid", "clusters"]


class ScenarioError(RecadoError):
    """A scenario file, or a setting in it, that cannot be run."""


class SettingError(ScenarioError):
    """A value that no run can have; ``path`` is its place in the setting, such as ``protocol.name``."""

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(f"{reason} - at `$.{path}`")
        self.reason, self.path = reason, path


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the parts: a name that no part knows is an error, not a wish that is passed over."""


class TopologyPart(Part, frozen=True):
    """A generated network, one of the tree document's own, or a list of links as in ``edges = "A-B B-C"``."""

    kind: TopologyKind = "random-graph"
    nodes: Annotated[int, Meta(ge=1, le=1_000_000)] = 50
    degree: Positive = 4.0
    """Mean number of neighbours; of random graphs and, as an even number, of scale-free ones."""
    edges: str = ""
    brokers: Annotated[float, Meta(gt=0.0, le=1.0)] = 1.0
    """The share of nodes that are brokers, in a network of this kind; the others are clients, each linked with one.

    Applications are at the clients then. Trees make no difference between the two; the baselines do.
    """


class ProtocolPart(Part, frozen=True):
    """A protocol by its name in ``recado.protocols.registry``, or ``module:Class``; ``options`` are its settings.

    ``protocol = "flooding"`` in a file is short for ``protocol.name = "flooding"``.
    """

    name: str = DEFAULT
    options: dict[str, Any] = {}
    reliable: bool = False
    """Number, acknowledge and repeat the messages on every link, for networks that lose or repeat them."""


class NetworkPart(Part, frozen=True):
    """How long a message takes on a link, and what may happen to it.

    On a radio there are no links: ``RadioPart`` says what there is, ``topology.nodes`` how many nodes, and of this part
    only ``loss`` counts. Times are in seconds then.
    """

    kind: Literal["links", "radio"] = "links"
    delay: DelayKind = "unit"
    mean: Positive = 1.0
    spread: NotNegative = 0.5
    """Uniform: mean plus or minus this share of it. Lognormal: sigma."""
    bandwidth: NotNegative = 0.0
    """Bytes a time unit that a node can send; 0 is without limit."""
    loss: Share = 0.0
    duplication: Share = 0.0
    reordering: Share = 0.0
    """Share of the messages that come up to three mean delays late, so that others overtake them."""


class EnergyPart(Part, frozen=True):
    """What a node's radio draws, by default a CC2420 at 3 V (``recado.sim.radio.energy``), and its battery."""

    measured: bool = False
    transmit_watts: NotNegative = CC2420.transmit_watts
    receive_watts: NotNegative = CC2420.receive_watts
    idle_watts: NotNegative = CC2420.idle_watts
    """Awake, and nothing on the air. A receiver that has to be on to hear anything draws ``receive_watts`` here."""
    sleep_watts: NotNegative = CC2420.sleep_watts
    bits_per_second: Positive = CC2420.bits_per_second
    """With it and ``overhead_bytes``, the size of a message says how long it is on the air of the ideal channel."""
    overhead_bytes: Count = CC2420.overhead_bytes
    battery_joules: NotNegative = 0.0
    """A node that has used so much is dead; 0 is without limit."""
    battery_spread: Annotated[float, Meta(ge=0.0, lt=1.0)] = 0.0
    """Batteries are not alike: each holds up to this share more or less than ``battery_joules``."""
    step: Positive = 10.0
    """How many seconds pass at least until batteries are looked at again."""


class MovementPart(Part, frozen=True):
    """Random waypoint over the square, in metres a second; nobody moves if ``most_speed`` is 0."""

    least_speed: Positive = 0.5
    most_speed: NotNegative = 0.0
    pause: NotNegative = 0.0
    step: Positive = 1.0
    """How many seconds pass until places are brought up to date."""


class SleepPart(Part, frozen=True):
    """Duty cycles: a node listens for a share of every period."""

    awake: Annotated[float, Meta(gt=0.0, le=1.0)] = 1.0
    period: Positive = 1.0
    phases: Literal["equal", "random"] = "equal"


class RadioPart(Part, frozen=True):
    """Where nodes are, in metres, and the channel between them; for ``network.kind = "radio"``."""

    channel: Literal["ideal", "csma"] = "ideal"
    placement: PlacementKind = "connected"
    """Uniform over the square, the same drawn again until all nodes are in one piece, or another shape."""
    side: Positive = 1000.0
    apart: Positive = 200.0
    """Between neighbours of a line."""
    clusters: Annotated[int, Meta(ge=1)] = 5
    spread: Positive = 100.0
    """Standard deviation of the nodes of a cluster from its middle."""
    range: Positive = RANGE_METRES
    sense: Positive = SENSE_METRES
    """How far a transmission is noticed, at least as far as it is understood; this and the rest are of csma."""
    basic_rate: Positive = 1e6
    """Bits a second, of broadcasts and of what controls the channel; ``data_rate`` is that of other messages."""
    data_rate: Positive = 11e6
    queue: Annotated[int, Meta(ge=1)] = 50
    arp: bool = False
    rts: bool = True
    energy: EnergyPart = EnergyPart()
    movement: MovementPart = MovementPart()
    sleep: SleepPart = SleepPart()


class Mix(Part, frozen=True):
    """How often each operation is drawn after the set-up; weights, in any scale."""

    publish: NotNegative = 1.0
    subscribe: NotNegative = 0.0
    unsubscribe: NotNegative = 0.0
    become_publisher: NotNegative = 0.0
    become_broker: NotNegative = 0.0


class WorkloadPart(Part, frozen=True):
    """Who publishes, who subscribes to what, and what happens afterwards.

    Events carry ``x``, uniform in [0, 1). A filter of the family "range" asks for a part of that line as wide as
    ``width``; "any" asks for the type alone. ``overlap`` is the share of subscriptions that take one of a few common
    filters, which are equal or cover each other. With ``locality`` 1 a node's interest follows from its place in the
    network, so that neighbours want the same; with 0 it does not.
    """

    types: Annotated[int, Meta(ge=1)] = 1
    popularity: NotNegative = 0.0
    """Exponent of Zipf's law, by which subscriptions and events choose their type; 0 is uniform."""
    publishers: Annotated[int, Meta(ge=0)] = 1
    """Of every type."""
    subscriptions: Count | Percent = 10
    """How many, or what share of the nodes subscribes, as in "10%"."""
    filters: Literal["range", "any"] = "range"
    width: Annotated[float, Meta(gt=0.0, le=1.0)] = 0.1
    overlap: Share = 0.0
    locality: Share = 0.0
    operations: Count = 20
    """How many are drawn from ``mix`` once all publishers and subscriptions are there."""
    mix: Mix = Mix()
    rate: NotNegative = 0.0
    """Operations a time unit, as a Poisson process; with 0 each begins when the network is quiet again."""
    settling: NotNegative = 0.0
    """With a rate: how long a subscription may take to be in place, or to be gone, before it is held against it."""


class FaultsPart(Part, frozen=True):
    """A storm of failures: links and nodes fail and come back at random, and at its end all works again."""

    rate: NotNegative = 0.0
    """Failures and repairs a time unit; needs ``workload.rate``, so that operations go on meanwhile."""
    start: NotNegative = 0.0
    duration: NotNegative = 0.0
    notice: NotNegative = 1.0
    """How long it takes until the ends of a link know that it failed, or that it works again."""


class RunPart(Part, frozen=True):
    """How often, how long, and from which set of seeds."""

    repeats: Annotated[int, Meta(ge=1, le=100_000)] = 1
    seed_set: Count = 0
    """Runs of the same number have the same seed in every configuration, whatever else differs."""
    warm_up: NotNegative = 0.0
    """Operations that begin earlier are carried out and not measured."""
    time_limit: NotNegative = 0.0
    """Operations that would begin later are not carried out; 0 is without limit."""
    bytes: bool = True
    """Encode every message to learn its size; without, a run is faster."""
    max_steps: Annotated[int, Meta(ge=1)] = 50_000_000
    """A run that takes more has met a loop, and fails."""


class Setting(Part, frozen=True):
    """One configuration with every choice made."""

    topology: TopologyPart = TopologyPart()
    protocol: ProtocolPart = ProtocolPart()
    network: NetworkPart = NetworkPart()
    radio: RadioPart = RadioPart()
    workload: WorkloadPart = WorkloadPart()
    faults: FaultsPart = FaultsPart()
    run: RunPart = RunPart()


PARTS = Setting.__struct_fields__


def configure_protocol(setting: Setting) -> ConfiguredProtocol:
    """The protocol of a setting; a SettingError if there is none, or if it cannot do what the setting asks."""
    part = setting.protocol
    try:
        protocol = find_protocol(part.name)
    except ProtocolError as error:
        raise SettingError(str(error), "protocol.name") from None
    try:
        configured = protocol.configure(part.options)
    except ProtocolError as error:
        raise SettingError(str(error), f"protocol.options.{error.setting}".rstrip(".")) from None
    if protocol.needs_radio and setting.network.kind != "radio":
        raise SettingError(f'protocol {part.name!r} needs a radio: write network.kind = "radio"', "network.kind")
    if part.reliable and not protocol.reliable:
        raise SettingError(f"protocol {part.name!r} cannot have reliable links", "protocol.reliable")
    for request in Mix.__struct_fields__:
        if getattr(setting.workload.mix, request) and not protocol.understands(request):
            raise SettingError(f"protocol {part.name!r} has no request {request!r}", f"workload.mix.{request}")
    return configured


def parameters(setting: Setting) -> dict[str, Any]:
    """The setting as flat names and values, as in ``topology.nodes``; how often it is run is no parameter."""
    plain = msgspec.to_builtins(setting)
    del plain["run"]["repeats"]
    return dict(flatten(plain))


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


# --- Scenario files: a base, named configurations that change it, and sweeps over lists of values --------------------

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
    radio: Table = field(default_factory=dict)
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
        file = msgspec.convert(_expand(tomllib.loads(text)), ScenarioFile)
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


def _expand(table: Table) -> Table:
    """With ``protocol = "name"`` written out, in the base and in the configurations."""
    named = {"protocol": {"name": table["protocol"]}} if isinstance(table.get("protocol"), str) else {}
    sections = table.get("configurations")
    if isinstance(sections, dict):
        named["configurations"] = {
            name: _expand(section) if isinstance(section, dict) else section for name, section in sections.items()
        }
    return table | named


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
                tree = _merge(tree, _nest(path, values[index]))
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
            setting = msgspec.convert(tree, Setting)
            configure_protocol(setting)
        except SettingError as error:
            raise self._error(error.reason, self._where_written(error.path, sweep, choice)) from None
        except msgspec.ValidationError as error:
            reason, _, place = str(error).partition(" - at `$")
            path = place.rstrip("`").lstrip(".")
            if unknown := re.search(r"unknown field `(.+?)`", reason):
                path = f"{path}.{unknown[1]}".lstrip(".")
            elif reason.startswith("Invalid enum value"):
                reason = f"{reason}, not one of {', '.join(_choices(path))}"
            raise self._error(reason, self._where_written(path, sweep, choice)) from None
        return setting

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


def _nest(path: str, value: Any) -> dict[str, Any]:
    if path == "protocol" and isinstance(value, str):
        value = {"name": value}
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
