"""Experiment E3 of the semantics document (4.5.3): rate and time with 0 to 50 subscribers, cache on and off.

The document's system as printed (``server``), with the setting of the highest published F: mean over all pairs of
words, Jiang & Conrath, threshold 0.15 (A-13). *Cache on* remembers similarities of words and of names (3.3.3) and was
filled by earlier events, as in a server that runs; *off* computes each similarity anew. The publisher offers 303 events
a second, the published rate with no subscriber; without that limit a server with nobody to serve has no rate to speak
of. Everything runs on one core of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache as cache_
from itertools import cycle

from experiments.semantics.dataset import FULL, QUICK, Item, generate
from experiments.semantics.server import (
    EventService,
    MemoryMonitor,
    Receiver,
    Record,
    Settings,
    Similarity,
    load_subscriptions,
    run_workload,
)
from recado.semantics.engine import Semantics
from recado.semantics.names import Word

Numbers = dict[str, float | str]

SUBSCRIBERS = (0, 1, 2, 3, 6, 10, 20, 50)
OFFERED = 303.303
"""Events a second: table 7.1 with no subscriber."""
SECONDS, QUICK_SECONDS = 1.5, 0.05
WARM_UP = 400
SETTINGS = Settings(threshold=0.15, value_threshold=0.15)


def speed(quick: bool) -> Numbers:
    dataset = generate(QUICK if quick else FULL)
    numbers: Numbers = {}
    for cache in (True, False):
        alike = mean_of_words(Semantics(), cache)
        for count in SUBSCRIBERS:
            chosen = spread(dataset.subscriptions, count)
            if cache:
                _run(alike, chosen, spread(dataset.events, WARM_UP), None, None)
            rate, time_ms = _run(alike, chosen, dataset.events, OFFERED, QUICK_SECONDS if quick else SECONDS)
            place = f"{'on' if cache else 'off'}.{count}"
            numbers[f"{place}.rate"], numbers[f"{place}.time"] = rate, time_ms
    return numbers


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """So many items, evenly from all over the sequence; again from its beginning where there are too few."""
    step = max(1, len(items) // count) if count else 1
    return [item for item, _ in zip(cycle(items[::step]), range(count), strict=False)]


def _run(
    alike: Similarity, subscriptions: Sequence[Item], events: Sequence[Item], rate: float | None, seconds: float | None
) -> tuple[float, float]:
    monitor = MemoryMonitor()
    server = EventService(SETTINGS, alike, alike, Receiver(), monitor)
    load_subscriptions(server, subscriptions)
    run_workload(server, events, rate, seconds)
    return rate_and_time(monitor.records)


def rate_and_time(records: Sequence[Record]) -> tuple[float, float]:
    """Completely processed events a second, and the mean milliseconds from an event's coming to its end (4.2)."""
    came = {one.event: one.t for one in records if one.point == "event_in"}
    done = {one.event: one.t for one in records if one.point == "event_done"}
    if not done:
        return 0.0, 0.0
    seconds = (max(done.values()) - min(came.values())) / 1e9
    times = [(end - came[event]) / 1e6 for event, end in done.items()]
    return len(done) / seconds, sum(times) / len(times)


def mean_of_words(semantics: Semantics, cache: bool) -> Similarity:
    """The mean over all pairs of words with Jiang & Conrath, one pair after another as the document has it."""
    words = jiang_conrath(semantics)
    read = semantics.reader.read
    known_words: dict[tuple[str, str], float] = {}
    known_names: dict[tuple[str, str], float] = {}

    def of_words(a: Word, b: Word) -> float:
        if not cache:
            return words(a, b)
        key = (a.lemma, b.lemma) if a.lemma <= b.lemma else (b.lemma, a.lemma)
        if key not in known_words:
            known_words[key] = words(a, b)
        return known_words[key]

    def of_names(one: str, other: str) -> float:
        left, right = read(one).own, read(other).own
        pairs = len(left) * len(right)
        return round(sum(of_words(a, b) for a in left for b in right) / pairs, 9) if pairs else 0.0

    def remembered(one: str, other: str) -> float:
        found = known_names.get((one, other))
        if found is None:
            found = known_names[one, other] = of_names(one, other)
        return found

    return remembered if cache else of_names


def jiang_conrath(semantics: Semantics) -> Callable[[Word, Word], float]:
    """Sense by sense, as a program does that compares two words and nothing else (2.4)."""
    lexicon = semantics.lexicon
    content: list[float] = semantics.information("semcor").content.tolist()
    nouns, hierarchy = lexicon.bounds[1], lexicon.bounds[2]

    @cache_
    def above(sense: int) -> frozenset[int]:
        return frozenset(lexicon.ancestors[lexicon.above(sense)].tolist())

    def of_senses(one: int, other: int) -> float:
        if one == other:
            return 1.0
        if max(one, other) >= hierarchy or (one < nouns) != (other < nouns) or not content[one] or not content[other]:
            return 0.0
        common = max((content[concept] for concept in above(one) & above(other)), default=0.0)
        return 1 / max(1.0, content[one] + content[other] - 2 * common)

    def of_words(a: Word, b: Word) -> float:
        if a.lemma == b.lemma:
            return 1.0
        return max((of_senses(one, other) for one in a.senses for other in b.senses), default=0.0)

    return of_words
