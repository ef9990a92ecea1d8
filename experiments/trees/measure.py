"""From rows and answers to the numbers that claims are about: one function for every sweep.

All are means over the runs unless their name says otherwise. ``e*`` is the event from which on trees have cost less
than another protocol, set-up included; "never" if each event costs as much or more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from experiments.base import Results
from experiments.expected import ExperimentError
from recado.sim.runs.plot import estimate
from recado.sim.runs.results import Row

Numbers = dict[str, float | str]
ROUTED = ("simple", "identity", "covering", "merging")


def measure(results: Results) -> Numbers:
    """Everything that the results can tell; a quick run leaves some of it out."""
    numbers: Numbers = {}
    for study, answers in results.studies.items():
        numbers |= {f"{study}.{name}": value for name, value in answers.items()}
    for part in (_deliveries, *SWEEPS):
        try:
            numbers |= part(results)
        except ExperimentError:
            continue
    return numbers


# -- asking the rows


def rows_of(results: Results, sweep: str, **wanted: Any) -> list[Row]:
    """The rows of a sweep with these parameters; a name's double underscore stands for a dot."""
    names = {name.replace("__", "."): value for name, value in wanted.items()}
    rows = [row for row in results.rows.get(sweep, ()) if all(row.get(name) == value for name, value in names.items())]
    if not rows:
        raise ExperimentError(f"the results have no rows of {sweep} with {names}")
    return rows


def mean(rows: Sequence[Row], metric: str) -> float:
    values = [row[metric] for row in rows if row.get(metric) is not None]
    if not values:
        raise ExperimentError(f"no row has {metric}")
    return estimate(values).mean


def values(rows: Iterable[Row], name: str) -> list[Any]:
    """The different values of a column, in their order."""
    return list(dict.fromkeys(row[name] for row in rows if row.get(name) is not None))


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The exponent of a power law through the points: least squares on logarithms."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in logs}) < 2:
        raise ExperimentError("a slope needs two points")
    middle_x, middle_y = (math.fsum(axis) / len(logs) for axis in zip(*logs, strict=True))
    over = math.fsum((x - middle_x) * (y - middle_y) for x, y in logs)
    return over / math.fsum((x - middle_x) ** 2 for x, _ in logs)


# -- the sweeps


def _deliveries(results: Results) -> Numbers:
    """The five words over all runs of all sweeps: trees, and everything else."""
    numbers: Numbers = {}
    rows = [row for sweep in results.rows.values() for row in sweep]
    for name, chosen in (
        ("trees", [row for row in rows if row["protocol.name"] == "trees"]),
        ("others", [row for row in rows if row["protocol.name"] != "trees"]),
    ):
        for word in ("expected", "ok", "lost", "duplicated", "unexpected"):
            numbers[f"deliveries.{name}.{word}"] = sum(row[f"deliveries.{word}"] for row in chosen)
    return numbers


def _operations(results: Results) -> Numbers:
    rows = rows_of(results, "operations", configuration="size")
    numbers: Numbers = {}
    slopes, twice = [], []
    for kind in values(rows, "topology.kind"):
        of_kind = rows_of(results, "operations", configuration="size", topology__kind=kind)
        slopes.append(slope([(row["nodes"], row["subscribe.messages"]) for row in of_kind]))
        twice += [abs(row["subscribe.messages"] - 2 * row["edges"]) for row in of_kind]
    numbers["X2.subscribe.slope.min"], numbers["X2.subscribe.slope.max"] = min(slopes), max(slopes)
    numbers["X2.subscribe.off_2m"] = max(twice)
    every = rows_of(results, "operations")
    for kind in ("publish", "unsubscribe", "become_broker", "become_publisher"):
        numbers[f"X2.{kind}.over_subscribe"] = mean(every, f"{kind}.messages") / mean(every, "subscribe.messages")
    for share in ("1%", "50%"):
        chosen = rows_of(results, "operations", configuration="subscribers", workload__subscriptions=share)
        numbers[f"X2.publish.over_unsubscribe.{share}"] = mean(chosen, "publish.messages") / mean(
            chosen, "unsubscribe.messages"
        )
    numbers["X2.become_broker.over_unsubscribe"] = mean(every, "become_broker.messages") / mean(
        every, "unsubscribe.messages"
    )
    groups = _groups(
        every, ("configuration", "topology.kind", "nodes", "workload.publishers", "workload.subscriptions")
    )
    numbers["X2.dearest_is_subscribe"] = sum(_dearest(group) for group in groups) / len(groups)
    return numbers


