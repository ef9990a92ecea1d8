"""The tables of the report: costs of operations with their intervals, protocols side by side, role changes."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.base import Results
from experiments.blocks import Table
from experiments.expected import show
from experiments.trees.measure import break_even, mean, rows_of, values
from recado.sim.runs.plot import estimate
from recado.sim.runs.results import Row

OPERATIONS = {
    "subscribe": "subscribe",
    "publish": "publish",
    "unsubscribe": "unsubscribe",
    "first_publisher": "become publisher, no subscriptions yet",
    "become_publisher": "become publisher, among subscriptions",
    "become_broker": "become broker",
}
"""How each is called in a table. Without subscriptions a new publisher floods in vain, and nothing is grafted."""


def tables(results: Results) -> list[tuple[str, Table]]:
    """A quick run has the same ones, with fewer lines."""
    return [
        ("Messages of an operation, mean and 95% interval", _operations(results, "messages")),
        ("Time units of an operation, mean and 95% interval", _operations(results, "time")),
        ("Protocols on random trees", _protocols(results, "random-tree")),
        ("Protocols on random graphs", _protocols(results, "random-graph")),
        ("Protocols on scale-free networks", _protocols(results, "scale-free")),
        *((f"Broker networks, {name}s", _broker_networks(results, name)) for name in ("random-tree", "random-graph")),
        ("What role changes leave behind, runs", _stale(results)),
        ("Attraction: links that subscribers choose, random graphs", _attraction(results)),
        ("Election: the only publisher goes, and another takes its place", _election(results)),
    ]


def _operations(results: Results, metric: str) -> Table:
    """By topology and size; the largest networks have few repeats."""
    rows = [*rows_of(results, "operations", configuration="size"), *results.rows.get("large", ())]
    lines = []
    for kind in values(rows, "topology.kind"):
        for nodes in values([row for row in rows if row["topology.kind"] == kind], "topology.nodes"):
            chosen = [row for row in rows if (row["topology.kind"], row["topology.nodes"]) == (kind, nodes)]
            cells = [_interval(chosen, f"{operation}.{metric}") for operation in OPERATIONS]
            lines.append((kind, show(nodes), show(len(chosen)), *cells))
    heads = ("topology", "nodes", "runs", *OPERATIONS.values())
    return Table(heads, tuple(lines), tuple(range(1, len(heads))))


def _interval(rows: Sequence[Row], metric: str) -> str:
    found = [row[metric] for row in rows if row.get(metric) is not None]
    if not found:
        return "–"
    result = estimate(found)
    return f"{show(result.mean)} ± {show(result.half_width)}" if result.half_width else show(result.mean)


def _protocols(results: Results, topology: str) -> Table:
    rows = rows_of(results, "baselines", configuration="all", topology__kind=topology)
    trees = [row for row in rows if row["protocol.name"] == "trees"]
    lines = []
    for protocol in values(rows, "protocol.name"):
        chosen = [row for row in rows if row["protocol.name"] == protocol]
        costs = [
            f"{show(mean(chosen, f'{kind}.messages'))} / {show(mean(chosen, f'{kind}.time'))}"
            for kind in ("subscribe", "unsubscribe", "publish")
        ]
        state = [show(mean(chosen, metric)) for metric in ("rows.mean", "rows.max", "load.ratio", "stretch.mean")]
        even = "" if protocol == "trees" else show(break_even(trees, chosen))
        lines.append((protocol, *costs, *state, even))
    heads = (
        "protocol", "subscribe M / T", "cancel M / T", "notify M / T", "rows, mean", "rows, max", "load, max/mean",
        "stretch", "trees cheaper from event",
    )  # fmt: skip
    return Table(heads, tuple(lines), tuple(range(1, len(heads))))


def _broker_networks(results: Results, topology: str) -> Table:
    """Messages where only a share of the nodes are brokers."""
    rows = rows_of(results, "brokers", topology__kind=topology)
    lines = []
    for share in values(rows, "topology.brokers"):
        of_share = [row for row in rows if row["topology.brokers"] == share]
        trees = [row for row in of_share if row["protocol.name"] == "trees"]
        for protocol in values(of_share, "protocol.name"):
            chosen = [row for row in of_share if row["protocol.name"] == protocol]
            cells = [_interval(chosen, f"{kind}.messages") for kind in ("subscribe", "unsubscribe", "publish")]
            even = "" if protocol == "trees" else show(break_even(trees, chosen))
            lines.append((f"{100 * share:g}%", protocol, *cells, show(mean(chosen, "rows.mean")), even))
    heads = ("brokers", "protocol", "subscribe", "cancel", "notify", "rows, mean", "trees cheaper from event")
    return Table(heads, tuple(lines), (2, 3, 4, 5, 6))


def _attraction(results: Results) -> Table:
    rows = rows_of(results, "attraction")
    lines = []
    for count in values(rows, "workload.subscriptions"):
        plain = rows_of(results, "attraction", configuration="plain", workload__subscriptions=count)
        for configuration in values(rows, "configuration"):
            chosen = rows_of(results, "attraction", configuration=configuration, workload__subscriptions=count)
            metrics = ("links", "setup.messages", "publish.messages", "hops.mean", "load.publisher")
            even = "" if configuration == "plain" else show(break_even(chosen, plain))
            lines.append((show(count), configuration, *(_interval(chosen, metric) for metric in metrics), even))
    heads = (
        "subscriptions", "links", "number of links", "set-up", "notify", "hops", "busiest publisher",
        "cheaper than plain from event",
    )  # fmt: skip
    return Table(heads, tuple(lines), (0, 2, 3, 4, 5, 6, 7))


def _election(results: Results) -> Table:
    answers = results.studies["election"]
    words = ("messages", "questions", "without", "successors", "wrong")
    lines = [
        (how, who, *(show(answers[f"{how}.{who}.{word}"]) for word in words))
        for how in ("leaves", "crashes")
        for who in ("elected", "by hand")
    ]
    heads = (
        "the publisher", "its successor", "messages", "of them questions", "subscriptions without publisher meanwhile",
        "successors", "wrong delivery",
    )  # fmt: skip
    return Table(heads, tuple(lines), (2, 3, 4, 5, 6))


def _stale(results: Results) -> Table:
    answers = results.studies["stale"]
    lines = [
        (mode, delay, *(show(answers[f"{mode}.{delay}.{word}"]) for word in ("runs", "entangled", "stale", "wrong")))
        for mode in ("stream", "aggregate", "graft")
        for delay in ("unit", "random")
    ]
    return Table(("mode", "delays", "runs", "entangled", "stale", "wrong delivery"), tuple(lines), (2, 3, 4, 5))
