"""A mapping of names for people to look through: for each name that is asked for, the attributes that may stand for it.

Candidates are ranked by how alike they are. Each has a *state*: ``same`` (it is taken), ``uncertain`` (a slightly
different threshold, or a doubt, would change that), ``vetoed``, ``other``, and ``identical``, ``accepted``,
``refused`` or ``given`` where no measure was asked. What a person decides goes into the review list, and out of it into
a file that overrides read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from recado.errors import RecadoError
from recado.semantics.alignment import ALIKE, distinct
from recado.semantics.engine import Semantics
from recado.semantics.files import write_whole
from recado.semantics.overrides import Given, ReviewList, read_pairs
from recado.semantics.settings import DEFAULT, SemanticSettings

NAMES = 4_096
"""Of either side, at most."""
CANDIDATES = 3
LEAST = 0.05
"""A pair that is less alike is no candidate."""
DECIDED = ("accepted", "refused", "given", "identical")


class Candidate(msgspec.Struct, frozen=True):
    """A name that is asked for, an attribute that may stand for it, how alike they are, and why."""

    name: str
    attribute: str
    confidence: float
    state: str
    reason: str
    converted: str = ""


class Mapping(msgspec.Struct, frozen=True):
    """The candidates, name by name, the best first; and the names that no attribute stands for."""

    candidates: tuple[Candidate, ...]
    missing: tuple[str, ...]


def map_names(
    semantics: Semantics,
    names: Sequence[str],
    attributes: Sequence[str],
    settings: SemanticSettings = DEFAULT,
    most: int = CANDIDATES,
) -> Mapping:
    """The candidates for each name; a RecadoError if there are too many names."""
    asked, there = distinct(names), distinct(attributes)
    if max(len(asked), len(there)) > NAMES:
        raise RecadoError(f"a mapping has at most {NAMES:,} names of either side, not {max(len(asked), len(there)):,}")
    if not asked or not there:
        return Mapping((), tuple(asked))
    values = semantics.similarities(asked, there, settings)
    plain = semantics.similarities(asked, there, msgspec.structs.replace(settings, vetoes=False))
    found: list[Candidate] = []
    missing = []
    for row, name in enumerate(asked):
        order = sorted(range(len(there)), key=lambda at: _rank(values[row, at], plain[row, at], settings.limit, at))
        listed: list[Candidate] = []
        for at in order:
            alone = float(plain[row, at])
            if len(listed) < most and max(values[row, at], alone if alone > settings.limit else 0.0) >= LEAST:
                found_here = _Found(name, there[at], float(values[row, at]), alone)
                listed.append(_candidate(semantics, found_here, there, settings))
        found += listed
        if not any(one.state in ("same", "identical", "accepted", "given") for one in listed):
            missing.append(name)
    return Mapping(tuple(found), tuple(missing))


def _rank(value: float, alone: float, limit: float, at: int) -> tuple[bool, bool, float, float, int]:
    """First what is taken, then what the measure alone would take, whatever speaks against it, then the rest."""
    return value <= limit, alone <= limit, -value, -alone, at


class _Found(NamedTuple):
    """A pair, how alike it is, and how alike it would be by the measure alone."""

    name: str
    attribute: str
    value: float
    alone: float


def _candidate(semantics: Semantics, pair: _Found, there: Sequence[str], settings: SemanticSettings) -> Candidate:
    name, attribute, value, alone = pair
    if name == attribute:
        return Candidate(name, attribute, 1.0, "identical", "the same name")
    is_same = value > settings.limit or value >= ALIKE
    reading = semantics.reading(name, attribute, there, settings) if is_same else None
    converted = reading.explain() if reading is not None else ""
    given = semantics.given(name, attribute, settings)
    if given is not None:
        return Candidate(name, attribute, value, given.origin, f"{given.origin} by a person", converted)
    words = [" ".join(semantics.words(one, settings).lemmas) for one in (name, attribute)]
    reason = "the same words" if words[0] == words[1] else f"{words[0]} ~ {words[1]}"
    objection = semantics.objection(name, attribute, settings) if alone > settings.limit and not is_same else None
    if objection is not None:
        return Candidate(name, attribute, value, "uncertain" if objection.is_doubt else "vetoed", objection.explain())
    if abs(value - settings.limit) <= settings.margin:
        return Candidate(name, attribute, value, "uncertain", reason, converted)
    return Candidate(name, attribute, value, "same" if is_same else "other", reason, converted)


def decide_many(
    listed: ReviewList,
    candidates: Iterable[Candidate],
    accept_from: float | None = None,
    refuse_below: float | None = None,
) -> tuple[int, int]:
    """Accept the best candidate of each name from a confidence on, refuse all below one; how many of each.

    What is decided already, and what was vetoed, is not accepted in bulk.
    """
    accepted = refused = 0
    seen: set[str] = set()
    for one in candidates:
        is_best = one.name not in seen and one.state != "vetoed"
        if is_best:
            seen.add(one.name)
        if one.state in DECIDED:
            continue
        if accept_from is not None and is_best and one.confidence >= accept_from:
            listed.decide(one.name, one.attribute, accept=True)
            accepted += 1
        elif refuse_below is not None and one.confidence < refuse_below:
            listed.decide(one.name, one.attribute, accept=False)
            refused += 1
    return accepted, refused


def export_decisions(listed: ReviewList, path: Path) -> int:
    """Write what was decided as a file that overrides read, in JSON; how many pairs."""
    pairs = [
        {"a": one.a, "b": one.b, "similarity": one.similarity, "kind": "name"}
        for one in sorted(listed.decided(), key=lambda one: (one.a, one.b))
    ]
    if path.suffix != ".json":
        raise RecadoError(f"{path}: decisions are written as JSON; give the file the ending .json")
    write_whole(path, msgspec.json.format(msgspec.json.encode({"precomputed": pairs}), indent=1) + b"\n")
    return len(pairs)


def import_decisions(listed: ReviewList, path: Path) -> int:
    """Take the pairs of such a file, of similarity 1 and 0, as decisions; how many."""
    given: list[Given] = [one for one in read_pairs(path) if one.similarity in (0.0, 1.0)]
    for one in given:
        listed.decide(one.a, one.b, accept=one.similarity == 1.0)
    return len(given)
