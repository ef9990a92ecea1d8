"""What one run is made of: the parts that a scenario file can say, with their defaults.

A ``Setting`` and a seed determine a run. Every part is plain data, so a setting travels to another process or host as
JSON, and ``parameters`` gives it as the flat columns of a table of results.

Times are in the time units of the network: one unit is what a message takes on a link if ``network.delay`` is "unit".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from recado.errors import RecadoError

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


class ScenarioError(RecadoError):
    """A scenario file, or a setting in it, that cannot be run."""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the parts: a name that no part knows is an error, not a wish that is passed over."""


class TopologyPart(Part, frozen=True):
    """A generated network, one of the tree document's own, or a list of links as in ``edges = "A-B B-C"``."""

    kind: TopologyKind = "random-graph"
    nodes: Annotated[int, Meta(ge=1, le=1_000_000)] = 50
    degree: Positive = 4.0
    """Mean number of neighbours; of random graphs and, as an even number, of scale-free ones."""
    edges: str = ""


class ProtocolPart(Part, frozen=True):
    """``trees``, or a baseline by its name; ``options`` are that protocol's own settings."""

    name: str = "trees"
    options: dict[str, Any] = {}
    reliable: bool = False
    """Of trees: number, acknowledge and repeat the messages on every link, for networks that lose or repeat them."""


class NetworkPart(Part, frozen=True):
    """How long a message takes on a link, and what may happen to it."""

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
    workload: WorkloadPart = WorkloadPart()
    faults: FaultsPart = FaultsPart()
    run: RunPart = RunPart()


PARTS = Setting.__struct_fields__


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
