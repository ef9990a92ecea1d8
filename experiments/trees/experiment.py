"""The experiment: which sweeps and studies there are, and what the report says before the numbers."""

from __future__ import annotations

from experiments.base import Experiment
from experiments.trees.election import election
from experiments.trees.figures import FIGURES
from experiments.trees.formulas import formulas
from experiments.trees.golden import golden
from experiments.trees.measure import measure
from experiments.trees.printed import printed
from experiments.trees.rendezvous import rendezvous
from experiments.trees.stale import stale
from experiments.trees.tables import tables

EXPERIMENT = Experiment(
    name="trees",
    title="Subscription trees: what the document says, and what is measured",
    introduction=(
        "The tree document gives formulas and worked examples, and no measurements. Here every value and claim of its "
        "evaluation stands beside what the simulator measures with the corrected protocol; the algorithms as printed "
        "are run as well, where they differ. Links take one time unit unless a section says otherwise. Where the "
        "document compares with broker networks it leaves open how many of the nodes are brokers: claims are judged "
        "with every node a broker, and again (ids that end in -brokers) with a tenth, a fifth and half of them."
    ),
    sweeps=(
        "operations",
        "baselines",
        "brokers",
        "churn",
        "filtering",
        "delays",
        "balance",
        "sharing",
        "locality",
        "attraction",
        "large",
    ),
    studies={
        "golden": golden,
        "printed": printed,
        "formulas": formulas,
        "stale": stale,
        "rendezvous": rendezvous,
        "election": election,
    },
    measure=measure,
    tables=tables,
    figures=FIGURES,
)
