"""The experiment: labelled names, each measure as it is shipped, and what it was before there were vetoes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

import msgspec

from experiments.base import Experiment, Results
from experiments.blocks import Table
from experiments.semantics.languages import inputs
from experiments.semanticsnames.data import HALVES, SORTS, read_blind, read_pairs, read_schemas, read_trades
from experiments.semanticsnames.score import MEASURES, names

PARTS = ("overall", "pairs", "new names", "schemas", "values", "trades", "blind")


def before() -> Mapping[str, float | str]:
    """What this experiment measured before there were units, vetoes and abbreviations."""
    text = (files("experiments") / "semanticsnames" / "before.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, float | str])


def _measure(results: Results) -> dict[str, float | str]:
    return dict(results.studies["names"])


def _tables(results: Results) -> Sequence[tuple[str, Table]]:
    found = results.studies["names"]
    if "not run" in found:
        return [("Not run", Table(("why",), ((str(found["not run"]),),)))]
    tables = [("The labelled names", _data())]
    for half in reversed(HALVES):
        shown = [part for part in PARTS if f"hybrid.{half}.{part}.F" in before()]
        tables += [(f"The {half} half, {part}: before and now", _table(found, half, part)) for part in shown]
    return tables


def _data() -> Table:
    pairs = read_pairs()
    rows = []
    for sort in SORTS:
        counts = [sum(one.sort == sort and one.half == half for one in pairs) for half in HALVES]
        wanted = sum(one.sort == sort and one.label != "other" for one in pairs)
        rows.append((sort, *map(str, counts), str(wanted)))
    rows.append(("of other trades", *(str(len(read_trades(half))) for half in HALVES), ""))
    rows.append(("blind", *(str(sum(one.half == half for one in read_blind())) for half in HALVES), ""))
    values, schemas = read_pairs("values.txt"), read_schemas()
    rows.append(("values", *(str(sum(one.half == half for one in values)) for half in HALVES), ""))
    rows.append(("schema pairs", *(str(sum(one.half == half for one in schemas)) for half in HALVES), ""))
    return Table(("sort", *HALVES, "the same, in both"), tuple(rows), (1, 2, 3))


def _table(found: Mapping[str, float | str], half: str, part: str) -> Table:
    was = before()
    rows = []
    for name in MEASURES:
        place = f"{name}.{half}.{part}"
        if f"{place}.F" not in found or f"{place}.F" not in was:
            continue
        letters = [f"{float(side[f'{place}.{letter}']):.2f}" for letter in "PRF" for side in (was, found)]
        wrong = [f"{float(side[f'{place}.{n} errors']):.0f}" for n in ("unit", "contrary") for side in (was, found)]
        rows.append((name, *letters, *wrong))
    heads = ("P before", "P", "R before", "R", "F before", "F", "units wrong before", "units wrong")
    return Table(("measure", *heads, "contraries wrong before", "contraries wrong"), tuple(rows), tuple(range(1, 11)))


EXPERIMENT = Experiment(
    name="semantics-names",
    title="Names from public vocabularies: how often the measures are right",
    introduction=(
        "Pairs of names, of values and of whole schemas from public vocabularies, labelled by hand, many of them "
        "traps: units, contraries, siblings, other aspects of the same thing. They were split by a digest into a "
        "tuning half and a final half before anything was tuned. Every measure is used as it is shipped. *Before* is "
        "what the same experiment measured before there were units, vetoes and abbreviations. *New names* are the "
        "pairs of the final half of whose names the tuning half has none. *Trades* are pairs from vocabularies that "
        "nothing else is from, labelled after the tables were made and split by vocabulary; only those of the tuning "
        "half were looked at. *Blind* pairs were written by somebody who had not read the tables."
    ),
    sweeps=(),
    studies={"names": names},
    measure=_measure,
    tables=_tables,
    figures=(),
    rooms=("semantics", "data/names"),
    inputs=inputs,
)
