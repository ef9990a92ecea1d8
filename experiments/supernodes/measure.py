"""From the answers of runs to the numbers that values and claims are about.

``VARIANT.METRIC`` is the mean over the seeds of a variant. Names without a variant compare several. Names that begin
with ``large.`` are of the runs by which costs are judged: those of the middle size in the usual evaluation, and all
runs in the larger ones. What a size does not run is simply not there, and what was judged by it is "not measured".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import fsum

from experiments.base import Results
from experiments.supernodes.plan import DEFAULT, FULL, MIDDLE, STALE, studies
from experiments.supernodes.stints import Numbers
from recado.sim.runs.plot import Estimate, estimate

MEMBERSHIP = ("joins", "leaves", "endpoints", "filters")
"""The causes that grow with entries into the layer; the others do not shrink when a run is scaled down."""
REDUNDANCIES = tuple(f"0.{tenth}" for tenth in range(1, 10))
RATES = ("1.4", "1.05")

EVERYWHERE = ("false_positives", "violations")
"""What must not happen in any run."""

BEYOND = "beyond "
"""Names of studies of what the document does not have begin with it."""

LARGE = "large "
"""So do names of studies of the usual evaluation that are runs of the middle size."""

Sample = Mapping[str, Sequence[float]]


def samples(results: Results) -> dict[str, dict[str, list[float]]]:
    """By variant and metric, what each seed gave."""
    found: dict[str, dict[str, list[float]]] = {}
    known = {**studies(DEFAULT), **studies(MIDDLE), **studies(FULL)}
    for study, answers in results.studies.items():
        if study.startswith((BEYOND, LARGE)):
            continue
        for name, value in answers.items():
            if isinstance(value, (int, float)):
                found.setdefault(known[study][0], {}).setdefault(name, []).append(float(value))
    return found


def beyond_samples(results: Results) -> dict[str, dict[str, dict[str, list[float]]]]:
    """By study, row and column, what each seed gave."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for study, answers in results.studies.items():
        if study.startswith(BEYOND):
            rows = found.setdefault(study.removeprefix(BEYOND).rpartition("-s")[0], {})
            for name, value in answers.items():
                row, _, column = name.partition(" | ")
                rows.setdefault(row, {}).setdefault(column, []).append(float(value))
    return found


def estimates(results: Results, variant: str, metric: str) -> Estimate | None:
    values = samples(results).get(variant, {}).get(metric)
    return estimate(values) if values else None


def large_runs(results: Results) -> Results:
    """The runs of the middle size that belong to a usual evaluation, as if they were one of their own."""
    found = {name.removeprefix(LARGE): answers for name, answers in results.studies.items() if name.startswith(LARGE)}
    return Results({}, {name: answers for name, answers in found.items() if answers}, results.quick)


def measure(results: Results) -> Numbers:
    """Of a usual evaluation."""
    numbers, large = _measure(results), _measure(large_runs(results))
    found = numbers | {f"large.{name}": value for name, value in large.items()}
    for name in EVERYWHERE:
        seen = [float(one[name]) for one in (numbers, large) if name in one]
        if seen:
            found[name] = fsum(seen)
    return found


def measure_large(results: Results) -> Numbers:
    """Of a larger one: costs are judged by all of its runs."""
    numbers = _measure(results)
    return numbers | {f"large.{name}": value for name, value in numbers.items()}


def _measure(results: Results) -> Numbers:
    found = samples(results)
    numbers: Numbers = {
        f"{variant}.{metric}": fsum(values) / len(values)
        for variant, metrics in found.items()
        for metric, values in metrics.items()
    }
    for derive in (_costs, _composition, _families, _standbys, _sizer, _events, _stale, _everywhere):
        numbers |= derive(_Get(numbers))
    return numbers


class _Get:
    """Numbers by name; a name that is not there gives None, and so does all that is made from it."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers

    def __call__(self, name: str) -> float | None:
        value = self.numbers.get(name)
        return float(value) if isinstance(value, (int, float)) else None

    def several(self, names: Iterable[str]) -> list[float]:
        return [value for value in map(self, names) if value is not None]

    def bins(self, prefix: str) -> dict[float, float]:
        """By the length of stints in hours."""
        start = f"{prefix}.bin."
        found = {
            float(name[len(start) :]): float(value) for name, value in self.numbers.items() if name.startswith(start)
        }
        return dict(sorted(found.items()))


def _with(name: str, call: Callable[..., float], *values: float | None) -> Numbers:
    """One number, if all that it is made from are there."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return {}
    try:
        return {name: call(*known)}
    except ZeroDivisionError:
        return {}


