"""A data set as arrays, and the deliveries of all thresholds at once.

Names and values are few, events are many: similarities are computed once for every pair of *different* names and of
different values, and an event is a row of their numbers. Algorithm 1 of the semantics document (3.3.1) chooses for each
constraint the first attribute with the highest similarity, and that choice does not depend on the threshold; so for a
subscription two numbers an event and constraint, the similarity of the chosen name and that of its value, decide the
deliveries at every threshold. ``tests/experiments`` holds this against Algorithm 1 as it is written.

Two other rules are here as well. ``one-to-one`` is Recado's assignment in which no attribute serves two constraints.
``any`` lets a constraint hold if *some* attribute with a name that is alike enough has a value that fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from experiments.semantics.dataset import Dataset, Item
from recado.semantics.alignment import choose
from recado.semantics.engine import Semantics, get_measure
from recado.semantics.measures.base import NameMeasure
from recado.semantics.measures.names import Mean
from recado.semantics.measures.wordnet import WordNetWords
from recado.semantics.names import Word
from recado.semantics.settings import SemanticSettings

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int32]
Operator = Literal["SM", "EQ", "ANY"]
"""What ``=`` of the subscription file is read as (A-03): similar to, equal to, or there with any value."""
Unmatched = Literal["ignore", "fail"]
Assignment = Literal["best", "one-to-one", "any"]
Thresholds = tuple[float, float]
"""Of names, and of values."""
PERFECT = 1 - 1e-9


class Vocabulary(msgspec.Struct, frozen=True):
    """The different names and values of the two sides of a data set, in the order in which they first appear."""

    wanted_names: tuple[str, ...]
    event_names: tuple[str, ...]
    wanted_values: tuple[str, ...]
    event_values: tuple[str, ...]


class Similarities(msgspec.Struct, frozen=True):
    """Of wanted names to event names, and of wanted values to event values."""

    names: Floats
    values: Floats


class Constraint(msgspec.Struct, frozen=True):
    """How a constraint fares with events: for each (row) and attribute (column), how alike names and values are."""

    names: Floats
    values: Floats

    def best(self) -> Judged:
        """By the attribute that Algorithm 1 chooses: the first of the most alike."""
        rows, chosen = np.arange(len(self.names)), self.names.argmax(axis=1)
        return self.names[rows, chosen], self.values[rows, chosen]


Judged = tuple[Floats, Floats]
"""For each event the similarity of the chosen name, and of its value."""


class Grid(msgspec.Struct, frozen=True):
    vocabulary: Vocabulary
    names: Integers
    """A row for each event; the last column of the similarities stands for an attribute that is not there."""
    values: Integers
    wanted: tuple[tuple[tuple[int, int], ...], ...]
    relevant: Bools
    judged: Bools
    event_seeds: Integers
    subscription_seeds: Integers

    def constraints(
        self, subscription: int, similarities: Similarities, operator: Operator, events: npt.NDArray[np.intp]
    ) -> list[Constraint]:
        """The constraints of a subscription, held against the given events."""
        names = np.column_stack([similarities.names, np.full(len(similarities.names), -1.0)])
        values = np.column_stack([_values(self.vocabulary, similarities, operator), np.zeros(len(similarities.values))])
        there, said = self.names[events], self.values[events]
        return [Constraint(names[name][there], values[value][said]) for name, value in self.wanted[subscription]]


def _values(vocabulary: Vocabulary, similarities: Similarities, operator: Operator) -> Floats:
    if operator == "SM":
        return similarities.values
    if operator == "ANY":
        return np.ones_like(similarities.values)
    events = np.array(vocabulary.event_values)
    return np.array([events == value for value in vocabulary.wanted_values], dtype=np.float64)


def above(values: Floats, threshold: float) -> Bools:
    """Strictly more than the threshold, or perfect whatever it is."""
    found: Bools = (values > threshold) | (values >= PERFECT)
    return found


def sent(chosen: Sequence[Judged], thresholds: Thresholds, unmatched: Unmatched) -> Bools:
    """Lines 10 to 14 of Algorithm 1 for all events: pairs, then operators."""
    paired = [above(name, thresholds[0]) for name, _ in chosen]
    holds = [above(value, thresholds[1]) for _, value in chosen]
    if unmatched == "fail":
        return every([*paired, *holds])
    holding = every([~pair | hold for pair, hold in zip(paired, holds, strict=True)])
    return ~every([~pair for pair in paired]) & holding


def sent_to_any(constraints: Sequence[Constraint], thresholds: Thresholds) -> Bools:
    """Every constraint has some attribute with a name alike and a value that fits."""
    found = [above(one.names, thresholds[0]) & above(one.values, thresholds[1]) for one in constraints]
    return every([np.asarray(both.any(axis=1)) for both in found])


def every(conditions: Sequence[Bools]) -> Bools:
    found: Bools = np.logical_and.reduce(conditions)
    return found


class Policy(msgspec.Struct, frozen=True):
    operator: Operator = "SM"
    unmatched: Unmatched = "ignore"
    assignment: Assignment = "best"


class Part(msgspec.Struct, frozen=True):
    """Some of the events and subscriptions of a grid."""

    events: Bools
    subscriptions: tuple[int, ...]


def sweep(
    grid: Grid,
    similarities: Similarities,
    thresholds: Sequence[Thresholds],
    policy: Policy = Policy(),  # noqa: B008  # frozen
    part: Part | None = None,
) -> list[list[Counts]]:
    """For every pair of thresholds, of names and of values, the counts of every subscription."""
    found: list[list[Counts]] = [[] for _ in thresholds]
    for subscription in range(len(grid.wanted)) if part is None else part.subscriptions:
        places = np.flatnonzero(grid.judged[subscription] & (True if part is None else part.events))
        relevant = grid.relevant[subscription][places]
        constraints = grid.constraints(subscription, similarities, policy.operator, places)
        for place, deliveries in enumerate(_deliveries(constraints, thresholds, policy)):
            found[place].append(counts(deliveries, relevant))
    return found


def _deliveries(constraints: Sequence[Constraint], thresholds: Sequence[Thresholds], policy: Policy) -> Iterator[Bools]:
    if policy.assignment == "any":
        yield from (sent_to_any(constraints, each) for each in thresholds)
    elif policy.assignment == "one-to-one":
        for each in thresholds:
            yield sent(assigned(constraints, each[0]), each, policy.unmatched)
    else:
        chosen = [one.best() for one in constraints]
        yield from (sent(chosen, each, policy.unmatched) for each in thresholds)


def assigned(constraints: Sequence[Constraint], threshold: float) -> list[Judged]:
    """The same choice where no two constraints want one attribute; where they do, Recado's assignment decides."""
    names = np.stack([one.names for one in constraints], axis=1)
    choice = names.argmax(axis=2)
    ordered = np.sort(choice, axis=1)
    settings = SemanticSettings(threshold=threshold, assignment="one-to-one")
    for row in np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1)):
        choice[row] = choose(np.maximum(names[row], 0.0), settings).chosen
    rows = np.arange(len(choice))
    found = []
    for number, one in enumerate(constraints):
        mine = choice[:, number]
        found.append((np.where(mine >= 0, one.names[rows, mine], -1.0), one.values[rows, mine]))
    return found


