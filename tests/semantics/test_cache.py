"""The similarity cache: bounded, shared, kept, and never different from what the measure gives."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.errors import RecadoError
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.settings import SemanticSettings

NAMES = ["price", "sale price", "cost", "country", "nation", "wind speed", "unit", "qwzxrt", "", "room"]
MEAN = SemanticSettings("mean")


def test_the_least_recently_used_is_forgotten():
    cache = SimilarityCache(2)
    cache.put("m", [("a", "b", 0.1), ("c", "d", 0.2)])
    assert cache.get("m", [("b", "a")]) == [0.1]
    cache.put("m", [("e", "f", 0.3)])
    assert cache.get("m", [("a", "b"), ("c", "d"), ("f", "e")]) == [0.1, None, 0.3]
    assert (len(cache), cache.hits, cache.misses) == (2, 3, 1)
    assert cache.get("other", [("a", "b")]) == [None]
    cache.clear()
    assert len(cache) == 0
    with pytest.raises(RecadoError, match="at least one entry"):
        SimilarityCache(0)


cached = Semantics(cache=SimilarityCache(40))


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=6),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=6),
    st.sampled_from([MEAN, SemanticSettings("feng"), SemanticSettings("jaro")]),
)
def test_on_and_off_are_the_same(semantics, a, b, chosen):
    assert (cached.similarities(a, b, chosen) == semantics.similarities(a, b, chosen)).all()
    assert len(cached.cache) <= 40


def test_threads_share_it(semantics):
    shared = Semantics(cache=SimilarityCache(60))
    expected = semantics.similarities(NAMES, NAMES, MEAN)

    def ask(number):
        rows = [(number + step) % len(NAMES) for step in range(4)]
        found = shared.similarities([NAMES[row] for row in rows], NAMES, MEAN)
        return (found == expected[rows]).all()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(60)))


def test_it_is_kept_over_restarts(tmp_path, semantics):
    first = Semantics(cache=SimilarityCache())
    first.similarities(NAMES, NAMES, MEAN)
    path = tmp_path / "folder" / "cache.json"
    first.cache.save(path, first.digest)
    second = Semantics(cache=SimilarityCache())
    assert second.cache.load(path, second.digest) == len(first.cache)
    second.measure(MEAN).matrix = lambda a, b: pytest.fail("the cache knows everything")
    np.testing.assert_array_equal(second.similarities(NAMES, NAMES, MEAN), first.similarities(NAMES, NAMES, MEAN))


@pytest.mark.parametrize("damage", ["missing", "cut", "changed", "empty", "binary", "other"])
def test_a_file_that_is_not_good_is_not_used(tmp_path, damage):
    cache = SimilarityCache()
    cache.put("m", [("a", "b", 0.25), ("c", "d", 0.5)])
    path = tmp_path / "cache.json"
    cache.save(path, "mine")
    content = path.read_bytes()
    damaged = {
        "cut": content[:-20],
        "changed": content.replace(b"0.25", b"0.95"),
        "empty": b"",
        "binary": b"\xff" * 100,
        "other": content,
    }
    path.unlink() if damage == "missing" else path.write_bytes(damaged[damage])
    fresh = SimilarityCache()
    assert fresh.load(path, "another" if damage == "other" else "mine") == 0
    assert len(fresh) == 0


def test_long_names_are_not_kept():
    cache = SimilarityCache()
    cache.put("m", [("a" * 257, "b", 0.5), ("a" * 256, "b", 0.5)])
    assert len(cache) == 1


def test_more_pairs_than_it_holds_pass_it_by():
    small = Semantics(cache=SimilarityCache(5))
    assert small.similarities(NAMES, NAMES, MEAN).shape == (10, 10)
    assert len(small.cache) == 0


def test_a_file_is_bounded_and_has_what_was_used_last(tmp_path):
    cache = SimilarityCache()
    cache.put("m", [(f"a{number}", "b" * 50, 0.5) for number in range(100)])
    cache.get("m", [("a0", "b" * 50)])
    cache.save(tmp_path / "file", "digest", 2_000)
    assert (tmp_path / "file").stat().st_size <= 2_000
    loaded = SimilarityCache()
    assert 10 < loaded.load(tmp_path / "file", "digest") < 30
    assert loaded.get("m", [("a0", "b" * 50), ("a99", "b" * 50), ("a1", "b" * 50)]) == [0.5, 0.5, None]
