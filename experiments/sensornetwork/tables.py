"""The tables of the report. The paper prints no number of its figures, so none stands beside these."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from experiments.base import Results
from experiments.blocks import Table
from experiments.expected import Claim, Judged, judge, read_expected, show
from experiments.sensornetwork.measure import Samples, measure, measure_seeds, samples, stand_in
from experiments.sensornetwork.peers.compare import FOUND, HOPS_FIGURE, Comparison
from experiments.sensornetwork.plan import (
    ABLATIONS,
    AWAKE,
    BATTERY_JOULES,
    CROWDS,
    FAILURES,
    LISTENING,
    SAMPLE,
    SLOW,
    SLOW_EVERYWHERE,
    SPEEDS,
    UNEVEN_JOULES,
    WOKEN,
    sides_of,
)
from experiments.sensornetwork.world import Numbers
from recado.sim.runs.plot import estimate

Columns = Sequence[tuple[str, str]]

FIGURE_4 = (
    ("total", "total"), ("pampa.sub", "class.pampa.sub"), ("pampa.query", "class.pampa.query"),
    ("pcache.reply", "pcache"), ("aodv.rreq", "class.aodv.rreq"), ("aodv.rrep", "class.aodv.rrep"),
    ("data.group", "class.data.group"), ("data.single", "class.data.single"),
)  # fmt: skip
SHARES = (
    ("PAMPA", ("pampa",)), ("PCACHE", ("pcache",)), ("AODV, groups apart", ("aodv", "class.data.single")),
    ("groups", ("class.data.group",)), ("AODV with groups", ("aodv", "data")),
)  # fmt: skip
"""Figure 4: who owns the hops of groups is open (13-A25)."""
GROUPED = (("copies in groups", "grouped.copies"), ("groups", "grouped.messages"), ("copies saved", "grouped.saved"))
DELIVERY = (
    ("subscriptions reach", "reach"), ("publications delivered", "delivery"),
    ("of those that could be", "delivery.reachable"), ("to the publisher itself", "delivered.local"),
)  # fmt: skip
LATENCY = (("publication to notification, s", "latency"), ("broadcast to its last node, s", "latency.broadcast"))
STORAGE = (
    ("items of a node", "items.mean"), ("the fullest node", "items.most"), ("nodes that have all", "items.all"),
    ("copies of a subscription", "replicas"), ("hops to the nearest copy", "replicas.hops"),
)  # fmt: skip
SHORT = (
    ("transmissions", "total"),
    ("delivered", "delivery"),
    ("latency, s", "latency"),
    ("AODV", "aodv"),
    ("data", "data"),
)


def tables(results: Results) -> Sequence[tuple[str, Table]]:
    page = Page(samples(results))
    sides, thin = sides_of("prototype"), sides_of("sparse")
    found: list[tuple[str, Table]] = [
        ("The claims in one view, with 95 % intervals over the seeds, each judged by itself", _claims(results)),
        ("The same claims with the other profile, and on the channel with collisions", _elsewhere(results)),
        ("C10: the share of the fall that is gone without grouping", _grouping(results)),
        (
            "Figure 4 in numbers: transmissions of the proposed system, `prototype`",
            page.by_side("proposed", sides, FIGURE_4),
        ),
        ("Figure 4: shares of the protocols, by whom the hops of groups belong to", _shares(page, sides)),
        ("Publication flooding, run and estimated as the paper did", _flooding(page, sides, "flooding", "proposed")),
        ("Transmissions a publication, in blocks of four hours", page.by_side("proposed", sides, BLOCKS)),
        ("Figure 5 in numbers: grouped copies", page.by_side("proposed", sides, GROUPED)),
        ("Figure 6 in numbers: what is delivered", page.by_side("proposed", sides, DELIVERY)),
        ("Figure 7 in numbers: latency", page.by_side("proposed", sides, LATENCY)),
        ("What nodes store", page.by_side("proposed", sides, STORAGE)),
        ("Subscription flooding (B2)", page.by_side("everywhere", sides, (*SHORT, ("items of a node", "items.mean")))),
        ("The profile `sparse` (A4)", page.by_side("sparse", thin, FIGURE_4)),
        ("The profile `sparse`: flooding", _flooding(page, thin, "sparse-flooding", "sparse")),
        ("The profile `sparse`: deliveries and latency", page.by_side("sparse", thin, (*DELIVERY, *LATENCY))),
        ("The channel with collisions (csma)", page.by_side("csma", sides, FIGURE_4)),
        ("csma: flooding", _flooding(page, sides, "csma-flooding", "csma")),
        ("csma: groups, deliveries and latency", page.by_side("csma", sides, (*GROUPED[:1], *DELIVERY[:3], *LATENCY))),
        (
            "csma: repeated requests, adaptive pacing",
            page.by_name(["csma", *(name for name in SLOW if name not in SLOW_EVERYWHERE)], SAMPLE, SHORT),
        ),
        ("Ablations and sweeps", page.by_name(["proposed", *ABLATIONS], SAMPLE, SHORT)),
        ("Beyond: energy of a node (CC2420, always listening) in 5 hours", page.by_label(ENERGY, JOULES)),
        (
            "Beyond: duty cycles",
            page.by_label({f"awake-{one:g}": f"awake {one:.0%}" for one in AWAKE}, (*JOULES, *SHORT[1:3])),
        ),
        (
            "Beyond: small batteries. A listening radio, and one that something wakes for every frame",
            page.by_label(BATTERIES, (*DEATHS, SHORT[1])),
        ),
        ("Beyond: the tenth that dies first, against the mean of all nodes", page.by_label(BATTERIES, FIRST)),
        (
            f"Beyond: batteries of {UNEVEN_JOULES:g} J, half of that more or less, woken radio",
            page.by_label(UNEVEN, (*DEATHS[:3], *SHORT[:2])),
        ),
        ("Beyond: covering in the store, three subscriptions of each subscriber", page.by_label(COVERING, COVERED)),
        ("Beyond: movement", page.by_label(_three("speed", SPEEDS, "m/s"), SHORT[:3])),
        ("Beyond: nodes that fail", page.by_label(_three("failed", FAILURES, "of the nodes"), SHORT[:3])),
        (
            "Beyond: size at the density of 1,100 m",
            page.by_label(_crowds(), (("a publication", "per_publication"), *SHORT[1:3])),
        ),
    ]
    found.append(("Beside ns-2 2.35 and ns-3 3.37, on the same placements and traffic", _peers()))
    return [(title, table) for title, table in found if table.rows]


def _claims(results: Results) -> Table:
    """C1 to C11: reproduced if all checks hold, partly if some do. Lines such as C3b are a part of their claim."""
    numbers, seeds = measure(results), measure_seeds(results)
    parts: dict[str, list[tuple[Claim, Judged]]] = {}
    for claim in read_expected(EXPECTED.read_text(encoding="utf-8"), EXPECTED.name).claims:
        if found := CLAIM.match(claim.id):
            parts.setdefault(found[0], []).append((claim, judge(claim, numbers)))
    rows = []
    for id, claims in parts.items():
        passed = [one for _, judged in claims for one in judged.passed]
        if None in passed:
            continue
        verdict = "reproduced" if all(passed) else "partly" if any(passed) else "not reproduced"
        causes = " ".join(judged.reason for _, judged in claims if judged.reason)
        checks = [line for claim, _ in claims for line in _checks(claim, seeds)]
        rows.append((id, verdict, *checks[0], causes))
        rows += [("", "", *check, "") for check in checks[1:]]
    return Table(("claim", "verdict", "check", "measured", "holds in", "cause"), tuple(rows), (3, 4))


def _elsewhere(results: Results) -> Table:
    """The verdicts on runs that the claims were not written for, with the figures of the checks that differ."""
    claims = read_expected(EXPECTED.read_text(encoding="utf-8"), EXPECTED.name).claims
    elsewhere = {
        "`sparse`, ideal": stand_in(results, "sparse", "sparse-flooding", sides_of("sparse")),
        "`prototype`, csma": stand_in(results, "csma", "csma-flooding", sides_of("prototype")),
    }
    columns = [
        [judge(claim, numbers) for claim in claims]
        for numbers in (measure(one) for one in (results, *elsewhere.values()))
    ]
    rows = [
        (claim.id, *(_verdict(claim, column[at]) for column in columns))
        for at, claim in enumerate(claims)
        if CLAIM.match(claim.id) and any(set(column[at].passed) - {None} for column in columns[1:])
    ]
    return Table(("claim", "`prototype`, ideal", *elsewhere), tuple(rows))


def _verdict(claim: Claim, judged: Judged) -> str:
    missed = [
        f"{check.what}: {shown}"
        for check, shown, passed in zip(claim.checks, judged.shown, judged.passed, strict=True)
        if passed is False
    ]
    return "; ".join((judged.verdict, *missed))


def _grouping(results: Results) -> Table:
    """9.7 asks for it with the hops of publications, and without."""
    numbers, seeds = measure(results), measure_seeds(results)
    rows = []
    for what, name in (("requests and replies", ""), ("with the hops of publications", ".with_data")):
        measure_name = f"grouping.explains{name}"
        values = [float(one[measure_name]) for one in seeds if measure_name in one]
        if measure_name in numbers:
            rows.append((what, show(float(numbers[measure_name])), _mean(values), f"{len(values)}"))
    return Table(("the fall of", "from the means of all runs", "mean of the seeds", "seeds"), tuple(rows), (1, 2, 3))


def _checks(claim: Claim, seeds: Sequence[Numbers]) -> list[tuple[str, str, str]]:
    """Of each check: what it is about, the mean with its interval, and in how many seeds it holds."""
    lines = []
    for at, check in enumerate(claim.checks):
        values = [value for one in seeds if isinstance(value := one.get(check.measure), (int, float))]
        passed = [ok for one in seeds if (ok := judge(claim, one).passed[at]) is not None]
        lines.append((check.what, _mean(values), f"{sum(passed)} of {len(passed)}"))
    return lines


EXPECTED = Path(__file__).with_name("expected.toml")
CLAIM = re.compile(r"C\d+")


def _peers() -> Table:
    """What ``python -m experiments.sensornetwork.peers`` found last; outline 15 has the limits."""
    known = msgspec.json.decode(FOUND.read_bytes(), type=list[Comparison]) if FOUND.exists() else []
    rows = [
        (
            one.what,
            f"{one.figure}, {one.peer}",
            show(one.theirs),
            show(one.mine),
            f"{one.apart:+.1%}",
            _limit(one),
            show(one.ideal),
        )
        for one in known
    ]
    heads = ("", "what", "there", "here, with collisions", "apart", "limit", "here, ideal")
    return Table(heads, tuple(rows), tuple(range(2, len(heads))))


BLOCKS = tuple((f"{4 * block - 4} to {4 * block} h", f"block.{block}") for block in range(1, 7))
JOULES = (
    ("J, all", "joules.mean"), ("J for messages", "joules.messages"), ("of the busiest node", "joules.messages_most"),
)  # fmt: skip
COVERING = {"covering-off": "all are kept", "covering-on": "covered ones are not"}
COVERED = (("items of a node", "items.mean"), ("pampa.sub", "class.pampa.sub"), *SHORT[:3])
BATTERIES = {
    "battery-listening": f"listening, {BATTERY_JOULES[LISTENING]:g} J: proposed",
    "battery-proposed": f"woken, {BATTERY_JOULES[WOKEN]:g} J: proposed",
    "battery-flooding": "woken: publication flooding",
    "battery-everywhere": "woken: subscription flooding",
}
UNEVEN = {
    "uneven": "proposed", "uneven-repair": "with repair and refresh", "uneven-flooding": "publication flooding",
}  # fmt: skip
DEATHS = (
    ("died", "dead"), ("first death, hours", "dead.first_hours"), ("half are dead, hours", "dead.half_hours"),
    ("first to last, minutes", "dead.apart_minutes"),
)  # fmt: skip
FIRST = (("sent", "dead.first_sent"), ("heard", "dead.first_heard"), ("neighbours", "dead.first_neighbours"))
ENERGY = {
    "energy-proposed": "proposed", "energy-flooding": "publication flooding",
    "energy-everywhere": "subscription flooding",
}  # fmt: skip


def _three(start: str, values: Sequence[float], unit: str) -> dict[str, str]:
    ways = (("", "proposed"), ("-repair", "with repair"), ("-flooding", "publication flooding"))
    return {f"{start}-{value:g}{end}": f"{value:g} {unit}, {label}" for value in values for end, label in ways}


def _crowds() -> dict[str, str]:
    return {
        f"nodes-{count}{end}": f"{count:,} nodes, {label}"
        for count in CROWDS
        for end, label in (("", "proposed"), ("-far", "with 120 hops"), ("-flooding", "publication flooding"))
    }


def _shares(page: Page, sides: Sequence[int]) -> Table:
    rows = []
    for side in sides:
        found = page.samples.get(f"proposed-{side}", {})
        total = sum(found.get("total", ()))
        if total:
            parts = [sum(sum(found.get(metric, ())) for metric in metrics) / total for _, metrics in SHARES]
            rows.append((f"{side}", *(f"{part:.1%}" for part in parts)))
    heads = ("side, m", *(head for head, _ in SHARES))
    return Table(heads, tuple(rows), tuple(range(len(heads))))


def _flooding(page: Page, sides: Sequence[int], system: str, estimated: str) -> Table:
    rows = [
        (
            f"{side}",
            page.cell(f"{system}-{side}", "total"),
            page.cell(f"{estimated}-{side}", "flooding.estimate"),
            page.cell(f"{system}-{side}", "delivery"),
            page.cell(f"{estimated}-{side}", "total"),
        )
        for side in sides
        if f"{system}-{side}" in page.samples
    ]
    heads = ("side, m", "run", "estimated (8-B1)", "delivered", "the proposed system")
    return Table(heads, tuple(rows), tuple(range(len(heads))))


def _limit(one: Comparison) -> str:
    if one.limit is None:
        return "–"
    verdict = f"{one.limit:.0%}: {'holds' if one.holds else 'differs'}"
    if one.figure != HOPS_FIGURE:
        return verdict
    return f"equal: {'holds' if one.theirs == one.mine else 'differs'}; own limit {verdict}"


def _mean(values: Sequence[float]) -> str:
    """With its 95 % interval, if there is more than one value and they differ by more than rounding."""
    if not values:
        return "–"
    found = estimate(values)
    if found.half_width <= abs(found.mean) * 1e-9:
        return show(found.mean)
    return f"{show(found.mean)} ± {show(found.half_width)}"


class Page:
    """Cells are means over the seeds, with a 95 % interval where there is more than one."""

    def __init__(self, found: Samples) -> None:
        self.samples = found

    def cell(self, variant: str, metric: str) -> str:
        return _mean(self.samples.get(variant, {}).get(metric, ()))

    def runs(self, variant: str) -> int:
        return max(map(len, self.samples[variant].values()))

    def by_side(self, system: str, sides: Sequence[int], columns: Columns) -> Table:
        known = [side for side in sides if f"{system}-{side}" in self.samples]
        return self._table("side, m", [(f"{side}", f"{system}-{side}") for side in known], columns)

    def by_name(self, names: Sequence[str] | Mapping[str, object], sides: Sequence[int], columns: Columns) -> Table:
        rows = [(f"{name}, {side} m", f"{name}-{side}") for name in names for side in sides]
        return self._table("", rows, columns)

    def by_label(self, labels: dict[str, str], columns: Columns) -> Table:
        return self._table("", [(label, name) for name, label in labels.items()], columns)

    def _table(self, first: str, rows: Sequence[tuple[str, str]], columns: Columns) -> Table:
        cells = [
            (label, *(self.cell(variant, metric) for _, metric in columns), f"{self.runs(variant)}")
            for label, variant in rows
            if variant in self.samples
        ]
        heads = (first, *(head for head, _ in columns), "runs")
        return Table(heads, tuple(cells), tuple(range(1, len(heads))))
