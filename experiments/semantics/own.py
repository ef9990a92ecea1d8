"""Recado's own configurations beside the document's, on the same data, with thresholds that have not seen it.

The seeds of events and of subscriptions are split into odd and even ones, so that all variants of a seed are in one
half. A threshold is chosen by the F of one half and judged on the other, both ways round; the figures are the means of
both. The halves share the thesaurus, and one number is all that is learnt.

Recado has one threshold for names and values. ``apart`` chooses a second one for values, and ``any`` lets a constraint
be met by any attribute that is alike enough: neither is a setting of Recado's, they tell what would be gained. *As
shipped* chooses nothing: it is what a subscription gets that asks for no more than ``semantic``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from experiments.semantics.dataset import FULL, QUICK, Dataset, Size, generate
from experiments.semantics.grid import (
    Counts,
    Grid,
    Policy,
    Similarities,
    Thresholds,
    as_printed,
    as_recado,
    as_text,
    document_measure,
    grid_of,
    halves,
    macro,
    micro,
    sweep,
)
from recado.errors import RecadoError
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.settings import SemanticSettings

Numbers = dict[str, float | str]
Languages = tuple[str, ...]
Compare = Callable[[Semantics, Grid, Languages], Similarities]

SAME: tuple[Thresholds, ...] = tuple((round(0.02 * step, 2), round(0.02 * step, 2)) for step in range(48))
APART: tuple[Thresholds, ...] = tuple(
    (name, round(0.04 * step, 2)) for name in (0.0, 0.05, 0.1, 0.2, 0.3, 0.4) for step in range(24)
)
CURVE = tuple(round(0.05 * step, 2) for step in range(20))


class Configuration(msgspec.Struct, frozen=True):
    name: str
    compare: Compare
    policy: Policy
    thresholds: tuple[Thresholds, ...] = SAME
    shipped: bool = True
    """Can a user of Recado have it by configuration?"""


def _recado(measure: str, **options: Any) -> Compare:
    def compare(semantics: Semantics, grid: Grid, languages: Languages) -> Similarities:
        settings = SemanticSettings(measure=measure, options=options, languages=languages)
        return as_recado(semantics, grid.vocabulary, settings)

    return compare


def _document(method: str, word: str) -> Compare:
    return lambda semantics, grid, languages: as_printed(
        semantics, grid.vocabulary, document_measure(semantics, method, word), languages
    )


IGNORE, FAIL, ANY = Policy(), Policy(unmatched="fail"), Policy(unmatched="fail", assignment="any")
DEFAULTS = (SemanticSettings(measure="hybrid").limit, SemanticSettings(measure="hybrid").limit)
ONE_TO_ONE = Policy(unmatched="fail", assignment="one-to-one")

CONFIGURATIONS = (
    Configuration("document: mean, Jiang & Conrath", _document("mean", "jcn"), IGNORE),
    Configuration("document: mean, Lin", _document("mean", "lin"), IGNORE),
    Configuration("document: Feng, Jiang & Conrath", _document("feng", "jcn"), IGNORE),
    Configuration("equal names", lambda s, grid, _: as_text(grid.vocabulary), FAIL),
    Configuration("equal words", lambda s, grid, _: as_text(grid.vocabulary, bare=True), FAIL),
    Configuration("levenshtein", _recado("levenshtein"), FAIL),
    Configuration("jaro-winkler", _recado("jaro-winkler"), FAIL),
    Configuration("token-set", _recado("token-set"), FAIL),
    Configuration("mean", _recado("mean"), FAIL),
    Configuration("feng", _recado("feng"), FAIL),
    Configuration("feng, add-one counts", _recado("feng", information="semcor-add1"), FAIL),
    Configuration("embedding", _recado("embedding"), FAIL),
    Configuration("hybrid", _recado("hybrid"), FAIL),
    Configuration("hybrid, as shipped", _recado("hybrid"), FAIL, (DEFAULTS,)),
    Configuration("hybrid, one-to-one", _recado("hybrid"), ONE_TO_ONE),
    Configuration("hybrid, unmatched ignored", _recado("hybrid"), IGNORE),
    Configuration("hybrid, share 0.3", _recado("hybrid", share=0.3), FAIL),
    Configuration("hybrid, share 0.7", _recado("hybrid", share=0.7), FAIL),
    Configuration("hybrid, apart", _recado("hybrid"), FAIL, APART, shipped=False),
    Configuration("hybrid, any", _recado("hybrid"), ANY, shipped=False),
    Configuration("hybrid, any, apart", _recado("hybrid"), ANY, APART, shipped=False),
)
BEST, DOCUMENT = "hybrid", "document: mean, Jiang & Conrath"
COMPARED = (DOCUMENT, "token-set", "embedding", BEST, "hybrid, as shipped")
SHARES = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95)


def own(quick: bool) -> Numbers:
    dataset = generate(QUICK if quick else FULL)
    return evaluate(dataset, ("eng",), CONFIGURATIONS) | _of_all_pairs(dataset) | _by_share(QUICK if quick else FULL)


def evaluate(dataset: Dataset, languages: Languages, configurations: Sequence[Configuration]) -> Numbers:
    """What each configuration comes to; one that cannot be loaded says why, and the others go on."""
    grid, semantics = grid_of(dataset), Semantics(cache=SimilarityCache())
    numbers: Numbers = {}
    for one in configurations:
        try:
            alike = one.compare(semantics, grid, languages)
        except RecadoError as error:
            numbers[f"{one.name}.missing"] = str(error)
            continue
        numbers |= {f"{one.name}.{name}": value for name, value in _tuned(grid, alike, one).items()}
        if one.thresholds is SAME and one.policy.assignment == "best":
            numbers |= _curve(grid, alike, one)
    return numbers


def _tuned(grid: Grid, alike: Similarities, one: Configuration) -> dict[str, float]:
    """Chosen on one half, judged on the other, both ways round; the means and each."""
    odd, even = halves(grid)
    searched = msgspec.structs.replace(one.policy, assignment="best") if one.policy == ONE_TO_ONE else one.policy
    found: dict[str, float] = {}
    judged: list[list[Counts]] = []
    for name, learnt, other in (("odd", odd, even), ("even", even, odd)):
        chosen = best(sweep(grid, alike, one.thresholds, searched, learnt), one.thresholds)
        judged.append(sweep(grid, alike, [chosen], one.policy, other)[0])
        found[f"{name}.threshold"], found[f"{name}.value threshold"] = chosen
        found[f"{name}.F"] = macro(judged[-1]).f
    qualities = [macro(counted) for counted in judged]
    found["P"], found["C"] = (float(np.mean([getattr(q, n) for q in qualities])) for n in ("precision", "recall"))
    found["F"] = float(np.mean([quality.f for quality in qualities]))
    found["micro F"] = float(np.mean([micro(counted).f for counted in judged]))
    return found


def best(found: Sequence[Sequence[Counts]], thresholds: Sequence[Thresholds]) -> Thresholds:
    """The first of those with the highest F."""
    scores = [macro(counted).f for counted in found]
    return thresholds[scores.index(max(scores))]


def _curve(grid: Grid, alike: Similarities, one: Configuration) -> Numbers:
    numbers: Numbers = {}
    for threshold, counted in zip(CURVE, sweep(grid, alike, [(t, t) for t in CURVE], one.policy), strict=True):
        quality = macro(counted)
        place = f"{one.name}.curve.{threshold:g}"
        numbers[f"{place}.P"], numbers[f"{place}.C"], numbers[f"{place}.F"] = (
            quality.precision,
            quality.recall,
            quality.f,
        )
    return numbers


def _by_share(size: Size) -> Numbers:
    """The same where more or fewer words are the plain ones: how much of the outcome is the data set's doing."""
    chosen = [one for one in CONFIGURATIONS if one.name in COMPARED]
    numbers: Numbers = {}
    for share in SHARES:
        found = evaluate(generate(size, plain=share), ("eng",), chosen)
        numbers |= {f"plain {share:g}: {name}": value for name, value in found.items() if name.count(".") == 1}
    return numbers


def _of_all_pairs(dataset: Dataset) -> Numbers:
    """The best and the document's configuration on every pair of a subscription and an event, judged or not."""
    everything = {id: tuple(dict.fromkeys(str(event.seed) for event in dataset.events)) for id in dataset.judged}
    whole = msgspec.structs.replace(dataset, judged=everything)
    chosen = [one for one in CONFIGURATIONS if one.name in (BEST, DOCUMENT)]
    numbers = evaluate(whole, ("eng",), [msgspec.structs.replace(one, name=f"all pairs: {one.name}") for one in chosen])
    return {name: value for name, value in numbers.items() if ".curve." not in name}
