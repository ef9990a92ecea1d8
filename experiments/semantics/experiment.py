"""The experiment: which studies there are, and what the report says before the numbers."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.base import Experiment, Results
from experiments.blocks import Table
from experiments.semantics.figures import FIGURES, expected
from experiments.semantics.languages import inputs, languages
from experiments.semantics.logs import logs
from experiments.semantics.measure import measure
from experiments.semantics.own import own
from experiments.semantics.reproduction import reproduction
from experiments.semantics.speed import speed
from experiments.semantics.tables import tables


def _tables(results: Results) -> Sequence[tuple[str, Table]]:
    return tables(results, expected())


EXPERIMENT = Experiment(
    name="semantics",
    title="Semantic matching: what the document measured, and what is measured here",
    introduction=(
        "The semantics document tells of an event server that matches names by their meaning, with tables of its "
        "precision (P), recall (C), F, rate and time. Its data set is not to be had, so one was made with the traits "
        "that its section 4.3.1 tells, from a thesaurus written by hand without WordNet; curves can be compared, "
        "digits cannot. The 98 rows on effectiveness and the 16 on speed stand beside what is measured here; nine "
        "criteria that were derived from them are judged. Recado's own configurations follow, with thresholds that "
        "were chosen on one half of the data and judged on the other. How hard the data set is was for us to choose: a "
        "table and a figure show what becomes of the results when more or fewer names and values are said in other "
        "words."
    ),
    sweeps=(),
    studies={"speed": speed, "own": own, "logs": logs, "reproduction": reproduction, "languages": languages},
    measure=measure,
    tables=_tables,
    figures=FIGURES,
    rooms=("semantics", "data/names"),
    inputs=inputs,
)
