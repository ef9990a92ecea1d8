"""What moves a match besides the lexicon: read from files once, then one value that goes anywhere."""

import pickle

import pytest

from recado.errors import RecadoError
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Knowledge, Semantics
from recado.semantics.overrides import ReviewList
from recado.semantics.settings import SemanticSettings

MEAN = SemanticSettings("mean")


def test_what_people_know_travels_as_one_value(data, tmp_path):
    given = tmp_path / "given.json"
    given.write_text('{"precomputed": [{"a": "laptop", "b": "notebook", "similarity": 0.95}]}')
    decided = ReviewList()
    decided.decide("sale price", "price", accept=False)
    decided.decide("price", "country", accept=True)
    decided.save()
    there = pickle.loads(pickle.dumps(Knowledge.read(default=MEAN, overrides=given)))
    assert hash(there) == hash(Knowledge.read(default=MEAN, overrides=given))
    given.unlink()
    ReviewList().save()
    knowing = there.semantics()
    assert knowing.similarities(["laptop", "sale price", "price"], ["notebook", "price", "country"], MEAN).diagonal(
    ).tolist() == [0.95, 0, 1]  # fmt: skip
    assert Knowledge().semantics().similarity("laptop", "notebook", MEAN) == 0


def test_tables_that_cannot_be_used_are_named(data, tmp_path):
    with pytest.raises(RecadoError, match=r"nothing.*recado pipeline align"):
        Knowledge.read(similarities=tmp_path / "nothing").semantics()
    with pytest.raises(RecadoError, match="nothing"):
        Knowledge.read(frequencies=tmp_path / "nothing").semantics()
    with pytest.raises(RecadoError, match="nothing"):
        Knowledge.read(overrides=tmp_path / "nothing")
    made = Semantics(cache=SimilarityCache())
    value = made.similarity("price", "cost", MEAN)
    made.cache.save(tmp_path / "similarities", made.digest)
    knowing = Knowledge.read(similarities=tmp_path / "similarities").semantics()
    assert (knowing.similarity("price", "cost", MEAN), knowing.cache.hits) == (value, 1)