def _groups(rows: Sequence[Row], by: Sequence[str]) -> list[list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in by), []).append(row)
    return list(groups.values())


def _dearest(rows: Sequence[Row]) -> bool:
    """Does a subscription cost at least as much as a notification, a cancellation and a publisher's leaving?"""
    most = mean(rows, "subscribe.messages")
    kinds = ("publish.messages", "unsubscribe.messages", "become_broker.messages")
    return all(mean(rows, kind) <= most for kind in kinds if any(row.get(kind) is not None for row in rows))


def _large(results: Results) -> Numbers:
    rows = rows_of(results, "large")
    return {
        "large.nodes": max(row["nodes"] for row in rows),
        "large.subscribe.off_2m": max(abs(row["subscribe.messages"] - 2 * row["edges"]) for row in rows),
        "large.publish.share_of_edges": max(
            row["publish.messages"] / row["edges"] for row in rows if row["topology.kind"] != "line"
        ),
    }


def _baselines(results: Results) -> Numbers:
    numbers: Numbers = {}
    rows = rows_of(results, "baselines", configuration="all")
    for topology in values(rows, "topology.kind"):
        trees = rows_of(results, "baselines", configuration="all", topology__kind=topology, protocol__name="trees")
        for protocol in values(rows, "protocol.name"):
            other = rows_of(results, "baselines", configuration="all", topology__kind=topology, protocol__name=protocol)
            numbers |= {f"{topology}.{protocol}.{name}": value for name, value in _compared(trees, other).items()}
    return numbers


def _compared(trees: Sequence[Row], other: Sequence[Row]) -> dict[str, float]:
    found = {
        "e*": break_even(trees, other),
        "rows.mean": mean(other, "rows.mean"),
        "rows.max": mean(other, "rows.max"),
        "load.max": mean(other, "load.max"),
        "load.ratio": mean(other, "load.ratio"),
    }
    for kind in ("subscribe", "unsubscribe", "publish"):
        found[f"{kind}.M"], found[f"{kind}.T"] = mean(other, f"{kind}.messages"), mean(other, f"{kind}.time")
    return found


def setup_cost(rows: Sequence[Row]) -> float:
    """Messages until the publishers and subscriptions of the scenario are in place."""
    return mean(rows, "setup.messages")


def break_even(trees: Sequence[Row], other: Sequence[Row]) -> float:
    saving = mean(other, "publish.messages") - mean(trees, "publish.messages")
    behind = setup_cost(trees) - setup_cost(other)
    if behind <= 0:
        return 0.0
    return float(math.ceil(behind / saving)) if saving > 1e-9 else math.inf


def _brokers(results: Results) -> Numbers:
    """The same where only a share of the nodes are brokers."""
    numbers: Numbers = {}
    rows = rows_of(results, "brokers")
    for topology in values(rows, "topology.kind"):
        for share in values(rows, "topology.brokers"):
            chosen = rows_of(results, "brokers", topology__kind=topology, topology__brokers=share)
            trees = [row for row in chosen if row["protocol.name"] == "trees"]
            for protocol in values(chosen, "protocol.name"):
                other = [row for row in chosen if row["protocol.name"] == protocol]
                place = f"brokers.{100 * share:g}%.{topology}.{protocol}"
                numbers |= {f"{place}.{name}": value for name, value in _compared(trees, other).items()}
    return numbers


def _attraction(results: Results) -> Numbers:
    numbers: Numbers = {}
    rows = rows_of(results, "attraction")
    for configuration in values(rows, "configuration"):
        for count in values(rows, "workload.subscriptions"):
            chosen = rows_of(results, "attraction", configuration=configuration, workload__subscriptions=count)
            plain = rows_of(results, "attraction", configuration="plain", workload__subscriptions=count)
            for metric in ("links", "setup.messages", "publish.messages", "hops.mean", "load.publisher"):
                numbers[f"attraction.{configuration}.{count}.{metric}"] = mean(chosen, metric)
            numbers[f"attraction.{configuration}.{count}.e*"] = break_even(chosen, plain)
    return numbers


