"""The experiment: which runs there are in which size, and what the report says before the numbers."""

from __future__ import annotations

from collections.abc import Callable

from experiments.base import Experiment
from experiments.supernodes import plan
from experiments.supernodes.beyond import STUDIES, Row, flatten
from experiments.supernodes.figures import figures
from experiments.supernodes.measure import BEYOND, LARGE, measure, measure_large
from experiments.supernodes.plan import DEFAULT, QUICK, Size, perform, studies
from experiments.supernodes.stints import Numbers
from experiments.supernodes.tables import tables

SOURCES = ("world.py", "stints.py", "deliveries.py", "plan.py", "beyond.py")
BEYOND_SEEDS = 5


IN_QUICK_RUNS = {variant for variant, _ in studies(QUICK).values()}


def _study(size: Size, variant: str, seed: int) -> Callable[[bool], Numbers]:
    def study(quick: bool) -> Numbers:
        if not quick:
            return perform(size, variant, seed)
        return perform(QUICK, variant, seed) if variant in IN_QUICK_RUNS else {}

    return study


LARGE_RUNS = (
    "base-1.4", "base-1.05", "base-0.7", *(f"super-1.4-0.{tenth}" for tenth in (8, 6, 4, 2)), "k2", "k3", "k4",
    "sizer-increment",
)  # fmt: skip
"""What costs are judged by has to be large enough (outline 4.9): headers, keep-alives and repairs of views do not
shrink with the rate. So the usual evaluation has these runs of the middle size, too."""


def _large(variant: str) -> Callable[[bool], Numbers]:
    return lambda quick: {} if quick else perform(plan.MIDDLE, variant, 1)


def _beyond(study: Callable[..., list[Row]], seed: int) -> Callable[[bool], Numbers]:
    return lambda quick: {} if quick and seed > 1 else flatten(study(seed=seed))


LEADERS = (
    "where no events are published, the leader of the layer spreads departures, with the joins that it gathered, and "
    "not whoever finds one. The document leaves both possible; in the other way a layer of 20,000 peers has 30,000 "
    "messages a second, more than can be simulated here"
)


def _describe(size: Size, name: str) -> str:
    if name == "full":
        return (
            f"Arrival rates, sessions and times are the document's own. It differs in one thing: {LEADERS}. "
            "As in the document there is one run of each kind."
        )
    scale = 1.4 / size.rate
    how = (
        f"All arrival rates are the document's divided by {scale:g}, and have the document's names here "
        f"(1.4 stands for {size.rate:g} peers a second); events are published among {size.event_rate:g} arrivals a "
        f"second. Runs last {size.hours:g} hours, of which {size.warm_up_hours:g} are warm-up. "
    )
    if name == "middle":
        return how + (
            "That many arrivals are enough for ratios of costs, though not to compare "
            f"costs in bytes. As in the full size, {LEADERS}. The sizer may use {size.budget:g} B/s, a third of the "
            "mean upload without it, as in the document. There is one run of each kind."
        )
    return how + (
        "Composition, times and "
        "the cost of sub nodes depend on redundancy alone and can be compared; costs in the layer cannot, since "
        "headers, keep-alives and repairs of views do not shrink with the rate. The sizer does next "
        f"to nothing in this size, with {size.budget:g} B/s, a third of the mean upload as in the document: "
        "a broadcast seldom carries more than one slot, which the leader uses itself. "
        f"So costs and the sizer are judged by {len(LARGE_RUNS)} larger runs, of the size `--middle`, with the "
        f"document's rates divided by {1.4 / plan.MIDDLE.rate:g} and a budget of {plan.MIDDLE.budget:g} B/s; their "
        "measurements have names that begin with `large`, and figures 5.1, 5.2, 5.3 for lambda 1.4, 5.9, 5.10 and that "
        "of the sizer show them. In them the leader of the layer spreads departures, with the joins that it gathered. "
        "What only the document's own size can tell is not judged."
    )


def _experiment(size: Size, name: str = "") -> Experiment:
    return Experiment(
        name="super-nodes",
        title="Super nodes: what the document measured, and what is measured here",
        introduction=(
            "The document measured its protocol in single runs of a simulator whose network it does not describe; "
            "it prints no intervals, and no numbers for the curves of its figures. " + _describe(size, name)
        ),
        sweeps=(),
        studies={
            **{f"{LARGE}{variant}-s1": _large(variant) for variant in LARGE_RUNS if not name},  # the longest first
            **{name: _study(size, variant, seed) for name, (variant, seed) in studies(size).items()},
            **{
                f"{BEYOND}{title}-s{seed}": _beyond(study, seed)
                for title, study in STUDIES.items()
                for seed in range(1, BEYOND_SEEDS + 1)
                if not name  # they have a size of their own
            },
        },
        measure=measure_large if name else measure,
        tables=tables,
        figures=figures(),
        sources=SOURCES,
        full=bool(name),
        size=name,
    )


EXPERIMENT = _experiment(DEFAULT)
MIDDLE = _experiment(plan.MIDDLE, "middle")
FULL = _experiment(plan.FULL, "full")
