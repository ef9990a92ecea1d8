"""The data set, made with the traits of the semantics document's own: seeds, variants of them, subscriptions, labels.

The published data set is not to be had. Its traits are: about 15,000 events and 200 subscriptions (4.3.1), ids of the
form ``seed-variant`` (4.3.1), recall in steps of 5 %, so 20 seeds of subscriptions with 10 variants each, and 30 % of
the judged pairs relevant (appendix A). A *seed* is an event in meanings; a *variant* says each of its names and values
plainly or in one of the other ways of the thesaurus, its attributes in any order. A subscription has 2 to 4 constraints
``name=value`` in its own words. It expects all variants of the seeds that have its values, so an event without one of
its attributes is not relevant.

Narrow subscriptions have far fewer than 30 % of all events, so a subscription is *judged* on some of the seeds: on all
that are relevant to it, and on as many drawn ones that are not as make the share 30 %. The harness publishes every
event to every subscription; what is not judged is not counted.

The thesaurus keeps to what section 4.3.1 lists. Values that are each other's opposite, such as working and faulty, are
not in it: no measure here tells them apart.

Everything is drawn from named streams: the same size and languages give the same files.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from random import Random
from typing import Literal

import msgspec

from experiments.expected import ExperimentError
from recado.filters.braces import label_line, read_pairs
from recado.sim.kernel import stream

SEED = 2017
SHARE = 0.30
"""Of the judged pairs of a subscription and an event, so many are relevant."""
PLAIN = 0.8
"""How often a name or a value is said in the plain way. In the one published event line (4.3.1) nine of ten are; with
0.8 the document's configurations come near their published F, which was seen before the share was settled. How the
results depend on it is part of the report."""
Speech = Literal["eng", "por", "mixed"]


class Size(msgspec.Struct, frozen=True):
    seeds: int = 160
    variants: int = 94
    subscription_seeds: int = 20
    subscription_variants: int = 10


FULL = Size()
QUICK = Size(seeds=48, variants=12, subscription_seeds=20, subscription_variants=3)


class Item(msgspec.Struct, frozen=True):
    """A line of the event file or of the subscription file."""

    id: str
    pairs: tuple[tuple[str, str], ...]

    @property
    def seed(self) -> int:
        return int(self.id.partition("-")[0])


class Telling(msgspec.Struct, frozen=True):
    """How seeds are put into words."""

    words: Thesaurus
    speech: Speech
    plain: float


class Dataset(msgspec.Struct, frozen=True):
    events: tuple[Item, ...]
    subscriptions: tuple[Item, ...]
    labels: dict[str, tuple[str, ...]]
    """By subscription, the events it expects."""
    judged: dict[str, tuple[str, ...]]
    """By subscription, the seeds of the events it is judged on."""


Meanings = dict[str, str]
"""A seed: attributes and the ids of their values."""


def generate(size: Size = FULL, speech: Speech = "eng", plain: float = PLAIN) -> Dataset:
    words = thesaurus()
    telling = Telling(words, speech, plain)
    seeds = event_seeds(words, size.seeds)
    wanted = subscription_seeds(seeds, size.subscription_seeds)
    events = tuple(_variants(telling, seeds, size.variants, "event"))
    subscriptions = tuple(_variants(telling, wanted, size.subscription_variants, "subscription"))
    by_seed: dict[int, list[str]] = {}
    for event in events:
        by_seed.setdefault(event.seed, []).append(event.id)
    relevant = [[number for number, seed in enumerate(seeds, 1) if satisfies(seed, want)] for want in wanted]
    expected = [tuple(id for number in numbers for id in by_seed[number]) for numbers in relevant]
    judged = [_judged(number, numbers, len(seeds)) for number, numbers in enumerate(relevant, 1)]
    return Dataset(
        events,
        subscriptions,
        {one.id: expected[one.seed - 1] for one in subscriptions},
        {one.id: judged[one.seed - 1] for one in subscriptions},
    )


def _judged(subscription: int, relevant: Sequence[int], seeds: int) -> tuple[str, ...]:
    others = [number for number in range(1, seeds + 1) if number not in relevant]
    count = round(len(relevant) * (1 - SHARE) / SHARE)
    drawn = stream(SEED, "judged", subscription).sample(others, min(count, len(others)))
    return tuple(map(str, sorted((*relevant, *drawn))))


def satisfies(seed: Meanings, wanted: Meanings) -> bool:
    return all(seed.get(concept) == value for concept, value in wanted.items())


# -- seeds


def event_seeds(words: Thesaurus, count: int) -> list[Meanings]:
    """So many different events, in the shares of the families."""
    rng = stream(SEED, "event seeds")
    whole = sum(family.seeds for family in words.families)
    found: list[Meanings] = []
    for family in words.families:
        wanted = len(found) + family.seeds * count // whole
        for _ in range(100 * count):
            if len(found) == wanted:
                break
            seed = _seed(words, family, rng)
            if seed not in found:
                found.append(seed)
        if len(found) < wanted:
            raise ExperimentError(f"the thesaurus has too few values for {family.seeds} events of {family.id}")
    return found


def _seed(words: Thesaurus, family: Family, rng: Random) -> Meanings:
    """The most telling value first: a type gives its unit, a city its country and continent."""
    present = [*family.names, *(name for name in family.optional if rng.random() < 0.5)]
    known: Meanings = {}
    for concept in ("type", "city", "country"):
        if concept not in known:
            _draw(words, concept, family, known, rng)
    for concept in present:
        if concept not in known:
            _draw(words, concept, family, known, rng)
    return {concept: known[concept] for concept in present}


def _draw(words: Thesaurus, concept: str, family: Family, known: Meanings, rng: Random) -> None:
    choices = [one for one in words.values[concept] if one.family in ("", family.id)]
    chosen = rng.choices(choices, [one.weight for one in choices])[0]
    known[concept] = chosen.id
    known.update(implied(words.values, concept, chosen.id))


def subscription_seeds(seeds: Sequence[Meanings], count: int) -> list[Meanings]:
    """2 to 4 values of some event each, shared by a few others at least and by 30 % of all at most."""
    rng = stream(SEED, "subscription seeds")
    found: list[Meanings] = []
    for _ in range(10_000):
        if len(found) == count:
            return found
        base = rng.choice(seeds)
        names = rng.sample(list(base), min(len(base), rng.choice((2, 3, 4))))
        wanted = {name: base[name] for name in names}
        fitting = sum(satisfies(seed, wanted) for seed in seeds)
        if wanted not in found and 3 <= fitting <= SHARE * len(seeds):
            found.append(wanted)
    raise ExperimentError(f"{len(seeds)} seeds of events are too few for {count} subscriptions")


# -- variants


def _variants(telling: Telling, seeds: Sequence[Meanings], count: int, kind: str) -> Iterator[Item]:
    for number, seed in enumerate(seeds, 1):
        rng = stream(SEED, kind, number)
        for variant in range(1, count + 1):
            yield Item(f"{number}-{variant}", _say(telling, seed, _language(telling.speech, variant), rng))


def _language(speech: Speech, variant: int) -> Language:
    """In the mixed data set publishers speak English and Portuguese by turns, and so do subscribers."""
    if speech != "mixed":
        return speech
    return "eng" if variant % 2 else "por"


def _say(telling: Telling, seed: Mapping[str, str], language: Language, rng: Random) -> tuple[tuple[str, str], ...]:
    pairs = []
    for concept, id in seed.items():
        name, value = telling.words.names[concept], telling.words.value(concept, id)
        pairs.append((_word(name.of(language), telling.plain, rng), _word(value.of(language), telling.plain, rng)))
    rng.shuffle(pairs)
    return tuple(pairs)


def _word(ways: Sequence[str], plain: float, rng: Random) -> str:
    return ways[0] if rng.random() < plain else rng.choice(ways[1:])


# --- thesaurus --------------------------------------------------------------------------------------------------------
# The hand-written thesaurus of the experiment: what attributes and values are called, in two languages.
#
# It is kept apart from WordNet, so that no measure is tested on its own words.


Language = Literal["eng", "por"]
LANGUAGES: tuple[Language, ...] = ("eng", "por")


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ways to say one thing; the first is the plain one."""

    eng: tuple[str, ...]
    por: tuple[str, ...]

    def of(self, language: Language) -> tuple[str, ...]:
        return self.eng if language == "eng" else self.por


