"""From the answers of runs to the numbers that claims are about.

``VARIANT.METRIC`` is the mean over the seeds of a variant. Other names compare several. What was not run is simply not
there, and what was to be judged by it is "not measured".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import fsum

from experiments.base import Results
from experiments.sensornetwork.plan import DENSE, FULL, THINNEST, sides_of, studies
from experiments.sensornetwork.workload import ATTRIBUTES, interest_in_publications
from experiments.sensornetwork.world import Numbers

Samples = dict[str, dict[str, list[float]]]


def samples(results: Results) -> Samples:
    """By variant and metric, what each seed gave."""
    known = studies(FULL)
    found: Samples = {}
    for study, answers in results.studies.items():
        for name, value in answers.items():
            if study in known and isinstance(value, (int, float)):
                found.setdefault(known[study][0], {}).setdefault(name, []).append(float(value))
    return found


def measure(results: Results) -> Numbers:
    numbers: Numbers = {
        f"{variant}.{metric}": fsum(values) / len(values)
        for variant, metrics in samples(results).items()
        for metric, values in metrics.items()
    }
    get = Get(numbers)
    for derive in (_directions, _sparsest, _blocks, _delivery, _latency, _storage, _grouping, _everywhere, _faults):
        numbers |= derive(get)
    return {**numbers, **_interest()}


def measure_seeds(results: Results) -> list[Numbers]:
    """The same numbers for every seed by itself; what a seed did not run is not in its numbers."""
    known = studies(FULL)
    by_seed: dict[int, dict[str, Mapping[str, float | str]]] = {}
    for study, answers in results.studies.items():
        if study in known:
            by_seed.setdefault(known[study][1], {})[study] = answers
    return [measure(Results({}, by_seed[seed], results.quick)) for seed in sorted(by_seed)]


def stand_in(results: Results, ours: str, theirs: str, sides: Sequence[int]) -> Results:
    """The runs of another profile or channel as if they were the main ones, so that the same claims can judge them.

    ``ours`` is what the proposed system is called there, ``theirs`` publication flooding. Dense ``sides`` come first.
    """
    names: dict[str, str] = {}
    for main, side in zip(sides_of("prototype"), sides, strict=True):
        names |= {f"{ours}-{side}": f"proposed-{main}", f"{theirs}-{side}": f"flooding-{main}"}
    known = studies(FULL)
    found = {}
    for study, answers in results.studies.items():
        variant, seed = known.get(study, ("", 0))
        if variant in names:
            found[f"{names[variant]}-s{seed}"] = answers
    return Results({}, found, results.quick)


class Get:
    """Numbers by name; a name that is not there gives None."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers

    def __call__(self, name: str) -> float | None:
        value = self.numbers.get(name)
        return float(value) if isinstance(value, (int, float)) else None

    def curve(self, system: str, metric: str, sides: Iterable[int] = DENSE) -> list[tuple[float, float]]:
        """A metric over the sides that were run."""
        points = ((float(side), self(f"{system}-{side}.{metric}")) for side in sides)
        return [(side, value) for side, value in points if value is not None]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the straight line through points, a metre."""
    mean_x, mean_y = (fsum(values) / len(points) for values in zip(*points, strict=True))
    return fsum((x - mean_x) * (y - mean_y) for x, y in points) / fsum((x - mean_x) ** 2 for x, _ in points)


def _directions(get: Get) -> Numbers:
    """C1 to C3: how totals go over the sides from 500 m to 1500 m."""
    found: Numbers = {}
    for system in ("proposed", "flooding", "sparse", "sparse-flooding"):
        points = get.curve(system, "total")
        if len(points) > 1:
            found[f"{system}.slope"] = slope(points)
    for name, ours, theirs in (("", "proposed", "flooding"), ("sparse.", "sparse", "sparse-flooding")):
        both = dict(get.curve(ours, "total")), dict(get.curve(theirs, "total"))
        ahead = [side for side in both[0] if side in both[1] and both[0][side] < both[1][side]]
        if ahead:
            found[f"{name}crossover"] = min(ahead)
    pampa, aodv, flooding = (
        get.curve(system, metric)
        for system, metric in (("proposed", "pampa"), ("proposed", "aodv"), ("flooding", "total"))
    )
    if len(pampa) > 1 and len(flooding) > 1:
        found |= {
            "pampa.growth": pampa[-1][1] - pampa[0][1],
            "aodv.fall": aodv[0][1] - aodv[-1][1],
            "flooding.growth": flooding[-1][1] - flooding[0][1],
        }
    return found


def _sparsest(get: Get) -> Numbers:
    """C5: at the two lowest densities less is sent because less is reached."""
    found: Numbers = {}
    for system in ("proposed", "flooding"):
        last = get(f"{system}-1500.total")
        totals = [get(f"{system}-{side}.total") for side in THINNEST["prototype"]]
        known = [total for total in totals if total is not None]
        if last and len(known) == len(totals):
            found[f"{system}.thinnest"] = max(known) / last
    per = [get(f"proposed-{side}.per_delivery") for side in (1500, *THINNEST["prototype"])]
    if all(one is not None for one in per):
        found["thinnest.per_delivery"] = min(one for one in per[1:] if one is not None) / (per[0] or 1.0)
    found |= _per_node_reached(get)
    reach = [get(f"proposed-{side}.reach") for side in THINNEST["prototype"]]
    if all(one is not None for one in reach):
        found["thinnest.reach"] = max(one for one in reach if one is not None)
    return found


def _per_node_reached(get: Get) -> Numbers:
    """Flooding: transmissions for each node that a broadcast reaches, against 1500 m; the reach is that of PAMPA."""
    costs = []
    for side in (1500, *THINNEST["prototype"]):
        total, reach = get(f"flooding-{side}.total"), get(f"proposed-{side}.reach")
        if total is None or not reach:
            return {}
        costs.append(total / reach)
    return {"thinnest.per_node": min(costs[1:]) / costs[0]}


def _blocks(get: Get) -> Numbers:
    """C4: the last four hours against the first."""
    shares = []
    for side in DENSE:
        first, last = get(f"proposed-{side}.block.1"), get(f"proposed-{side}.block.6")
        if first and last is not None:
            shares.append(last / first)
    return {"blocks.most": max(shares)} if shares else {}


def _delivery(get: Get) -> Numbers:
    """C7."""
    found: Numbers = {}
    for metric in ("reach", "delivery"):
        dense = [value for _, value in get.curve("proposed", metric)]
        if dense:
            found[f"{metric}.least"] = min(dense)
    both = [
        abs(one - other)
        for (_, one), (_, other) in zip(
            get.curve("proposed", "reach", (*DENSE, *THINNEST["prototype"])),
            get.curve("proposed", "delivery", (*DENSE, *THINNEST["prototype"])),
            strict=True,
        )
    ]
    if both:
        found["delivery.apart"] = max(both)
    return found


def _latency(get: Get) -> Numbers:
    """C8."""
    ours, theirs = get.curve("proposed", "latency"), get.curve("proposed", "latency.broadcast")
    if len(ours) < 2 or len(ours) != len(theirs):
        return {}
    apart = [one - other for (_, one), (_, other) in zip(ours, theirs, strict=True)]
    return {
        "latency.slope": slope(ours) * 1000,
        "latency.broadcast_slope": slope(theirs) * 1000,
        "latency.apart_first": apart[0],
        "latency.apart_last": apart[-1],
    }


def _storage(get: Get) -> Numbers:
    """C9."""
    mean, full = get.curve("proposed", "items.mean"), get.curve("proposed", "items.all")
    return (
        {"items.share": max(value for _, value in mean) / 50, "items.all": sum(value for _, value in full)}
        if mean
        else {}
    )


def _grouping(get: Get) -> Numbers:
    """C6 and C10."""
    found: Numbers = {}
    copies = [value for _, value in get.curve("proposed", "grouped.copies")]
    if len(copies) > 1:
        found["grouped.rises"] = sum(1 for one, two in pairwise(copies) if two > one) / (len(copies) - 1)

    def fall(system: str, metrics: Sequence[str]) -> float | None:
        ends = [get(f"{system}-{side}.{metric}") for side in (500, 1500) for metric in metrics]
        if any(one is None for one in ends):
            return None
        half = len(metrics)
        return fsum(one for one in ends[:half] if one is not None) - fsum(one for one in ends[half:] if one is not None)

    for name, metrics in (("", ("aodv",)), (".with_data", ("aodv", "data"))):
        ours, without = fall("proposed", metrics), fall("ungrouped", metrics)
        if ours and without is not None:
            found[f"grouping.explains{name}"] = 1 - without / ours
    return found


def _everywhere(get: Get) -> Numbers:
    """C11."""
    sides = (*DENSE, *THINNEST["prototype"])
    ours, theirs = dict(get.curve("proposed", "total", sides)), dict(get.curve("everywhere", "total", sides))
    ratios = [theirs[side] / ours[side] for side in ours if side in theirs]
    items, reach = (get.curve("everywhere", metric, sides) for metric in ("items.mean", "reach"))
    found: Numbers = {"everywhere.most": max(ratios)} if ratios else {}
    if items and len(items) == len(reach):  # a subscriber has its own, and 99 others are reached or not
        kept = [item / (50 * (0.01 + 0.99 * share)) for (_, item), (_, share) in zip(items, reach, strict=True)]
        found |= {"everywhere.kept_least": min(kept), "everywhere.kept_most": max(kept)}
    return found


def _faults(get: Get) -> Numbers:
    """M8, over everything that was run."""
    found: Numbers = {}
    for metric in ("spurious", "duplicates"):
        values = [value for name, value in get.numbers.items() if name.endswith(f".{metric}")]
        if values:
            found[metric] = fsum(float(value) for value in values)
    return found


@cache
def _interest() -> Mapping[str, float | str]:
    """Figure 3, from 10,000 subscriptions."""
    shares = sorted(interest_in_publications().values(), reverse=True)
    return {
        "interest.mean": fsum(shares) / len(shares),
        "interest.most": shares[0],
        "interest.median": shares[len(shares) // 2],
        "interest.top": fsum(shares[: len(shares) // 10]) / fsum(shares),
        "interest.publications": 9 ** len(ATTRIBUTES),
    }
