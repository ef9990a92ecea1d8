"""The tables of the report that are not rows of the document."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.base import Results
from experiments.blocks import Table
from experiments.expected import Expected, Measured, show
from experiments.semantics.dataset import thesaurus
from experiments.semantics.languages import CHOSEN, SPEECHES
from experiments.semantics.measure import FENG_THRESHOLDS, distances
from experiments.semantics.own import COMPARED, CONFIGURATIONS, SHARES
from experiments.semantics.reproduction import OPERATORS, OTHERS, PUBLISHED, THRESHOLDS

LETTERS = {
    "jcn": "Jiang & Conrath",
    "lin": "Lin",
    "wup": "Wu & Palmer",
    "res": "Resnik",
    "res-clipped": "Resnik, clipped",
}
MEANINGS = {"SM": "similar by the same measure and threshold", "EQ": "equal", "ANY": "any value"}


def tables(results: Results, expected: Expected) -> Sequence[tuple[str, Table]]:
    found = results.studies["reproduction"]
    return [
        ("The data set", _data(found)),
        ("Recado's configurations: threshold chosen on one half of the seeds, judged on the other", _own(results)),
        ("F of some of them where more or fewer of the words are the plain ones", _shares(results)),
        ("Best F of every measure, by reading of =", _best(found)),
        ("Distance from the 98 published rows, by reading of =, in points (root mean square)", _far(found, expected)),
        ("Portuguese, and both languages mixed", _languages(results)),
        ("Harness, log and analyser", _logs(results)),
    ]


def _data(found: Measured) -> Table:
    families = ", ".join(family.id for family in thesaurus().families)
    rows = (
        ("events", show(found["events"])),
        ("families of events", families),
        ("subscriptions", show(found["subscriptions"])),
        ("different names", show(found["names"])),
        ("different values", show(found["values"])),
        ("judged pairs", show(found["judged"])),
        ("of which relevant", f"{show(found['share'])} %"),
        ("relevant of all pairs", f"{show(found['share of all'])} %"),
    )
    return Table(("", ""), rows, (1,))


def _own(results: Results) -> Table:
    found = results.studies["own"]
    lines = [_line(found, one.name, one.name, "" if one.shipped else "no") for one in CONFIGURATIONS]
    lines += [
        _line(found, f"all pairs: {name}", f"{name}, on all pairs", "")
        for name in (one.name for one in CONFIGURATIONS)
        if f"all pairs: {name}.F" in found
    ]
    return Table(_HEADS, tuple(lines), tuple(range(2, len(_HEADS))))


_HEADS = ("configuration", "in Recado", "threshold", "P", "C", "F", "F, odd → even", "F, even → odd", "F over pairs")


def _line(found: Measured, name: str, title: str, shipped: str) -> tuple[str, ...]:
    if f"{name}.F" not in found:
        return (title, shipped, f"not run: {found.get(f'{name}.missing', '')}", *[""] * 6)
    limits = [_limits(found, f"{name}.{half}") for half in ("odd", "even")]
    threshold = limits[0] if limits[0] == limits[1] else " / ".join(limits)
    numbers = [found[f"{name}.{column}"] for column in ("P", "C", "F", "odd.F", "even.F", "micro F")]
    return (title, shipped, threshold, *(_one(number) for number in numbers))


def _limits(found: Measured, place: str) -> str:
    name, value = (found[f"{place}.{column}"] for column in ("threshold", "value threshold"))
    return show(name) if name == value else f"{show(name)}, values {show(value)}"


def _one(number: float | str) -> str:
    return f"{float(number):.1f}"


def _shares(results: Results) -> Table:
    found = results.studies["own"]
    lines = [
        (name, *(_one(found[f"plain {share:g}: {name}.F"]) for share in SHARES))
        for name in COMPARED
        if f"plain {SHARES[0]:g}: {name}.F" in found
    ]
    heads = ("configuration", *(f"{100 * share:g} %" for share in SHARES))
    return Table(heads, tuple(lines), tuple(range(1, len(heads))))


def _best(found: Measured) -> Table:
    lines = []
    for method, word in (*PUBLISHED, *OTHERS):
        cells: list[str] = []
        for operator in OPERATORS:
            thresholds = FENG_THRESHOLDS if method == "feng" else THRESHOLDS
            scores = [float(found[f"{operator}.{method}.{word}.{t:g}.F"]) for t in thresholds]
            at = scores.index(max(scores))
            cells += [_one(scores[at]), show(thresholds[at])]
        lines.append((method, LETTERS[word], *cells))
    heads = ("method", "word measure", *(head for operator in OPERATORS for head in (f"{operator}: F", "at")))
    return Table(heads, tuple(lines), tuple(range(2, len(heads))))


def _far(found: Measured, expected: Expected) -> Table:
    lines = [(operator, MEANINGS[operator], *map(_one, far)) for operator, far in distances(expected, found).items()]
    return Table(("=", "means", "P", "C", "F"), tuple(lines), (2, 3, 4))


def _languages(results: Results) -> Table:
    found = results.studies["languages"]
    if "not run" in found:
        return Table(("",), ((str(found["not run"]),),))
    lines = []
    for speech in SPEECHES:
        for name in CHOSEN:
            line = _line(found, f"{speech}.{name}", name, "")
            lines.append((speech, *line[:1], *line[2:]))
    heads = ("data", _HEADS[0], *_HEADS[2:])
    return Table(heads, tuple(lines), tuple(range(3, len(heads))))


def _logs(results: Results) -> Table:
    found = results.studies["logs"]
    rows = [
        ("lines of the log", show(found["log.lines"])),
        ("events sent to subscribers", show(found["received"])),
        *((f"{name.replace('_', ' ')}, analyser on Spark", _one(found[f"spark.{name}"])) for name in _METRICS),
        *((f"{name.replace('_', ' ')}, arrays", _one(found[f"arrays.{name}"])) for name in _METRICS),
        ("events a second, 200 subscriptions one after another", _one(found["spark.rate"])),
        ("mean time of an event, ms", _one(found["spark.time_ms"])),
    ]
    return Table(("", ""), tuple(rows), (1,))


_METRICS = ("macro_precision", "macro_recall", "micro_f")