# -- from a data set


def grid_of(dataset: Dataset) -> Grid:
    vocabulary = vocabulary_of(dataset)
    names, values = (_numbers(words) for words in (vocabulary.event_names, vocabulary.event_values))
    wanted_names, wanted_values = (_numbers(w) for w in (vocabulary.wanted_names, vocabulary.wanted_values))
    seeds = np.array([event.seed for event in dataset.events], dtype=np.int32)
    by_id = {event.id: place for place, event in enumerate(dataset.events)}
    return Grid(
        vocabulary,
        _padded([[names[name] for name, _ in event.pairs] for event in dataset.events], len(names)),
        _padded([[values[value] for _, value in event.pairs] for event in dataset.events], len(values)),
        tuple(tuple((wanted_names[n], wanted_values[v]) for n, v in one.pairs) for one in dataset.subscriptions),
        np.array([_marked([by_id[id] for id in dataset.labels[s.id]], len(by_id)) for s in dataset.subscriptions]),
        np.array([np.isin(seeds, [int(seed) for seed in dataset.judged[s.id]]) for s in dataset.subscriptions]),
        seeds,
        np.array([one.seed for one in dataset.subscriptions], dtype=np.int32),
    )


def vocabulary_of(dataset: Dataset) -> Vocabulary:
    def different(items: Sequence[Item], place: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(pair[place] for item in items for pair in item.pairs))

    wanted, events = dataset.subscriptions, dataset.events
    return Vocabulary(different(wanted, 0), different(events, 0), different(wanted, 1), different(events, 1))


def halves(grid: Grid) -> tuple[Part, Part]:
    """The events and subscriptions of odd seeds, and those of even ones: a seed's variants are in one half."""
    odd, even = (
        Part(
            grid.event_seeds % 2 == parity,
            tuple(place for place, seed in enumerate(grid.subscription_seeds) if seed % 2 == parity),
        )
        for parity in (1, 0)
    )
    return odd, even


def _numbers(words: Sequence[str]) -> dict[str, int]:
    return {word: number for number, word in enumerate(words)}