def _ratio(one: float, other: float) -> float:
    return one / other


def _costs(get: _Get) -> Numbers:
    found: Numbers = {}
    for way in ("up", "down"):
        base = get(f"base-1.4.layer.{way}.rate")
        for rate in ("1.05", "0.7"):
            found |= _with(f"base.{way}.{rate}", _ratio, get(f"base-{rate}.layer.{way}.rate"), base)
        for r in REDUNDANCIES:
            found |= _with(f"cost.{way}.{r}", _ratio, get(f"super-1.4-{r}.layer.{way}.rate"), base)
        points = [(float(r), get(f"super-1.4-{r}.layer.{way}.rate")) for r in REDUNDANCIES]
        known = [(x, y) for x, y in points if y is not None]
        if len(known) > 2:
            found[f"cost.{way}.linear"] = _straight(known)
        for k in (2, 3, 4):
            found |= _with(f"k{k}.cost.{way}", _ratio, get(f"k{k}.layer.{way}.rate"), base)
            reference = get(f"super-1.4-0.8.layer.{way}.rate")
            found |= _with(f"k{k}.over.{way}", _ratio, get(f"k{k}.layer.{way}.rate"), reference)
    parts = [get.several(f"{one}.cause.{cause}.rate" for cause in MEMBERSHIP) for one in ("super-1.4-0.8", "base-1.4")]
    if all(parts):
        found["cost.membership.0.8"] = fsum(parts[0]) / fsum(parts[1])
    up, down = get.bins("base-1.4.layer.up"), get.bins("base-1.4.layer.down")
    long = [start for start in up if start >= 4]
    if long and down:
        found["base.long"] = fsum(up[one] for one in long) / fsum(down[one] for one in long)
        found["base.short"] = fsum((up[min(up)], down[min(down)])) / fsum((up[max(long)], down[max(long)]))
        short = get.bins("super-1.4-0.1.layer.up"), get.bins("super-1.4-0.1.layer.down")
        if all(short):
            found["short.0.1"] = fsum(one[min(one)] for one in short) / fsum((up[min(up)], down[min(down)]))
    repair, joins = get("base-1.4.cause.membership repair.rate"), get("base-1.4.cause.joins.rate")
    found |= _with("base.repair_share", _ratio, repair, joins)
    structure = get.several(f"super-1.4-0.8.cause.{cause}.rate" for cause in ("keep-alive", "promotion"))
    if structure:
        found["structure"] = fsum(structure)
    return found


def _straight(points: Sequence[tuple[float, float]]) -> float:
    """How much of the spread a straight line explains: 1 if all points lie on it."""
    n, mean_x, mean_y = len(points), fsum(x for x, _ in points), fsum(y for _, y in points)
    mean_x, mean_y = mean_x / n, mean_y / n
    both = fsum((x - mean_x) * (y - mean_y) for x, y in points)
    spread = fsum((y - mean_y) ** 2 for _, y in points)
    return both**2 / (fsum((x - mean_x) ** 2 for x, _ in points) * spread) if spread else 1.0


def _composition(get: _Get) -> Numbers:
    found: Numbers = {}
    for r in REDUNDANCIES:
        shares = [get(f"super-{rate}-{r}.entries.share") for rate in RATES]
        found |= _with(f"super-1.4-{r}.entries.at_1.4", lambda share: 1.4 * share, shares[0])
        found |= _with(f"entries.{r}.difference", lambda one, other: abs(one - other), *shares)
        children = get(f"super-1.4-{r}.share.children")
        found |= _with(f"children.{r}.theory", lambda one, r=r: one / (float(r) / (1 - float(r))), children)
    apart = [float(value) for name, value in found.items() if name.endswith(".difference")]
    if apart:
        found["entries.difference"] = max(apart)
    excess = get("super-1.4-0.8.entries.share"), get("super-1.4-0.8.share.super")
    found |= _with("entries.over_share", lambda one, other: one - other, *excess)
    few = get.several(f"super-{rate}-{r}.entries.concurrent" for rate in RATES for r in ("0.1", "0.2", "0.4", "0.5"))
    many = get.several(f"super-{rate}-0.8.entries.concurrent" for rate in RATES)
    if few and many:
        found |= {"concurrent.few": fsum(few) / len(few), "concurrent.many": fsum(many) / len(many)}
    return found


