"""Which runs there are, in which size.

Variants have the names that the report uses. ``1.4``, ``1.05`` and ``0.7`` in them are the document's arrival rates; a
smaller size divides all of them by the same number. The composition depends on redundancy alone, so it stays; costs
do not: keep-alives, headers and the repair of views do not shrink with the rate (outline 4.9).
"""

from __future__ import annotations

from typing import Any

import msgspec

from experiments.supernodes.stints import Numbers
from experiments.supernodes.world import Run, measure_run

RATES = ("1.4", "1.05", "0.7")


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How large an evaluation is."""

    rate: float
    """What stands for the document's 1.4."""
    event_rate: float
    """What stands for its 0.7 where events are published."""
    budget: float
    """Of the sizer, in B/s: about a third of the mean upload without it, as 120 is of the document's 380 B/s."""
    hours: float
    warm_up_hours: float
    session_hours: float = 4.0
    bin_hours: float = 0.5
    redundancies: tuple[str, ...] = ("0.2", "0.4", "0.6", "0.8")
    """R at both arrival rates ..."""
    more_redundancies: tuple[str, ...] = ("0.1", "0.5")
    """... and at the higher one only."""
    seeds: int = 1
    """Of each variant ..."""
    more_seeds: int = 1
    """... and of the plain protocol at R 0.6 and 0.8, which most targets are about."""
    causes: float = 1.0
    """Of so many peers upload is counted by cause, in the base system and in the plain protocol at R 0.8."""
    leaves: str = "detector"
    """Who spreads departures where no events are published: who finds them, as in the document, or the leader."""

    def scaled(self, rate: str) -> float:
        return self.rate * float(rate) / 1.4


QUICK = Size(
    rate=0.05, event_rate=0.05, budget=10, hours=0.75, warm_up_hours=0.35, session_hours=0.25, bin_hours=0.1,
    redundancies=("0.2", "0.8"), more_redundancies=(), more_seeds=2,
)  # fmt: skip
DEFAULT = Size(rate=0.05, event_rate=0.05, budget=10, hours=12, warm_up_hours=8, bin_hours=1.0, more_seeds=2)
MIDDLE = Size(
    rate=0.35, event_rate=0.35, budget=53, hours=12, warm_up_hours=8, causes=0.2, leaves="leader",
)  # fmt: skip
"""Large enough for ratios of cost, and for what is said of the sizer; a tenth of the work of the full size."""
FULL = Size(
    rate=1.4, event_rate=0.7, budget=120, hours=23, warm_up_hours=8,
    more_redundancies=("0.1", "0.3", "0.5", "0.7", "0.9"), causes=0.1, leaves="leader",
)  # fmt: skip
"""The document's own size, but for who spreads departures: if whoever finds one did, a layer of 20,000 peers would send
30,000 messages a second, which nobody can simulate for 23 hours."""


def variants(size: Size) -> dict[str, Run]:
    """Every run of an evaluation, by its name and without its seed; those that most is judged by come first."""
    runs: dict[str, Run] = {}

    def add(
        name: str, rate: float, redundancy: str = "0.8", options: dict[str, Any] | None = None, **more: Any
    ) -> None:
        spread = {} if more.get("workload") or size.leaves == "detector" else {"leaves": size.leaves}
        runs[name] = Run(
            rate=rate,
            redundancy=float(redundancy),
            options=spread | (options or {}),
            hours=size.hours,
            warm_up_hours=size.warm_up_hours,
            session_hours=size.session_hours,
            bin_hours=size.bin_hours,
            **more,
        )

    for rate, redundancies in (("1.4", size.redundancies + size.more_redundancies), ("1.05", size.redundancies)):
        for r in sorted(redundancies, reverse=True):
            add(f"super-{rate}-{r}", size.scaled(rate), r, causes=size.causes * ((rate, r) == ("1.4", "0.8")))
        for other in ("1.4", "0.7") if rate == "1.4" else ("1.05",):
            add(f"base-{other}", size.scaled(other), options={"families": False}, causes=size.causes * (other == "1.4"))
    for k in (2, 3, 4):
        add(f"k{k}", size.rate, options={"k": k})
    add("sizer-increment", size.rate, options={"budget_bytes_per_second": size.budget})
    add("sizer-limit", size.rate, options={"budget_bytes_per_second": size.budget, "budget_mode": "limit"})
    add("enquiry", size.rate, options={"brothers": "enquiry"})
    add("lifo", size.rate, options={"promotion_policy": "lifo"})
    add("statistical", size.rate, statistical=True)
    for workload, word in (("accept_all", "all"), ("nested", "nested")):
        add(f"events-{word}", size.event_rate, workload=workload)
        add(f"events-{word}-repaired", size.event_rate, workload=workload, options={"event_repair": True})
    for name, share in INTERIOR.items():
        add(name, size.event_rate, workload="accept_all", interior_failure_prob=share)
    for name, seconds in STALE.items():
        add(name, size.event_rate, workload="accept_all", options={"leave_batch_seconds": seconds})
    return runs


STALE = {"stale-120": 120.0, "stale-300": 300.0, "stale-none": 0.0}
"""How long departures are kept back before they are told, beside the 30 s of the other runs; 0: until there are ten."""


INTERIOR = {"interior-0.03": 0.03, "interior-0.10": 0.1}
"""How often a member that should pass an event on fails to (R20)."""


def studies(size: Size) -> dict[str, tuple[str, int]]:
    """Every run with its seed: the name of the study, its variant and seed. First seeds come first."""
    found = {}
    for seed in range(1, max(size.seeds, size.more_seeds) + 1):
        for name in variants(size):
            more = name.startswith("super") and name.endswith(("0.6", "0.8"))
            if seed <= (size.more_seeds if more else size.seeds):
                found[f"{name}-s{seed}"] = (name, seed)
    return found


def perform(size: Size, variant: str, seed: int) -> Numbers:
    run = msgspec.structs.replace(variants(size)[variant], seed=seed)
    if run.options.get("budget_mode") == "limit":
        run = _above_reference(run)
    return {**measure_run(run), "budget": size.budget}


def _above_reference(run: Run) -> Run:
    """R6: the limit is the mean upload without the sizer, and the budget on top of it."""
    plain = {name: value for name, value in run.options.items() if not name.startswith("budget")}
    reference = measure_run(msgspec.structs.replace(run, options=plain))
    limit = float(reference.get("layer.up.rate", 0.0)) + run.options["budget_bytes_per_second"]
    return msgspec.structs.replace(run, options={**run.options, "budget_bytes_per_second": limit})
