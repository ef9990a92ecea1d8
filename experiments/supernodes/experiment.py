"""The experiment: which runs there are in which size, and what the report says before the numbers."""

from __future__ import annotations

from collections.abc import Callable

from experiments.base import Experiment
from experiments.supernodes.figures import figures
from experiments.supernodes.measure import measure
from experiments.supernodes.plan import DEFAULT, QUICK, Size, perform, studies
from experiments.supernodes.plan import FULL as FULL_SIZE
from experiments.supernodes.stints import Numbers
from experiments.supernodes.tables import tables

SOURCES = ("world.py", "stints.py", "deliveries.py", "plan.py")


IN_QUICK_RUNS = {variant for variant, _ in studies(QUICK).values()}


def _study(size: Size, variant: str, seed: int) -> Callable[[bool], Numbers]:
    def study(quick: bool) -> Numbers:
        if not quick:
            return perform(size, variant, seed)
        return perform(QUICK, variant, seed) if variant in IN_QUICK_RUNS else {}

    return study


def _experiment(size: Size, full: bool) -> Experiment:
    scale = 1.4 / size.rate
    how = (
        "Arrival rates, sessions and times are the document's own."
        if full
        else f"All arrival rates are the document's divided by {scale:g}, and have the document's names here "
        f"(1.4 stands for {size.rate:g} peers a second); events are published among {size.event_rate:g} arrivals a "
        f"second. Runs last {size.hours:g} hours, of which {size.warm_up_hours:g} are warm-up. Composition, times and "
        "the cost of sub nodes depend on redundancy alone and can be compared; costs in the layer cannot, since "
        "headers, keep-alives and repairs of views do not shrink with the rate. The sizer does next "
        f"to nothing in this size, with {size.budget:g} B/s, a third of the mean upload as in the document: "
        "probably because a broadcast seldom carries more than one slot, which the leader uses itself. "
        "What only the document's own size can tell is not judged."
    )
    return Experiment(
        name="super-nodes",
        title="Super nodes: what the document measured, and what is measured here",
        introduction=(
            "The document measured its protocol in single runs of a simulator whose network it does not describe; "
            "it prints no intervals, and no numbers for the curves of its figures. " + how
        ),
        sweeps=(),
        studies={name: _study(size, variant, seed) for name, (variant, seed) in studies(size).items()},
        measure=measure,
        tables=tables,
        figures=figures(),
        sources=SOURCES,
        full=full,
    )


EXPERIMENT = _experiment(DEFAULT, full=False)
FULL = _experiment(FULL_SIZE, full=True)
