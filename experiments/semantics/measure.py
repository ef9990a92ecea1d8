"""From the answers of the studies to the numbers that rows and claims are about.

The rows of the published tables stand beside the reading that the claims are judged on: ``=`` means similar (SM), and
precision and recall are means over subscriptions. ``distance`` is how far every reading is from the published tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from experiments.base import Results
from experiments.expected import Expected, Measured, Point
from experiments.semantics.own import BEST, CONFIGURATIONS, DOCUMENT, SHARES
from experiments.semantics.reproduction import FAILING, OPERATORS, OTHERS, PUBLISHED, THRESHOLDS
from experiments.semantics.speed import SUBSCRIBERS

Numbers = dict[str, float | str]

READING = "SM"
SHAPES = {READING: "shape", "ANY": "shape any", FAILING: "shape fail"}
"""Readings whose curves are judged: the one of the claims, and two that tell why it differs."""
FENG_THRESHOLDS = tuple(threshold for threshold in THRESHOLDS if threshold <= 0.6)
"""Those that the work ran Feng's method with."""


def measure(results: Results) -> Numbers:
    numbers: Numbers = {}
    for study in ("reproduction", "own", "languages", "logs", "speed"):
        numbers |= {f"{study}.{name}": value for name, value in results.studies[study].items()}
    found = results.studies["reproduction"]
    for name, value in found.items():
        if name.startswith(f"{READING}."):
            numbers[name.removeprefix(f"{READING}.")] = value
    for method, word in (*PUBLISHED, *OTHERS):
        for reading, place in SHAPES.items():
            numbers |= _shape(found, reading, f"{place}.{method}.{word}", method, word)
    numbers |= _at_zero(found) | _speeds(results.studies["speed"]) | _logs(results.studies["logs"])
    return numbers | _ours(results.studies["own"])


def curve(found: Measured, operator: str, method: str, word: str, letter: str) -> list[tuple[float, float]]:
    """The points of a curve over the thresholds that the work has for the method."""
    thresholds = FENG_THRESHOLDS if method == "feng" else THRESHOLDS
    return [(t, float(found[f"{operator}.{method}.{word}.{t:g}.{letter}"])) for t in thresholds]


def _shape(found: Measured, reading: str, place: str, method: str, word: str) -> Numbers:
    """What the criteria S2 to S7 ask of a curve."""
    precision, recall, f = ([y for _, y in curve(found, reading, method, word, letter)] for letter in "PCF")
    thresholds = [x for x, _ in curve(found, reading, method, word, "F")]
    used = [p for p, c, t in zip(precision, recall, thresholds, strict=True) if c > 0 and t > 0]
    top = precision.index(max(precision))
    return {
        f"{place}.recall rise": max(later - first for first, later in zip(recall, recall[2:], strict=False)),
        f"{place}.precision range": max(used) - min(used),
        f"{place}.best F": max(f),
        f"{place}.best threshold": thresholds[f.index(max(f))],
        f"{place}.top precision": max(precision),
        f"{place}.recall at top": recall[top],
    }


def _at_zero(found: Measured) -> Numbers:
    """Criterion 1, for each reading of ``=``: recall and the spread of precision over the measures at threshold 0."""
    numbers: Numbers = {}
    for operator in OPERATORS:
        recalls, precisions = (
            [float(found[f"{operator}.{method}.{word}.0.{letter}"]) for method, word in PUBLISHED] for letter in "CP"
        )
        numbers[f"zero.{operator}.recall"] = min(recalls)
        numbers[f"zero.{operator}.spread"] = max(precisions) - min(precisions)
        numbers[f"zero.{operator}.off share"] = max(abs(p - float(found["share"])) for p in precisions)
    return numbers


def _speeds(found: Measured) -> Numbers:
    last = SUBSCRIBERS[-1]
    on, off = float(found[f"on.{last}.time"]), float(found[f"off.{last}.time"])
    return {
        "speed.on.ratio": float(found[f"on.{last}.rate"]) / float(found["on.0.rate"]),
        "speed.off.ratio": float(found[f"off.{last}.rate"]) / float(found["off.0.rate"]),
        "speed.time ratio": off / on,
        "speed.on.longest": max(float(found[f"on.{count}.time"]) for count in SUBSCRIBERS),
    }


def _logs(found: Measured) -> Numbers:
    names = ("macro_precision", "macro_recall", "micro_f")
    return {"logs.difference": max(abs(float(found[f"spark.{n}"]) - float(found[f"arrays.{n}"])) for n in names)}


def _ours(found: Measured) -> Numbers:
    """The best configuration that a user can have, and the document's own, both with thresholds of the other half."""
    shipped = [one.name for one in CONFIGURATIONS if one.shipped and not one.name.startswith("document")]
    scores = {name: float(found[f"{name}.F"]) for name in shipped if f"{name}.F" in found}
    if f"{BEST}.F" not in found:
        return {}  # the model of the embedding is not installed
    best = max(scores, key=lambda name: scores[name])
    return {
        "best.name": best,
        "best.F": scores[best],
        "best.over document": scores[best] - float(found[f"{DOCUMENT}.F"]),
        "best.over document, least": min(_lead(found, share) for share in SHARES),
        "best.worse half": min(float(found[f"{best}.{half}.F"]) for half in ("odd", "even")),
    }


def _lead(found: Measured, share: float) -> float:
    """Of the best configuration over the document's, where that share of words is plain."""
    ours, theirs = (float(found[f"plain {share:g}: {name}.F"]) for name in (BEST, DOCUMENT))
    return ours - theirs


def distances(expected: Expected, found: Mapping[str, float | str]) -> dict[str, tuple[float, float, float]]:
    """By reading of ``=``: root mean square distance of P, C and F from the published rows, in points."""
    rows = [row for row in expected.rows if "F" in row.published]
    return {operator: _distance(rows, found, operator) for operator in OPERATORS}


def _distance(rows: Sequence[Point], found: Mapping[str, float | str], operator: str) -> tuple[float, float, float]:
    def rms(letter: str) -> float:
        gaps = [row.published[letter] - float(found[f"{operator}.{row.measure}.{letter}"]) for row in rows]
        return math.sqrt(math.fsum(gap * gap for gap in gaps) / len(gaps))

    return rms("P"), rms("C"), rms("F")
