"""The experiment: which runs there are, and what the report says before the numbers."""

from __future__ import annotations

from collections.abc import Callable

from experiments.base import Experiment
from experiments.sensornetwork.figures import figures
from experiments.sensornetwork.measure import measure
from experiments.sensornetwork.plan import FULL, QUICK, perform, studies, variants
from experiments.sensornetwork.tables import tables
from experiments.sensornetwork.world import Numbers

IN_QUICK_RUNS = {name: seeds for name, (_, seeds) in variants(QUICK).items()}


def _study(variant: str, seed: int) -> Callable[[bool], Numbers]:
    def study(quick: bool) -> Numbers:
        if not quick:
            return perform(FULL, variant, seed)
        return perform(QUICK, variant, seed) if seed <= IN_QUICK_RUNS.get(variant, 0) else {}

    return study


EXPERIMENT = Experiment(
    name="sensor-network",
    title="The sensor network: what the paper claims, and what is measured here",
    introduction=(
        "The paper's figures survive as captions: its text has no number of any curve, and does not say how large its "
        "eight areas were. So directions and orders are compared, and nothing is invented to stand beside a number. "
        "The scenario is the paper's: 100 nodes, 50 subscriptions, 1,440 publications in 24 hours; both "
        "systems have 20 runs on each area, all else 5, each with its own placement, subscriptions and times. "
        "Squares of up to 1500 m are drawn until the network is in one piece, the two largest are not. Where nothing "
        "else is said: PAMPA with the profile `prototype`, the ideal channel, AODV as in ns-2 with its timer off, zipf "
        "with exponent 1 and rank 1 for the value 1. Studies beyond the paper have 300 publications in five hours on "
        "1,100 m; those of size have 60 in an hour."
    ),
    sweeps=(),
    studies={name: _study(variant, seed) for name, (variant, seed) in studies(FULL).items()},
    measure=measure,
    tables=tables,
    figures=figures(),
    sources=("world.py", "workload.py", "plan.py"),
)
