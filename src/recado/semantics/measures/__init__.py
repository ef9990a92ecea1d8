"""Measures of names by name: ``get_measure("mean", word="jcn", mode="best")``, and a place for one's own.

``base`` says what a measure is; ``wordnet`` compares words; ``mean``, ``feng``, ``strings``, ``embedding`` and
``hybrid`` compare names; ``registry`` knows them all.
"""

from recado.semantics.measures.base import NameMeasure
from recado.semantics.measures.registry import get_measure, measure_names, register

__all__ = ["NameMeasure", "get_measure", "measure_names", "register"]
