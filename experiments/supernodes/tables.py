"""The tables of the document, with what is measured in each cell and the published number, if there is one, behind it.

Cells are means over the seeds, with a 95% interval where there is more than one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.base import Results
from experiments.blocks import Table
from experiments.expected import show
from experiments.supernodes.measure import beyond_samples, large_runs, measure, samples
from experiments.supernodes.plan import INTERIOR, STALE
from recado.sim.runs.plot import estimate

UNKNOWN = "unknown"
"""What the document does not print."""


def tables(results: Results) -> Sequence[tuple[str, Table]]:
    page, large = Page(results), large_runs(results)
    return [
        ("Tables 5.1, 5.2 and 5.11: parameters", _parameters()),
        ("Table 5.3: composition; published numbers in brackets", _composition(page)),
        ("Table 5.4: hours as super node; published in brackets", _hours(page)),
        ("Table 5.5: sub nodes, B/s; published in brackets", _sub_nodes(page)),
        ("Table 5.6: stand-bys; published in brackets", _standbys(page)),
        ("Table 5.7: cost in the layer, and entries; published in brackets", _costs(page)),
        ("Table 5.8: the time until a father is replaced; published in brackets", _times(page)),
        ("Tables 5.9 and 5.10: the sizer; published in brackets", _sizer(page)),
        ("Table 5.12: events; published in brackets", _events(page)),
        ("Mean cost in three ways (R17), B/s in the layer", _means(page)),
        ("Figure 5.2 in numbers: upload by cause, B/s of a member of the layer", _causes(page)),
        ("Figures 5.5 to 5.7 in numbers: entries and concurrency", _entries(page)),
        ("Calibration (outline 4.10): how long departures stay in views, and what is lost", _stale(page)),
        ("Calibration (R20): what else could be the loss of 13 %", _origins(page)),
        ("Ablation A1: how brothers know each other; published in brackets", _brothers(page)),
        ("Ablations: whom to promote (A3), how filters are drawn (A2)", _ablations(page)),
        *(_larger(Page(large)) if large.studies else ()),
        *((f"Beyond: `{study}`", _beyond(rows)) for study, rows in beyond_samples(results).items() if rows),
    ]


def _larger(page: Page) -> Sequence[tuple[str, Table]]:
    """What costs and the sizer are judged by, where the other runs are too small for that."""
    return [
        ("Larger runs, table 5.7: cost in the layer, and entries; published in brackets", _costs(page)),
        ("Larger runs, cost by redundancy: shares of the base's", _shares_of_base(page)),
        ("Larger runs, tables 5.9 and 5.10: the sizer; published in brackets", _sizer(page)),
        ("Larger runs: mean cost in three ways (R17), B/s in the layer", _means(page)),
    ]


class Page:
    """What cells are made from."""

    def __init__(self, results: Results) -> None:
        self.samples, self.numbers = samples(results), measure(results)

    def cell(self, variant: str, metric: str, published: float | str | None = None, factor: float = 1.0) -> str:
        """The mean and its interval, and what the document has."""
        values = [factor * value for value in self.samples.get(variant, {}).get(metric, ())]
        text = _mean(values) if values else "–"
        return text if published is None else f"{text} ({_plain(published)})"

    def number(self, name: str, published: float | str | None = None) -> str:
        text = show(self.numbers.get(name))
        return text if published is None else f"{text} ({_plain(published)})"

    def has(self, variant: str) -> bool:
        return variant in self.samples


def _mean(values: Sequence[float]) -> str:
    found = estimate(values)
    return f"{show(found.mean)} ± {show(found.half_width)}" if found.half_width else show(found.mean)


def _beyond(rows: Mapping[str, Mapping[str, Sequence[float]]]) -> Table:
    columns = list(next(iter(rows.values())))
    heads = ("", *(column.replace("_", " ") for column in columns))
    return _table(heads, [(row, *(_mean(cells[column]) for column in columns)) for row, cells in rows.items()])


def _plain(published: float | str) -> str:
    return published if isinstance(published, str) else f"{published:g}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> Table:
    """The first columns are texts, the others numbers."""
    return Table(tuple(heads), tuple(tuple(row) for row in rows), tuple(range(texts, len(heads))))


def _parameters() -> Table:
    rows = (
        ("arrivals, nodes/s", "1.4, 1.05, 0.7; events 0.7", "5.1, 5.2, 5.11"),
        ("mean and longest session", "4 h, 8 h; the law is unknown (Weibull, shape 1.8, here)", "5.1"),
        ("endpoint", "16 B printed; 6 B in the text and here: table 5.5 fits no other (R1)", "5.1, 5.2, 5.11"),
        ("filter", "506 B", "5.1"),
        ("run and warm-up", "23 h, 8 h; none printed for events (8 h here, R43)", "5.1"),
        ("keep-alive", "45 s", "5.2"),
        ("event, history", "16 B, 10 events", "5.11"),
        ("event rate", "0.5 min, read as one event in 30 s (R18)", "5.11"),
        ("hop, loss, bandwidth", "unknown (0.2 s, none, 24 KiB/s here, R16)", "none"),
    )
    return Table(("parameter", "value", "table"), rows)


PUBLISHED_COMPOSITION: dict[str, Sequence[float | str]] = {
    "0.2": (0.75, 0.31, 0.77),
    "0.4": (0.59, 0.68, 0.67),
    "0.6": (0.41, 1.51, 0.59),
    "0.8": (0.23, 3.55, 0.42),
}


def _composition(page: Page) -> Table:
    rows = []
    for tenth in range(1, 10):
        r = f"0.{tenth}"
        if page.has(f"super-1.4-{r}"):
            published: Sequence[float | str] = PUBLISHED_COMPOSITION.get(r, (UNKNOWN,) * 3)
            metrics = zip(("share.super", "share.children", "entries.share"), published, strict=True)
            cells = [page.cell(f"super-1.4-{r}", metric, value) for metric, value in metrics]
            rows.append((r, f"{1 - tenth / 10:.2f}", f"{tenth / (10 - tenth):.2f}", *cells))
    heads = ("R", "SN estimated", "children estimated", "SN", "children", "P(SN) = entries / arrivals")
    return _table(heads, rows)


PUBLISHED_HOURS = {"1.4": (2.80, 2.65, 2.39, 1.96), "1.05": (2.78, 2.64, 2.42, 1.95)}


def _hours(page: Page) -> Table:
    rows = [
        (
            rate,
            *(page.cell(f"super-{rate}-{r}", "layer.hours", value) for r, value in zip(FOUR, published, strict=True)),
        )
        for rate, published in PUBLISHED_HOURS.items()
    ]
    return _table(("lambda", *(f"R {r}" for r in FOUR)), rows)


FOUR = ("0.2", "0.4", "0.6", "0.8")
PUBLISHED_SUB = {
    ("1.4", "up"): (0.86, 0.91, 0.96, 1.22),
    ("1.05", "up"): (0.86, 0.89, 0.97, 1.23),
    ("1.4", "down"): (0.86, 0.91, 0.97, 1.22),
    ("1.05", "down"): (0.86, 0.90, 0.97, 1.23),
}


def _sub_nodes(page: Page) -> Table:
    rows = []
    for (rate, way), published in PUBLISHED_SUB.items():
        pairs = zip(FOUR, published, strict=True)
        cells = [page.cell(f"super-{rate}-{r}", f"sub.{way}.rate", value) for r, value in pairs]
        rows.append((rate, f"{way}load", *cells))
    return _table(("lambda", "", *(f"R {r}" for r in FOUR)), rows, 2)


def _standbys(page: Page) -> Table:
    published = {"super-1.4-0.8": (0.23, 0, 0, 0), "k2": (0.39, 0.43, 0.5, 0.74)}
    published |= {"k3": (0.53, 0.62, 0.66, 1.70), "k4": (0.66, 0.70, 0.75, 2.34)}
    rows = [
        (
            _k(name),
            page.cell(name, "share.super", values[0]),
            page.cell(name, "share.k", values[1]),
            _plain(values[2]),
            page.cell(name, "share.k_per_active", values[3]),
        )
        for name, values in published.items()
    ]
    return _table(("", "super nodes of all", "stand-bys of these", "expected (K - 1) / K", "for each active one"), rows)


def _k(name: str) -> str:
    return f"K = {name[1:]}" if name.startswith("k") else "K = 1"


def _costs(page: Page) -> Table:
    published = {
        "base-1.4": ("base", 909.9, 1048.6, 1.4, 4),
        "super-1.4-0.8": ("K = 1", 393.5, 458.1, 0.6, 1.96),
        "k2": ("K = 2", 308.5, 375.0, 0.57, 2.62),
        "k3": ("K = 3", 283.3, 344.3, 0.59, 2.92),
        "k4": ("K = 4", 274.9, 330.4, 0.63, 3.1),
    }
    rows = []
    for name, (label, up, down, entries, hours) in published.items():
        ratios = [
            page.number(f"{name}.cost.{way}" if label[-1] in "234" else f"cost.{way}.0.8") for way in ("up", "down")
        ]
        if name == "base-1.4":
            ratios = ["1", "1"]
        rows.append(
            (
                label,
                page.cell(name, "layer.up.rate", up),
                page.cell(name, "layer.down.rate", down),
                f"{ratios[0]} ({up / 909.9:.2f})",
                f"{ratios[1]} ({down / 1048.6:.2f})",
                page.cell(name, "entries.share", entries, 1.4),
                page.cell(name, "activations.share", factor=1.4),
                page.cell(name, "layer.hours", hours),
            )
        )
    heads = (
        "", "up, B/s", "down, B/s", "up, of base", "down, of base", "entries at lambda 1.4, 1/s",
        "first entries and takeovers, 1/s", "super session, h",
    )  # fmt: skip
    return _table(heads, rows)


def _shares_of_base(page: Page) -> Table:
    rows = [
        (r, *(page.number(f"cost.{way}.{r}") for way in ("up", "down")), page.number(f"super-1.4-{r}.entries.share"))
        for r in FOUR
    ]
    rows += [
        (f"base, lambda {rate}", *(page.number(f"base.{way}.{rate}") for way in ("up", "down")), "1")
        for rate in ("1.05", "0.7")
    ]
    return _table(("R", "up, of base", "down, of base", "P(SN) = entries / arrivals"), rows)


def _times(page: Page) -> Table:
    published = {"super-1.4-0.8": (59.0, 0, 0), "k2": (51.37, 31, 13), "k3": (45.10, 53, 24), "k4": (41.32, 69, 30)}
    rows = []
    for name, (seconds, used, faster) in published.items():
        first = name.startswith("super")
        rows.append(
            (
                _k(name),
                page.cell(name, "takeovers.seconds", seconds),
                "0 (0)" if first else page.cell(name, "takeovers.standby", used, 100.0),
                "0 (0)" if first else page.number(f"{name}.faster", faster),
                page.cell(name, "takeovers"),
            )
        )
    return _table(("", "seconds", "by a stand-by, %", "faster than K = 1, %", "fathers replaced"), rows)


def _sizer(page: Page) -> Table:
    rows = []
    for name, label, published in (
        ("super-1.4-0.8", "none", (0, 0, 0, 0, 1.96)),
        ("sizer-increment", "increment", (67, 69, 0.29, UNKNOWN, 2.76)),
        ("sizer-limit", "limit", (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)),
    ):
        used = ["0 (0)"] * 2
        if label != "none":
            used = [page.number(f"{name}.used.{way}", published[at]) for at, way in enumerate(("up", "down"))]
        rows.append(
            (
                label,
                *used,
                page.cell(name, "entries.budget.share", published[2], 1.4),
                page.cell(name, "entries.share", factor=1.4),
                page.cell(name, "share.super", published[3] if label != "none" else 0.23),
                page.cell(name, "layer.hours", published[4]),
            )
        )
    heads = (
        "mode", "budget used, up, %", "down, %", "budget entries at lambda 1.4, 1/s", "all entries, 1/s", "super nodes",
        "super session, h",
    )  # fmt: skip
    return _table(heads, rows)


def _events(page: Page) -> Table:
    rows = []
    lines: Sequence[tuple[str, str, Sequence[float | str]]] = (
        ("events-all", "accept_all, no repair", (87, 86.97, 86.96, 1.7)),
        ("events-all-repaired", "accept_all, repair", (99.96, 99.98, 99.98, 3.6)),
        ("events-nested", "nested, no repair", (UNKNOWN,) * 4),
        ("events-nested-repaired", "nested, repair", (UNKNOWN,) * 4),
    )
    for name, label, published in lines:
        metrics = ("delivered.all", "delivered.super", "delivered.sub", "latency")
        cells = [page.cell(name, metric, value) for metric, value in zip(metrics, published, strict=True)]
        more = [page.cell(name, metric) for metric in ("delivered.by_event", "delivered.by_node", "events")]
        rows.append((label, *cells, *more, page.cell(name, "false_positives")))
    heads = (
        "", "delivered, %", "super nodes", "sub nodes", "mean time, s", "mean of events", "mean of nodes", "events",
        "false positives",
    )  # fmt: skip
    return _table(heads, rows)


def _means(page: Page) -> Table:
    rows = []
    for name in ("base-1.4", *(f"super-1.4-{r}" for r in FOUR), "k2", "k3", "k4", "sizer-increment"):
        if page.has(name):
            cells = [
                page.cell(name, f"layer.{way}.{mean}") for mean in ("rate", "total", "bins") for way in ("up", "down")
            ]
            rows.append((name, *cells))
    heads = [f"{word}, {way}" for word in ("mean of nodes", "bytes / time", "mean of bins") for way in ("up", "down")]
    return _table(("", *heads), rows)


def _causes(page: Page) -> Table:
    """Of stints from ten minutes on, as the costs."""
    names = ("base-1.4", "super-1.4-0.8")
    causes = sorted(
        {
            metric.removeprefix("cause.").removesuffix(".rate")
            for name in names
            for metric in page.samples.get(name, {})
            if metric.startswith("cause.") and metric.endswith(".rate")
        }
    )
    rows = [(cause, *(page.cell(name, f"cause.{cause}.rate") for name in names)) for cause in causes]
    return _table(("cause", "base, lambda 1.4", "super nodes, R 0.8"), rows)


def _entries(page: Page) -> Table:
    rows = []
    for tenth in range(1, 10):
        r = f"0.{tenth}"
        if page.has(f"super-1.4-{r}"):
            cells = [page.cell(f"super-{rate}-{r}", "entries.share") for rate in ("1.4", "1.05")]
            concurrent = [page.cell(f"super-{rate}-{r}", "entries.concurrent", factor=100) for rate in ("1.4", "1.05")]
            times = [page.cell(f"super-{rate}-{r}", "takeovers.seconds") for rate in ("1.4", "1.05")]
            rows.append((r, *cells, *concurrent, *times))
    heads = [
        f"{word}, lambda {rate}"
        for word in ("entries / arrivals", "concurrent, % of entries", "father replaced, s")
        for rate in ("1.4", "1.05")
    ]
    return _table(("R", *heads), rows)


def _stale(page: Page) -> Table:
    rows = []
    for name, label in (
        ("events-all", "30 s"),
        *((name, f"{seconds:g} s" if seconds else "none: ten departures") for name, seconds in STALE.items()),
    ):
        cells = [page.cell(name, "dead", factor=100), page.cell(name, "stale_seconds"), page.number(f"{name}.lost")]
        rows.append((label, *cells))
    rows.append(("where the loss is 13 %", "", page.number("stale.crossing"), "13"))
    return _table(("departures are told after", "dead entries of views, %", "t_stale, s", "lost, %"), rows)


def _origins(page: Page) -> Table:
    rows = [
        (
            label,
            *(page.cell(name, metric) for metric in ("delivered.all", "delivered.with_joining")),
            page.cell(name, "joining", factor=100),
        )
        for name, label in (
            ("events-all", "nobody"),
            *((name, f"{100 * share:g} %") for name, share in INTERIOR.items()),
        )
    ]
    heads = ("members that fail to pass an event on", "delivered, %", "joining peers counted, %", "who was joining, %")
    return _table(heads, rows)


def _brothers(page: Page) -> Table:
    """The first way was implemented and dropped, because it cost more; how much, the document does not print."""
    rows = [
        (
            label,
            page.cell(name, "brothers.known", known, 100.0),
            *(page.cell(name, f"family.{cause}.rate", UNKNOWN) for cause in ("keep-alive", "brothers")),
            *(page.cell(name, f"sub.{way}.rate", sub) for way in ("up", "down")),
            page.cell(name, "takeovers.seconds", seconds),
            page.cell(name, "entries.concurrent", factor=100),
        )
        for name, label, known, sub, seconds in (
            ("super-1.4-0.8", "the protocol: from the list in the keep-alive", UNKNOWN, 1.22, 59.0),
            ("enquiry", "A1: a few from the father, the others by asking", 100.0, UNKNOWN, UNKNOWN),
        )
    ]
    heads = (
        "", "brothers known, %", "keep-alive, B/s a child", "asking and telling, B/s a child", "sub node up, B/s",
        "down, B/s", "father replaced, s", "concurrent, %",
    )  # fmt: skip
    return _table(heads, rows)


def _ablations(page: Page) -> Table:
    metrics = ("share.super", "entries.share", "layer.hours", "entries.concurrent", "layer.down.rate")
    rows = [
        (label, *(page.cell(name, metric, factor=100 if metric.endswith("concurrent") else 1) for metric in metrics))
        for name, label in (
            ("super-1.4-0.8", "the protocol: first come, uniform filters"),
            ("lifo", "A3: the last to come is promoted first"),
            ("statistical", "A2: new filters by chance, others from peers that are there"),
        )
    ]
    heads = ("", "super nodes", "entries / arrivals", "super session, h", "concurrent, %", "down, B/s")
    return _table(heads, rows)