def _families(get: _Get) -> Numbers:
    found: Numbers = {}
    names = [f"super-{rate}-{r}" for rate in RATES for r in ("0.2", "0.4", "0.6", "0.8")]
    times = get.several(f"{name}.takeovers.seconds" for name in names)
    if times:
        found |= {"takeovers.mean": fsum(times) / len(times), "takeovers.spread": max(times) - min(times)}
    balance = [
        up / down
        for name in names
        if (up := get(f"{name}.sub.up.rate")) is not None and (down := get(f"{name}.sub.down.rate"))
    ]
    if balance:
        found["sub.balance"] = max(balance, key=lambda one: abs(one - 1))
    for name in ("enquiry", "super-1.4-0.8"):
        both = get(f"{name}.family.keep-alive.rate"), get(f"{name}.family.brothers.rate")
        found |= _with(f"{name}.family", lambda one, other: one + other, *both)
    hours = get.several(f"super-1.4-{r}.layer.hours" for r in ("0.2", "0.4", "0.6", "0.8"))
    if hours:
        found["hours.falls"] = float(hours == sorted(hours, reverse=True))
    for metric in ("layer.hours", "sub.up.rate", "share.children"):
        pairs = [[get(f"super-{rate}-{r}.{metric}") for rate in RATES] for r in ("0.6", "0.8")]
        apart = [abs(one - other) / one for one, other in pairs if one and other is not None]
        if apart:
            found[f"independent.{metric}"] = max(apart)
    return found


def _standbys(get: _Get) -> Numbers:
    found: Numbers = {}
    reference = get("super-1.4-0.8.takeovers.seconds")
    for k in (2, 3, 4):
        time = get(f"k{k}.takeovers.seconds")
        found |= _with(f"k{k}.faster", lambda one, other: 100 * (1 - one / other), time, reference)
        found |= _with(f"k{k}.used", lambda share: 100 * share, get(f"k{k}.takeovers.standby"))
        found |= _with(f"k{k}.entries.at_1.4", lambda share: 1.4 * share, get(f"k{k}.entries.share"))
        found |= _with(f"k{k}.activations.at_1.4", lambda share: 1.4 * share, get(f"k{k}.activations.share"))
    return found


def _sizer(get: _Get) -> Numbers:
    """Table 5.9: the mean over the lengths of stints of what the sizer adds, in shares of the budget."""
    found: Numbers = {}
    budget = get("sizer-increment.budget")
    if not budget:
        return found
    for mode in ("increment", "limit"):
        for way in ("up", "down"):
            with_sizer, without = (get.bins(f"{name}.layer.{way}") for name in (f"sizer-{mode}", "super-1.4-0.8"))
            both = [start for start in with_sizer if start in without]
            if both:
                extra = fsum(with_sizer[one] - without[one] for one in both) / len(both)
                found[f"sizer-{mode}.extra.{way}"] = extra
                found[f"sizer-{mode}.used.{way}"] = 100 * extra / budget
        share = get(f"sizer-{mode}.entries.budget.share")
        found |= _with(f"sizer-{mode}.budget_entries.at_1.4", lambda one: 1.4 * one, share)
    return found


def _events(get: _Get) -> Numbers:
    found: Numbers = {}
    for word in ("all", "nested"):
        plain, repaired = f"events-{word}", f"events-{word}-repaired"
        found |= _with(f"events.{word}.slower", _ratio, get(f"{repaired}.latency"), get(f"{plain}.latency"))
        for name in (plain, repaired):
            both = get(f"{name}.delivered.super"), get(f"{name}.delivered.sub")
            found |= _with(f"{name}.apart", lambda one, other: abs(one - other), *both)
            found |= _with(f"{name}.lost", lambda one: 100 - one, get(f"{name}.delivered.all"))
    return found


def _stale(get: _Get) -> Numbers:
    """4.10(3): loss over the time that departures stay in views, and where it crosses 13 %."""
    found: Numbers = {}
    points = []
    for name in ("events-all", *STALE):
        stale, delivered = get(f"{name}.stale_seconds"), get(f"{name}.delivered.all")
        if stale is not None and delivered is not None:
            found[f"{name}.lost"] = 100 - delivered
            points.append((stale, 100 - delivered))
    points.sort()
    for (x0, y0), (x1, y1) in pairwise(points):
        if y0 <= 13 <= y1 and y1 > y0:
            found["stale.crossing"] = x0 + (13 - y0) / (y1 - y0) * (x1 - x0)
    if len(points) > 1:
        found["stale.grows"] = points[-1][1] - points[0][1]
    return found


def _everywhere(get: _Get) -> Numbers:
    found: Numbers = {}
    for what in EVERYWHERE:
        seen = [float(value) for name, value in get.numbers.items() if name.endswith(f".{what}")]
        if seen:
            found[what] = fsum(seen)
    return found