def _padded(rows: Sequence[Sequence[int]], filling: int) -> Integers:
    width = max(map(len, rows))
    return np.array([[*row, *[filling] * (width - len(row))] for row in rows], dtype=np.int32)


def _marked(places: Sequence[int], count: int) -> Bools:
    found = np.zeros(count, dtype=np.bool_)
    found[list(places)] = True
    return found


# --- quality ----------------------------------------------------------------------------------------------------------
# Precision, recall and F of deliveries, over pairs and over subscriptions (4.2 of the semantics document, A-14).
#
# *Micro* counts all judged pairs together. *Macro* takes the mean over subscriptions, of the precision of those that
# were sent anything and of the recall of those that expect anything; its F is that of the two means, as in the
# published tables. Where nothing is sent, precision is 0 there, and so it is here. All are percentages.


class Quality(msgspec.Struct, frozen=True):
    precision: float
    recall: float

    @property
    def f(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


class Counts(msgspec.Struct, frozen=True):
    """Of one subscription: sent and relevant, sent only, relevant only."""

    tp: int
    fp: int
    fn: int


def counts(sent: npt.NDArray[np.bool_], relevant: npt.NDArray[np.bool_]) -> Counts:
    """Over the judged events of a subscription."""
    tp = int((sent & relevant).sum())
    return Counts(tp, int(sent.sum()) - tp, int(relevant.sum()) - tp)


def micro(found: Sequence[Counts]) -> Quality:
    tp, fp, fn = (sum(getattr(one, name) for one in found) for name in ("tp", "fp", "fn"))
    return Quality(_share(tp, fp), _share(tp, fn))


def macro(found: Sequence[Counts]) -> Quality:
    precisions = [_share(one.tp, one.fp) for one in found if one.tp + one.fp]
    recalls = [_share(one.tp, one.fn) for one in found if one.tp + one.fn]
    return Quality(_mean(precisions), _mean(recalls))


def _share(part: int, rest: int) -> float:
    return 100 * part / (part + rest) if part + rest else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


# --- scoring ----------------------------------------------------------------------------------------------------------
# Similarities of all names and values of a data set: by the document's measures as printed, and by Recado's own.
#
# The document's mean over all pairs of words gives an equal name less than 1, and that is measured here. Recado
# takes equal names as equal before it asks a measure.


def document_measure(semantics: Semantics, method: str, word: str) -> NameMeasure:
    """``mean`` is over all pairs of words, the reading that fits the published curves best; ``mean-best`` the other."""
    if word == "res-clipped":
        return Mean(_clipped(semantics), "all", "mean over Resnik clipped at 1")
    if method == "feng":
        return get_measure("feng", semantics, word=word)
    return get_measure("mean", semantics, word=word, mode="best" if method == "mean-best" else "all")


def as_printed(
    semantics: Semantics, vocabulary: Vocabulary, measure: NameMeasure, languages: tuple[str, ...] = ("eng",)
) -> Similarities:
    def matrix(wanted: Sequence[str], there: Sequence[str]) -> Floats:
        left, right = ([semantics.reader.read(name, languages) for name in names] for names in (wanted, there))
        return measure.matrix(left, right)

    return Similarities(
        matrix(vocabulary.wanted_names, vocabulary.event_names),
        matrix(vocabulary.wanted_values, vocabulary.event_values),
    )


def as_recado(semantics: Semantics, vocabulary: Vocabulary, settings: SemanticSettings) -> Similarities:
    return Similarities(
        semantics.similarities(vocabulary.wanted_names, vocabulary.event_names, settings),
        semantics.similarities(vocabulary.wanted_values, vocabulary.event_values, settings, as_values=True),
    )


def as_text(vocabulary: Vocabulary, bare: bool = False) -> Similarities:
    """Equality: as written, or of the words alone, whatever their case and what stands between them (7, B1 and B2)."""

    def same(wanted: Sequence[str], there: Sequence[str]) -> Floats:
        left, right = (np.array([_bare(name) if bare else name for name in names]) for names in (wanted, there))
        return np.asarray(left[:, None] == right[None, :], dtype=np.float64)

    return Similarities(
        same(vocabulary.wanted_names, vocabulary.event_names),
        same(vocabulary.wanted_values, vocabulary.event_values),
    )


def _bare(name: str) -> str:
    return "".join(char for char in name.casefold() if char.isalnum())


class _ClippedResnik(WordNetWords):
    """Resnik as the published tables seem to have it (13.6 of the outline): shared content cut at 1, not scaled."""

    def matrix(self, a: Sequence[Word], b: Sequence[Word]) -> Floats:
        return np.minimum(1.0, super().matrix(a, b) * self._most[0])


def _clipped(semantics: Semantics) -> WordNetWords:
    return _ClippedResnik("res", semantics.lexicon, semantics.information("semcor"), {})
