"""How often a measure, as it is shipped, is right: about pairs, about values, and about whole schemas.

A pair counts as found if the measure takes the names for the same. A pair of units is right only if the value is
converted too: found without that it is both a wrong delivery and a lost one.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from experiments.semantics.languages import NOT_RUN, portuguese
from experiments.semanticsnames.data import (
    HALVES,
    Half,
    LabelledPair,
    SchemaPair,
    read_blind,
    read_new,
    read_pairs,
    read_schemas,
    read_trades,
)
from recado.errors import RecadoError
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.match import is_similar
from recado.semantics.settings import SemanticSettings

Numbers = dict[str, float | str]
LANGUAGES = ("eng", "por")
MEASURES: dict[str, SemanticSettings] = {
    "hybrid": SemanticSettings("hybrid", languages=LANGUAGES),
    "embedding": SemanticSettings("embedding", languages=LANGUAGES),
    "feng": SemanticSettings("feng", {"information": "semcor-add1"}, languages=LANGUAGES),
    "mean": SemanticSettings("mean", languages=LANGUAGES),
    "token-set": SemanticSettings("token-set", languages=LANGUAGES),
    "levenshtein": SemanticSettings("levenshtein", languages=LANGUAGES),
    "jaro-winkler": SemanticSettings("jaro-winkler", languages=LANGUAGES),
}


class Judgement(msgspec.Struct, frozen=True):
    """One question: was a pair found, was that right, was one to be found, and what sort of question it was."""

    question: str
    found: bool
    right: bool
    wanted: bool
    sort: str


def judge_pair(semantics: Semantics, settings: SemanticSettings, pair: LabelledPair) -> Judgement:
    aligned = semantics.align([pair.a], [pair.b], settings).pairs[0]
    found = aligned.attribute is not None
    converted = getattr(aligned, "conversion", None) is not None
    right = found and (pair.label == "convert") == converted and pair.label != "other"
    return Judgement(f"{pair.a} ~ {pair.b}", found, right, pair.label != "other", pair.sort)


def judge_value(semantics: Semantics, settings: SemanticSettings, pair: LabelledPair) -> Judgement:
    found = is_similar(pair.a, pair.b, settings, semantics)
    wanted = pair.label == "same"
    return Judgement(f"{pair.a} ~ {pair.b}", found, found and wanted, wanted, pair.sort)


def judge_schema(semantics: Semantics, settings: SemanticSettings, schema: SchemaPair) -> list[Judgement]:
    judged = []
    for pair in semantics.align(schema.asks, schema.says, settings).pairs:
        wanted = schema.right.get(pair.constraint)
        must_convert = pair.constraint in schema.converted
        converted = getattr(pair, "conversion", None) is not None
        right = pair.attribute is not None and pair.attribute == wanted and must_convert == converted
        unit = (must_convert or converted) and pair.attribute == wanted
        question = f"{schema.title}: {pair.constraint} -> {pair.attribute} ({wanted})"
        judged.append(
            Judgement(question, pair.attribute is not None, right, wanted is not None, "unit" if unit else "schema")
        )
    return judged


def quality(judged: Iterable[Judgement]) -> dict[str, float]:
    """Precision, recall and F, and how many units and contraries were taken for the same."""
    listed = list(judged)
    right = sum(one.right for one in listed)
    found, wanted = sum(one.found for one in listed), sum(one.wanted for one in listed)
    wrong = [one.sort for one in listed if one.found and not one.right]
    return {
        "P": right / found if found else 0.0,
        "R": right / wanted if wanted else 0.0,
        "F": 2 * right / (found + wanted) if found + wanted else 0.0,
        "count": len(listed),
        "unit errors": wrong.count("unit"),
        "contrary errors": wrong.count("contrary"),
    }


def judge_all(semantics: Semantics, settings: SemanticSettings, half: Half) -> dict[str, list[Judgement]]:
    pairs = [judge_pair(semantics, settings, pair) for pair in read_pairs() if pair.half == half]
    schemas = [
        one for schema in read_schemas() if schema.half == half for one in judge_schema(semantics, settings, schema)
    ]
    values = [judge_value(semantics, settings, pair) for pair in read_pairs("values.txt") if pair.half == half]
    found = {"pairs": pairs, "schemas": schemas, "overall": pairs + schemas, "values": values}
    found["trades"] = [judge_pair(semantics, settings, pair) for pair in read_trades(half)]
    found["blind"] = [judge_pair(semantics, settings, pair) for pair in read_blind() if pair.half == half]
    if half == "final":
        found["new names"] = [judge_pair(semantics, settings, pair) for pair in read_new()]
    return found


def names(quick: bool) -> Numbers:
    """The study: every measure as it is shipped, on both halves."""
    with portuguese() as there:
        if not there:
            return {"not run": NOT_RUN}
        semantics = Semantics(cache=SimilarityCache())
        numbers: Numbers = {}
        for name, settings in MEASURES.items():
            try:
                for half in HALVES:
                    for part, judged in judge_all(semantics, settings, half).items():
                        found = quality(judged).items()
                        numbers |= {f"{name}.{half}.{part}.{letter}": value for letter, value in found}
            except RecadoError as error:
                numbers[f"{name}.missing"] = str(error)
        return numbers