def _tables(results: Results) -> Numbers:
    """C9: how rows grow with subscriptions, on a random graph."""
    numbers: Numbers = {}
    rows = rows_of(results, "baselines", configuration="subscriptions")
    for protocol in values(rows, "protocol.name"):
        chosen = rows_of(results, "baselines", configuration="subscriptions", protocol__name=protocol)
        points = [(float(row["workload.subscriptions"]), row["rows.mean"]) for row in chosen]
        numbers[f"rows.slope.{protocol}"] = slope(points)
    return numbers


def _amortised(results: Results) -> Numbers:
    """C6: messages for each event when the set-up is shared out over so many events."""
    rows = rows_of(results, "baselines", configuration="all", topology__kind="random-graph", protocol__name="trees")
    first, each = setup_cost(rows), mean(rows, "publish.messages")
    return {f"amortised.{events}": first / events + each for events in (1, 10, 100, 1_000)}


def _churn(results: Results) -> Numbers:
    numbers: Numbers = {}
    rows = rows_of(results, "churn")
    for protocol in values(rows, "protocol.name"):
        for publish in values(rows, "workload.mix.publish"):
            chosen = rows_of(results, "churn", protocol__name=protocol, workload__mix__publish=publish)
            numbers[f"churn.{100 - publish:g}%.{protocol}"] = mean(chosen, "mix.messages")
    return numbers


def _filtering(results: Results) -> Numbers:
    numbers: Numbers = {}
    for configuration in ("content", "type", "flooding"):
        narrow = rows_of(results, "filtering", configuration=configuration, workload__width=0.1)
        numbers[f"false_forwards.{configuration}"] = mean(narrow, "events.false_forwards")
        numbers[f"notifications.{configuration}"] = mean(narrow, "events.notifications")
    return numbers


def _delays(results: Results) -> Numbers:
    numbers: Numbers = {}
    for delay in ("unit", "uniform", "exponential"):
        rows = [
            row for row in rows_of(results, "delays", network__delay=delay) if row["topology.kind"] != "random-tree"
        ]
        numbers[f"stretch.{delay}"] = mean(rows, "stretch.mean")
        numbers[f"duplicates.{delay}"] = mean(rows, "events.duplicates")
    return numbers


def _balance(results: Results) -> Numbers:
    numbers: Numbers = {}
    rows = rows_of(results, "balance")
    for configuration in values(rows, "configuration"):
        for popularity in (0.0, 2.0):
            chosen = rows_of(
                results, "balance", configuration=configuration, protocol__name="trees", workload__popularity=popularity
            )
            place = f"{configuration}.{popularity:g}"
            numbers[f"load.publisher.{place}"] = mean(chosen, "load.publisher")
            numbers[f"load.imbalance.{place}"] = mean(chosen, "load.publisher") / mean(chosen, "load.mean")
            numbers[f"delay.{place}"] = mean(chosen, "delay.mean")
    return numbers


def _sharing(results: Results) -> Numbers:
    numbers: Numbers = {}
    for overlap in (0.0, 1.0):
        apart = rows_of(results, "sharing", configuration="separate", workload__overlap=overlap)
        shared = rows_of(results, "sharing", configuration="shared", workload__overlap=overlap)
        routed = rows_of(results, "sharing", configuration="covering", workload__overlap=overlap)
        for metric in ("subscribe.messages", "rows.mean", "publish.messages", "messages"):
            numbers[f"sharing.{overlap:g}.{metric}"] = mean(shared, metric) / mean(apart, metric)
        numbers[f"covering.{overlap:g}.subscribe.messages"] = mean(routed, "subscribe.messages")
        numbers[f"separate.{overlap:g}.subscribe.messages"] = mean(apart, "subscribe.messages")
    return numbers


def _locality(results: Results) -> Numbers:
    numbers: Numbers = {}
    for protocol in ("trees", "simple", "covering", "merging"):
        for share in (0.0, 1.0):
            local = rows_of(
                results, "locality", configuration="locality", protocol__name=protocol, workload__locality=share
            )
            alike = rows_of(
                results, "locality", configuration="overlap", protocol__name=protocol, workload__overlap=share
            )
            for metric in ("publish.messages", "rows.mean", "subscribe.messages"):
                numbers[f"locality.{share:g}.{protocol}.{metric}"] = mean(local, metric)
                numbers[f"overlap.{share:g}.{protocol}.{metric}"] = mean(alike, metric)
    return numbers


SWEEPS: tuple[Callable[[Results], Numbers], ...] = (
    _operations, _large, _baselines, _brokers, _tables, _amortised, _churn, _filtering, _delays, _balance, _sharing,
    _locality, _attraction,
)  # fmt: skip