class Meaning(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A value that an attribute can have; ``within`` names what it implies for other attributes."""

    id: str
    eng: tuple[str, ...]
    por: tuple[str, ...]
    weight: int = 1
    family: str = ""
    within: dict[str, str] = msgspec.field(default_factory=dict, name="in")

    def of(self, language: Language) -> tuple[str, ...]:
        return self.eng if language == "eng" else self.por


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Events of one sort of sensor: the attributes all of them have, and those that half of them have."""

    id: str
    seeds: int
    names: tuple[str, ...]
    optional: tuple[str, ...]


class Thesaurus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    names: dict[str, Words]
    values: dict[str, tuple[Meaning, ...]]
    families: tuple[Family, ...]

    def value(self, concept: str, meaning_id: str) -> Meaning:
        return next(meaning for meaning in self.values[concept] if meaning.id == meaning_id)


@cache
def thesaurus() -> Thesaurus:
    text = (files("experiments") / "semantics" / "thesaurus.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), Thesaurus)


def implied(values: Mapping[str, tuple[Meaning, ...]], concept: str, meaning_id: str) -> dict[str, str]:
    """Everything that follows from a value: the city gives the country, the country the continent."""
    found: dict[str, str] = {}
    waiting = [(concept, meaning_id)]
    while waiting:
        at, value = waiting.pop()
        meaning = next(one for one in values[at] if one.id == value)
        for other, what in meaning.within.items():
            found[other] = what
            waiting.append((other, what))
    return found


# --- files ------------------------------------------------------------------------------------------------------------
# The files of a data set, in the format of section 4.3.1 of the semantics document.
#
# Three are the document's: events, subscriptions and labels. The fourth says by the seeds of events on which events a
# subscription is judged, in the form of the labels.


EVENTS, SUBSCRIPTIONS, LABELS, JUDGED = "events.txt", "subscriptions.txt", "labels.txt", "judged.txt"


def folder() -> Traversable:
    """Where the experiment's own files are."""
    return files("experiments") / "semantics"


def write_dataset(dataset: Dataset, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, items in ((EVENTS, dataset.events), (SUBSCRIPTIONS, dataset.subscriptions)):
        (folder / name).write_text("".join(map(_line, items)), encoding="utf-8")
    for name, lists in ((LABELS, dataset.labels), (JUDGED, dataset.judged)):
        text = "".join(f"{id}\t[{', '.join(ids)}]\n" for id, ids in lists.items())
        (folder / name).write_text(text, encoding="utf-8")


def _line(item: Item) -> str:
    return f"{item.id}\t{{{', '.join(f'{name}={value}' for name, value in item.pairs)}}}\n"


def read_dataset(folder: Path) -> Dataset:
    labels, judged = (dict(map(label_line, _lines(folder / name))) for name in (LABELS, JUDGED))
    return Dataset(read_items(folder / EVENTS), read_items(folder / SUBSCRIPTIONS), labels, judged)


def read_items(path: Path) -> tuple[Item, ...]:
    """The lines of an event file or of a subscription file; names and values as they stand there."""
    found = []
    for line in _lines(path):
        id, _, body = line.partition("\t")
        found.append(Item(id, tuple((name, str(value)) for name, value in read_pairs(body))))
    return tuple(found)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()
