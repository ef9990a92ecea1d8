"""The figures of the report: which metric over which parameter, from which sweep. Bands are 95% intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from experiments.base import Figure, Results
from experiments.expected import ExperimentError
from experiments.trees.diagrams import four_trees, one_tree
from experiments.trees.measure import mean, rows_of, setup_cost, values
from recado.sim.runs.plot import Estimate, Look, Point, Series, draw, series_of
from recado.sim.runs.results import Row

Choose = Callable[[Results], Sequence[Row]]
EVENTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class Plot(msgspec.Struct, frozen=True):
    """A metric over a parameter, with a line for every value of others."""

    name: str
    caption: str
    choose: Choose
    x: str
    y: str
    by: tuple[str, ...]
    look: Look

    def figure(self) -> Figure:
        return Figure(self.name, self.caption, self.draw)

    def draw(self, results: Results, path: Path) -> None:
        draw(series_of(self.choose(results), self.x, self.y, self.by), self.look, [path])


def _sizes(results: Results) -> list[Row]:
    """Small and large networks in one picture: both have ten subscriptions and two publishers."""
    small = rows_of(results, "operations", configuration="size")
    return [_plain(row) for row in (*small, *results.rows.get("large", ()))]


def _plain(row: Row) -> Row:
    """Only what a picture of costs over size needs."""
    kept = ("topology.kind", "topology.nodes", "subscribe.messages", "subscribe.time", "publish.messages")
    return {name: row[name] for name in kept}


def _sweep(name: str, **wanted: object) -> Choose:
    return lambda results: rows_of(results, name, **wanted)


def _trees_filtering(results: Results) -> list[Row]:
    """Flooding leads through every node, so that the question makes no sense there."""
    return rows_of(results, "filtering", protocol__name="trees")


def _churned(results: Results) -> list[Row]:
    """Churn as one number: the share of operations that are no publications."""
    rows = rows_of(results, "churn")
    return [
        {"churn": 100 - row["workload.mix.publish"], "protocol": row["protocol.name"], "messages": row["mix.messages"]}
        for row in rows
    ]


def _amortisation(results: Results, path: Path) -> None:
    """Messages in all, set-up included, after so many events; from the means of the runs."""
    rows = rows_of(results, "baselines", configuration="all", topology__kind="random-graph")
    lines = []
    for protocol in values(rows, "protocol.name"):
        if protocol not in ("trees", "flooding", "flooding-tree", "simple", "covering", "hierarchical", "hermes"):
            continue
        chosen = [row for row in rows if row["protocol.name"] == protocol]
        first, each = setup_cost(chosen), mean(chosen, "publish.messages")
        points = tuple(Point(events, Estimate(first + events * each, 0.0, len(chosen))) for events in EVENTS)
        lines.append(Series(protocol, points))
    draw(lines, Look("events", "messages, set-up included", log_x=True, log_y=True), [path])


def _stale(results: Results, path: Path) -> None:
    answers = results.studies.get("stale")
    if answers is None:
        raise ExperimentError("the study of stale rows was not run")
    lines = []
    for delay in ("unit", "random"):
        points = []
        for mode in ("stream", "aggregate", "graft"):
            runs, found = (float(answers[f"{mode}.{delay}.{name}"]) for name in ("runs", "stale"))
            points.append(Point(mode, Estimate(100 * found / runs, 0.0, int(runs))))
        lines.append(Series(f"{delay} delays", tuple(points)))
    draw(lines, Look("how a new publisher is taken in", "runs with stale rows, %"), [path])


FIGURES = (
    Figure("net-13", "NET-13: the tree of K with the publishers L and B, from the tables of a run", one_tree),
    Figure("net-16", "NET-16: the four trees of sections 4.2 and 4.3, from the tables of a run", four_trees),
    Plot(
        "subscribe-messages", "Messages of a subscription, by topology and size (2 publishers, 10 subscriptions)",
        _sizes, "topology.nodes", "subscribe.messages", ("topology.kind",),
        Look("nodes", "messages of a subscription", log_x=True, log_y=True),
    ).figure(),
    Plot(
        "subscribe-time", "Time of a subscription, by topology and size (2 publishers, 10 subscriptions)", _sizes,
        "topology.nodes", "subscribe.time", ("topology.kind",),
        Look("nodes", "time units of a subscription", log_x=True, log_y=True),
    ).figure(),
    Plot(
        "publish-messages", "Messages of a notification, by topology and size (2 publishers, 10 subscriptions)",
        _sizes, "topology.nodes", "publish.messages", ("topology.kind",),
        Look("nodes", "messages of a notification", log_x=True, log_y=True),
    ).figure(),
    Plot(
        "publishers", "Rows of a routing table, by the number of publishers (50 nodes, 5 subscriptions)",
        _sweep("operations", configuration="publishers"), "workload.publishers", "rows.mean", ("topology.kind",),
        Look("publishers of the type", "rows of a node"),
    ).figure(),
    Plot(
        "cancel-messages", "Messages of a cancellation, by the number of publishers",
        _sweep("operations", configuration="publishers"), "workload.publishers", "unsubscribe.messages",
        ("topology.kind",), Look("publishers of the type", "messages of a cancellation"),
    ).figure(),
    Figure("amortisation", "All messages over the number of events, random graphs of 50 nodes", _amortisation),
    Plot(
        "brokers", "Messages of a notification where only some nodes are brokers, random graphs of 50 nodes",
        _sweep("brokers", topology__kind="random-graph"), "topology.brokers", "publish.messages", ("protocol.name",),
        Look("share of nodes that are brokers", "messages of a notification"),
    ).figure(),
    Plot(
        "brokers-cancel", "Messages of a cancellation where only some nodes are brokers, random graphs of 50 nodes",
        _sweep("brokers", topology__kind="random-graph"), "topology.brokers", "unsubscribe.messages",
        ("protocol.name",), Look("share of nodes that are brokers", "messages of a cancellation"),
    ).figure(),
    Plot(
        "churn", "Messages of an operation when others than publications take a growing share", _churned,
        "churn", "messages", ("protocol",), Look("operations that are no publications, %", "messages of an operation"),
    ).figure(),
    Plot(
        "rows", "Mean rows of a routing table, 25 subscriptions, 50 nodes",
        _sweep("baselines", configuration="all"), "protocol.name", "rows.mean", ("topology.kind",),
        Look("", "rows of a node"),
    ).figure(),
    Plot(
        "rows-growth", "Mean rows of a routing table over subscriptions, random graphs",
        _sweep("baselines", configuration="subscriptions"), "workload.subscriptions", "rows.mean", ("protocol.name",),
        Look("subscriptions", "rows of a node", log_x=True, log_y=True),
    ).figure(),
    Plot(
        "notifications", "Messages of one event, by the width of filters", _sweep("filtering"),
        "workload.width", "events.notifications", ("configuration",),
        Look("share of events that a filter matches", "messages of an event"),
    ).figure(),
    Plot(
        "false-forwards", "Nodes that get an event although no way to a match leads through them", _trees_filtering,
        "workload.width", "events.false_forwards", ("configuration",),
        Look("share of events that a filter matches", "false forwards of an event"),
    ).figure(),
    Plot(
        "stretch", "Hops to a subscriber over the distance from the publisher", _sweep("delays"),
        "topology.kind", "stretch.mean", ("network.delay",), Look("", "stretch"),
    ).figure(),
    Figure("stale-rows", "Rows that remain after the last publisher has gone, small random networks", _stale),
    Plot(
        "balance", "Load of the busiest node over the mean, by the popularity of types",
        _sweep("balance", configuration="quiet"), "workload.popularity", "load.ratio", ("protocol.name",),
        Look("exponent of Zipf's law", "busiest node over mean"),
    ).figure(),
    Plot(
        "publisher-load", "Messages that the busiest publisher sends and receives, by the popularity of types",
        _sweep("balance", configuration="quiet"), "workload.popularity", "load.publisher", ("protocol.name",),
        Look("exponent of Zipf's law", "messages at the busiest publisher"),
    ).figure(),
    Plot(
        "delay", "Delay of delivery on lines of limited speed, by the popularity of types",
        _sweep("balance", configuration="busy"), "workload.popularity", "delay.mean", ("protocol.name",),
        Look("exponent of Zipf's law", "time units from publication to delivery"),
    ).figure(),
    Plot(
        "sharing", "Shared trees: messages of a subscription over the share of common filters", _sweep("sharing"),
        "workload.overlap", "subscribe.messages", ("configuration",),
        Look("share of common filters", "messages of a subscription"),
    ).figure(),
    Plot(
        "sharing-rows", "Shared trees: rows of a node over the share of common filters", _sweep("sharing"),
        "workload.overlap", "rows.mean", ("configuration",), Look("share of common filters", "rows of a node"),
    ).figure(),
    Plot(
        "locality", "Locality: messages of a notification when neighbours want the same (random graphs)",
        _sweep("locality", configuration="locality", topology__kind="random-graph"), "workload.locality",
        "publish.messages", ("protocol.name",), Look("locality", "messages of a notification"),
    ).figure(),
    Plot(
        "locality-rows", "Locality: rows of a node when neighbours want the same (random graphs)",
        _sweep("locality", configuration="locality", topology__kind="random-graph"), "workload.locality",
        "rows.mean", ("protocol.name",), Look("locality", "rows of a node"),
    ).figure(),
    Plot(
        "attraction", "Attraction: messages of a notification over subscriptions, random graphs of 50 nodes",
        _sweep("attraction"), "workload.subscriptions", "publish.messages", ("configuration",),
        Look("subscriptions", "messages of a notification"),
    ).figure(),
    Plot(
        "attraction-hops", "Attraction: hops from a publisher to a subscriber", _sweep("attraction"),
        "workload.subscriptions", "hops.mean", ("configuration",), Look("subscriptions", "hops"),
    ).figure(),
)  # fmt: skip
