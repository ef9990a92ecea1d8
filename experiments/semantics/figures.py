"""The figures of the report: measured curves as lines, the published points as hollow marks of the same colour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from experiments.base import Figure, Results
from experiments.expected import Expected, ExperimentError, Measured, read_expected
from experiments.semantics.dataset import folder
from experiments.semantics.measure import READING, curve
from experiments.semantics.own import BEST, COMPARED, CURVE, SHARES
from experiments.semantics.reproduction import PUBLISHED
from experiments.semantics.speed import SUBSCRIBERS
from recado.sim.runs.plot import COLOURS, MARKERS, legend, new_figure, save, styled

WORDS = {"jcn": "Jiang & Conrath", "lin": "Lin", "wup": "Wu & Palmer", "res": "Resnik"}
LETTERS = {"P": "precision", "C": "recall", "F": "F"}
OWN = ("document: mean, Jiang & Conrath", "token-set", "feng, add-one counts", "embedding", "hybrid")


class Line(msgspec.Struct, frozen=True):
    """Measured points, and the published ones if there are any."""

    label: str
    points: list[tuple[float, float]]
    published: list[tuple[float, float]] = []


class Axis(msgspec.Struct, frozen=True):
    x: str
    y: str
    log: bool = False
    top: float | None = None


Lines = Callable[[Results], list[Line]]


def plot(lines: Lines, axis: Axis) -> Callable[[Results, Path], None]:
    def draw(results: Results, path: Path) -> None:
        with styled():
            figure, axes = new_figure(8.4)
            for place, line in enumerate(lines(results)):
                colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
                axes.plot(*zip(*line.points, strict=True), color=colour, label=line.label)
                if line.published:
                    xs, ys = zip(*line.published, strict=True)
                    axes.plot(xs, ys, marker, color=colour, markersize=4, markerfacecolor="none")
            axes.set(xlabel=axis.x, ylabel=axis.y)
            if axis.log:
                axes.set_yscale("symlog", linthresh=0.1)
            axes.set_ylim(bottom=0, top=axis.top)
            legend(axes)
            save(figure, [path])

    return draw


def expected() -> Expected:
    return read_expected((folder() / "expected.toml").read_text(encoding="utf-8"), "semantics/expected.toml")


def _document(method: str, letter: str) -> Lines:
    def lines(results: Results) -> list[Line]:
        found = results.studies["reproduction"]
        return [
            Line(WORDS[word], curve(found, READING, method, word, letter), _published(f"{method}.{word}", letter))
            for one, word in PUBLISHED
            if one == method
        ]

    return lines


def _published(measure: str, letter: str) -> list[tuple[float, float]]:
    rows = [row for row in expected().rows if row.measure.startswith(f"{measure}.")]
    return [(float(row.measure.removeprefix(f"{measure}.")), row.published[letter]) for row in rows]


def _own(results: Results) -> list[Line]:
    found = results.studies["own"]
    there = [name for name in OWN if f"{name}.F" in found]
    return [Line(name, [(t, float(found[f"{name}.curve.{t:g}.F"])) for t in CURVE]) for name in there]


def _shipped(results: Results) -> list[Line]:
    """Precision, recall and F of the default measure over the threshold."""
    found = results.studies["own"]
    if f"{BEST}.F" not in found:
        return []
    return [
        Line(word, [(t, float(found[f"{BEST}.curve.{t:g}.{letter}"])) for t in CURVE])
        for letter, word in LETTERS.items()
    ]


def _trade(results: Results) -> list[Line]:
    """Precision over recall, one line a configuration."""
    found = results.studies["own"]
    lines = []
    for name in (name for name in OWN if f"{name}.F" in found):
        points = [tuple(float(found[f"{name}.curve.{t:g}.{letter}"]) for letter in "CP") for t in CURVE]
        lines.append(Line(name, [(c, p) for c, p in points if c > 0]))
    return lines


def _shares(results: Results) -> list[Line]:
    found = results.studies["own"]
    there = [name for name in COMPARED if f"plain {SHARES[0]:g}: {name}.F" in found]
    return [
        Line(name, [(100 * share, float(found[f"plain {share:g}: {name}.F"])) for share in SHARES]) for name in there
    ]


def _speed(column: str) -> Lines:
    def lines(results: Results) -> list[Line]:
        found = results.studies["speed"]
        return [
            Line(
                f"cache {word}", [(count, float(found[f"{word}.{count}.{column}"])) for count in SUBSCRIBERS], published
            )
            for word, published in (("on", _speeds("on", column)), ("off", _speeds("off", column)))
        ]

    return lines


def _speeds(word: str, column: str) -> list[tuple[float, float]]:
    rows: Mapping[str, float] = {
        row.measure.rpartition(".")[2]: row.published[column]
        for row in expected().rows
        if row.measure.startswith(f"speed.{word}.")
    }
    return [(float(count), number) for count, number in rows.items()]


def _languages(results: Results, path: Path) -> None:
    found = results.studies["languages"]
    if "not run" in found:
        raise ExperimentError("the languages were not run")
    names = [name for name in OWN if f"por.{name}.F" in found]
    bars: dict[str, Measured] = {
        "eng": results.studies["own"],
        "por": _part(found, "por"),
        "mixed": _part(found, "mixed"),
    }
    with styled():
        figure, axes = new_figure(8.4)
        for place, (speech, numbers) in enumerate(bars.items()):
            at = [number + (place - 1) * 0.27 for number in range(len(names))]
            axes.bar(at, [float(numbers[f"{name}.F"]) for name in names], 0.25, color=COLOURS[place], label=speech)
        axes.set_xticks(range(len(names)), names, rotation=15, ha="right", rotation_mode="anchor")
        axes.set(ylabel="F, %")
        legend(axes)
        save(figure, [path])


def _part(found: Measured, speech: str) -> dict[str, float | str]:
    return {name.removeprefix(f"{speech}."): value for name, value in found.items() if name.startswith(f"{speech}.")}


FIGURES = (
    *(
        Figure(
            f"{method}-{LETTERS[letter].lower()}",
            f"{title}: {LETTERS[letter]} over the threshold; lines are measured here, marks are published",
            plot(_document(method, letter), Axis("threshold", f"{LETTERS[letter]}, %", top=102)),
        )
        for method, title in (("mean", "E1, mean of word similarities"), ("feng", "E2, Feng"))
        for letter in LETTERS
    ),
    Figure("own-f", "F over the threshold, all data", plot(_own, Axis("threshold", "F, %", top=102))),
    Figure(
        "hybrid", "The default measure: precision, recall and F over the threshold, all data",
        plot(_shipped, Axis("threshold", "%", top=102)),
    ),
    Figure("own-trade", "Precision over recall, all data", plot(_trade, Axis("recall, %", "precision, %", top=102))),
    Figure(
        "plain", "F where more or fewer of the words are the plain ones, thresholds of the other half",
        plot(_shares, Axis("names and values said in the plain way, %", "F, %", top=102)),
    ),
    Figure("languages", "F in English, in Portuguese and with both mixed, thresholds of the other half", _languages),
    Figure(
        "rate", "E3: events a second that the document's server takes of 303 offered; marks are published",
        plot(_speed("rate"), Axis("subscribers", "events a second")),
    ),
    Figure(
        "time", "E3: mean time of an event in the document's server; marks are published",
        plot(_speed("time"), Axis("subscribers", "milliseconds", log=True)),
    ),
)  # fmt: skip
