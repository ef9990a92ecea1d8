"""How alike two names are, by a measure that has a name, and a place for one's own: ``register``.

``base`` says what a measure is, ``wordnet`` compares words, ``names`` has the measures of names, ``registry`` knows
all of them. ``recado.semantics.engine.get_measure`` makes one.
"""

from recado.semantics.measures.base import NameMeasure
from recado.semantics.measures.registry import measure_names, register

__all__ = ["NameMeasure", "measure_names", "register"]
