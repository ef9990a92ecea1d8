"""The tables of the report: costs of operations with their intervals, protocols side by side, role changes."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.base import Results
from experiments.blocks import Table
from experiments.expected import show
from experiments.trees.measure import break_even, mean, rows_of, values
from recado.sim.runs.plot import estimate
from recado.sim.runs.results import Row

OPERATIONS = ("subscribe", "publish", "unsubscribe", "become_publisher", "become_broker")


def tables(results: Results) -> list[tuple[str, Table]]:
    """A quick run has the same ones, with fewer lines."""
    return [
        ("Messages of an operation, mean and 95% interval", _operations(results, "messages")),
        ("Time units of an operation, mean and 95% interval", _operations(results, "time")),
        ("Protocols on random trees", _protocols(results, "random-tree")),
        ("Protocols on random graphs", _protocols(results, "random-graph")),
        ("Protocols on scale-free networks", _protocols(results, "scale-free")),
        ("What role changes leave behind, runs", _stale(results)),
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
    heads = ("topology", "nodes", "runs", *(operation.replace("_", " ") for operation in OPERATIONS))
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


def _stale(results: Results) -> Table:
    answers = results.studies["stale"]
    lines = [
        (mode, delay, *(show(answers[f"{mode}.{delay}.{word}"]) for word in ("runs", "entangled", "stale", "wrong")))
        for mode in ("stream", "aggregate", "graft")
        for delay in ("unit", "random")
    ]
    return Table(("mode", "delays", "runs", "entangled", "stale", "wrong delivery"), tuple(lines), (2, 3, 4, 5))
